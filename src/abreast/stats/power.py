"""Power: the number of cases that an effect needs, the effect that a number of cases can show, and futility."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from abreast.stats.intervals.units import Units, Weight, units_of
from abreast.stats.numerics.arrays import UNIT, Numbers, Scale, integer, share, unit_differences, unit_margin
from abreast.stats.numerics.student import NORMAL

FUTILE = 0.05  # with a smaller chance of a decision, the remaining cases are not worth their cost
FUTILITY_CASES = 30
POWER = 0.8


def cases_needed(sd: float, effect: float, power: float = POWER, alpha: float = 0.03) -> int:
    """Cases needed to detect a mean difference of `effect` if the differences per case have standard deviation `sd`.

    `effect` is the smallest difference that you care about, not the one you observed.

    >>> cases_needed(0.5, 0.1)
    227
    """
    if not (math.isfinite(effect) and effect > 0):
        raise ValueError(f"effect must be above 0, got {effect!r}")
    return max(2, math.ceil((deviates(power, alpha) * _spread(sd) / float(effect)) ** 2 - 1e-9))


def smallest_detectable(sd: float, n: int, power: float = POWER, alpha: float = 0.03) -> float:
    """The smallest mean difference that `n` cases detect with this power.

    >>> round(smallest_detectable(0.5, 227), 3)
    0.1
    """
    return deviates(power, alpha) * _spread(sd) / math.sqrt(integer(n, "n", least=1))


def deviates(power: float, alpha: float) -> float:
    """The distance from zero, in standard errors, of an effect that is detected with this power."""
    return NORMAL.inv_cdf(1 - share(alpha, "alpha") / 2) + NORMAL.inv_cdf(share(power, "power"))


def _spread(sd: float) -> float:
    if not (math.isfinite(sd) and sd >= 0):
        raise ValueError(f"sd must be at least 0, got {sd!r}")
    return float(sd)


def spread(units: Units, cases: int) -> float:
    """The standard deviation at which independent cases would have the same standard error as these units."""
    return units.standard_error()[0] * math.sqrt(cases)


@dataclass(frozen=True, slots=True)
class Futility:
    """The chance that the remaining cases bring a decision, and whether it is too small to continue."""

    stop: bool
    chance: float


def futility(
    differences: Numbers,
    planned: int,
    margin: float = 0.0,
    groups: Sequence[Hashable] | None = None,
    alpha: float = 0.03,
    scale: Scale = UNIT,
    weight: Weight = "case",
) -> Futility:
    """Whether continuing to the planned number of cases is futile. This is advice: continuing stays valid.

    >>> futility([1] * 40 + [0] * 280 + [-1] * 40, planned=500).stop
    True
    >>> futility([1] * 60 + [0] * 280 + [-1] * 40, planned=500).stop
    False
    """
    values = unit_differences(differences, scale)
    n, planned = len(values), integer(planned, "planned", least=1)
    units = units_of(values, groups, weight)
    if len(units) < 2 or n >= planned:
        return Futility(False, 1.0)
    chance = _chance_of_decision(units, n, planned, unit_margin(margin, scale), share(alpha, "alpha"))
    return Futility(n >= max(FUTILITY_CASES, planned / 5) and chance < FUTILE, chance)


def _chance_of_decision(units: Units, n: int, planned: int, margin: float, alpha: float) -> float:
    """The chance, predicted from the first n cases, that the final interval is above `-margin` or below zero."""
    remaining, mean, sd = planned - n, units.estimate, spread(units, n)
    z = NORMAL.inv_cdf(1 - alpha / 2)
    if sd < 1e-12:
        if mean or margin:
            return 1.0
        centre = scaled_margin = 0.0
    else:
        centre, scaled_margin = planned * mean / (sd * math.sqrt(planned)), planned * margin / (sd * math.sqrt(planned))
    error = math.sqrt((remaining + remaining * remaining / n) / planned)
    above = NORMAL.cdf((centre - (z - scaled_margin)) / error)
    below = NORMAL.cdf((-z - centre) / error)
    return min(1.0, above + below)
