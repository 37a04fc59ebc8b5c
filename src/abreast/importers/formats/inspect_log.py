"""Logs of Inspect: `.eval` archives and `.json` files, of finished, failed, cancelled and interrupted runs."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from abreast.importers.base import LogFormat, LoggedTrial, LogHeader, as_written_by, failure_from_message, tags_of
from abreast.importers.log_file import LogFile
from abreast.model import Answer, Case, Failure, Score, Usage
from abreast.targets.untrusted_json import mapping, mappings

VERSIONS = (1, 2)
_HEADER, _START = "header.json", "_journal/start.json"
_SAMPLE = re.compile(r"samples/.+_epoch_\d+\.json", re.DOTALL)
_ATTACHMENT = "attachment://"
_SKIPPED = ("events", "events_data.messages", "events_data.calls", "transcript.events")  # large, read and dropped
_VALUES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
_WORDS = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}

Json = Mapping[str, Any]


class InspectLog(LogFormat):
    name = "inspect"
    title = "Inspect log"
    error_rule = (
        "an error is infrastructure if its message names a rate limit, the network, a key or a server, and the "
        "variant's fault if the prompt was too long or refused; others count for neither side; a sample that hit a "
        "limit is scored"
    )

    def recognises(self, log: LogFile) -> bool:
        if log.kind == "zip":
            return _HEADER in log.members or _START in log.members
        return log.kind == "json" and "eval" in log.keys and bool({"version", "status", "plan"} & log.keys.keys())

    def header(self, log: LogFile) -> LogHeader:
        content = self._header_of(log)
        version = content.get("version")
        if version not in VERSIONS:
            supported = " and ".join(map(str, VERSIONS))
            raise log.error(f"version {version} of the Inspect log format; versions {supported} are supported")
        spec, results, stats = (mapping(content.get(name)) for name in ("eval", "results", "stats"))
        if mapping(spec.get("shards")):
            raise log.error("a sharded log: its samples are in other files", "import the log of each shard")
        dataset, config = mapping(spec.get("dataset")), mapping(spec.get("config"))
        epochs = config.get("epochs") or 1
        status, reason = _status(content)
        with as_written_by("Inspect", log, "the header"):
            return LogHeader(
                tool="Inspect",
                tool_version=mapping(spec.get("packages")).get("inspect_ai"),
                task=str(spec.get("task") or log.path.stem),
                created_at=_seconds(spec.get("created")),
                finished_at=_seconds(stats.get("completed_at")),
                status="complete" if status == "complete" else "incomplete",
                reason=reason,
                variants={str(spec.get("model") or "unknown"): _params(spec, mapping(content.get("plan")))},
                planned_cases=_planned_cases(dataset, int(epochs), results),
                repeats=int(epochs),
                primary=_primary(spec, results),
                facts={
                    "commit": mapping(spec.get("revision")).get("commit"),
                    "dirty": mapping(spec.get("revision")).get("dirty"),
                    **{
                        key: spec[key]
                        for key in ("task_file", "task_version", "eval_id", "run_id", "tags")
                        if spec.get(key)
                    },
                    "dataset": {
                        key: dataset[key] for key in ("name", "location", "samples") if dataset.get(key) is not None
                    },
                    "status": content.get("status"),
                    "results": _results(results),
                },
            )

    def trials(self, log: LogFile, header: LogHeader) -> Iterator[LoggedTrial]:
        (variant,) = header.variants
        for sample in _samples(log):
            with as_written_by("Inspect", log, f"sample {sample.get('id')}, epoch {sample.get('epoch')}"):
                trial = _trial(sample, variant)
            yield trial

    def _header_of(self, log: LogFile) -> dict[str, Any]:
        if log.kind == "zip":
            if _HEADER in log.members:
                return _document(log, log.json(_HEADER))
            return {**_document(log, log.json(_START)), "status": "started"}
        content: dict[str, Any] = {}
        for key, value in log.json_values(["samples", "reductions"]):
            if key == "samples" and {"version", "eval", "results", "stats"} <= content.keys():
                break  # Inspect writes everything else before the samples
            if key not in ("samples", "reductions"):
                content[key] = value
        return content


def _document(log: LogFile, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise log.error("its header is not an object")
    return value


def _samples(log: LogFile) -> Iterator[dict[str, Any]]:
    """Yield the samples without their events."""
    if log.kind == "json":
        for key, sample in log.json_values(["samples"]):
            if key == "samples" and isinstance(sample, dict):
                yield sample
        return
    names = [name for name in dict.fromkeys(log.members) if name.startswith("samples/") and name.endswith(".json")]
    if not all(map(_SAMPLE.fullmatch, names)):  # the id of a sample may contain slashes
        raise log.error(
            "an archive in chunks, which is not supported", "convert it with `inspect log convert --to json`"
        )
    for name in names:
        yield {key: value for key, value in log.json_values(_SKIPPED, name) if key not in _SKIPPED}


def _trial(sample: Json, variant: str) -> LoggedTrial:
    resolve = _Attachments(mapping(sample.get("attachments"))).resolve
    messages = resolve(sample.get("messages") or [])
    output, error = mapping(sample.get("output")), mapping(sample.get("error"))
    scores = _scores(sample, resolve)
    failure = None
    if error and not scores:  # with score_on_error Inspect scores it, and its score counts here too
        failure = failure_from_message(str(error.get("message") or "error"))
    return LoggedTrial(
        case=_case(sample, resolve),
        variant=variant,
        prompt=_prompt(messages) or _text(resolve(sample.get("input"))),
        answer=_answer(sample, messages, resolve(output), variant, error, failure),
        failure=failure,
        scores=scores,
        repeat=int(sample.get("epoch") or 1) - 1,
        started_at=_seconds(sample.get("started_at")) or _first_event(sample),
        latency_s=sample.get("total_time"),
        service_s=sample.get("working_time"),
    )


def _case(sample: Json, resolve: Any) -> Case:
    value = _input(resolve(sample.get("input")))
    choices = sample.get("choices")
    target = sample.get("target")
    return Case(
        id=str(sample["id"]),
        input={"question": value, "choices": choices} if choices else value,
        expected=None if target in ("", []) else target[0] if isinstance(target, list) and len(target) == 1 else target,
        tags=tags_of(sample.get("metadata")),
    )


def _input(value: Any) -> Any:
    """Return the input without the ids of messages, which differ between runs; a single message as its text."""
    if not isinstance(value, list):
        return value
    messages = [{"role": item.get("role"), "content": _plain(item.get("content"))} for item in value]
    if len(messages) == 1 and messages[0]["role"] == "user" and isinstance(messages[0]["content"], str):
        return messages[0]["content"]
    return messages


def _plain(content: Any) -> Any:
    """Return the content of a message; if it consists only of texts, as one text."""
    if isinstance(content, list) and all(isinstance(part, dict) and part.get("type") == "text" for part in content):
        return "\n".join(str(part.get("text", "")) for part in content)
    return content


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(filter(None, map(_text, content)))
    if isinstance(content, dict):
        if "role" in content:
            return f"{content['role']}: {_text(content.get('content'))}"
        return str(content.get("text") or "") if content.get("type") == "text" else f"[{content.get('type')}]"
    return ""


def _prompt(messages: list[Any]) -> str:
    """Return the first prompt: everything before the model's first message."""
    sent = []
    for message in messages:
        if not isinstance(message, dict) or message.get("role") == "assistant":
            break
        sent.append(message)
    if len(sent) == 1:
        return _text(sent[0].get("content"))
    return "\n\n".join(map(_text, sent))


