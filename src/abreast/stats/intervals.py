"""Intervals: how far off an estimate may be."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

Numbers = Sequence[float] | npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate between two bounds, at a level of confidence."""

    estimate: float
    low: float
    high: float
    level: float = 0.95


def wilson(successes: float, n: int, level: float = 0.95) -> Interval:
    """The interval of one proportion.

    >>> interval = wilson(27, 30)
    >>> round(interval.low, 6), round(interval.high, 6)
    (0.743789, 0.9654)
    """
    if n < 1 or not 0 <= successes <= n:
        raise ValueError(f"successes must be between 0 and n, and n at least 1; got {successes} of {n}")
    z = NormalDist().inv_cdf(0.5 + level / 2)
    share = successes / n
    scale = 1 + z * z / n
    centre = (share + z * z / (2 * n)) / scale
    half = z / scale * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return Interval(share, max(0.0, centre - half), min(1.0, centre + half), level)


def paired_t(differences: Numbers, level: float = 0.95, groups: Sequence[Hashable] | None = None) -> Interval:
    """The interval of a mean difference; with groups, by the clustered standard error (CR1, G − 1 degrees).

    >>> interval = paired_t([0.2, 0.1, 0.4, 0.3, 0.0, 0.2])
    >>> round(interval.estimate, 3), round(interval.low, 3), round(interval.high, 3)
    (0.2, 0.052, 0.348)
    """
    values = np.asarray(differences, dtype=float)
    if len(values) < 2:
        raise ValueError(f"at least two differences are needed, got {len(values)}")
    mean = float(values.mean())
    if groups is None:
        error, degrees = float(values.std(ddof=1)) / math.sqrt(len(values)), len(values) - 1
    else:
        error, degrees = _clustered(values - mean, groups)
    half = quantile_t(0.5 + level / 2, degrees) * error
    return Interval(mean, mean - half, mean + half, level)


def _clustered(residuals: npt.NDArray[np.float64], groups: Sequence[Hashable]) -> tuple[float, int]:
    numbers: dict[Hashable, int] = {}
    index = np.array([numbers.setdefault(group, len(numbers)) for group in groups])
    if len(index) != len(residuals):
        raise ValueError(f"as many groups as differences are needed, got {len(index)} and {len(residuals)}")
    if len(numbers) < 2:
        raise ValueError("at least two groups are needed")
    sums = np.bincount(index, weights=residuals)
    count = len(numbers)
    return math.sqrt(count / (count - 1) * float((sums**2).sum())) / len(residuals), count - 1


def quantile_t(probability: float, degrees: int) -> float:
    """The quantile of Student's t.

    >>> round(quantile_t(0.975, 10), 6), round(quantile_t(0.975, 500), 6)
    (2.228139, 1.96472)
    """
    if degrees >= MANY_DEGREES:
        return _near_normal(NormalDist().inv_cdf(probability), degrees)
    from scipy.special import stdtrit  # late: scipy takes a quarter of a second to import

    return float(stdtrit(degrees, probability))


MANY_DEGREES = 200  # from here on the expansion below is right to ten digits


def _near_normal(z: float, degrees: int) -> float:
    """The expansion of the t quantile around the normal one (Abramowitz and Stegun 26.7.5)."""
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / float(degrees) ** power for power, term in enumerate(terms, 1))
