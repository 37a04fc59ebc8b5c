"""Latency of two contenders on the same cases, as a ratio."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from abreast.stats.intervals.proportions import Interval, paired_t
from abreast.stats.intervals.units import units_of
from abreast.stats.numerics.arrays import Floats, Numbers, exponential, median, numbers, share
from abreast.stats.numerics.student import NORMAL

EXACT_RANKS = 100  # up to this many pairs, the distribution of signed ranks is counted; beyond, it is nearly normal
ALL_PAIRS = 1500  # up to this many values, all pairwise averages are listed


@dataclass(frozen=True, slots=True)
class LatencyRatio(Interval):
    """Time of B as a multiple of the time of A on the same case, and the times of each."""

    median_a: float = math.nan
    median_b: float = math.nan
    p95_a: float = math.nan
    p95_b: float = math.nan
    n: int = 0


def latency_ratio(
    a: Numbers, b: Numbers, level: float = 0.95, groups: Sequence[Hashable] | None = None
) -> LatencyRatio:
    """B's time over A's per case: Hodges and Lehmann's estimate on log(B/A), with Wilcoxon's interval.

    With fewer than 6 cases the 95 % interval is 0 to infinity. With groups of several cases, the estimate is the
    geometric mean of the groups' geometric mean ratios, with t on their logarithms; every group weighs the same.

    >>> ratio = latency_ratio([1.2, 0.8, 3.4, 2.2, 10.5, 0.9, 1.7, 4.1], [1.0, 0.9, 2.1, 1.6, 6.3, 0.7, 1.5, 4.6])
    >>> round(ratio.estimate, 6), round(ratio.low, 6), round(ratio.high, 6)
    (0.821027, 0.660578, 0.996317)
    >>> ratio = latency_ratio([1, 1, 1, 1, 1], [2, 2, 4, 4, 1], groups=["x", "x", "y", "y", "z"])
    >>> round(ratio.estimate, 6), round(ratio.low, 3), round(ratio.high, 3)
    (2.0, 0.357, 11.19)
    """
    first, second = numbers(a, "latencies of a"), numbers(b, "latencies of b")
    if len(first) != len(second):
        raise ValueError(f"latencies must be of the same cases, got {len(first)} and {len(second)}")
    if (first <= 0).any() or (second <= 0).any():
        raise ValueError(f"latencies must be above 0, got {float(min(first.min(), second.min()))!r}")
    share(level, "level")
    logs = np.log(second / first)
    means = units_of(logs, groups, "group").means
    estimate, low, high = _wilcoxon(logs, level) if len(means) == len(logs) else _student(means, level)
    return LatencyRatio(
        estimate=exponential(estimate),
        low=exponential(low),
        high=exponential(high),
        level=level,
        median_a=median(first),
        median_b=median(second),
        p95_a=_p95(first),
        p95_b=_p95(second),
        n=len(logs),
    )


def _wilcoxon(logs: Floats, level: float) -> tuple[float, float, float]:
    """Hodges and Lehmann's estimate and the bounds of Wilcoxon's interval."""
    ordered, n = np.sort(logs), len(logs)
    pairs = n * (n + 1) // 2
    outside = _averages_outside(n, (1 - level) / 2)
    middle = [(pairs + 1) // 2, (pairs + 2) // 2]
    if not outside:
        first, second = _ordered_averages(ordered, middle)
        return (first + second) / 2, -math.inf, math.inf
    first, second, low, high = _ordered_averages(ordered, [*middle, outside, pairs + 1 - outside])
    return (first + second) / 2, low, high


def _student(means: Floats, level: float) -> tuple[float, float, float]:
    """The mean of the group means and the bounds of its t interval."""
    if len(means) < 2:
        return float(means[0]), -math.inf, math.inf
    interval = paired_t(means, level)
    return interval.estimate, interval.low, interval.high


def _p95(values: Floats) -> float:
    return float(np.quantile(values, 0.95, method="inverted_cdf"))


@lru_cache(maxsize=64)
def _averages_outside(n: int, tail: float) -> int:
    """The rank of the pairwise average that bounds the interval; 0 if n pairs are too few for this tail."""
    pairs = n * (n + 1) // 2
    if n > EXACT_RANKS:
        return math.floor(pairs / 2 + 0.5 + NORMAL.inv_cdf(tail) * math.sqrt(n * (n + 1) * (2 * n + 1) / 24))
    chances = np.ones(1)  # chance of each sum of the positive ranks
    for rank in range(1, n + 1):
        longer = np.zeros(len(chances) + rank)
        longer[: len(chances)] += chances / 2
        longer[rank:] += chances / 2
        chances = longer
    return int((np.cumsum(chances) <= tail).sum())


def _ordered_averages(values: Floats, ranks: list[int]) -> list[float]:
    """The averages of all pairs of sorted values, each with itself included, that have these ranks."""
    if len(values) <= ALL_PAIRS:
        first, second = np.triu_indices(len(values))
        averages = (values[first] + values[second]) / 2
        averages.partition([rank - 1 for rank in ranks])
        return [float(averages[rank - 1]) for rank in ranks]
    return [_average_of_rank(values, rank) for rank in ranks]


def _average_of_rank(values: Floats, rank: int) -> float:
    """Find the average by bisection, counting the pairs below a number instead of listing them.

    Every other step interpolates linearly, which is nearly right for many values; the others halve the range."""
    indexes = np.arange(len(values))

    def count_below(average: float) -> int:
        partners = np.searchsorted(values, 2 * average - values, side="right")
        return int(np.maximum(0, partners - indexes).sum())

    low, high = float(values[0]), float(values[-1])
    under, over = 0, len(values) * (len(values) + 1) // 2
    interpolate = True
    while high - low > 1e-9 * max(1.0, abs(low), abs(high)):
        share = (rank - under) / (over - under) if interpolate else 0.5
        middle = low + (high - low) * min(0.99, max(0.01, share))
        count = count_below(middle)
        if count >= rank:
            high, over = middle, count
        else:
            low, under = middle, count
        interpolate = not interpolate
    return high
