"""The confidence sequence: an interval that stays valid however often one looks at it.

Two gamblers bet on every unit, one that the mean is above m, one that it is below. If the mean is m, neither ever
multiplies its stake by 2/α, except with probability α/2. The interval holds every m at which neither has. Each gambler
spreads its stake over 64 sizes of bet. Nothing is assumed but that differences lie in [−1, 1].

A unit is a case, or a group of dependent cases. A group with n cases whose differences add up to S moves the wealth by
(S − m·n)/M, where M is the size of the largest group of the plan. So every case weighs the same, and the estimate ΣS/Σn
lies in every look.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from abreast.stats.intervals.proportions import Estimate
from abreast.stats.intervals.units import Units, Weight, units_of
from abreast.stats.numerics.arrays import (
    UNIT,
    Floats,
    Numbers,
    Scale,
    distinct,
    group_index,
    integer,
    unit_differences,
    unit_margin,
)
from abreast.stats.numerics.arrays import width as width_of

BETS = (np.arange(64) + 0.5) / 64
CELLS = 1024  # if there are more distinct values, they are put on a grid
LARGEST = math.log(1e12)  # bounds are not searched closer than this to −1
STEPS = 60
LOOK = 10  # minimum cases from one look to the next


@dataclass(frozen=True, slots=True)
class Look(Estimate):
    """The interval so far, with a p value that is valid at any number of looks."""

    n: int = 0  # units: cases, or groups of cases
    equivalent: bool | None = None  # inside the margin, if there is one


def confidence_sequence(
    differences: Numbers,
    alpha: float = 0.05,
    margin: float | None = None,
    groups: Sequence[Hashable] | None = None,
    scale: Scale = UNIT,
    *,
    weight: Weight = "case",
    largest: int = 1,
) -> Look:
    """One look at all these differences; their order does not matter.

    `largest` is the size of the largest group of the plan, if it is larger than those at hand.

    >>> look = confidence_sequence([1] * 30 + [0] * 58 + [-1] * 12)
    >>> round(look.low, 6), round(look.high, 6), round(look.p, 4)
    (-0.01812, 0.376391, 0.1084)
    >>> confidence_sequence([0] * 400, margin=0.05).equivalent
    True
    """
    sequence = RunningSequence(alpha, margin, scale, weight=weight, largest=largest)
    sequence.add(units_of(unit_differences(differences, scale), groups, weight))
    return sequence.look()


def looks(cases: int) -> list[int]:
    """Numbers of cases at which a run is looked at: every 10, later every 5 % more, and the last one.

    >>> looks(25), looks(500)[-4:]
    ([10, 20, 25], [448, 470, 493, 500])
    """
    schedule, at, cases = [], LOOK, integer(cases, "cases")
    while at < cases:
        schedule.append(at)
        at += max(LOOK, at // 20)
    return [*schedule, cases] if cases else schedule


def watched(
    differences: Numbers,
    alpha: float = 0.02,
    margin: float | None = None,
    groups: Sequence[Hashable] | None = None,
    *,
    scale: Scale = UNIT,
    weight: Weight = "case",
    largest: int = 1,
) -> list[Look]:
    """The looks of a run at these differences, in the order in which their cases started, all groups complete.

    >>> [round(look.low, 2) for look in watched([1, 0, 1, 1, 1, 0, 0, 1, 1, 1] * 3)]
    [-0.12, 0.19, 0.32]
    """
    values = unit_differences(differences, scale, least=0)
    sequence = RunningSequence(alpha, margin, scale, weight=weight, largest=largest)
    history, before = [], 0
    for at in looks(len(values)):
        batch = values[before:at] * width_of(scale)
        history.append(sequence.observe(batch, None if groups is None else groups[before:at]))
        before = at
    if groups is not None and history:
        history[-1] = sequence.finish()
    return history


class RunningSequence:
    """The sequence of a run in progress: the narrowest bounds of all looks so far.

    If the current estimate has left these bounds, they are those of the current look alone.

    Feed it the completed prefix of the order in which cases were started, never the order in which they finished:
    slow failures would come late and flatter a variant.

    >>> sequence = RunningSequence(alpha=0.02)
    >>> sequence.observe([1, 0, 1, 1, 0, 1]).low < 0
    True
    >>> sequence.observe([1, 1, 0, 1, 1, 1, 1]).low > 0
    True
    >>> sequence.observe([-1, -1]).low > 0  # an earlier, narrower look
    True
    """

    def __init__(
        self,
        alpha: float = 0.02,
        margin: float | None = None,
        scale: Scale = UNIT,
        *,
        weight: Weight = "case",
        largest: int = 1,
    ) -> None:
        if not 0 <= alpha < 1:
            raise ValueError(f"alpha must be at least 0 and less than 1, got {alpha!r}")
        self.alpha = alpha
        self.margin = None if margin is None else unit_margin(margin, scale)
        self.scale = scale
        self.weight = weight
        self._largest = integer(largest, "largest", least=1) if weight == "case" else 1
        self._goal = math.log(2 / alpha) if alpha else math.inf
        self._counts = _GridCounts()
        self._low, self._high, self._wealth = -1.0, 1.0, 0.0
        self._sum, self._size, self._n = 0.0, 0.0, 0
        self._grouped: bool | None = None
        self._open: list[float] = []
        self._open_group: Hashable = None
        self._closed: set[Hashable] = set()

    def observe(self, differences: Numbers, groups: Sequence[Hashable] | None = None) -> Look:
        """Look again, with these further differences. A group counts once the next one begins, or with `finish`."""
        values = unit_differences(differences, self.scale, least=0)
        if len(values):
            if self._grouped is not None and self._grouped != (groups is not None):
                raise ValueError("give groups with every batch, or with none")
            self._grouped = groups is not None
        self.add(units_of(values) if groups is None else self._complete_groups(values, groups))
        return self.look()

    def finish(self) -> Look:
        """Count the last group, which is complete."""
        if self._open:
            self.add(self._units([self._open]))
            self._closed.add(self._open_group)
            self._open = []
        return self.look()

    def look(self) -> Look:
        """The bounds so far."""
        width, mean = width_of(self.scale), self._sum / self._size if self._size else math.nan
        low, high, wealth = self._low, self._high, self._wealth
        if not low <= mean <= high and self._n:
            low, high, wealth = self._bounds(-1.0, 1.0)
        inside = None if self.margin is None else low >= -self.margin and high <= self.margin
        p = min(1.0, 2 * math.exp(-wealth))
        return Look(
            estimate=mean * width,
            low=low * width,
            high=high * width,
            level=1 - self.alpha,
            p=p,
            method="confidence sequence",
            n=self._n,
            equivalent=inside,
        )

    def add(self, units: Units) -> None:
        """Add units whose differences lie in [−1, 1]."""
        if not len(units):
            return
        self._sum += float(units.sums.sum())
        self._size += float(units.sizes.sum())
        self._n += len(units)
        self._counts.add(units)
        self._low, self._high, wealth = self._bounds(self._low, self._high)
        self._wealth = max(self._wealth, wealth)

    def _bounds(self, low: float, high: float) -> tuple[float, float, float]:
        """Bounds of the current look, no wider than these, and the logarithm of the larger wealth at m = 0."""
        up, down = (_Bets(self._counts, sign, self._largest) for sign in (1, -1))
        wealth = max(0.0, up.wealth(0.0)[0], down.wealth(0.0)[0])
        if math.isfinite(self._goal):
            low, high = up.bound(self._goal, low), -down.bound(self._goal, -high)
        return low, high, wealth

    def _complete_groups(self, values: Floats, groups: Sequence[Hashable]) -> Units:
        """The groups that these cases complete; the last group stays open."""
        group_index(groups, len(values))
        closed: list[list[float]] = []
        for value, group in zip(values.tolist(), groups, strict=True):
            if self._open and group != self._open_group:
                closed.append(self._open)
                self._closed.add(self._open_group)
                self._open = []
            if group in self._closed:
                raise ValueError(f"group {group!r} came back after another one had begun; its cases must be adjacent")
            self._open_group = group
            self._open.append(value)
        return self._units(closed)

    def _units(self, groups: list[list[float]]) -> Units:
        sums, sizes = np.array([sum(group) for group in groups]), np.array([float(len(group)) for group in groups])
        return Units(sums, sizes) if self.weight == "case" else Units(sums / sizes, np.ones(len(sums)))


class _GridCounts:
    """How often each sum occurred among units of each size."""

    def __init__(self) -> None:
        self.by_size: dict[float, tuple[Floats, Floats]] = {}

    def add(self, units: Units) -> None:
        for size in distinct(units.sizes).tolist():
            values, counts = np.unique(units.sums[units.sizes == size], return_counts=True)
            if size in self.by_size:
                earlier, before = self.by_size[size]
                counts = np.concatenate([before, counts])
                values, inverse = np.unique(np.concatenate([earlier, values]), return_inverse=True)
                counts = np.bincount(inverse, weights=counts)
            self.by_size[size] = _on_grid(values, counts.astype(float), size)


def _on_grid(values: Floats, counts: Floats, size: float) -> tuple[Floats, Floats]:
    """Replace very many distinct values by weights on a grid with the same mean.

    The logarithm is concave, so this makes gamblers a little poorer: bounds stay valid, and move by about 1e-7.
    """
    if len(values) <= CELLS:
        return values, counts
    coordinates = (values / size + 1) * (CELLS / 2)
    lower = np.minimum(coordinates.astype(np.int64), CELLS - 1)
    upper_share = coordinates - lower
    weights = np.bincount(lower, counts * (1 - upper_share), CELLS + 1) + np.bincount(
        lower + 1, counts * upper_share, CELLS + 1
    )
    used = weights > 0
    return np.linspace(-size, size, CELLS + 1)[used], np.asarray(weights[used], dtype=float)


class _Bets:
    """The gambler who bets that the mean is above m (`sign` 1), or the mirror image of the other one (`sign` −1).

    On a unit with sum S and size n a bet of u makes 1 + u·(S − m·n)/(M·(1 + m)) of each coin, that is
    1 − u·n/M + u·((S + n)/M)·t with t = 1/(1 + m).
    """

    def __init__(self, counts: _GridCounts, sign: int, largest: int) -> None:
        scale = max(float(largest), *counts.by_size)
        parts = [((size + sign * sums) / scale, size / scale, n) for size, (sums, n) in counts.by_size.items()]
        self._gains = np.concatenate([gains for gains, _, _ in parts])
        self._counts = np.concatenate([n for _, _, n in parts])
        stakes = np.concatenate([np.full(len(gains), stake) for gains, stake, _ in parts])
        self._unstaked = 1 - np.multiply.outer(BETS, stakes if len(parts) > 1 else stakes[:1])

    def wealth(self, x: float) -> tuple[float, float]:
        """The logarithm of the wealth at t = exp(x), and its slope in x."""
        gains = np.multiply.outer(BETS, self._gains * math.exp(x))
        factors = gains + self._unstaked
        logs, slopes = np.log(factors) @ self._counts, (gains / factors) @ self._counts
        highest = float(logs.max())
        weights = np.exp(logs - highest)
        total = float(weights.sum())
        return highest + math.log(total / len(BETS)), float(weights @ slopes) / total

    def bound(self, goal: float, lower: float) -> float:
        """The largest m at which the logarithm of the wealth reaches the goal, or `known` if that is larger.

        That logarithm is convex and rising in log t, so Newton's method comes down on the solution from any larger t.
        """
        x = min(LARGEST, -math.log1p(lower)) if lower > -1 else LARGEST
        wealth, slope = self.wealth(x)
        if wealth <= goal:  # not reached even at the smallest m
            return lower
        for _ in range(STEPS):
            step = (wealth - goal) / slope
            x = min(LARGEST, x - step)
            if abs(step) < 1e-13:
                break
            wealth, slope = self.wealth(x)
        return max(lower, math.expm1(-x))
