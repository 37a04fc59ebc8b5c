"""How many cases it takes to see an effect, and what effect so many cases can show."""

from __future__ import annotations

import math
from statistics import NormalDist


def _z(power: float, alpha: float) -> float:
    return NormalDist().inv_cdf(1 - alpha / 2) + NormalDist().inv_cdf(power)


def cases_needed(sd: float, effect: float, power: float = 0.8, alpha: float = 0.05) -> int:
    """Cases needed to detect a mean difference of `effect` when single differences vary by `sd`.

    >>> cases_needed(0.5, 0.1)
    197
    """
    if effect <= 0:
        raise ValueError(f"effect must be above 0, got {effect}")
    return max(2, math.ceil((_z(power, alpha) * sd / effect) ** 2))


def smallest_detectable(sd: float, n: int, power: float = 0.8, alpha: float = 0.05) -> float:
    """The smallest mean difference that `n` cases show with this power.

    >>> round(smallest_detectable(0.5, 197), 2)
    0.1
    """
    if n < 1:
        raise ValueError(f"n must be at least 1, got {n}")
    return _z(power, alpha) * sd / math.sqrt(n)
