"""Confidence intervals at a number of cases that was fixed beforehand."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Self

from abreast.stats.intervals.units import Weight, units_of
from abreast.stats.numerics.arrays import Numbers, integer, numbers, share
from abreast.stats.numerics.student import NORMAL, quantile_t, two_sided_t


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate between two bounds, at a level of confidence."""

    estimate: float
    low: float
    high: float
    level: float = 0.95

    def times(self, factor: float) -> Self:
        return replace(self, estimate=self.estimate * factor, low=self.low * factor, high=self.high * factor)


@dataclass(frozen=True, slots=True)
class Estimate(Interval):
    """An interval with the p value of "there is no difference", and the method behind both."""

    p: float = 1.0
    method: str = ""


def wilson(successes: float, n: int, level: float = 0.95) -> Interval:
    """The interval of one proportion.

    >>> interval = wilson(27, 30)
    >>> round(interval.low, 6), round(interval.high, 6)
    (0.743789, 0.9654)
    """
    n = integer(n, "n", least=1)
    if not 0 <= successes <= n:
        raise ValueError(f"successes must lie between 0 and n, got {successes} of {n}")
    proportion = float(successes) / n
    low, high = wilson_bounds(proportion, n, share(level, "level"))
    return Interval(proportion, low, high, level)


def wilson_bounds(proportion: float, n: float, level: float) -> tuple[float, float]:
    """The ends of Wilson's interval; n need not be a whole number, for it may be an effective sample size."""
    square = NORMAL.inv_cdf(0.5 + level / 2) ** 2
    centre = (proportion + square / (2 * n)) / (1 + square / n)
    half = math.sqrt(square * (proportion * (1 - proportion) / n + square / (4 * n * n))) / (1 + square / n)
    low = 0.0 if proportion == 0 else max(0.0, centre - half)
    high = 1.0 if proportion == 1 else min(1.0, centre + half)
    return low, high


def bonett_price(wins: int, losses: int, n: int, level: float = 0.95) -> Estimate:
    """The interval of the difference of two paired proportions, with the p value at which it just touches zero.

    >>> interval = bonett_price(15, 5, 50)
    >>> round(interval.low, 6), round(interval.high, 6), round(interval.p, 6)
    (0.023422, 0.361194, 0.025629)
    """
    wins, losses, n = integer(wins, "wins"), integer(losses, "losses"), integer(n, "n", least=1)
    if wins + losses > n:
        raise ValueError(f"wins and losses cannot be more than n, got {wins} + {losses} of {n}")
    z = NORMAL.inv_cdf(0.5 + share(level, "level") / 2)
    won, lost = (wins + 1) / (n + 2), (losses + 1) / (n + 2)
    error = math.sqrt((won + lost - (won - lost) ** 2) / (n + 2))
    low, high = max(-1.0, won - lost - z * error), min(1.0, won - lost + z * error)
    p = math.erfc(abs(won - lost) / error / math.sqrt(2))
    return Estimate(estimate=(wins - losses) / n, low=low, high=high, level=level, p=p, method="Bonett–Price")


def paired_t(
    differences: Numbers, level: float = 0.95, groups: Sequence[Hashable] | None = None, weight: Weight = "case"
) -> Estimate:
    """Student's t interval of a mean difference.

    With groups of dependent cases: the CR2 standard error with Bell and McCaffrey's degrees of freedom, or t on group
    means if each group weighs the same (`weight="group"`).

    >>> interval = paired_t([0.2, 0.1, 0.4, 0.3, 0.0, 0.2])
    >>> round(interval.estimate, 3), round(interval.low, 3), round(interval.high, 3), round(interval.p, 4)
    (0.2, 0.052, 0.348, 0.018)
    """
    units = units_of(numbers(differences, least=2), groups, weight)
    mean, (error, degrees) = units.estimate, units.standard_error()
    half = quantile_t(0.5 + share(level, "level") / 2, degrees) * error
    p = 1.0 if mean == 0 else 0.0 if error == 0 else two_sided_t(mean / error, degrees)
    method = "paired t" if groups is None else "t, CR2" if weight == "case" else "t on group means"
    return Estimate(estimate=mean, low=mean - half, high=mean + half, level=level, p=p, method=method)
