"""Cost per correct answer."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from abreast.stats.intervals.proportions import Interval, wilson_bounds
from abreast.stats.intervals.units import degrees_of_freedom
from abreast.stats.numerics.arrays import ROUNDING, Floats, Numbers, exponential, group_index, numbers, share
from abreast.stats.numerics.student import quantile_t

MODERATE_SKEWNESS = 0.2  # above this skewness over √n, a t interval misses the truth too often
HARDLY_VARYING = 0.1  # the standard deviation of costs over their mean

Bounds = tuple[float, float]


@dataclass(frozen=True, slots=True)
class CostPerCorrect:
    """Cost per correct answer with A and with B, and B's cost as a multiple of A's; None if that is undefined."""

    a: Interval
    b: Interval
    ratio: Interval | None


def cost_per_correct(
    cost_a: Numbers,
    correct_a: Numbers,
    cost_b: Numbers,
    correct_b: Numbers,
    level: float = 0.95,
    groups: Sequence[Hashable] | None = None,
) -> CostPerCorrect:
    """Cost per correct answer of two variants on the same cases: a cost and a score in [0, 1] per case and variant.

    The interval of one price is Fieller's, that of the ratio is t on the linearised logarithm. Where a mean is too
    skewed for t (few wrong answers, a few expensive cases), or costs hardly vary, Wilson's bounds of the accuracy and
    the interval of the mean cost, corrected for skewness, are combined. Every case weighs the same; cases of one group
    count as dependent.

    >>> price = cost_per_correct([1, 2, 1, 2, 1, 1], [1, 1, 0, 1, 1, 1], [1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 1])
    >>> round(price.a.estimate, 2), round(price.b.estimate, 2), round(price.ratio.estimate, 2)
    (1.6, 1.2, 0.75)
    >>> always_correct = cost_per_correct([2] * 20, [1] * 20, [2] * 20, [1] * 20).a
    >>> always_correct.low, round(always_correct.high, 3)
    (2.0, 2.384)
    >>> cost_per_correct([1, 1], [0, 0], [1, 1], [1, 0]).a.estimate
    inf
    """
    share(level, "level")
    a, b = _columns(cost_a, correct_a, "a"), _columns(cost_b, correct_b, "b")
    if a.shape != b.shape:
        raise ValueError(f"costs must be of the same cases, got {a.shape[1]} and {b.shape[1]}")
    if groups is not None and len(groups) != a.shape[1]:
        raise ValueError(f"a group for each case is needed, got {len(groups)} groups and {a.shape[1]} cases")
    return CostPerCorrect(_price(a, level, groups), _price(b, level, groups), _ratio(a, b, level, groups))


def _columns(cost: Numbers, correct: Numbers, name: str) -> Floats:
    costs, corrects = numbers(cost, f"costs of {name}"), numbers(correct, f"scores of {name}")
    if len(costs) != len(corrects):
        raise ValueError(f"{name} must have a cost and a score for each case, got {len(costs)} and {len(corrects)}")
    if (costs < 0).any():
        raise ValueError(f"costs of {name} must be at least 0, got {float(costs.min())!r}")
    if (corrects < 0).any() or (corrects > 1).any():
        raise ValueError(
            f"scores of {name} must lie in [0, 1], got {float(corrects.min())!r} … {float(corrects.max())!r}"
        )
    return np.array([costs, corrects])


def _price(arm: Floats, level: float, groups: Sequence[Hashable] | None) -> Interval:
    cost, correct = (float(mean) for mean in arm.mean(axis=1))
    if correct == 0:
        return Interval(math.inf, 0.0, math.inf, level)
    price = cost / correct
    if cost == 0:
        return Interval(0.0, 0.0, 0.0, level)
    if _independent(arm, groups) < 2:
        return Interval(price, 0.0, math.inf, level)
    means = relative_means(arm, groups)
    low, high = _fieller(means, level)
    if not _suits_t(means):
        combined = _combined(means, np.array([1, -1]), level)
        low, high = min(low, combined[0]), max(high, combined[1])
    return Interval(price, price * low, price * high, level)


def _ratio(a: Floats, b: Floats, level: float, groups: Sequence[Hashable] | None) -> Interval | None:
    """B's price over A's."""
    prices = [math.inf if not correct.any() else float(cost.mean() / correct.mean()) for cost, correct in (a, b)]
    if prices[0] == prices[1] and prices[0] in (0.0, math.inf):
        return None
    if prices[0] in (0.0, math.inf) or prices[1] in (0.0, math.inf):
        return Interval(0.0 if prices[1] == 0 or prices[0] == math.inf else math.inf, 0.0, math.inf, level)
    ratio = prices[1] / prices[0]
    if _independent(a, groups) < 2:
        return Interval(ratio, 0.0, math.inf, level)
    low, high = _combined(relative_means(np.concatenate([b, a]), groups), np.array([1, -1, -1, 1]), level)
    return Interval(ratio, ratio * low, ratio * high, level)


def _independent(arm: Floats, groups: Sequence[Hashable] | None) -> int:
    return arm.shape[1] if groups is None else len(set(groups))


def _suits_t(means: RelativeMeans) -> bool:
    """Whether every mean is close enough to normal, and costs vary enough to smooth the steps of the accuracy."""
    spread = means.naive_errors[::2] * math.sqrt(means.cases)  # costs are the even columns
    skewness = np.abs(means.skewness) / math.sqrt(means.groups)  # nan, hence too much, without spread
    return bool((spread >= HARDLY_VARYING).all() and (skewness < MODERATE_SKEWNESS).all())


def _fieller(means: RelativeMeans, level: float) -> Bounds:
    """Fieller's bounds of a price, as multiples of it; the upper one is infinite if the accuracy may be 0."""
    square = quantile_t(0.5 + level / 2, means.degrees) ** 2
    ((cc, ck), (_, kk)) = means.covariance
    # The set of ratios r with a·r² − 2·b·r + c ≤ 0.
    a, b, c = 1 - square * kk, 1 - square * ck, 1 - square * cc
    root = math.sqrt(max(0.0, b * b - a * c))
    if a > 0:
        return float(max(0.0, (b - root) / a)), float((b + root) / a)
    low = (b - root) / a if a < 0 and c > 0 else 0.0
    return float(max(0.0, low)), math.inf


