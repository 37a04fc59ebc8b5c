"""Gaffke's interval of the mean of a bounded quantity: for small samples of any shape.

The sample, with one further value at the end of the range, is reweighted at random (uniformly on the simplex). The α/2
quantile of its mean with a further −1 is the lower bound, the 1 − α/2 quantile with a further +1 the upper one. For
wins, ties and losses the interval excludes zero exactly where the sign test rejects.
"""

from __future__ import annotations

import math

import numpy as np

from abreast.stats.intervals.proportions import Estimate
from abreast.stats.numerics.arrays import UNIT, Floats, Numbers, Scale, distinct, share, unit_differences, width
from abreast.stats.numerics.student import find_root

STEP = 0.05  # of the integration, on a log scale: the error is about 1e-9
LOGS = np.arange(-10.0, 22.0, STEP)
COARSE = 10
VANISHED = 30.0  # a factor of 1e-13
FAR = 20.0  # standard deviations from the mean, where a chance is below 1e-9 and the integrand oscillates too fast
MOST_VALUES = 1_000  # most distinct values


def gaffke(differences: Numbers, level: float = 0.95, scale: Scale = UNIT) -> Estimate:
    """Gaffke's interval of a mean difference, with the p value at which it just touches zero.

    >>> interval = gaffke([1.0] * 9 + [0.0] * 31)
    >>> round(interval.low, 4), round(interval.high, 4), round(interval.p, 6)
    (0.0662, 0.3845, 0.003906)
    """
    values = unit_differences(differences, scale)
    return weighted_gaffke(values, np.ones(len(values)), share(level, "level")).times(width(scale))


def weighted_gaffke(values: Floats, weights: Floats, level: float) -> Estimate:
    """Gaffke's interval of a weighted mean of values in [−1, 1].

    A value of weight 1 counts as one of the sample, one of weight 0.5 as half of one; no weight may be above 1.
    """
    tail = (1 - level) / 2
    above, below = _with_worst(values, weights), _with_worst(-values, weights)
    mean = float(values @ weights / weights.sum())
    low, high = _lower_bound(*above, mean, tail), -_lower_bound(*below, -mean, tail)
    p = min(1.0, 2 * min(_chance(*above, 0.0), _chance(*below, 0.0)))
    return Estimate(estimate=mean, low=low, high=high, level=level, p=max(0.0, p), method="Gaffke")


def suits_gaffke(values: Floats) -> bool:
    """Whether there are few enough distinct values to integrate over."""
    return len(values) <= MOST_VALUES or len(distinct(values)) <= MOST_VALUES


def _with_worst(values: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Distinct values and their weights, with one further −1."""
    sample, index, _ = np.unique(np.append(values, -1.0), return_inverse=True, return_counts=True)
    return sample, np.asarray(np.bincount(index, weights=np.append(weights, 1.0)), dtype=float)


def _lower_bound(values: Floats, weights: Floats, mean: float, tail: float) -> float:
    start = -1 + 1e-9
    if mean <= start or _chance(values, weights, start) > tail:
        return -1.0
    return find_root(lambda bound: _chance(values, weights, bound) - tail, start, mean, tolerance=1e-10)


def _chance(values: Floats, counts: Floats, mean: float) -> float:
    """The chance that the reweighted mean of the values is at most `mean`.

    With weights G/ΣG of exponential G this is the chance that a sum of gamma variables is at most 0, by the inversion
    of its characteristic function (Gil-Pelaez).
    """
    distances = values - mean
    spread = math.sqrt(float(counts @ distances**2))
    if spread == 0:
        return 0.5
    deviation = float(counts @ distances) / spread
    if abs(deviation) > FAR:
        return float(deviation < 0)
    logs = LOGS[: _rows(distances, counts, spread)]
    arguments = np.multiply.outer(np.exp(logs) / spread, distances)
    phase, damping = np.arctan(arguments) @ counts, np.log1p(arguments**2) @ counts / 2
    below = math.exp(LOGS[0] - STEP / 2) * deviation  # where the integrand is linear
    return 0.5 - (STEP * float((np.sin(phase) * np.exp(-damping)).sum()) + below) / math.pi


def _rows(distances: Floats, counts: Floats, spread: float) -> int:
    """The number of rows of the grid that are needed, up to where the integrand has vanished."""
    coarse = np.multiply.outer(np.exp(LOGS[::COARSE]) / spread, distances)
    vanished = np.flatnonzero(np.log1p(coarse**2) @ counts / 2 > VANISHED)
    return int(vanished[0]) * COARSE + 1 if len(vanished) else len(LOGS)
