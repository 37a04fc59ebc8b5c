"""Results of promptfoo: `promptfoo eval --output results.json` (or `.jsonl`) and `promptfoo export eval`."""

from __future__ import annotations

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from abreast.digest import digest
from abreast.importers.base import LogFormat, LoggedTrial, LogHeader, as_written_by, failure_from_message, tags_of
from abreast.importers.log_file import LogFile
from abreast.model import Answer, Case, Score, Usage
from abreast.targets.untrusted_json import count, dollars, mapping, mappings

VERSIONS = (2, 3)
ERROR = 2  # the reason of a failure that is an error, not an assertion
LONGEST_LABEL = 40  # characters of a prompt in the name of a variant
_VERSION = re.compile(rb'"results"\s*:\s*\{\s*"version"\s*:')
_VERSION_1 = {"version", "results", "stats", "table"}  # of the document; later versions have them in `results`
_RESULT = {"promptIdx", "testIdx", "namedScores"}
_ROWS, _TABLE = "results.results", "results.table.body"

Json = Mapping[str, Any]


class PromptfooResults(LogFormat):
    name = "promptfoo"
    title = "promptfoo results"
    error_rule = (
        "promptfoo marks errors of providers apart from failed assertions; an error is infrastructure if its message "
        "names a rate limit, the network, a key or a server, and the variant's fault if the prompt was too long or "
        "refused; others count for neither side; an assertion whose grader failed counts as failed, as in promptfoo"
    )

    def recognises(self, log: LogFile) -> bool:
        if log.kind == "json lines":
            first = log.first_line()
            return isinstance(first, dict) and first.keys() >= _RESULT
        if log.kind != "json" or "results" not in log.keys:
            return False
        return bool(_VERSION.search(log.head)) or log.keys.keys() >= _VERSION_1

    def header(self, log: LogFile) -> LogHeader:
        content: dict[str, Any] = {}
        if log.kind == "json":
            for path, value in log.json_values([_ROWS, _TABLE]):
                if path not in (_ROWS, _TABLE):
                    content[path] = value
            version = content.get("results.version", content.get("version"))
            if version not in VERSIONS:
                supported = " and ".join(map(str, VERSIONS))
                raise log.error(f"version {version} of promptfoo's results; versions {supported} are supported")
        config, metadata = mapping(content.get("config")), mapping(content.get("metadata"))
        prompts = _prompts(content) if log.kind == "json" else _prompts_of_lines(log)
        return LogHeader(
            tool="promptfoo",
            tool_version=metadata.get("promptfooVersion"),
            task=str(config.get("description") or log.path.stem),
            created_at=_seconds(metadata.get("evaluationCreatedAt") or content.get("results.timestamp")),
            variants={name: _params(prompt) for name, prompt in _variant_names(prompts).items()},
            primary="pass",
            facts={
                "eval": content.get("evalId"),
                "stats": mapping(content.get("results.stats")),
                "metrics": {name: mapping(prompt.get("metrics")) for name, prompt in _variant_names(prompts).items()},
            },
        )

    def trials(self, log: LogFile, header: LogHeader) -> Iterator[LoggedTrial]:
        tests = _Tests()
        for row in _rows(log):
            tests.add(row)
        tests.describe(_descriptions(log))
        variants = _VariantsOfRows(header.variants, has_indexes=log.kind == "json")
        for number, row in enumerate(_rows(log), 1):
            with as_written_by("promptfoo", log, f"result {number:,}"):
                case, repeat = tests.case(row)
                trial = _trial(row, case, variants.name(row), repeat)
            yield trial


def _rows(log: LogFile) -> Iterator[Json]:
    """Yield the results, one for each test, repeat, provider and prompt."""
    if log.kind == "json":
        rows = (value for path, value in log.json_values([_ROWS, _TABLE]) if path == _ROWS)
    else:
        rows = (value for _, value in log.json_lines())
    for row in rows:
        if not isinstance(row, dict) or not isinstance(row.get("vars"), dict) or "prompt" not in row:
            names = ", ".join(map(str, row))[:200] if isinstance(row, dict) else type(row).__name__
            raise log.error(f"not a result of promptfoo: needs vars and prompt; has {names}")
        yield row


def _descriptions(log: LogFile) -> dict[str, str]:
    """Return the descriptions of tests by their variables, from the table of version 2, whose results lack them."""
    descriptions: dict[str, str] = {}
    if log.kind != "json" or log.keys.get("evalId"):
        return descriptions
    for path, value in log.json_values([_TABLE]):
        if path == _TABLE and mapping(value).get("description"):
            descriptions[_digest_of(value.get("vars") or ())] = str(value["description"])
    return descriptions


