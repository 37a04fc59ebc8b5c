"""The interval at the planned number of cases, by the method that suits the differences."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

import numpy as np

from abreast.stats.intervals.bounded import gaffke, suits_gaffke
from abreast.stats.intervals.proportions import Estimate, bonett_price, paired_t
from abreast.stats.intervals.sequence import confidence_sequence
from abreast.stats.intervals.units import Units, Weight, units_of
from abreast.stats.numerics.arrays import UNIT, Floats, Numbers, Scale, share, unit_differences, width

INFORMATIVE = 10  # with fewer cases that differ, large-sample formulas cannot be trusted
GROUPS = 5  # with fewer groups, the spread between them is unknown
T_CASES = 60  # with fewer cases, t is used only for yes-or-no scores
SKEWNESS_UNITS = 25  # t needs more units than this times the square of their skewness (Cochran's rule)


def final_interval(
    differences: Numbers,
    level: float = 0.97,
    groups: Sequence[Hashable] | None = None,
    scale: Scale = UNIT,
    *,
    weight: Weight = "case",
    largest: int = 1,
) -> Estimate:
    """The interval of the mean difference, at a number of cases that was fixed beforehand.

    - Wins, ties and losses, with ten or more cases that differ: Bonett and Price's interval.
    - Other scores, means over repeats, groups of cases: Student's t (`paired_t`), where the sample is large and
      symmetric enough for it.
    - Everything else: Gaffke's, which holds for small samples of any shape; for groups of unequal size, one look of the
      confidence sequence.

    >>> interval = final_interval([1] * 15 + [0] * 30 + [-1] * 5, level=0.95)
    >>> interval.method, round(interval.low, 6), round(interval.high, 6)
    ('Bonett–Price', 0.023422, 0.361194)
    >>> final_interval([0.5, 0.25, -0.5, 0.0] * 20).method
    'paired t'
    >>> final_interval([1] * 9 + [0] * 31).method, final_interval([0.5, 0.25, -0.5, 0.0] * 10).method
    ('Gaffke', 'Gaffke')
    """
    values = unit_differences(differences, scale)
    share(level, "level")
    return _interval(values, level, groups, weight, largest).times(width(scale))


def _interval(
    values: Floats, level: float, groups: Sequence[Hashable] | None, weight: Weight, largest: int
) -> Estimate:
    units = units_of(values, groups, weight)
    is_binary = bool(np.isin(values, (-1.0, 0.0, 1.0)).all())
    wins, losses = int((values > 0).sum()), int((values < 0).sum())
    if is_binary and len(units) == len(values) and wins + losses >= INFORMATIVE:
        return bonett_price(wins, losses, len(values), level)
    if (is_binary or len(values) >= T_CASES) and _suits_t(values, units):
        interval = paired_t(values, level, groups, weight)
        return replace(interval, low=max(-1.0, interval.low), high=min(1.0, interval.high))
    if np.ptp(units.sizes) == 0 and suits_gaffke(units.means):
        return gaffke(units.means, level)
    look = confidence_sequence(values, 1 - level, groups=groups, weight=weight, largest=largest)
    return Estimate(
        estimate=look.estimate, low=look.low, high=look.high, level=look.level, p=look.p, method=look.method
    )


def _suits_t(values: Floats, units: Units) -> bool:
    if int(np.count_nonzero(values)) < INFORMATIVE or len(units) < GROUPS or units.standard_error()[0] < 1e-12:
        return False
    if len(units) < SKEWNESS_UNITS:
        return True
    means = units.means  # tested also with an extreme value added, which the sample may have missed by chance
    return not any(map(_is_skewed, (means, np.append(means, -1.0), np.append(means, 1.0))))


def _is_skewed(values: Floats) -> bool:
    """Whether t is invalid for this sample (Cochran's rule)."""
    return len(values) <= SKEWNESS_UNITS * _skewness(values) ** 2


def _skewness(values: Floats) -> float:
    deviations = values - values.mean()
    variance = float((deviations**2).mean())
    return float((deviations**3).mean()) / variance**1.5 if variance > 1e-24 else 0.0
