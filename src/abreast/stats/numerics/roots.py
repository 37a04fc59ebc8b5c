"""Roots of functions. scipy has them too, but takes half a second to import."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import NamedTuple

STEPS = 200  # more than bisection alone needs


class Point(NamedTuple):
    """An argument of the function and its value there."""

    x: float
    y: float


def find_root(function: Callable[[float], float], low: float, high: float, tolerance: float) -> float:
    """Find where a function changes its sign, by Brent's method.

    >>> round(find_root(lambda x: x * x - 2, 0, 2, 1e-12), 10)
    1.4142135624
    """
    last, best = Point(low, function(low)), Point(high, function(high))
    if last.y and best.y and not _are_opposed(last, best):
        raise ValueError(f"the function has the same sign at {low} and {high}")
    opposite = last  # the root lies between `best` and this point
    step = step_before = best.x - last.x
    for _ in range(STEPS):
        if _are_opposed(last, best):
            opposite, step, step_before = last, best.x - last.x, best.x - last.x
        if abs(opposite.y) < abs(best.y):
            last, best, opposite = best, opposite, best
        smallest = tolerance / 2 + 2 * sys.float_info.epsilon * abs(best.x)
        half = (opposite.x - best.x) / 2
        if best.y == 0 or abs(half) < smallest:
            break
        guess = half
        if abs(step_before) > smallest and abs(best.y) < abs(last.y):
            guess = _interpolate(last, best, opposite)
        if 2 * abs(guess) < min(abs(step_before), 3 * abs(half) - smallest):
            step_before, step = step, guess
        else:
            step = step_before = half
        last, x = best, best.x + (step if abs(step) > smallest else math.copysign(smallest, half))
        best = Point(x, function(x))
    return best.x


def _are_opposed(first: Point, second: Point) -> bool:
    """Whether the values have opposite signs; the product of tiny ones would be 0."""
    return first.y < 0 < second.y or second.y < 0 < first.y


def _interpolate(last: Point, best: Point, opposite: Point) -> float:
    """The step from `best` to the root of the secant, or of the inverse parabola through three points."""
    slope = (last.y - best.y) / (last.x - best.x)
    if last.x == opposite.x:
        return -best.y / slope
    chord = (opposite.y - best.y) / (opposite.x - best.x)
    return -best.y * (opposite.y * chord - last.y * slope) / (chord * slope * (opposite.y - last.y))
