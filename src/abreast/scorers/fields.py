"""`json`: the share of expected fields that the JSON object in the answer has right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from abreast.errors import BadInput, suggestion
from abreast.model import Answer
from abreast.scorers.base import Mark, ScorerSettings, SingleColumn, is_tolerance, returned_value, same, within
from abreast.scorers.number import read_value
from abreast.scorers.parsing.json_text import MISSING, find_list, find_object, parse_json
from abreast.scorers.parsing.mismatch import mismatch
from abreast.scorers.text import normalized
from abreast.settings import is_flag, is_number

_CLOSE = 1e-9


class Fields(SingleColumn):
    """The share of the expected fields that are right. Nested objects count by their leaves, lists as wholes.

    `fields` sets how to compare a field, by dotted path: `text` (normalized), or a tolerance `{rel, abs}`. With
    `strict: true` unexpected fields count as wrong.

    >>> from abreast.scorers import build
    >>> from abreast.model import Answer, Case
    >>> scorer = build("json", {"fields": {"price": {"rel": 0.1}}})
    >>> case = Case("c", "?", expected={"price": 100, "name": "Mug"})
    >>> scorer.score(case, Answer('Here: {"price": 105, "name": "Cup"}'))[0].value
    0.5
    """

    def __init__(self, settings: ScorerSettings) -> None:
        self._rules = settings.take("fields", {}, lambda value: isinstance(value, Mapping), "a mapping of fields")
        self._strict = settings.take("strict", False, is_flag, "true or false")
        for path, rule in self._rules.items():
            _check_rule(path, rule)
        super().__init__(settings)

    def mark(self, expected: Any, answer: Answer) -> Mark:
        expected = _as_value(expected)
        actual = _read_answer(expected, answer)
        if actual is MISSING:
            return 0.0, f"no JSON {'object' if isinstance(expected, dict) else 'value'} in the answer"
        try:
            return self._compare(_leaves(expected), _leaves(actual))
        except RecursionError:
            return 0.0, "the JSON is nested too deeply to compare"

    def _compare(self, expected: dict[str, Any], actual: dict[str, Any]) -> Mark:
        wrong = [path for path, value in expected.items() if not self._is_right(path, actual, value)]
        extra = [path for path in actual if path not in expected] if self._strict else []
        total, right = len(expected) + len(extra), len(expected) - len(wrong)
        faults = [_difference(path, actual, expected[path]) for path in wrong[:3]]
        faults += [f"{path} unexpected" for path in extra[:3]]
        why = f"{right} of {total} fields right" + (f"; {', '.join(faults)}" if faults else "")
        return right / total if total else 1.0, why

    def _is_right(self, path: str, actual: dict[str, Any], expected: Any) -> bool:
        if path not in actual:
            return False
        value, rule = actual[path], self._rules.get(path)
        if rule == "text" and isinstance(expected, str):
            return isinstance(value, str) and normalized(value) == normalized(expected)
        if isinstance(rule, Mapping) and is_number(expected):
            rel, abs_ = rule.get("rel", 0), rule.get("abs", 0)
            return any(within(number, expected, rel, abs_) for number in read_value(value).values)
        return same(value, expected, lambda a, b: within(a, b, _CLOSE, 0))


def _check_rule(path: Any, rule: Any) -> None:
    if rule == "text":
        return
    if not isinstance(rule, Mapping) or not rule:
        raise BadInput(f'scorer "json": fields.{path} must be "text" or {{rel, abs}}, got {rule!r}')
    for key, value in rule.items():
        if key not in ("rel", "abs"):
            raise BadInput(
                f'scorer "json": unknown setting "{key}" of fields.{path}{suggestion(str(key), ["rel", "abs"])}'
            )
        if not is_tolerance(value):
            raise BadInput(f'scorer "json": fields.{path}.{key} must be a number of at least 0, got {value!r}')


def _as_value(expected: Any) -> Any:
    """Decode an expected object that a case file holds as a string."""
    value = parse_json(expected) if isinstance(expected, str) else expected
    return expected if value is MISSING else value


def _read_answer(expected: Any, answer: Answer) -> Any:
    value = returned_value(answer)
    if value is not None:
        return value
    if isinstance(expected, Mapping):
        return find_object(answer.text)
    return find_list(answer.text) if isinstance(expected, list) else parse_json(answer.text)


def _leaves(value: Any, path: str = "") -> dict[str, Any]:
    """Map dotted paths to values; nested empty objects are values."""
    if not isinstance(value, Mapping):
        return {path: value}
    leaves: dict[str, Any] = {}
    for key, inner in value.items():
        below = f"{path}.{key}" if path else str(key)
        leaves.update(_leaves(inner, below) if inner or not isinstance(inner, Mapping) else {below: {}})
    return leaves


def _difference(path: str, actual: dict[str, Any], expected: Any) -> str:
    label = path or "the value"
    if path not in actual:
        return f"{label} missing"
    return f"{label} is {mismatch(actual[path], expected, 30)}"