def _answer(
    sample: Json, messages: list[Any], output: Json, variant: str, error: Json, failure: Failure | None
) -> Answer | None:
    usage = _usage(sample, output, variant)
    choices = output.get("choices") or [{}]
    completion = output.get("completion") or _text(mapping(choices[0].get("message")).get("content"))
    if failure is not None and not completion and not usage:
        return None
    cost = usage.get("total_cost")
    return Answer(
        text=str(completion or ""),
        data={
            **({"limit": mapping(sample["limit"]).get("type")} if sample.get("limit") else {}),
            **({"retries": len(sample["error_retries"])} if sample.get("error_retries") else {}),
            **({"sample_error": str(error.get("message"))} if error and failure is None else {}),
        },
        usage=Usage(
            input_tokens=usage.get("input_tokens"),
            output_tokens=usage.get("output_tokens"),
            cache_read_tokens=usage.get("input_tokens_cache_read"),
            cache_write_tokens=usage.get("input_tokens_cache_write"),
            reasoning_tokens=usage.get("reasoning_tokens"),
        ),
        cost_usd=cost,
        cost_basis="unknown" if cost is None else "estimated",
        model=output.get("model") or variant,
        raw_response=json.dumps({"messages": messages}, ensure_ascii=False) if messages else None,
    )


def _usage(sample: Json, output: Json, variant: str) -> Json:
    """Return the usage of the evaluated model in this sample, without that of graders."""
    by_model = mapping(sample.get("model_usage"))
    if variant in by_model:
        return mapping(by_model[variant])
    if len(by_model) == 1:
        return mapping(next(iter(by_model.values())))
    return mapping(output.get("usage"))