@dataclass(slots=True)
class _Test:
    """A test with its variables, and the indexes of its repeats in the results."""

    number: int
    description: str
    variables: str  # digest of their values, if there is no description
    indexes: tuple[int, ...] = ()


class _Tests:
    """The tests of a log. promptfoo numbers the repeats of a test like separate tests; tests with the same description,
    variables and assertions are repeats."""

    def __init__(self) -> None:
        self._tests: dict[bytes, _Test] = {}
        self._descriptions: Counter[str] = Counter()

    def add(self, row: Json) -> None:
        key = _key(row)
        test = self._tests.get(key)
        if test is None:
            description = str(mapping(row.get("testCase")).get("description") or "")
            values = "" if description else _digest_of(_variables(row).values())
            test = self._tests[key] = _Test(len(self._tests), description, values)
        index = row.get("testIdx")
        if isinstance(index, int) and index not in test.indexes:
            test.indexes += (index,)

    def describe(self, descriptions: Mapping[str, str]) -> None:
        """Number the tests as in the log, and distinguish those with the same description."""
        ordered = sorted(self._tests.values(), key=lambda test: min(test.indexes, default=test.number))
        for number, test in enumerate(ordered):
            test.number = number
            test.description = test.description or descriptions.get(test.variables, "")
            test.indexes = tuple(sorted(test.indexes))
        self._descriptions.update(test.description for test in ordered)

    def case(self, row: Json) -> tuple[Case, int | None]:
        """Return the case of a result, and its repeat; None if repeats are to be counted."""
        test = self._tests[_key(row)]
        identifier = test.description or f"test {test.number}"
        if test.description and self._descriptions[test.description] > 1:
            identifier = f"{test.description} (test {test.number})"
        case = mapping(row.get("testCase"))
        metadata = {key: value for key, value in mapping(case.get("metadata")).items() if not key.startswith("_")}
        variables = _variables(row)
        return Case(
            identifier,
            variables,
            _expected(variables, case),
            tags_of(metadata),
        ), test.indexes.index(row["testIdx"]) if row.get("testIdx") in test.indexes else None


class _VariantsOfRows:
    """Finds the variant of a result: a combination of provider and prompt."""

    def __init__(self, variants: Mapping[str, Mapping[str, Any]], has_indexes: bool) -> None:
        self._names = list(variants) if has_indexes else []
        self._by_prompt = {(params["provider"], params["prompt"]): name for name, params in variants.items()}

    def name(self, row: Json) -> str:
        index = row.get("promptIdx")
        if isinstance(index, int) and 0 <= index < len(self._names):
            return self._names[index]
        provider = _provider(row)
        return self._by_prompt.get((provider, _label(mapping(row.get("prompt")))), provider)


def _digest_of(values: Iterable[Any]) -> str:
    """Digest of the values of variables, in any order."""
    return digest(sorted(map(str, values)))


def _key(row: Json) -> bytes:
    """Return a short digest of what identifies a test, because a log may have many."""
    case = mapping(row.get("testCase"))
    return bytes.fromhex(digest([case.get("description"), _variables(row), case.get("assert")]))


def _variables(row: Json) -> dict[str, Any]:
    return {name: value for name, value in row["vars"].items() if not name.startswith("_")}


def _expected(variables: Json, case: Json) -> Any:
    """Return the variable with the expected answer, else the value of the only assertion that has one."""
    for name in ("expected", "__expected", "expected_output", "answer"):
        if name in variables:
            return variables[name]
    values = [value for assertion in mappings(case.get("assert")) if (value := assertion.get("value")) is not None]
    return values[0] if len(values) == 1 and isinstance(values[0], str | int | float) else None


def _trial(row: Json, case: Case, variant: str, repeat: int | None) -> LoggedTrial:
    response, grading = mapping(row.get("response")), mapping(row.get("gradingResult"))
    error = row.get("error") or response.get("error")
    is_error = row.get("failureReason") == ERROR if "failureReason" in row else bool(error) and not grading
    failure = failure_from_message(str(error or "promptfoo recorded an error")) if is_error else None
    has_answer = failure is None or response.get("output") is not None
    latency = row.get("latencyMs")
    return LoggedTrial(
        case=case,
        variant=variant,
        prompt=str(mapping(row.get("prompt")).get("raw") or ""),
        answer=_answer(row, response) if has_answer else None,
        failure=failure,
        scores=_scores(row, grading),
        repeat=repeat,
        latency_s=latency / 1000 if isinstance(latency, int | float) and not response.get("cached") else None,
    )


