"""P values of the hypothesis that pairs do not differ."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from abreast.stats.numerics.arrays import ROUNDING, Floats, Numbers, integer, numbers

EXACT_SIGNS = 16  # up to this many differences, all sign patterns are counted
FLIPS = 10_000
EIGHT_SIGNS = np.where(np.arange(256)[:, None] >> np.arange(8) & 1, 1.0, -1.0)  # a row for each byte


@dataclass(frozen=True, slots=True)
class PValue:
    """The chance of a result at least as clear if there is no difference, and the method."""

    p: float
    method: str


def mcnemar(wins: int, losses: int, exact: bool = False) -> PValue:
    """McNemar's test for scores of 0 and 1: mid-p, or exact, which is conservative.

    >>> round(mcnemar(15, 5).p, 7), round(mcnemar(15, 5, exact=True).p, 7)
    (0.0266037, 0.0413895)
    """
    wins, losses = integer(wins, "wins"), integer(losses, "losses")
    fewer, n = min(wins, losses), wins + losses
    point = math.exp(math.lgamma(n + 1) - math.lgamma(fewer + 1) - math.lgamma(n - fewer + 1) - n * math.log(2))
    below = np.arange(fewer, 0, -1) / np.arange(n - fewer + 1, n + 1)[:fewer]  # ratios of neighbouring probabilities
    tail = point * (1 + float(np.cumprod(below).sum()))
    if exact:
        return PValue(min(1.0, 2 * tail), "McNemar exact")
    return PValue(1.0 if wins == losses else min(1.0, 2 * tail - point), "McNemar mid-p")


def sign_flip(differences: Numbers, flips: int = FLIPS, seed: int = 0) -> PValue:
    """The chance that random signs give a mean at least this far from zero.

    Counts all sign patterns if they are few, else `flips` of them, drawn with a fixed seed.

    >>> sign_flip([0.2, 0.1, 0.4, 0.3, 0.0, 0.2])
    PValue(p=0.0625, method='sign-flip exact')
    >>> round(sign_flip([0.03 * step for step in range(-10, 31)]).p, 4)
    0.0001
    """
    values = numbers(differences)
    sizes = np.abs(values[np.abs(values) > ROUNDING])
    observed = abs(float(values.sum())) - ROUNDING * max(1.0, float(sizes.sum()))
    if not len(sizes):
        return PValue(1.0, "sign-flip exact")
    if float(np.ptp(sizes)) <= ROUNDING:
        return PValue(
            mcnemar(int((values > ROUNDING).sum()), int((values < -ROUNDING).sum()), True).p, "sign-flip exact"
        )
    if len(sizes) <= EXACT_SIGNS:
        return PValue(float((np.abs(_all_sums(sizes)) >= observed).mean()), "sign-flip exact")
    flips = integer(flips, "flips", least=1)
    hits = int((np.abs(_drawn_sums(sizes, flips, seed)) >= observed).sum())
    return PValue((1 + hits) / (1 + flips), f"sign-flip, {flips:,} flips")


def _all_sums(sizes: Floats) -> Floats:
    sums = np.zeros(1)
    for size in sizes:
        sums = np.concatenate([sums + size, sums - size])
    return sums


def _drawn_sums(sizes: Floats, flips: int, seed: int) -> Floats:
    """Sums under random signs: each random byte picks the signs of eight sizes, whose 256 sums are tabulated."""
    random, sums = np.random.default_rng(seed), np.zeros(flips)
    for block in np.append(sizes, np.zeros(-len(sizes) % 8)).reshape(-1, 8):
        sums += (EIGHT_SIGNS @ block).take(random.integers(0, 256, flips, dtype=np.uint8))
    return sums


def holm(ps: Numbers) -> list[float]:
    """Holm's adjustment: if those below α are called decided, the chance of any error among them is at most α.

    >>> [round(p, 3) for p in holm([0.001, 0.011, 0.02, 0.04, 0.3])]
    [0.005, 0.044, 0.06, 0.08, 0.3]
    """
    values = _probabilities(ps)
    order = np.argsort(values, kind="stable")
    raised = np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1))
    return _unsorted(np.minimum(raised, 1.0), order)


def benjamini_hochberg(ps: Numbers) -> list[float]:
    """Benjamini and Hochberg's q values: of the results with a value below q, about a share of q is wrong at most.

    >>> [round(p, 4) for p in benjamini_hochberg([0.001, 0.011, 0.02, 0.04, 0.3])]
    [0.005, 0.0275, 0.0333, 0.05, 0.3]
    """
    values = _probabilities(ps)
    order = np.argsort(values, kind="stable")
    raised = values[order] * len(values) / np.arange(1, len(values) + 1)
    return _unsorted(np.minimum(np.minimum.accumulate(raised[::-1])[::-1], 1.0), order)


def _probabilities(ps: Numbers) -> Floats:
    values = numbers(ps, "p values")
    if (values < 0).any() or (values > 1).any():
        raise ValueError(f"p values lie between 0 and 1, got {list(ps)!r}")
    return values


def _unsorted(adjusted: Floats, order: np.typing.NDArray[np.int64]) -> list[float]:
    values = np.empty(len(order))
    values[order] = adjusted
    return [float(value) for value in values]
