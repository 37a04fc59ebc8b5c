"""Is it right, how far off is it, and is the number one that the data have at all?"""

from __future__ import annotations

from typing import Any

import numpy as np

from abreast.model import Answer, Case
from abreast.scorers.base import short
from abreast.suites.numbers.conditions import columns_of
from abreast.suites.numbers.queries import QUERIES, Query, present, quantities, scorer_of
from abreast.suites.numbers.reading import read_answer
from abreast.suites.numbers.series import Values

COLUMNS = ("correct", "closeness", "grounded")


def score(case: Case, answer: Answer) -> dict[str, Any]:
    """`correct`: 1 if right; for positions their F1. Of numbers besides: `closeness`, 1 less the relative error, at
    least 0, and `grounded`, 1 unless the number is hallucinated: neither within the query's tolerance of the truth,
    nor of a value of the data, nor of any quantity that the catalogue has for them."""
    query = QUERIES[case.input["query"]]
    final = read_answer(query, answer)
    if final.value is None:
        found: dict[str, Any] = {
            "correct": 0.0,
            "explanation": f"{final.reason}, expected {short(case.expected)}",
        }
    else:
        mark = scorer_of(query.name).score(case, Answer(str(final.value), final.value))[0]
        found = {"correct": mark.value, "explanation": mark.explanation}
    if query.kind == "number":
        found |= _of_number(case, query, final.value)
    else:
        found |= dict.fromkeys(("closeness", "grounded"))
    return found


def _of_number(case: Case, query: Query, value: Any) -> dict[str, Any]:
    if value is None:
        return {"closeness": 0.0, "grounded": None}  # it names no number, so it invents none
    right = float(case.expected)
    error = abs(value - right) / abs(right) if right else float(value != right)
    return {"closeness": max(0.0, 1.0 - error), "grounded": float(_is_grounded(case, query, (value,), right))}


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
