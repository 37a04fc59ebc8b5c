"""The interval at the planned number of cases, by the method that suits the differences."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

import numpy as np

from abreast.stats.intervals import Estimate, bonett_price, paired_t, t_interval
from abreast.stats.sequence import Look, confidence_sequence
from abreast.stats.significance import mcnemar
from abreast.stats.units import Units, Weight, units_of
from abreast.stats.values import UNIT, Floats, Numbers, Scale, share, unit_differences, width

INFORMATIVE = 10  # with fewer cases that differ, no formula for large samples can be trusted
GROUPS = 5  # with fewer, the spread between groups is unknown
T_CASES = 60  # with fewer, t needs scores that are yes or no
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

    - Wins, ties and losses: Bonett and Price's interval. Below 10 cases that differ: the exact sign test; if it finds
      no direction, one look of the confidence sequence.
    - Other scores, means over repeats, groups of cases: Student's t (`paired_t`), where the sample is large and
      symmetric enough for it. Where a rare, extreme difference would change that, one of each sign is added.
    - Everything else: one look of the confidence sequence, which holds for samples of any size and shape.

    >>> interval = final_interval([1] * 15 + [0] * 30 + [-1] * 5, level=0.95)
    >>> interval.method, round(interval.low, 6), round(interval.high, 6)
    ('Bonett–Price', 0.023422, 0.361194)
    >>> final_interval([1] * 9 + [0] * 31, level=0.95).method
    'exact sign test'
    >>> final_interval([0.5, 0.25, -0.5, 0.0] * 20).method
    'paired t'
    >>> final_interval([0.5, 0.25, -0.5, 0.0] * 10).method
    'confidence sequence'
    """
    values = unit_differences(differences, scale)
    share(level, "level")
    interval = _interval(values, level, groups, weight, largest)
    size = width(scale)
    return replace(interval, estimate=interval.estimate * size, low=interval.low * size, high=interval.high * size)


def _interval(
    values: Floats, level: float, groups: Sequence[Hashable] | None, weight: Weight, largest: int
) -> Estimate:
    units = units_of(values, groups, weight)
    is_binary = bool(np.isin(values, (-1.0, 0.0, 1.0)).all())
    if is_binary and len(units) == len(values):
        wins, losses = int((values > 0).sum()), int((values < 0).sum())
        if wins + losses >= INFORMATIVE:
            return bonett_price(wins, losses, len(values), level)
        look = confidence_sequence(values, 1 - level)
        return _exact_sign_test(wins, losses, look) if wins + losses else _one_look(look)
    if (is_binary or len(values) >= T_CASES) and _suits_t(values, units):
        interval = paired_t(values, level, groups, weight)
        if _may_miss_extremes(units):
            wider = t_interval(units.with_extremes(), level, f"{interval.method}, with extremes added")
            interval = replace(wider, estimate=interval.estimate)
        return replace(interval, low=max(-1.0, interval.low), high=min(1.0, interval.high))
    return _one_look(confidence_sequence(values, 1 - level, groups=groups, weight=weight, largest=largest))


def _suits_t(values: Floats, units: Units) -> bool:
    if int(np.count_nonzero(values)) < INFORMATIVE or len(units) < GROUPS or units.standard_error()[0] < 1e-12:
        return False
    return len(units) < SKEWNESS_UNITS or not _is_skewed(units.means)


def _may_miss_extremes(units: Units) -> bool:
    """Whether a single extreme difference, too rare to be in the sample, would make it too skewed for t."""
    return len(units) >= SKEWNESS_UNITS and any(_is_skewed(np.append(units.means, end)) for end in (-1.0, 1.0))


def _is_skewed(values: Floats) -> bool:
    return len(values) <= SKEWNESS_UNITS * _skewness(values) ** 2


def _skewness(values: Floats) -> float:
    deviations = values - values.mean()
    variance = float((deviations**2).mean())
    return float((deviations**3).mean()) / variance**1.5 if variance > 1e-24 else 0.0


def _exact_sign_test(wins: int, losses: int, look: Look) -> Estimate:
    """Few cases differ: the exact sign test gives the direction.

    If it finds one, the end of the interval near zero inverts the test: Clopper and Pearson's bound on the share of
    wins among the cases that differ, times the share of these cases. The far end also depends on how many cases differ,
    which is uncertain too: it is the sequence's.
    """
    p, level = mcnemar(wins, losses, exact=True).p, look.level
    interval = replace(_one_look(look), p=p, method="exact sign test")
    if p > 1 - level:
        return interval
    from scipy.special import betaincinv  # late: scipy takes a quarter of a second to import

    more, fewer = max(wins, losses), min(wins, losses)
    near = (more + fewer) / look.n * (2 * float(betaincinv(more, fewer + 1, (1 - level) / 2)) - 1)
    return replace(interval, low=near) if wins > losses else replace(interval, high=-near)


def _one_look(look: Look) -> Estimate:
    return Estimate(look.estimate, look.low, look.high, look.level, look.p, look.method)
