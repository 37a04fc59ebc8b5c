"""The population of a verdict: cases in general, or these cases alone. The plan determines it, before any result."""

from __future__ import annotations

import math
from typing import Literal

from abreast.stats.intervals.final import GROUPS, T_CASES
from abreast.stats.numerics.arrays import integer

Population = Literal["cases in general", "these cases"]
ALL_CASES: Population = "cases in general"
THESE_CASES: Population = "these cases"
ALPHA = 0.05


def population_of(cases: int, repeats: int, comparisons: int = 1, groups: int | None = None) -> Population:
    """Cases in general if there are enough of them; else these cases if there are enough repeats; else in general.

    `groups` is the number of independent groups of cases, if they have any.

    >>> population_of(cases=3, repeats=10), population_of(cases=12, repeats=10), population_of(cases=3, repeats=1)
    ('these cases', 'cases in general', 'cases in general')
    """
    if groups is not None and groups >= GROUPS and (repeats == 1 or cases >= T_CASES):
        return ALL_CASES  # Student's t decides from fewer groups than a unanimous result does
    if (cases if groups is None else groups) >= units_needed(comparisons):
        return ALL_CASES
    return THESE_CASES if repeats >= repeats_needed(cases, comparisons) else ALL_CASES


def units_needed(comparisons: int = 1) -> int:
    """Cases, or groups of cases, from which a unanimous result decides about cases in general.

    >>> units_needed(), units_needed(comparisons=3)
    (6, 7)
    """
    return math.ceil(math.log2(2 * integer(comparisons, "comparisons", least=1) / ALPHA) - 1e-9)


def repeats_needed(cases: int, comparisons: int = 1) -> int:
    """Repeats from which a unanimous result decides about these cases.

    >>> repeats_needed(1), repeats_needed(3), repeats_needed(3, comparisons=5), repeats_needed(6)
    (4, 2, 2, 1)
    """
    cases, repeats = integer(cases, "cases", least=1), 1
    rearrangements = 2 * integer(comparisons, "comparisons", least=1) / ALPHA
    while cases * math.log(math.comb(2 * repeats, repeats)) < math.log(rearrangements):
        repeats += 1
    return repeats
