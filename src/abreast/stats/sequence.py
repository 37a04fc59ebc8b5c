"""The confidence sequence: an interval that one may look at after every case.

Two gamblers bet on every difference, one that the mean is above m, one that it is below. If the mean is m, neither ever
makes 2/α of its stake but with a probability of α/2. So the interval holds every m at which neither has become that
rich. Each gambler spreads its stake over 64 sizes of bet, and nothing is assumed but that differences lie in [−1, 1].
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from abreast.stats.intervals import Estimate
from abreast.stats.values import (
    UNIT,
    Floats,
    Numbers,
    Scale,
    group_index,
    group_means,
    unit_differences,
    unit_margin,
    whole,
)
from abreast.stats.values import width as width_of

BETS = (np.arange(64) + 0.5) / 64
KEPT = 1 - BETS
CELLS = 1024  # more distinct values than that are put on a grid
LARGEST = math.log(1e12)  # bounds are sought no closer than this to −1
STEPS = 60
LOOK = 10  # cases from one look to the next, at least


@dataclass(frozen=True, slots=True)
class Look(Estimate):
    """What the sequence says so far: an interval, and a p value that holds however often one looks."""

    n: int = 0  # cases, or groups of cases
    equivalent: bool | None = None  # inside the margin, if one was given


def confidence_sequence(
    differences: Numbers,
    alpha: float = 0.05,
    margin: float | None = None,
    groups: Sequence[Hashable] | None = None,
    scale: Scale = UNIT,
) -> Look:
    """One look at all these differences; their order does not matter. With groups, their means are what counts.

    >>> look = confidence_sequence([1] * 30 + [0] * 58 + [-1] * 12)
    >>> round(look.low, 6), round(look.high, 6), round(look.p, 4)
    (-0.01812, 0.376391, 0.1084)
    >>> confidence_sequence([0] * 400, margin=0.05).equivalent
    True
    """
    values = unit_differences(differences, scale)
    if groups is not None:
        values = group_means(values, groups)
    sequence = RunningSequence(alpha, margin, scale)
    sequence.add(values)
    return sequence.look()


def looks(cases: int) -> list[int]:
    """After how many cases a run is looked at: each 10, later each twentieth more; the last look is at all of them.

    Whoever keeps to it sees the same afterwards, from the stored rows, as during the run.

    >>> looks(25), looks(500)[-4:]
    ([10, 20, 25], [448, 470, 493, 500])
    """
    found, at = [], LOOK
    while at < whole(cases, "cases"):
        found.append(at)
        at += max(LOOK, at // 20)
    return [*found, cases] if cases else found


def watched(
    differences: Numbers,
    alpha: float = 0.02,
    margin: float | None = None,
    groups: Sequence[Hashable] | None = None,
    *,
    ended: bool = True,
    scale: Scale = UNIT,
) -> list[Look]:
    """What `looks` at these differences, in the order of their starts, would have seen on the way.

    With groups, say with `ended` whether the last one is complete.

    >>> [round(look.low, 2) for look in watched([1, 0, 1, 1, 1, 0, 0, 1, 1, 1] * 3)]
    [-0.12, 0.19, 0.32]
    """
    sequence, values = RunningSequence(alpha, margin, scale), unit_differences(differences, scale, least=0)
    found, before = [], 0
    for at in looks(len(values)):
        batch = values[before:at] * width_of(scale)
        found.append(sequence.observe(batch, None if groups is None else groups[before:at]))
        before = at
    if groups is not None and ended and found:
        found[-1] = sequence.finish()
    return found


class RunningSequence:
    """The sequence of a run that goes on: the narrowest bounds of all looks so far.

    Feed it the completed prefix of the order in which cases were started, never the order in which they finished:
    slow failures would come late and flatter a variant.

    >>> sequence = RunningSequence(alpha=0.02)
    >>> sequence.observe([1, 0, 1, 1, 0, 1]).low < 0
    True
    >>> sequence.observe([1, 1, 0, 1, 1, 1, 1]).low > 0
    True
    >>> sequence.observe([-1, -1]).low > 0  # what was decided stays decided
    True
    """

    def __init__(self, alpha: float = 0.02, margin: float | None = None, scale: Scale = UNIT) -> None:
        if not 0 <= alpha < 1:
            raise ValueError(f"alpha must be at least 0 and less than 1, got {alpha!r}")
        self.alpha = alpha
        self.margin = None if margin is None else unit_margin(margin, scale)
        self.scale = scale
        self._rich = math.log(2 / alpha) if alpha else math.inf
        self._values, self._counts = np.empty(0), np.empty(0)
        self._low, self._high, self._richest, self._sum, self._n = -1.0, 1.0, 0.0, 0.0, 0
        self._grouped: bool | None = None
        self._open: list[float] = []
        self._open_group: Hashable = None
        self._closed: set[Hashable] = set()

    def observe(self, differences: Numbers, groups: Sequence[Hashable] | None = None) -> Look:
        """Look again, with these further differences. A group counts when the next one has begun, or with `finish`."""
        values = unit_differences(differences, self.scale, least=0)
        if len(values):
            if self._grouped is not None and self._grouped != (groups is not None):
                raise ValueError("give groups with every batch, or with none")
            self._grouped = groups is not None
        if groups is not None:
            values = self._complete_groups(values, groups)
        self.add(values)
        return self.look()

    def finish(self) -> Look:
        """The last group is complete."""
        if self._open:
            self.add(np.array([sum(self._open) / len(self._open)]))
            self._closed.add(self._open_group)
            self._open = []
        return self.look()

    def look(self) -> Look:
        """The bounds so far."""
        width, mean = width_of(self.scale), self._sum / self._n if self._n else math.nan
        inside = None if self.margin is None else self._low >= -self.margin and self._high <= self.margin
        p = min(1.0, 2 * math.exp(-self._richest))
        low, high = self._low * width, self._high * width
        return Look(mean * width, low, high, 1 - self.alpha, p, "confidence sequence", self._n, inside)

    def add(self, values: Floats) -> None:
        """Take in differences in [−1, 1]; move a bound only if it becomes narrower."""
        if not len(values):
            return
        self._sum += float(values.sum())
        self._n += len(values)
        distinct, counts = np.unique(values, return_counts=True)
        if len(self._values):
            counts = np.concatenate([self._counts, counts])
            distinct, inverse = np.unique(np.concatenate([self._values, distinct]), return_inverse=True)
            counts = np.bincount(inverse, weights=counts)
        self._values, self._counts = _on_grid(distinct, counts.astype(float))
        above, below = 1 + self._values, 1 - self._values
        self._richest = max(self._richest, _wealth(above, self._counts, 0.0)[0], _wealth(below, self._counts, 0.0)[0])
        if math.isfinite(self._rich):
            self._low = _bound(above, self._counts, self._rich, self._low)
            self._high = -_bound(below, self._counts, self._rich, -self._high)

    def _complete_groups(self, values: Floats, groups: Sequence[Hashable]) -> Floats:
        """The means of the groups that these cases end; the last group stays open."""
        group_index(groups, len(values))
        means = []
        for value, group in zip(values.tolist(), groups, strict=True):
            if self._open and group != self._open_group:
                means.append(sum(self._open) / len(self._open))
                self._closed.add(self._open_group)
                self._open = []
            if group in self._closed:
                raise ValueError(f"group {group!r} came back after another one had begun; its cases must be adjacent")
            self._open_group = group
            self._open.append(value)
        return np.array(means)


def _on_grid(values: Floats, counts: Floats) -> tuple[Floats, Floats]:
    """Very many distinct values, each shared out between its neighbours on a grid so that its mean stays.

    The logarithm is concave, so this makes gamblers a little poorer: bounds stay valid, and move by about 1e-7.
    """
    if len(values) <= CELLS:
        return values, counts
    place = (values + 1) * (CELLS / 2)
    left = np.minimum(place.astype(np.int64), CELLS - 1)
    right = place - left
    weights = np.bincount(left, counts * (1 - right), CELLS + 1) + np.bincount(left + 1, counts * right, CELLS + 1)
    used = weights > 0
    return np.linspace(-1, 1, CELLS + 1)[used], np.asarray(weights[used], dtype=float)


def _bound(gains: Floats, counts: Floats, rich: float, known: float) -> float:
    """The largest mean m at which the gambler is rich, or `known` if that is larger.

    A bet of u makes 1 − u + u·gain·t of each unit, with t = 1/(1 + m). So the logarithm of the wealth is convex and
    rising in that of t, and Newton's method comes down on the place from any larger t.
    """
    x = min(LARGEST, -math.log1p(known)) if known > -1 else LARGEST
    wealth, slope = _wealth(gains, counts, x)
    if wealth <= rich:  # not even at the smallest m in question
        return known
    for _ in range(STEPS):
        step = (wealth - rich) / slope
        x = min(LARGEST, x - step)
        if abs(step) < 1e-13:
            break
        wealth, slope = _wealth(gains, counts, x)
    return max(known, math.expm1(-x))


def _wealth(gains: Floats, counts: Floats, x: float) -> tuple[float, float]:
    """The logarithm of what the gambler has made, at t = exp(x), and its slope in x."""
    won = np.multiply.outer(BETS, gains * math.exp(x))
    made = won + KEPT[:, None]
    logs, slopes = np.log(made) @ counts, (won / made) @ counts
    highest = float(logs.max())
    weights = np.exp(logs - highest)
    total = float(weights.sum())
    return highest + math.log(total / len(BETS)), float(weights @ slopes) / total
