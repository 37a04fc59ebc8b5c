"""Summary statistics and histograms of columns. Missing values are counted, and otherwise left out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import comb
from types import UnionType
from typing import Any

import numpy as np

from abreast.stats.numerics.arrays import Floats, integer

MOST_BINS = 200


@dataclass(frozen=True, slots=True)
class Summary:
    """Summary statistics of a column, with `count` values and `nulls`; numeric ones are None for other columns."""

    count: int
    nulls: int
    distinct: int
    min: Any = None
    mean: float | None = None
    p50: float | None = None
    p95: float | None = None
    max: Any = None
    std: float | None = None


@dataclass(frozen=True, slots=True)
class Bin:
    """The values in [low, high); the last bin includes `high`."""

    low: float
    high: float
    count: int


def summarise(values: Sequence[Any]) -> Summary:
    """Summarise a column.

    >>> summary = summarise([1, 2, 3, None])
    >>> summary.count, summary.nulls, summary.distinct, summary.mean, summary.max
    (3, 1, 3, 2.0, 3)
    >>> summarise(["b", "a", "b"]).distinct, summarise(["b", "a"]).min
    (2, 'a')
    """
    present = [value for value in values if value is not None]
    numbers = as_numbers(present)
    plain = numbers is not None or _all_are(present, str)
    counts = len(present), len(values) - len(present), len(set(present if plain else map(repr, present)))
    if not present:
        return Summary(*counts)
    if numbers is None:
        return Summary(*counts, min=min(present), max=max(present)) if plain else Summary(*counts)
    low, high = present[int(numbers.argmin())], present[int(numbers.argmax())]
    p50, p95 = (float(value) for value in np.quantile(numbers, (0.5, 0.95), method="inverted_cdf"))
    with np.errstate(invalid="ignore", over="ignore"):
        mean, std = float(numbers.mean()), float(numbers.std(ddof=1)) if len(numbers) > 1 else None
    return Summary(*counts, low, mean, p50, p95, high, std)


def as_numbers(values: Sequence[Any]) -> Floats | None:
    """Convert the values to numbers, booleans to 0 and 1; None if a value is not a number."""
    if not _all_are(values, int | float):
        return None
    try:
        return np.array(values, dtype=float)
    except OverflowError:
        return None


def _all_are(values: Sequence[Any], kinds: type | UnionType) -> bool:
    return all(issubclass(kind, kinds) for kind in set(map(type, values)))


def _hashable(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bytes) else repr(value)


def histogram(values: Sequence[float], bins: int) -> list[Bin]:
    """Count values in bins; integers in a small range, or few distinct ones, have a bin each.

    >>> [bin.count for bin in histogram([1, 1, 2, 4], 10)]
    [2, 1, 0, 1]
    >>> histogram([8, 64, 64], 10)
    [Bin(low=8.0, high=8.0, count=1), Bin(low=64.0, high=64.0, count=2)]
    """
    numbers = np.array([value for value in values if math.isfinite(value)], dtype=float)
    if not len(numbers):
        return []
    low, high = float(numbers.min()), float(numbers.max())
    if low == high or not math.isfinite(high - low):
        return [Bin(low, high, len(numbers))]
    if bool(np.all(numbers == np.round(numbers))):
        if high - low < bins:
            offsets = np.round(numbers - low).astype(int)
            return [Bin(low + at, low + at, int(count)) for at, count in enumerate(np.bincount(offsets))]
        distinct, counts = np.unique(numbers, return_counts=True)
        if len(distinct) <= bins:
            return [Bin(float(value), float(value), int(count)) for value, count in zip(distinct, counts, strict=True)]
    counts, edges = np.histogram(numbers, bins=bins)
    return [Bin(float(edges[at]), float(edges[at + 1]), int(count)) for at, count in enumerate(counts)]


def mean_by(keys: Sequence[Any], values: Sequence[float | None]) -> list[tuple[Any, int, float | None]]:
    """For each key, in order of appearance: the number of rows, and the mean of the values that are not None."""
    by_key: dict[Any, tuple[Any, int, list[float]]] = {}
    for key, value in zip(keys, values, strict=True):
        first, count, numbers = by_key.setdefault(_hashable(key), (key, 0, []))
        if value is not None:
            numbers.append(value)
        by_key[_hashable(key)] = (first, count + 1, numbers)
    return [
        (key, count, math.fsum(numbers) / len(numbers) if numbers else None) for key, count, numbers in by_key.values()
    ]


def pass_at_k(n: int, c: int, k: int) -> float:
    """The chance that at least one of k tries succeeds, estimated from c successes in n repeats.

    >>> round(pass_at_k(10, 3, 5), 6)
    0.916667
    """
    n, c, k = _counts(n, c, k)
    return float(1 - Fraction(comb(n - c, k), comb(n, k)))


def pass_hat_k(n: int, c: int, k: int) -> float:
    """The chance that all of k tries succeed (pass^k), estimated from c successes in n repeats.

    >>> round(pass_hat_k(10, 8, 3), 6)
    0.466667
    """
    n, c, k = _counts(n, c, k)
    return float(Fraction(comb(c, k), comb(n, k)))


def _counts(n: int, c: int, k: int) -> tuple[int, int, int]:
    n, c, k = integer(n, "n", least=1), integer(c, "c"), integer(k, "k", least=1)
    if c > n or k > n:
        raise ValueError(f"c and k cannot be more than n, got n={n}, c={c}, k={k}")
    return n, c, k
