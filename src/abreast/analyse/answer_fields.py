"""What answers tell of themselves besides their words: `data`, trial by trial, and what of it are numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from abreast.analyse.rows import Floats, Rows

Told = Sequence[Mapping[str, Any]]


def told_by(rows: Rows) -> list[Mapping[str, Any]]:
    """What each trial's answer has in `data`, in the order of the rows."""
    found: list[Mapping[str, Any]] = [{}] * len(rows.position)
    for at, data in rows.answer_data():
        found[at] = data
    return found


def number(value: Any) -> float:
    """A count that was told; nan if it is none.

    >>> number(3), number("3"), number(True), number(-1)
    (3.0, nan, nan, nan)
    """
    usable = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0
    return float(value) if usable else math.nan


def numbers(told: Told, name: str) -> Floats:
    """A number that answers come with, nan where one does not tell it."""
    return np.array([number(one.get(name)) for one in told], dtype=float)
