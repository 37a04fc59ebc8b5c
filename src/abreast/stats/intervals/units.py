"""Independent units of a comparison: single cases, or groups of cases that depend on each other."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from abreast.stats.numerics.arrays import Floats, group_index

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