def _scores(sample: Json, resolve: Any) -> tuple[Score, ...]:
    scores = sample.get("scores")
    if scores is None and sample.get("score") is not None:
        scores = {"score": sample["score"]}  # version 1
    return tuple(score for name, item in mapping(scores).items() for score in _score(str(name), mapping(item), resolve))


def _score(name: str, score: Json, resolve: Any) -> Iterator[Score]:
    """Yield one score, or one for each key of a value that is a mapping."""
    value = score.get("value")
    explanation = str(resolve(score.get("explanation")) or "")
    if isinstance(value, dict):
        for key, part in value.items():
            yield Score(f"{name}_{key}", _number(part), explanation)
    elif isinstance(value, list):
        for at, part in enumerate(value):
            yield Score(f"{name}_{at}", _number(part), explanation)
    else:
        number = _number(value)
        yield Score(name, number, explanation or ("" if number is not None else f"not a number: {value}"))


def _number(value: Any) -> float | None:
    """Convert a value as Inspect's own metrics do; None if they leave it out."""
    if isinstance(value, str):
        if value in _VALUES:
            return _VALUES[value]
        if value.lower() in _WORDS:
            return _WORDS[value.lower()]
        try:
            value = float(value)
        except ValueError:
            return 0.0
    return None if value is None or not math.isfinite(value) else float(value)


def _status(content: Json) -> tuple[str, str | None]:
    status, error = content.get("status"), mapping(content.get("error"))
    if status == "success":
        return "complete", None
    if status == "error":
        return "incomplete", f"Inspect stopped with an error: {error.get('message') or 'unknown'}"
    if status == "cancelled":
        return "incomplete", "cancelled in Inspect"
    return "incomplete", "Inspect did not finish this log: it was killed, or is still running"


def _planned_cases(dataset: Json, epochs: int, results: Json) -> int | None:
    """Return the number of samples that the run had selected."""
    ids = dataset.get("sample_ids")
    if isinstance(ids, list) and ids:
        return len(ids)
    total = results.get("total_samples")
    planned = int(total) // epochs if total else dataset.get("samples")
    return None if planned is None else int(planned)


def _primary(spec: Json, results: Json) -> str | None:
    """Return the headline score, else the first one."""
    headline = mapping(results.get("headline")).get("scorer")
    names = [score.get("scorer") for score in mappings(results.get("scores"))]
    names += [scorer.get("name") for scorer in mappings(spec.get("scorers"))]
    return headline or next((str(name) for name in names if name), None)


def _results(results: Json) -> dict[str, Any]:
    """Return the tool's own figures, such as `match/accuracy`."""
    figures = {}
    for score in mappings(results.get("scores")):
        for metric in map(mapping, mapping(score.get("metrics")).values()):
            reducer = f"/{score['reducer']}" if score.get("reducer") else ""
            figures[f"{score.get('name')}/{metric.get('name')}{reducer}"] = metric.get("value")
    return figures


def _params(spec: Json, plan: Json) -> dict[str, Any]:
    """Return the parameters that distinguish this run from others of the same task."""
    generate = {**mapping(spec.get("model_generate_config")), **mapping(plan.get("config"))}
    params: dict[str, Any] = {"model": spec.get("model")}
    params |= {f"task_{key}": value for key, value in mapping(spec.get("task_args")).items()}
    params |= {key: value for key, value in generate.items() if value is not None}
    if spec.get("solver"):
        params["solver"] = spec["solver"]
        params |= {f"solver_{key}": value for key, value in mapping(spec.get("solver_args")).items()}
    elif plan.get("steps"):
        params["solver"] = ", ".join(str(mapping(step).get("solver")) for step in plan["steps"])
    return {key: value for key, value in params.items() if value is not None}


class _Attachments:
    """Long texts that Inspect stores separately and refers to."""

    def __init__(self, contents: Json) -> None:
        self._contents = contents

    def resolve(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._text(value) if value.startswith(_ATTACHMENT) else value
        if isinstance(value, list):
            return [self.resolve(item) for item in value]
        if isinstance(value, dict):
            return {key: self.resolve(item) for key, item in value.items()}
        return value

    def _text(self, reference: str) -> str:
        content = self._contents.get(reference.removeprefix(_ATTACHMENT))
        is_media = isinstance(content, str) and content.startswith("data:")
        return content if isinstance(content, str) and not is_media else reference


def _first_event(sample: Json) -> float | None:
    """Return the time of the first event, as the start in logs that lack one."""
    events = sample.get("events")
    return _seconds(mapping(events[0]).get("timestamp")) if isinstance(events, list) and events else None


def _seconds(text: Any) -> float | None:
    """Convert a time to seconds since 1970."""
    if not isinstance(text, str) or not text:
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None
