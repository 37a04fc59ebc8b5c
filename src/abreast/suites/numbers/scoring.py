"""Is it right, how far off is it, and is the number one that the data have at all?"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from abreast.model import Answer, Case
from abreast.scorers.number import read, read_value
from abreast.suites.numbers.conditions import columns_of
from abreast.suites.numbers.queries import QUERIES, VALUES, Query, is_named, quantities, scorer_of
from abreast.suites.numbers.reading import answer_part, in_digits, positions
from abreast.suites.numbers.series import Columns

DIGITS = 4  # significant digits that a number must share with another statistic to be taken for it
COLUMNS = ("correct", "closeness", "grounded")


def score(case: Case, answer: Answer) -> dict[str, Any]:
    """`correct`: 1 if right; for positions their F1. Of numbers besides: `closeness`, 1 less the relative error, at
    least 0, and `grounded`, 1 unless the number is hallucinated (`is_grounded`)."""
    query = QUERIES[case.input["query"]]
    said = Answer(answer_part(answer.text), answer.value)
    if query.kind == "positions":
        said = Answer("", positions(said))
    elif query.name == "anomalies" and answer.value is None:
        said = Answer(in_digits(said.text))
    mark = scorer_of(query.name).score(case, said)[0]
    found: dict[str, Any] = {"correct": mark.value, "explanation": mark.explanation}
    if query.kind == "number":
        found |= _of_number(case, query, said, answer.text)
    else:
        found |= dict.fromkeys(("closeness", "grounded"))
    return found


def _of_number(case: Case, query: Query, answer: Answer, reply: str) -> dict[str, Any]:
    value = answer.value
    reading = read(answer.text) if value is None else read_value(value)
    if not reading.values:
        return {"closeness": 0.0, "grounded": None}  # it names no number, so it invents none
    right = float(case.expected)
    nearest = min(reading.values, key=lambda each: abs(each - right))
    error = abs(nearest - right) / abs(right) if right else float(nearest != right)
    return {
        "closeness": max(0.0, 1.0 - error),
        "grounded": float(is_grounded(columns_of(case.input), query, right, reading.values, reply)),
    }


def is_grounded(columns: Columns, query: Query, right: float, values: Sequence[float], reply: str) -> bool:
    """Tell whether one of the answered numbers comes from the data.

    It does if it is near the truth (within twice the tolerance of the query); if the query asks for a value of the data
    and the number is one of them, exactly; or if it is another statistic of the data to all digits written, and the
    number has four significant digits or more, or the reply mentions that statistic.
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
    """Tell whether a number is a quantity rounded to the digits that the number has."""
    exponent = Decimal(repr(value)).normalize().as_tuple().exponent
    unit = 10.0**exponent if isinstance(exponent, int) else 1.0
    return abs(value - quantity) <= 0.5 * min(unit, 1.0) * (1 + 1e-9)


def _digits(value: float) -> int:
    """The significant digits of a number as written, without zeros at the end."""
    return len(Decimal(repr(value)).normalize().as_tuple().digits)
