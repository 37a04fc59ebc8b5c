"""Three or more contenders in pairs: how strong each is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from abreast.stats.numerics.arrays import Floats


@dataclass(frozen=True, slots=True)
class Ranking:
    """Strengths that sum to 1, and the contenders from the strongest to the weakest."""

    strengths: tuple[float, ...]
    order: tuple[int, ...]

    def chance(self, first: int, second: int) -> float:
        """The chance that the first contender beats the second."""
        return self.strengths[first] / (self.strengths[first] + self.strengths[second])


def bradley_terry(wins: Sequence[Sequence[float]] | Floats) -> Ranking:
    """Bradley and Terry's strengths: `wins[i][j]` is how often i beat j; a tie is half a win for each.

    >>> ranking = bradley_terry([[0, 8, 9], [2, 0, 6], [1, 4, 0]])
    >>> ranking.order, round(ranking.chance(0, 1), 3)
    ((0, 1, 2), 0.819)
    """
    counts = _matrix(wins)
    _refuse_unbounded(counts)
    logits = _fit(counts)
    strengths = np.exp(logits - logits.max())
    strengths /= strengths.sum()
    order = np.argsort(-strengths, kind="stable")
    return Ranking(tuple(float(value) for value in strengths), tuple(int(index) for index in order))


def _matrix(wins: Sequence[Sequence[float]] | Floats) -> Floats:
    try:
        counts = np.array(wins, dtype=float)
    except (TypeError, ValueError):
        raise ValueError("wins must be a square table of numbers") from None
    if counts.ndim != 2 or counts.shape[0] != counts.shape[1] or len(counts) < 2:
        raise ValueError(f"wins must be a square table of at least two contenders, got {counts.shape}")
    if not np.isfinite(counts).all() or (counts < 0).any():
        raise ValueError("wins must be numbers of at least 0")
    if np.diagonal(counts).any():
        raise ValueError("the diagonal of wins must be 0")
    return counts


def _refuse_unbounded(counts: Floats) -> None:
    """Require a chain of wins from each contender to every other; without it a strength has no bound."""
    reached = (counts > 0) | np.eye(len(counts), dtype=bool)
    for middle in range(len(counts)):
        reached |= np.outer(reached[:, middle], reached[middle])
    if not reached.all():
        first, second = (int(index) for index in np.argwhere(~reached)[0])
        raise ValueError(
            f"contender {first} never won against {second}, even indirectly, so their strengths have no bound; "
            "add comparisons, or half a win to each side of every pair"
        )


def _fit(counts: Floats) -> Floats:
    """Newton's method on the logarithms of the strengths; their mean is 0."""
    games, won, logits = counts + counts.T, counts.sum(axis=1), np.zeros(len(counts))
    for _ in range(200):
        chances = 1 / (1 + np.exp(logits[None, :] - logits[:, None]))
        gradient = won - (games * chances).sum(axis=1)
        weights = games * chances * chances.T
        curvature = np.diag(weights.sum(axis=1)) - weights + 1 / len(counts)  # the last term pins the mean
        step = np.linalg.solve(curvature, gradient)
        step *= min(1.0, 2 / max(1e-300, float(np.abs(step).max())))  # short steps do not overshoot
        logits = logits + step - step.mean()
        if math.isclose(float(np.abs(step).max()), 0.0, abs_tol=1e-12):
            break
    return logits
