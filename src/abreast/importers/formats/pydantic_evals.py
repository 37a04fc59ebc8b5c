"""Reports of pydantic-evals as JSON, as written by `EvaluationReportAdapter.dump_json(report)`."""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from abreast.importers.base import LogFormat, LoggedTrial, LogHeader, as_written_by, failure_from_message, tags_of
from abreast.importers.log_file import LogFile
from abreast.model import Answer, Case, Score, Usage
from abreast.targets.untrusted_json import count, dollars, mapping, mappings

ARRAYS = ("cases", "failures")
ASSERTIONS = "assertions"  # the share of assertions that passed, if a case has several
_REPEAT = re.compile(r" \[(\d+)/(\d+)\]")  # at the end of the name of a repeated case

Json = Mapping[str, Any]


class PydanticEvalsReport(LogFormat):
    name = "pydantic-evals"
    title = "pydantic-evals report"
    error_rule = (
        "pydantic-evals lists tasks that raised apart from cases; such a failure is infrastructure if its message "
        "names a rate limit, the network, a key or a server, and the variant's fault if the prompt was too long or "
        "refused; others count for neither side; where an evaluator raised, its score is missing"
    )

    def recognises(self, log: LogFile) -> bool:
        if log.kind != "json" or not {"name", "cases"} <= log.keys.keys():
            return False
        return b'"task_duration"' in log.head or {"failures", "cases"} <= log.keys.keys()

    def header(self, log: LogFile) -> LogHeader:
        content: dict[str, Any] = {}
        names: dict[str, list[str]] = {"assertions": [], "scores": []}
        repeats = 1
        for path, value in log.json_values(ARRAYS):
            if path not in ARRAYS:
                content[path] = value
                continue
            for kind, name, _ in _results(mapping(value)):
                names[kind] += [name] if name not in names[kind] else []
            repeats = max(repeats, _repeat(mapping(value))[1])
        return LogHeader(
            tool="pydantic-evals",
            task=str(content.get("dataset_name") or content.get("name")),
            variants={str(content.get("name")): mapping(content.get("experiment_metadata"))},
            repeats=repeats,
            primary=ASSERTIONS
            if len(names["assertions"]) > 1
            else next(iter(names["assertions"] + names["scores"]), None),
            facts={"trace_id": content.get("trace_id")},
        )

    def trials(self, log: LogFile, header: LogHeader) -> Iterator[LoggedTrial]:
        (variant,) = header.variants
        of_evaluators = _results_of_evaluators(log)
        has_share = header.primary == ASSERTIONS
        for path, record in log.json_values(ARRAYS):
            if path not in ARRAYS:
                continue
            if not isinstance(record, dict) or "name" not in record or "inputs" not in record:
                has = ", ".join(map(str, record))[:200] if isinstance(record, dict) else type(record).__name__
                raise log.error(f"an item of {path} is not one of pydantic-evals: needs name and inputs; has {has}")
            with as_written_by("pydantic-evals", log, f"case {str(record['name'])[:60]}"):
                if path == "failures":
                    trial = _failed(record, variant)
                else:
                    trial = _evaluated(record, variant, _scores(record, of_evaluators, has_share))
            yield trial


def _results_of_evaluators(log: LogFile) -> dict[str, dict[str, str]]:
    """Return the names and kinds of each evaluator's results, to know what is missing where it raised."""
    results: dict[str, dict[str, str]] = defaultdict(dict)
    for path, record in log.json_values(ARRAYS):
        if path == "cases":
            for kind, name, result in _results(mapping(record)):
                results[str(mapping(result.get("source")).get("name"))][name] = kind
    return results


def _evaluated(record: Json, variant: str, scores: list[Score]) -> LoggedTrial:
    output = record.get("output")
    data = {f"label_{name}": mapping(result).get("value") for name, result in mapping(record.get("labels")).items()}
    metrics = dict(mapping(record.get("metrics")))
    cost = dollars(metrics.pop("cost", None))
    usage = Usage(count(metrics.pop("input_tokens", None)), count(metrics.pop("output_tokens", None)))
    return LoggedTrial(
        case=_case(record),
        variant=variant,
        prompt=_text(record["inputs"]),
        answer=Answer(
            text=_text(output),
            value=None if isinstance(output, str) else output,
            data={**metrics, **mapping(record.get("attributes")), **data},
            usage=usage,
            cost_usd=cost,
            cost_basis="unknown" if cost is None else "estimated",
        ),
        scores=scores,
        repeat=_repeat(record)[0],
        latency_s=_number(record.get("task_duration")),
    )


def _failed(record: Json, variant: str) -> LoggedTrial:
    return LoggedTrial(
        case=_case(record),
        variant=variant,
        prompt=_text(record["inputs"]),
        failure=failure_from_message(str(record.get("error_message") or "the task raised an exception")),
        repeat=_repeat(record)[0],
    )


def _case(record: Json) -> Case:
    return Case(
        str(record.get("source_case_name") or _REPEAT.sub("", str(record["name"]))),
        record["inputs"],
        record.get("expected_output"),
        tags_of(record.get("metadata")),
    )


def _repeat(record: Json) -> tuple[int, int]:
    """Return the index of the repeat, and how many there are. Without `source_case_name` the case was not repeated."""
    match = _REPEAT.search(str(record.get("name"))) if record.get("source_case_name") else None
    return (int(match[1]) - 1, int(match[2])) if match else (0, 1)


def _results(record: Json) -> Iterator[tuple[str, str, Json]]:
    """Yield the results that become scores, as kind, name and content."""
    for kind in ("assertions", "scores"):
        for name, result in mapping(record.get(kind)).items():
            yield kind, str(name), mapping(result)


def _scores(record: Json, of_evaluators: Mapping[str, Mapping[str, str]], has_share: bool) -> list[Score]:
    """Convert results to scores, without a value where the evaluator raised. `has_share` adds that of assertions."""
    results = list(_results(record))
    scores = [Score(name, _number(result.get("value")), str(result.get("reason") or "")) for _, name, result in results]
    passed = [bool(result.get("value")) for kind, _, result in results if kind == "assertions"]
    problem = ""
    for failure in mappings(record.get("evaluator_failures")):
        source = mapping(failure.get("source")).get("name") or failure.get("name")
        message = str(failure.get("error_message") or "the evaluator raised an exception")
        missing = of_evaluators.get(str(source), {})
        scores += [Score(name, None, message) for name in missing]
        problem = message if "assertions" in missing.values() else problem
    if has_share:
        share = sum(passed) / len(passed) if passed and not problem else None
        scores.append(Score(ASSERTIONS, share, problem))
    return scores


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
