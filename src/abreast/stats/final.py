"""The interval at the planned number of cases: by the method that suits the differences."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

import numpy as np

from abreast.stats.intervals import Estimate, bonett_price, paired_t, standard_error
from abreast.stats.sequence import confidence_sequence
from abreast.stats.significance import mcnemar
from abreast.stats.values import UNIT, Floats, Numbers, Scale, share, unit_differences, width

INFORMATIVE = 10  # with fewer cases that differ, no formula for large samples can be trusted
GROUPS = 5  # with fewer, the spread between groups is not known


def final_interval(
    differences: Numbers,
    level: float = 0.97,
    groups: Sequence[Hashable] | None = None,
    scale: Scale = UNIT,
) -> Estimate:
    """The interval of the mean difference, at a number of cases that was fixed beforehand.

    Wins, ties and losses: Bonett and Price's interval and McNemar's mid-p. Other scores, or means over repeats: paired
    t. Groups: t by the clustered error. Fewer than 10 cases that differ, fewer than 5 groups, or no spread at all: one
    look of the confidence sequence, which needs no large sample.

    >>> found = final_interval([1] * 15 + [0] * 30 + [-1] * 5, level=0.95)
    >>> found.method, round(found.low, 6), round(found.high, 6), round(found.p, 7)
    ('Bonett–Price, McNemar mid-p', 0.023422, 0.361194, 0.0266037)
    >>> final_interval([0.5, 0.25, -0.5, 0.0] * 20).method
    'paired t'
    >>> final_interval([1, 0, 0, 1]).method
    'confidence sequence'
    """
    values = unit_differences(differences, scale)
    found = _interval(values, share(level, "level"), groups)
    wide = width(scale)
    return replace(found, estimate=found.estimate * wide, low=found.low * wide, high=found.high * wide)


def _interval(values: Floats, level: float, groups: Sequence[Hashable] | None) -> Estimate:
    if not _large_enough(values, groups):
        look = confidence_sequence(values, 1 - level, groups=groups)
        return Estimate(float(values.mean()), look.low, look.high, level, look.p, look.method)
    if groups is None and np.isin(values, (-1.0, 0.0, 1.0)).all():
        wins, losses = int((values > 0).sum()), int((values < 0).sum())
        found = bonett_price(wins, losses, len(values), level)
        p = mcnemar(wins, losses).p
        return Estimate(found.estimate, found.low, found.high, level, p, "Bonett–Price, McNemar mid-p")
    found = paired_t(values, level, groups)
    return replace(found, low=max(-1.0, found.low), high=min(1.0, found.high))


def _large_enough(values: Floats, groups: Sequence[Hashable] | None) -> bool:
    """Whether a formula for large samples may speak."""
    if int(np.count_nonzero(values)) < INFORMATIVE or (groups is not None and len(set(groups)) < GROUPS):
        return False
    binary = groups is None and bool(np.isin(values, (-1.0, 0.0, 1.0)).all())
    return binary or standard_error(values, groups)[0] > 1e-12