def _combined(means: RelativeMeans, exponents: Floats, level: float) -> Bounds:
    """Bounds of a product of powers of means, as multiples of it.

    The distance from each mean to its own bound, on a log scale, counts as its error, and these errors are added as
    correlated errors are (Zou and Donner's method). With distances of t standard errors this is the delta method.
    """
    below, above = _distances(means, level)
    errors = means.errors
    scale = np.where(errors > 0, errors, 1.0) * exponents
    correlation = means.covariance / np.outer(scale, scale)
    np.fill_diagonal(correlation, 1.0)
    down, up = np.where(exponents > 0, [below, above], [above, below])
    return exponential(-_norm(down, correlation)), exponential(_norm(up, correlation))


def _norm(distances: Floats, correlation: Floats) -> float:
    if np.isinf(distances).any():
        return math.inf
    return math.sqrt(max(0.0, float(distances @ correlation @ distances)))


def _distances(means: RelativeMeans, level: float) -> tuple[Floats, Floats]:
    """Distances of each mean to its own lower and upper bound, on a log scale."""
    t = quantile_t(0.5 + level / 2, means.degrees)
    below = t * means.errors
    above = below.copy()
    if _suits_t(means):
        return below, above
    for column in range(0, len(below), 2):
        shift = means.errors[column] * _skewness_shift(means, column, level)
        below[column] += max(0.0, -shift)
        above[column] += max(0.0, shift)
    for column in range(1, len(below), 2):
        mean = float(means.means[column])
        low, high = wilson_bounds(mean, _effective_size(means, column, t, level), level)
        below[column] = max(below[column], math.log(mean / low) if low else math.inf)
        above[column] = max(math.log(high / mean), min(above[column], -math.log(mean)))
    return below, above


def _skewness_shift(means: RelativeMeans, column: int, level: float) -> float:
    """Shift of the bounds of a mean by skewness, in standard errors (Johnson's and Hall's correction)."""
    if math.isnan(means.skewness[column]):
        return 0.0
    t = quantile_t(0.5 + level / 2, means.groups - 1)
    return float(means.skewness[column]) * (2 * t * t + 1) / (6 * math.sqrt(means.groups))


def _effective_size(means: RelativeMeans, column: int, t: float, level: float) -> float:
    """The number of independent cases with the same information about an accuracy (Korn and Graubard)."""
    naive = float(means.naive_errors[column])
    if naive == 0:  # the correlation within groups is unknown: count each group once
        return means.groups
    design_effect = max(1.0, (float(means.errors[column]) / naive) ** 2)
    return means.cases / design_effect * (quantile_t(0.5 + level / 2, means.cases - 1) / t) ** 2


@dataclass(frozen=True, slots=True)
class RelativeMeans:
    """Means of positive columns over the same cases; errors and covariances as shares of these means."""

    means: Floats
    covariance: Floats
    naive_errors: Floats  # standard errors if the cases were independent
    skewness: Floats  # skewness of the group totals; nan for a column without spread
    degrees: float  # degrees of freedom of the standard errors
    cases: int
    groups: int

    @property
    def errors(self) -> Floats:
        return np.sqrt(np.diagonal(self.covariance))


def relative_means(columns: Floats, groups: Sequence[Hashable] | None = None) -> RelativeMeans:
    """Means over cases with their CR2 covariance and Bell and McCaffrey's degrees of freedom.

    Every case weighs the same, however unequal the groups are. Cases without groups are groups of one; then this is
    the usual covariance with n − 1 degrees. `columns` has a row per column; at least two groups are needed.
    """
    cases = columns.shape[1]
    index, count = (np.arange(cases), cases) if groups is None else group_index(groups, cases)
    if count < 2:
        raise ValueError(f"at least two groups are needed, got {count}")
    means = columns.mean(axis=1)
    residuals = columns / means[:, None] - 1
    residuals[np.abs(residuals) < ROUNDING] = 0.0
    sizes = np.asarray(np.bincount(index), dtype=float)
    totals = np.array([np.bincount(index, weights=row) for row in residuals])
    totals[np.abs(totals) < ROUNDING] = 0.0
    return RelativeMeans(
        means=means,
        covariance=(totals / (1 - sizes / cases)) @ totals.T / cases**2,
        naive_errors=residuals.std(axis=1, ddof=1) / math.sqrt(cases),
        skewness=np.array([_skewness(row) for row in totals]),
        degrees=degrees_of_freedom(sizes),
        cases=cases,
        groups=count,
    )


def _skewness(totals: Floats) -> float:
    count, centred = len(totals), totals - totals.mean()
    variance = float((centred**2).mean())
    if count < 3 or variance == 0:
        return math.nan
    return float((centred**3).mean() / variance**1.5 * math.sqrt(count * (count - 1)) / (count - 2))
