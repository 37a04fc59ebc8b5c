"""Perturbations: what a series looks like when the world has been at it. The truth is computed anew on the result."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from abreast.suites.numbers.dataset.series import Columns, Random, Values, rounded, spread, with_gaps

NOISE = 0.1  # of the standard deviation
FACTOR = 1000.0
KEPT = 0.7  # of a truncated series
NEAR = 5  # points that change places
OUTLIERS = 0.02  # of the points, at least 2


def noise(random: Random, columns: Columns) -> Columns:
    return _each(columns, lambda values: values + random.normal(0.0, NOISE * (spread(values) or 1.0), len(values)))


def scaling(random: Random, columns: Columns) -> Columns:
    """Another unit: every value a thousand times as large."""
    return _each(columns, lambda values: values * FACTOR)


def shifting(random: Random, columns: Columns) -> Columns:
    """Another zero: every value moved by three to five times the spread."""
    share = random.uniform(3.0, 5.0)
    return _each(columns, lambda values: values + share * (spread(values) or 10.0))


def missing(random: Random, columns: Columns) -> Columns:
    return _each(columns, lambda values: with_gaps(random, values))


def outliers(random: Random, columns: Columns) -> Columns:
    return _each(columns, lambda values: _with_outliers(random, values))


def truncation(random: Random, columns: Columns) -> Columns:
    return _each(columns, lambda values: values[: max(2, round(KEPT * len(values)))])


def precision(random: Random, columns: Columns) -> Columns:
    """Fewer digits: the standard deviation keeps two."""
    places = {name: 1 - math.floor(math.log10(spread(values) or 10.0)) for name, values in columns.items()}
    return {name: np.round(values, places[name]) + 0.0 for name, values in columns.items()}


def reorder(random: Random, columns: Columns) -> Columns:
    """Neighbours out of order: points change places within every five, in all columns alike."""
    size = max(map(len, columns.values()))
    order = np.concatenate([at + random.permutation(min(NEAR, size - at)) for at in range(0, size, NEAR)])
    return {name: values[order] for name, values in columns.items()}


def _each(columns: Columns, change: Callable[[Values], Values]) -> Columns:
    return rounded({name: change(values) for name, values in columns.items()})


def _with_outliers(random: Random, values: Values) -> Values:
    changed = values.copy()
    number = min(max(2, round(OUTLIERS * len(values))), len(values) // 3)
    for at in random.choice(len(values), number, replace=False):
        changed[at] = np.nanmean(values) + random.choice([-1.0, 1.0]) * random.uniform(8.0, 12.0) * (
            spread(values) or 1.0
        )
    return changed


PERTURBATIONS: Mapping[str, Callable[[Random, Columns], Columns]] = {
    each.__name__: each for each in (noise, scaling, shifting, missing, outliers, truncation, precision, reorder)
}