def _answer(row: Json, response: Json) -> Answer:
    output, tokens = response.get("output"), mapping(response.get("tokenUsage") or row.get("tokenUsage"))
    cost = dollars(response.get("cost"))
    reasoning = mapping(tokens.get("completionDetails")).get("reasoning")
    return Answer(
        text=output if isinstance(output, str) else json.dumps(output, ensure_ascii=False),
        value=None if isinstance(output, str) else output,
        usage=Usage(
            input_tokens=count(tokens.get("prompt")),
            output_tokens=count(tokens.get("completion")),
            reasoning_tokens=count(reasoning),
        ),
        cost_usd=cost,
        cost_basis="unknown" if cost is None else "estimated",
        model=_provider_id(row) or None,
        raw_response=json.dumps(dict(response), ensure_ascii=False),
    )


def _scores(row: Json, grading: Json) -> list[Score]:
    reason = str(grading.get("reason") or "")
    scores = [Score("pass", float(bool(row.get("success"))), reason)]
    named = {"score": row.get("score"), **mapping(row.get("namedScores"))}
    reasons: dict[str, list[str]] = defaultdict(list)
    for component in mappings(grading.get("componentResults")):
        metric = mapping(component.get("assertion")).get("metric")
        if isinstance(metric, str):
            reasons[metric].append(str(component.get("reason") or ""))
    for name, value in named.items():
        if isinstance(value, int | float) and math.isfinite(value):
            name = f"metric_{name}" if name == "pass" else name  # `pass` is promptfoo's own verdict
            scores.append(Score(str(name), float(value), "\n".join(reasons[name])))
    return scores


def _prompts(content: Json) -> list[Json]:
    """Return the combinations of provider and prompt; each result refers to one by its index."""
    return mappings(content.get("results.prompts")) or mappings(
        mapping(content.get("results.table.head")).get("prompts")
    )


def _prompts_of_lines(log: LogFile) -> list[Json]:
    """Collect the combinations of provider and prompt from JSON lines, which have no list of them."""
    prompts: dict[int, Json] = {}
    for row in _rows(log):
        index = row.get("promptIdx")
        if isinstance(index, int) and index not in prompts:
            prompts[index] = {"provider": _provider(row), "label": _label(mapping(row.get("prompt")))}
    return [prompts[index] for index in sorted(prompts)]


def _variant_names(prompts: list[Json]) -> dict[str, Json]:
    """Name the combinations of provider and prompt by their differences."""
    providers = list(dict.fromkeys(str(prompt.get("provider") or "") for prompt in prompts))
    labels = list(dict.fromkeys(_label(prompt) for prompt in prompts))
    short_labels = {label: _short(label, number) for number, label in enumerate(labels, 1)}
    names: dict[str, Json] = {}
    for prompt in prompts:
        provider, label = str(prompt.get("provider") or ""), short_labels[_label(prompt)]
        parts = [provider if len(providers) > 1 or len(labels) == 1 else "", label if len(labels) > 1 else ""]
        name = base = " / ".join(filter(None, parts)) or "provider"
        number = 1
        while name in names:  # two providers without labels
            number += 1
            name = f"{base} {number}"
        names[name] = prompt
    return names


def _label(prompt: Json) -> str:
    return str(prompt.get("label") or prompt.get("display") or prompt.get("raw") or "")


def _short(label: str, number: int) -> str:
    return label if len(label) <= LONGEST_LABEL and "\n" not in label else f"prompt {number}"


def _params(prompt: Json) -> dict[str, Any]:
    return {"provider": str(prompt.get("provider") or ""), "prompt": _label(prompt)}


def _provider(row: Json) -> str:
    """Return the label of the provider, else its id."""
    provider = row.get("provider")
    if isinstance(provider, str):
        return provider
    return str(mapping(provider).get("label") or mapping(provider).get("id") or "")


def _provider_id(row: Json) -> str:
    provider = row.get("provider")
    return provider if isinstance(provider, str) else str(mapping(provider).get("id") or "")


def _seconds(date: Any) -> float | None:
    try:
        return datetime.fromisoformat(date).timestamp() if isinstance(date, str) else None
    except ValueError:
        return None
