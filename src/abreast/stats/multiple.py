"""Several questions at once: p values that stay honest."""

from __future__ import annotations

import numpy as np

from abreast.stats.numerics.arrays import Floats, Numbers, numbers


def holm(ps: Numbers) -> list[float]:
    """Holm's adjustment: calling those below α decided is wrong about any of them with a probability of at most α.

    >>> [round(p, 3) for p in holm([0.001, 0.011, 0.02, 0.04, 0.3])]
    [0.005, 0.044, 0.06, 0.08, 0.3]
    """
    values = _probabilities(ps)
    order = np.argsort(values, kind="stable")
    raised = np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1))
    return _in_place(np.minimum(raised, 1.0), order)


def benjamini_hochberg(ps: Numbers) -> list[float]:
    """Benjamini and Hochberg's: of those below q about a share of q at most is wrong. For exploring, as in segments.

    >>> [round(p, 4) for p in benjamini_hochberg([0.001, 0.011, 0.02, 0.04, 0.3])]
    [0.005, 0.0275, 0.0333, 0.05, 0.3]
    """
    values = _probabilities(ps)
    order = np.argsort(values, kind="stable")
    raised = values[order] * len(values) / np.arange(1, len(values) + 1)
    return _in_place(np.minimum(np.minimum.accumulate(raised[::-1])[::-1], 1.0), order)


def _probabilities(ps: Numbers) -> Floats:
    values = numbers(ps, "p values")
    if (values < 0).any() or (values > 1).any():
        raise ValueError(f"p values lie between 0 and 1, got {list(ps)!r}")
    return values


def _in_place(adjusted: Floats, order: np.typing.NDArray[np.int64]) -> list[float]:
    found = np.empty(len(order))
    found[order] = adjusted
    return [float(value) for value in found]
