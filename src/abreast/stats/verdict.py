"""The verdict on one variant against the baseline."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from abreast.stats.intervals import Interval, Numbers, paired_t

INFORMATIVE = 10  # with fewer cases that differ, no interval can be trusted

GROUPS = 5  # with fewer, the spread between groups is not known

Word = Literal["better", "worse", "inconclusive"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """One word, the interval behind it, and why if it is not decided."""

    word: Word
    interval: Interval | None
    wins: int
    losses: int
    ties: int
    reason: str = ""


def verdict(differences: Numbers, level: float = 0.95, groups: Sequence[Hashable] | None = None) -> Verdict:
    """Is the mean difference above zero, below it, or not known?

    >>> verdict([1.0] * 20 + [0.0] * 30 + [-1.0] * 4).word
    'better'
    >>> verdict([1.0, 0.0, 1.0]).reason
    'too few informative cases: 2 of 3 differ, at least 10 are needed'
    """
    values = np.asarray(differences, dtype=float)
    wins, losses = int((values > 0).sum()), int((values < 0).sum())
    ties = len(values) - wins - losses
    interval = paired_t(values, level, groups) if _can_estimate(values, groups) else None
    if wins + losses < INFORMATIVE or interval is None:
        reason = (
            f"too few informative cases: {wins + losses} of {len(values)} differ, at least {INFORMATIVE} are needed"
        )
        return Verdict("inconclusive", interval, wins, losses, ties, reason)
    if groups is not None and len(set(groups)) < GROUPS:
        reason = f"too few groups: {len(set(groups))}, at least {GROUPS} are needed"
        return Verdict("inconclusive", interval, wins, losses, ties, reason)
    word: Word = "better" if interval.low > 0 else "worse" if interval.high < 0 else "inconclusive"
    return Verdict(word, interval, wins, losses, ties)


def _can_estimate(values: Numbers, groups: Sequence[Hashable] | None) -> bool:
    return len(values) >= 2 and (groups is None or len(set(groups)) >= 2)
