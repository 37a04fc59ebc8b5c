"""Roots of functions and Student's t distribution, without scipy, which takes half a second to import."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from itertools import pairwise
from statistics import NormalDist

MANY_DEGREES = 200  # from here on the expansions below are accurate to eight digits

NORMAL = NormalDist()


def find_root(function: Callable[[float], float], low: float, high: float, tolerance: float) -> float:
    """Find where a function changes its sign, by Ridders' method.

    >>> round(find_root(lambda x: x * x - 2, 0, 2, 1e-12), 10)
    1.4142135624
    """
    at_low, at_high = function(low), function(high)
    if at_low * math.copysign(1, at_high) > 0 and at_high:
        raise ValueError(f"the function has the same sign at {low} and {high}")
    while at_low and at_high:
        middle = (low + high) / 2
        if abs(high - low) <= tolerance + 4 * sys.float_info.epsilon * abs(middle):
            return middle
        at_middle = function(middle)
        if not at_middle:
            return middle
        largest = max(abs(at_low), abs(at_middle), abs(at_high))  # so that no product vanishes
        below, center, above = at_low / largest, at_middle / largest, at_high / largest
        guess = middle + (middle - low) * math.copysign(center, center * below) / math.sqrt(
            center * center - below * above
        )
        points = sorted([(low, at_low), (middle, at_middle), (guess, function(guess)), (high, at_high)])
        changes = (pair for pair in pairwise(points) if (pair[0][1] < 0) != (pair[1][1] < 0) or not pair[1][1])
        (low, at_low), (high, at_high) = next(changes)
    return high if not at_high else low


def quantile_t(probability: float, degrees: float) -> float:
    """The quantile of Student's t.

    >>> round(quantile_t(0.975, 10), 6), round(quantile_t(0.975, 500), 6)
    (2.228139, 1.96472)
    """
    if degrees >= MANY_DEGREES:
        return _near_normal(NORMAL.inv_cdf(probability), degrees)
    if probability in (0.0, 0.5, 1.0):
        return {0.0: -math.inf, 0.5: 0.0, 1.0: math.inf}[probability]
    target = math.log(2 * min(probability, 1 - probability))
    high = 1.0
    while _log_two_sided(high, degrees) > target:
        high *= 2
    size = find_root(lambda t: _log_two_sided(t, degrees) - target, 0.0, high, tolerance=1e-14)
    return math.copysign(size, probability - 0.5)


def two_sided_t(statistic: float, degrees: float) -> float:
    """The chance of a t at least this far from zero, on either side.

    >>> round(two_sided_t(2.228139, 10), 6), round(two_sided_t(-1.96472, 500), 6)
    (0.05, 0.05)
    """
    if math.isinf(statistic):
        return 0.0
    if degrees >= MANY_DEGREES:
        return math.erfc(_as_normal(abs(statistic), degrees) / math.sqrt(2))
    return math.exp(_log_two_sided(abs(statistic), degrees))


def _log_two_sided(t: float, degrees: float) -> float:
    """Logarithm of the chance of a value at least this far from zero: of an incomplete beta function."""
    share = t * t / (degrees + t * t)
    if not share:
        return 0.0
    half = degrees / 2
    factor = math.lgamma(half + 0.5) - math.lgamma(half) - math.lgamma(0.5)
    factor += half * (math.log(degrees) - math.log(degrees + t * t)) + 0.5 * math.log(share)
    if 1 - share < (half + 1) / (half + 2.5):  # where the fraction converges fast
        return factor + math.log(_beta_fraction(half, 0.5, degrees / (degrees + t * t)) / half)
    return math.log1p(-math.exp(factor) * _beta_fraction(0.5, half, share) / 0.5)


def _beta_fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta function (DLMF 8.17.22), by Lentz's method."""
    tiny = 1e-300
    numerator, denominator = 1.0, 1 / _nonzero(1 - (a + b) * x / (a + 1), tiny)
    fraction = denominator
    for step in range(1, 10_000):
        for term in (
            step * (b - step) * x / ((a + 2 * step - 1) * (a + 2 * step)),
            -(a + step) * (a + b + step) * x / ((a + 2 * step) * (a + 2 * step + 1)),
        ):
            denominator = 1 / _nonzero(1 + term * denominator, tiny)
            numerator = _nonzero(1 + term / numerator, tiny)
            factor = denominator * numerator
            fraction *= factor
        if abs(factor - 1) < 1e-16:
            break
    return fraction


def _nonzero(value: float, tiny: float) -> float:
    return value if abs(value) > tiny else tiny


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
