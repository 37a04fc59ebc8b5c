"""Is it right, how far off is it, and is the number one that the data have at all?"""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np

from abreast.model import Answer, Case
from abreast.scorers.marker import marker_ends
from abreast.scorers.number import read, read_value
from abreast.suites.numbers.conditions import columns_of
from abreast.suites.numbers.queries import QUERIES, Query, present, quantities, scorer_of
from abreast.suites.numbers.series import Values

COLUMNS = ("correct", "closeness", "grounded")
_OTHER_LINES = re.compile(
    r"\n[\s*_#>-]{0,8}(?:confidence|reasoning|reason|explanation)\b[\s*_]{0,6}[:=]", re.IGNORECASE
)
_LISTED = re.compile(r"\[[\d\s,]*\]")
_ASIDE = re.compile(r"\([^()]{0,200}\)")  # what a value is, in brackets behind its position
_AT = re.compile(r"\b(?:at|positions?|index|indexes|indices|locations?)\b", re.IGNORECASE)
_WHOLE = re.compile(r"(?<![\w.])\d{1,9}(?![\w]|\.\d)")


def score(case: Case, answer: Answer) -> dict[str, Any]:
    """`correct`: 1 if right; for positions their F1. Of numbers besides: `closeness`, 1 less the relative error, at
    least 0, and `grounded`, 1 unless the number is hallucinated: neither within the query's tolerance of the truth,
    nor of a value of the data, nor of any quantity that the catalogue has for them."""
    query = QUERIES[case.input["query"]]
    said = Answer(answer_part(answer.text), answer.value)
    if query.kind == "positions":
        said = Answer("", _positions(said))
    mark = scorer_of(query.name).score(case, said)[0]
    found: dict[str, Any] = {"correct": mark.value, "explanation": mark.explanation}
    if query.kind == "number":
        found |= _of_number(case, query, said)
    else:
        found |= dict.fromkeys(("closeness", "grounded"))
    return found


def answer_part(text: str) -> str:
    """The last "Answer:" and what stands after it, up to the next line of the form; all of it if there is none.

    >>> answer_part("**Reasoning:** 5 > 3\\n**Answer:** B\\n**Confidence:** 90 %")
    'Answer:** B'
    """
    ends = marker_ends(text)
    if not ends:
        return text
    rest = text[ends[-1] :]
    other = _OTHER_LINES.search(rest)
    part = rest[: other.start()] if other else rest
    return f"Answer:{part}" if part.strip(" \n*_`#") else text


def _positions(answer: Answer) -> list[int]:
    """The whole numbers that are given as positions, in any order and any dress.

    >>> _positions(Answer("3 anomalies, at 80, **12** (value 99.5) and 45"))
    [12, 45, 80]
    """
    value: Any = answer.value
    if isinstance(value, list | tuple):
        return sorted({int(each) for each in value if isinstance(each, int | float) and each == int(each)})
    if listed := _LISTED.search(answer.text):
        return sorted(set(json.loads(re.sub(r",\s*\]", "]", listed.group()))) if listed.group().strip("[] \n,") else ())
    text = _ASIDE.sub(" ", answer.text)
    named = _AT.search(text)
    return sorted({int(each) for each in _WHOLE.findall(text[named.end() :] if named else text)})


def _of_number(case: Case, query: Query, answer: Answer) -> dict[str, Any]:
    value = answer.value
    reading = read(answer.text) if value is None else read_value(value)
    if not reading.values:
        return {"closeness": 0.0, "grounded": None}  # it names no number, so it invents none
    right = float(case.expected)
    nearest = min(reading.values, key=lambda each: abs(each - right))
    error = abs(nearest - right) / abs(right) if right else float(nearest != right)
    return {"closeness": max(0.0, 1.0 - error), "grounded": float(_is_grounded(case, query, reading.values, right))}


def _is_grounded(case: Case, query: Query, values: tuple[float, ...], right: float) -> bool:
    if any(query.within(value, right) for value in values):
        return True
    shown = columns_of(case.input)
    if any(_has(present(column), query, values) for column in shown.values()):
        return True
    return _has(np.array(quantities(shown)), query, values)


def _has(known: Values, query: Query, values: tuple[float, ...]) -> bool:
    allowed = np.maximum(query.abs, query.rel * np.abs(known)) + 1e-12
    return any(bool(np.any(np.abs(known - value) <= allowed)) for value in values)
