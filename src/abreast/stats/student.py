"""Student's t distribution: closed forms where they are exact enough, scipy (slow to import) where not."""

from __future__ import annotations

import math
from statistics import NormalDist

MANY_DEGREES = 200  # from here on the expansions below are right to eight digits

NORMAL = NormalDist()


def quantile_t(probability: float, degrees: float) -> float:
    """The quantile of Student's t.

    >>> round(quantile_t(0.975, 10), 6), round(quantile_t(0.975, 500), 6)
    (2.228139, 1.96472)
    """
    if degrees >= MANY_DEGREES:
        return _near_normal(NORMAL.inv_cdf(probability), degrees)
    from scipy.special import stdtrit  # late: scipy takes a quarter of a second to import

    return float(stdtrit(degrees, probability))


def two_sided_t(statistic: float, degrees: float) -> float:
    """How likely a t at least this far from zero is, on either side.

    >>> round(two_sided_t(2.228139, 10), 6), round(two_sided_t(-1.96472, 500), 6)
    (0.05, 0.05)
    """
    if math.isinf(statistic):
        return 0.0
    if degrees >= MANY_DEGREES:
        return math.erfc(_as_normal(abs(statistic), degrees) / math.sqrt(2))
    from scipy.special import stdtr

    return float(2 * stdtr(degrees, -abs(statistic)))


def _near_normal(z: float, degrees: float) -> float:
    """The expansion of the t quantile around the normal one (Abramowitz and Stegun 26.7.5)."""
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / float(degrees) ** power for power, term in enumerate(terms, 1))


def _as_normal(t: float, degrees: float) -> float:
    """The normal deviate with the same tail as t (Hill 1970, algorithm 395)."""
    a = degrees - 0.5
    b = 48 * a * a
    square = a * math.log1p(t * t / degrees)
    inner = ((-0.4 * square - 3.3) * square - 24) * square - 85.5
    return ((inner / (0.8 * square * square + 100 + b) + square + 3) / b + 1) * math.sqrt(square)
