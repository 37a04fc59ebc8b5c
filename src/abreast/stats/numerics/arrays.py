"""Conversion and validation of arguments. Invalid ones raise `ValueError` with the value in the message."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Numbers = Sequence[float] | npt.NDArray[np.generic]
Scale = tuple[float, float]

UNIT: Scale = (0.0, 1.0)
ROUNDING = 1e-9  # rounding error of differences of averaged scores


def numbers(values: Numbers, name: str = "differences", least: int = 1) -> Floats:
    """The values as a flat array of at least `least` finite numbers."""
    try:
        array = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be numbers, got {values!r}") from None
    if array.ndim != 1:
        raise ValueError(f"{name} must be a flat list of numbers, got {array.ndim} dimensions")
    if len(array) < least:
        raise ValueError(f"{name}: at least {least} needed, got {len(array) or 'none'}")
    finite = np.isfinite(array)
    if not finite.all():
        at = int(np.argmin(finite))
        raise ValueError(f"{name} must be finite numbers, got {array[at]} at index {at}")
    return array


def unit_differences(values: Numbers, scale: Scale = UNIT, least: int = 1) -> Floats:
    """Differences of scores that lie in `scale`, as shares of its width: numbers in [−1, 1]."""
    differences = numbers(values, least=least) / width(scale)
    outside = np.abs(differences) > 1 + ROUNDING
    if outside.any():
        at = int(np.argmax(outside))
        raise ValueError(
            f"differences of scores in [{scale[0]:g}, {scale[1]:g}] lie within ±{width(scale):g}, got "
            f"{differences[at] * width(scale):g} at index {at}; for scores in another range pass scale=(low, high)"
        )
    return np.clip(differences, -1.0, 1.0)


def width(scale: Scale) -> float:
    """The width of a score range."""
    low, high = float(scale[0]), float(scale[1])
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(f"scale must be (low, high) with low < high, got ({low:g}, {high:g})")
    return high - low


def integer(value: float, name: str, least: int = 0) -> int:
    """The value as an int, if it is an integer of at least `least`."""
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or int(value) != value or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}")
    return int(value)


def share(value: float, name: str) -> float:
    """The value as a float, if it is strictly between 0 and 1."""
    if not 0 < value < 1:
        raise ValueError(f"{name} must lie between 0 and 1, got {value!r}")
    return float(value)


def exponential(value: float) -> float:
    """The exponential function; infinity where the result is too large for a float."""
    return math.exp(value) if value < 709 else math.inf


def unit_margin(margin: float, scale: Scale) -> float:
    """A margin as a share of the scale's width."""
    relative = float(margin) / width(scale)
    if not 0 <= relative < 1:
        raise ValueError(f"margin must be at least 0 and less than {width(scale):g}, got {margin!r}")
    return relative


def group_index(groups: Sequence[Hashable], length: int) -> tuple[npt.NDArray[np.int64], int]:
    """The index of each case's group, in order of appearance, and the number of groups."""
    if len(groups) != length:
        raise ValueError(f"as many groups as differences are needed, got {len(groups)} and {length}")
    indexes: dict[Hashable, int] = {}
    index = np.array([indexes.setdefault(group, len(indexes)) for group in groups], dtype=np.int64)
    return index, len(indexes)


def distinct(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The distinct values in order. Without counts, `np.unique` imports `numpy.ma`, which takes 20 ms."""
    return np.unique(values, return_counts=True)[0]


def median(values: Floats) -> float:
    """The median; nan if there is none or a value is nan. `np.median` imports `numpy.ma`."""
    ordered = np.sort(values)
    half = len(ordered) // 2
    if not len(ordered) or math.isnan(ordered[-1]):
        return math.nan
    return float(ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2)
