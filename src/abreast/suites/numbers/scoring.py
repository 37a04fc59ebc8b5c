"""Score answers: correctness, relative error, and whether a number comes from the data."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from abreast.model import Answer, Case
from abreast.scorers.base import short
from abreast.suites.numbers.answers.reply import read_answer
from abreast.suites.numbers.conditions import columns_of
from abreast.suites.numbers.dataset.queries import QUERIES, VALUES, Query, is_named, quantities, scorer_of
from abreast.suites.numbers.dataset.series import Columns

DIGITS = 4  # significant digits for a number to be identified as another statistic
DELAY = 3  # positions that `delayed` allows
COLUMNS = ("correct", "closeness", "grounded", "delayed")


def score(case: Case, answer: Answer) -> dict[str, Any]:
    """Return `correct` (F1 for positions) and, by the query, `delayed`, `closeness` (1 - error) and `grounded`."""
    query = QUERIES[case.input["query"]]
    final = read_answer(query, answer)
    value: Any = final.value
    if query.kind == "positions" and value is not None:
        return _position_scores(case.expected, value)
    if value is None:
        scores: dict[str, Any] = {"correct": 0.0, "explanation": f"{final.reason}, expected {short(case.expected)}"}
    else:
        mark = scorer_of(query.name).score(case, Answer(str(value), value))[0]
        scores = {"correct": mark.value, "explanation": mark.explanation}
    if query.kind == "number":
        scores |= _number_scores(case, query, value, answer.text)
    else:
        scores |= dict.fromkeys(("closeness", "grounded"))
    return {**scores, "delayed": 0.0 if query.kind == "positions" else None}


def _position_scores(expected: Sequence[Any], predicted: Sequence[int]) -> dict[str, Any]:
    """Return the F1 of the positions as `correct`, and as `delayed` the F1 if they may be off by `DELAY`."""
    right, wrong, missed = _count_matches(expected, predicted, 0)
    explanation = f"found {right} of {right + missed}" + (f", {wrong} extra" if wrong else "")
    return {
        "correct": position_f1(expected, predicted),
        "delayed": position_f1(expected, predicted, DELAY),
        "explanation": explanation,
        "closeness": None,
        "grounded": None,
    }


def position_f1(expected: Sequence[Any], predicted: Sequence[int], delay: int = 0) -> float:
    """Return the F1 of predicted positions against points and windows, each found by any position in it or next to it.

    >>> position_f1([12, 45], [12, 46]), position_f1([12, 45], [12, 46], delay=3), position_f1([[10, 20]], [12, 15])
    (0.5, 1.0, 1.0)
    >>> position_f1([], []), position_f1([], [12])  # no anomalies, none reported
    (1.0, 0.0)
    """
    right, wrong, missed = _count_matches(expected, predicted, delay)
    return 2 * right / (2 * right + wrong + missed) if right + wrong + missed else 1.0


def _count_matches(expected: Sequence[Any], predicted: Sequence[int], delay: int) -> tuple[int, int, int]:
    """Counts of matched marks, positions outside all marks, and missed marks; each position matches one mark."""
    marks = [tuple(mark) if isinstance(mark, list | tuple) else (mark, mark) for mark in expected]
    matched: set[int] = set()
    wrong = 0
    for position in sorted(set(predicted)):
        near = [at for at, (first, last) in enumerate(marks) if first - delay <= position <= last + delay]
        unmatched = [at for at in near if at not in matched]
        if unmatched:
            matched.add(unmatched[0])
        elif not any(marks[at][0] < marks[at][1] for at in near):
            wrong += 1
    return len(matched), wrong, len(marks) - len(matched)


def _number_scores(case: Case, query: Query, value: float | None, reply: str) -> dict[str, Any]:
    if value is None:
        return {"closeness": 0.0, "grounded": None}  # no number, so none is invented
    right = float(case.expected)
    error = abs(value - right) / abs(right) if right else float(value != right)
    return {
        "closeness": max(0.0, 1.0 - error),
        "grounded": float(is_grounded(columns_of(case.input), query, right, [value], reply)),
    }


def is_grounded(columns: Columns, query: Query, right: float, values: Sequence[float], reply: str) -> bool:
    """Whether one of the answered numbers comes from the data.

    It does if it is within twice the tolerance of the query; if the query asks for a value of the data and the number
    is one; or if it equals another statistic to all its digits, and has four significant digits or more, or the reply
    mentions that statistic.
    """
    if any(query.within(value, right, 2.0) for value in values):
        return True
    if query.name in VALUES and any(np.isin(value, column).item() for column in columns.values() for value in values):
        return True
    others = [(name, quantity) for name, quantity in quantities(columns) if name != query.name]
    return any(
        _is_written_as(value, quantity) and (_digits(value) >= DIGITS or is_named(name, reply))
        for value in values
        for name, quantity in others
    )


def _is_written_as(value: float, quantity: float) -> bool:
    """Whether a number is the rounded quantity."""
    exponent = Decimal(repr(value)).normalize().as_tuple().exponent
    unit = 10.0**exponent if isinstance(exponent, int) else 1.0
    return abs(value - quantity) <= 0.5 * min(unit, 1.0) * (1 + 1e-9)


def _digits(value: float) -> int:
    return len(Decimal(repr(value)).normalize().as_tuple().digits)
