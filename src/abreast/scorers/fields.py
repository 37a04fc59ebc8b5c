"""`json`: which fields of the expected object the answer's JSON object has right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from abreast.errors import BadInput, suggestion
from abreast.model import Answer
from abreast.scorers.base import Mark, ScorerSettings, SingleColumn, is_tolerance, returned_value, same, within
from abreast.scorers.number import read_value
from abreast.scorers.parsing.json_text import MISSING, find_list, find_object, parsed
from abreast.scorers.parsing.mismatch import mismatch
from abreast.scorers.text import normalised
from abreast.settings import is_flag, is_number

_CLOSE = 1e-9


class Fields(SingleColumn):
    """The share of the expected fields that are right. Nested objects count by their leaves, lists as wholes.

    `fields` says how to compare some of them, by dotted path: `text` (normalised), or a tolerance `{rel, abs}`.
    With `strict: true` every field that was not expected counts as a wrong one.

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
        wanted = _as_value(expected)
        found = _found(wanted, answer)
        if found is MISSING:
            return 0.0, f"no JSON {'object' if isinstance(wanted, dict) else 'value'} in the answer"
        try:
            return self._compare(_leaves(wanted), _leaves(found))
        except RecursionError:
            return 0.0, "the JSON is nested too deeply to compare"

    def _compare(self, wanted: dict[str, Any], found: dict[str, Any]) -> Mark:
        wrong = [path for path, value in wanted.items() if not self._right(path, found, value)]
        extra = [path for path in found if path not in wanted] if self._strict else []
        total = len(wanted) + len(extra)
        shown = [_difference(path, found, wanted[path]) for path in wrong[:3]] + [
            f"{path} unexpected" for path in extra[:3]
        ]
        why = f"{len(wanted) - len(wrong)} of {total} fields right" + (f"; {', '.join(shown)}" if shown else "")
        return (len(wanted) - len(wrong)) / total if total else 1.0, why

    def _right(self, path: str, found: dict[str, Any], wanted: Any) -> bool:
        if path not in found:
            return False
        value, rule = found[path], self._rules.get(path)
        if rule == "text" and isinstance(wanted, str):
            return isinstance(value, str) and normalised(value) == normalised(wanted)
        if isinstance(rule, Mapping) and is_number(wanted):
            rel, abs_ = rule.get("rel", 0), rule.get("abs", 0)
            return any(within(number, wanted, rel, abs_) for number in read_value(value).values)
        return same(value, wanted, lambda a, b: within(a, b, _CLOSE, 0))


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
            raise BadInput(f'scorer "json": fields.{path}.{key} must be a number that is not negative, got {value!r}')


def _as_value(expected: Any) -> Any:
    """Case files may hold the expected object as a string."""
    value = parsed(expected) if isinstance(expected, str) else expected
    return expected if value is MISSING else value


def _found(wanted: Any, answer: Answer) -> Any:
    value = returned_value(answer)
    if value is not None:
        return value
    if isinstance(wanted, Mapping):
        return find_object(answer.text)
    return find_list(answer.text) if isinstance(wanted, list) else parsed(answer.text)


def _leaves(value: Any, path: str = "") -> dict[str, Any]:
    """Every value by its dotted path; an empty object is a leaf unless it is the whole."""
    if not isinstance(value, Mapping):
        return {path: value}
    leaves: dict[str, Any] = {}
    for key, inner in value.items():
        below = f"{path}.{key}" if path else str(key)
        leaves.update(_leaves(inner, below) if inner or not isinstance(inner, Mapping) else {below: {}})
    return leaves


def _difference(path: str, found: dict[str, Any], wanted: Any) -> str:
    label = path or "the value"
    if path not in found:
        return f"{label} missing"
    return f"{label} is {mismatch(found[path], wanted, 30)}"
