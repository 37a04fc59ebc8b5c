"""Independent units of a comparison: single cases, or groups of cases that depend on each other."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from abreast.stats.intervals.final import GROUPS, T_CASES
from abreast.stats.numerics.arrays import Floats, group_index, whole

Weight = Literal["case", "group"]
WEIGHTS: tuple[Weight, ...] = ("case", "group")


@dataclass(frozen=True, slots=True)
class Units:
    """One sum and one weight per unit; their ratio over all units is the estimate."""

    sums: Floats
    sizes: Floats  # number of cases, or 1 where every group weighs the same

    def __len__(self) -> int:
        return len(self.sums)

    @property
    def estimate(self) -> float:
        return float(self.sums.sum() / self.sizes.sum())

    @property
    def means(self) -> Floats:
        return self.sums / self.sizes

    def standard_error(self) -> tuple[float, float]:
        """Standard error of the estimate (CR2) and its degrees of freedom (Bell and McCaffrey).

        With units of equal size this is the error of an ordinary mean, with one degree less than there are units.
        """
        if len(self) < 2:
            raise ValueError(f"at least two groups are needed, got {len(self)}")
        shares = self.sizes / self.sizes.sum()
        residuals = (self.sums - self.estimate * self.sizes) / self.sizes.sum()
        error = math.sqrt(float((residuals**2 / (1 - shares)).sum()))
        return error, degrees_of_freedom(self.sizes)


def degrees_of_freedom(sizes: Floats) -> float:
    """Bell and McCaffrey's degrees of freedom of a mean over groups of these sizes; G − 1 for groups of equal size."""
    if np.ptp(sizes) == 0:
        return len(sizes) - 1
    shares = sizes / sizes.sum()
    leverage = shares**2 / (1 - shares)
    return 1 / float((shares**2).sum() + leverage.sum() ** 2 - (leverage**2).sum())


def units_of(values: Floats, groups: Sequence[Hashable] | None = None, weight: Weight = "case") -> Units:
    """The units behind one value per case."""
    if weight not in WEIGHTS:
        raise ValueError(f"weight must be case or group, got {weight!r}")
    if groups is None:
        return Units(values, np.ones(len(values)))
    index, _ = group_index(groups, len(values))
    sums = np.asarray(np.bincount(index, weights=values), dtype=float)
    sizes = np.asarray(np.bincount(index), dtype=float)
    return Units(sums, sizes) if weight == "case" else Units(sums / sizes, np.ones(len(sums)))


def weighted_mean(values: Floats, groups: Sequence[Hashable] | None = None, weight: Weight = "case") -> float:
    """Mean over cases, or over groups if each group weighs the same."""
    return units_of(values, groups, weight).estimate


Population = Literal["cases in general", "these cases"]
ALL_CASES: Population = "cases in general"
THESE_CASES: Population = "these cases"
ALPHA = 0.05


def population_of(cases: int, repeats: int, comparisons: int = 1, groups: int | None = None) -> Population:
    """Cases in general if so many can decide about them, else these cases if their repeats can; else in general.

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
    return math.ceil(math.log2(2 * whole(comparisons, "comparisons", least=1) / ALPHA) - 1e-9)


def repeats_needed(cases: int, comparisons: int = 1) -> int:
    """Repeats from which a unanimous result decides about these cases.

    >>> repeats_needed(1), repeats_needed(3), repeats_needed(3, comparisons=5), repeats_needed(6)
    (4, 2, 2, 1)
    """
    cases, repeats = whole(cases, "cases", least=1), 1
    rearrangements = 2 * whole(comparisons, "comparisons", least=1) / ALPHA
    while cases * math.log(math.comb(2 * repeats, repeats)) < math.log(rearrangements):
        repeats += 1
    return repeats
