"""Means of cases that belong to groups (one document, one pull request) and are therefore not independent."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from abreast.stats.intervals.units import degrees_of_freedom
from abreast.stats.numerics.arrays import ROUNDING, Floats, group_index


@dataclass(frozen=True, slots=True)
class RelativeMeans:
    """Means of positive columns over the same cases; errors and covariances as shares of these means."""

    means: Floats
    covariance: Floats
    naive_errors: Floats  # standard errors if the cases were independent
    skewness: Floats  # of the group totals; nan for a column without spread
    degrees: float  # of freedom of the standard errors
    cases: int
    groups: int

    @property
    def errors(self) -> Floats:
        return np.sqrt(np.diagonal(self.covariance))


def relative_means(columns: Floats, groups: Sequence[Hashable] | None = None) -> RelativeMeans:
    """Means over cases with their CR2 covariance and Bell and McCaffrey's degrees of freedom.

    Every case weighs the same, however unequal the groups are. Cases without groups are groups of one; then this is
    the usual covariance with n − 1 degrees. `columns` has a row per column; at least two groups are needed.
    """
    cases = columns.shape[1]
    index, count = (np.arange(cases), cases) if groups is None else group_index(groups, cases)
    if count < 2:
        raise ValueError(f"at least two groups are needed, got {count}")
    means = columns.mean(axis=1)
    residuals = columns / means[:, None] - 1
    residuals[np.abs(residuals) < ROUNDING] = 0.0
    sizes = np.asarray(np.bincount(index), dtype=float)
    totals = np.array([np.bincount(index, weights=row) for row in residuals])
    totals[np.abs(totals) < ROUNDING] = 0.0
    return RelativeMeans(
        means=means,
        covariance=(totals / (1 - sizes / cases)) @ totals.T / cases**2,
        naive_errors=residuals.std(axis=1, ddof=1) / math.sqrt(cases),
        skewness=np.array([_skewness(row) for row in totals]),
        degrees=degrees_of_freedom(sizes),
        cases=cases,
        groups=count,
    )


def _skewness(totals: Floats) -> float:
    count, centred = len(totals), totals - totals.mean()
    variance = float((centred**2).mean())
    if count < 3 or variance == 0:
        return math.nan
    return float((centred**3).mean() / variance**1.5 * math.sqrt(count * (count - 1)) / (count - 2))
