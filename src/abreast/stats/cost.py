"""What a correct answer costs."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from abreast.stats.intervals import Interval
from abreast.stats.student import quantile_t
from abreast.stats.values import Floats, Numbers, numbers, share


@dataclass(frozen=True, slots=True)
class CostPerCorrect:
    """What a correct answer costs with A, with B, and B's price as a multiple of A's; None if that has no meaning."""

    a: Interval
    b: Interval
    ratio: Interval | None


def cost_per_correct(
    cost_a: Numbers, correct_a: Numbers, cost_b: Numbers, correct_b: Numbers, level: float = 0.95
) -> CostPerCorrect:
    """Cost per correct answer, of two contenders on the same cases: a cost and a score in [0, 1] per case and side.

    >>> found = cost_per_correct([1, 2, 1, 2, 1, 1], [1, 1, 0, 1, 1, 1], [1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 1])
    >>> round(found.a.estimate, 2), round(found.b.estimate, 2), round(found.ratio.estimate, 2)
    (1.6, 1.2, 0.75)
    >>> cost_per_correct([1, 1], [0, 0], [1, 1], [1, 0]).a.estimate
    inf
    """
    share(level, "level")
    sides = [_side(cost_a, correct_a, "a"), _side(cost_b, correct_b, "b")]
    (one, right), (other, other_right) = sides
    if len(one) != len(other):
        raise ValueError(f"costs must be of the same cases, got {len(one)} and {len(other)}")
    return CostPerCorrect(
        _fieller(one, right, level), _fieller(other, other_right, level), _ratio(one, right, other, other_right, level)
    )


def _side(cost: Numbers, correct: Numbers, name: str) -> tuple[Floats, Floats]:
    costs, corrects = numbers(cost, f"costs of {name}"), numbers(correct, f"scores of {name}")
    if len(costs) != len(corrects):
        raise ValueError(f"{name} must have a cost and a score for each case, got {len(costs)} and {len(corrects)}")
    if (costs < 0).any():
        raise ValueError(f"costs of {name} must be at least 0, got {float(costs.min())!r}")
    if (corrects < 0).any() or (corrects > 1).any():
        raise ValueError(
            f"scores of {name} must lie in [0, 1], got {float(corrects.min())!r} … {float(corrects.max())!r}"
        )
    return costs, corrects


def _fieller(costs: Floats, corrects: Floats, level: float) -> Interval:
    """The interval of a ratio of means (Fieller's): without an upper end where it may be that nothing is correct."""
    n, cost, correct = len(costs), float(costs.mean()), float(corrects.mean())
    if correct == 0:
        return Interval(math.inf, 0.0, math.inf, level)
    if n < 2:
        return Interval(cost / correct, 0.0, math.inf, level)
    square = quantile_t(0.5 + level / 2, n - 1) ** 2 / n
    ((cc, ck), (_, kk)) = np.cov(costs, corrects)
    # The set of ratios r with a·r² − 2·b·r + c ≤ 0.
    a, b, c = correct**2 - square * kk, cost * correct - square * ck, cost**2 - square * cc
    root = math.sqrt(max(0.0, b * b - a * c))
    if a > 0:
        return Interval(cost / correct, float(max(0.0, (b - root) / a)), float((b + root) / a), level)
    low = (b - root) / a if a < 0 and c > 0 else 0.0
    return Interval(cost / correct, float(max(0.0, low)), math.inf, level)


def _ratio(one: Floats, right: Floats, other: Floats, other_right: Floats, level: float) -> Interval | None:
    """B's price over A's: the logarithm, linearised case by case, with t."""
    prices = [math.inf if not k.any() else float(c.mean() / k.mean()) for c, k in ((one, right), (other, other_right))]
    if prices[0] == prices[1] and prices[0] in (0.0, math.inf):
        return None
    if prices[0] in (0.0, math.inf) or prices[1] in (0.0, math.inf):
        known = 0.0 if prices[1] == 0 or prices[0] == math.inf else math.inf
        return Interval(known, 0.0, math.inf, level)
    estimate, n = prices[1] / prices[0], len(one)
    if n < 2:
        return Interval(estimate, 0.0, math.inf, level)
    pulls = other / other.mean() - other_right / other_right.mean() - one / one.mean() + right / right.mean()
    reach = math.exp(quantile_t(0.5 + level / 2, n - 1) * float(pulls.std(ddof=1)) / math.sqrt(n))
    return Interval(estimate, estimate / reach, estimate * reach, level)
