"""What repeats of one case say: how often at least one of k succeeds, and how often all of them do."""

from __future__ import annotations

from fractions import Fraction
from math import comb

from abreast.stats.numerics.arrays import whole


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
    n, c, k = whole(n, "n", least=1), whole(c, "c"), whole(k, "k", least=1)
    if c > n or k > n:
        raise ValueError(f"c and k cannot be more than n, got n={n}, c={c}, k={k}")
    return n, c, k
