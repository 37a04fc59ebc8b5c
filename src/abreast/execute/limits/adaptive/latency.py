"""The knee of a queueing server: the concurrency beyond which requests only wait longer.

Latency is constant while a server has room (`knee` requests or fewer in flight) and proportional to the number in
flight once they queue. Both laws are fitted to the logarithms of latencies by level, and compared with the hypothesis
that nothing queues. Long answers take longer than short ones, so latencies are compared at equal output length, by the
slope that they have on it within a level.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

STEP = 1.2  # ratio of successive bands of levels
EVIDENCE = 8.0  # log-likelihood ratio from which the data show a knee
LEAST_SD = 0.1  # smallest standard deviation of log latency: below, differences are noise of the machine
LEAST_RISE = math.log(1.25)  # smallest log rise of latency over that without a queue
GENTLE = 0.5  # a server that batches slows down a little with every request: up to this exponent nothing queues
BASE_TOKENS = 40.0  # the time to the first token is about that of this many tokens
MEMORY = 128.0  # answers per band; older ones fade
LEAST_CUT = 0.3  # in log level: smaller cuts are not judged
LEAST_ANSWERS = 12  # answers needed to judge a cut


def band(level: int) -> int:
    return int(math.log(level) / math.log(STEP))


@dataclass(slots=True)
class LatencySums:
    """Sums over answers at similar levels: `x` is log latency, `t` log output length, `l` log level."""

    n: float = 0.0
    l: float = 0.0  # noqa: E741
    x: float = 0.0
    t: float = 0.0
    xx: float = 0.0
    xt: float = 0.0
    tt: float = 0.0

    def fade(self, factor: float) -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) * factor)


@dataclass(frozen=True, slots=True)
class Knee:
    """The `level` in flight where latency begins to grow; `rise` is its growth factor at the highest level tried."""

    level: float
    rise: float
    is_bracketed: bool  # whether a level below it was tried


class LatencyCurve:
    def __init__(self) -> None:
        self._bands: dict[int, LatencySums] = {}

    def add(self, level: int, seconds: float, tokens: int | None) -> None:
        """Count an answer to a request that was sent as the `level`-th in flight."""
        x, t = math.log(max(seconds, 1e-6)), math.log(BASE_TOKENS + (tokens or 0))
        sums = self._bands.setdefault(band(level), LatencySums())
        if sums.n >= MEMORY:
            sums.fade(1 - 1 / MEMORY)
        sums.n += 1
        sums.l += math.log(level)
        sums.x += x
        sums.t += t
        sums.xx += x * x
        sums.xt += x * t
        sums.tt += t * t

    def fade(self) -> None:
        """Halve the weight of earlier answers, because the server may have changed."""
        for sums in self._bands.values():
            sums.fade(0.5)
        self._bands = {at: sums for at, sums in self._bands.items() if sums.n >= 0.5}

    def knee(self) -> Knee | None:
        bands = sorted(self._bands.values(), key=lambda sums: sums.l / sums.n)
        total = sum(sums.n for sums in bands)
        if len(bands) < 2 or total < 8:
            return None
        slope, variance = _within(bands)
        points = [(sums.n, sums.l / sums.n, (sums.x - slope * sums.t) / sums.n) for sums in bands]
        lowest, highest = points[0][1], points[-1][1]
        steps = int((highest - lowest) / math.log(STEP) * 2) + 1
        candidates = [lowest + (highest - lowest) * number / steps for number in range(steps)]
        errors = [_error(points, [max(0.0, level - at) for _, level, _ in points]) for at in candidates]
        best = min(range(len(candidates)), key=lambda number: (errors[number], -number))
        if highest - candidates[best] < LEAST_RISE:
            return None
        if (_error_of_line(points) - errors[best]) / (2 * variance) < EVIDENCE:
            return None
        return Knee(math.exp(candidates[best]), math.exp(highest - candidates[best]), best > 0)


@dataclass(slots=True)
class LatencyTrial:
    """Measures if latency falls after a cut of the limit from `before` to `after` requests in flight."""

    after: int
    before: int
    log_level: float  # means before the cut
    log_latency: float
    answers: int = 0
    levels: float = 0.0
    latencies: float = 0.0

    def add(self, log_level: float, log_latency: float) -> None:
        """Count an answer to a request that was sent after the cut."""
        self.answers += 1
        self.levels += log_level
        self.latencies += log_latency

    @property
    def is_over(self) -> bool:
        return self.answers >= max(self.after, LEAST_ANSWERS)

    @property
    def has_helped(self) -> bool:
        """Whether latency fell by a third of what a queue would explain. Small cuts count as helpful."""
        cut = self.log_level - self.levels / self.answers
        return cut < LEAST_CUT or self.log_latency - self.latencies / self.answers >= cut / 3


def _within(bands: list[LatencySums]) -> tuple[float, float]:
    """Slope of log latency on log length within bands, and the residual variance."""
    xx = sum(sums.xx - sums.x * sums.x / sums.n for sums in bands)
    xt = sum(sums.xt - sums.x * sums.t / sums.n for sums in bands)
    tt = sum(sums.tt - sums.t * sums.t / sums.n for sums in bands)
    slope = min(1.0, max(0.0, xt / tt)) if tt > 1e-9 else 0.0
    squares = max(0.0, xx - 2 * slope * xt + slope * slope * tt)
    freedom = max(1.0, sum(sums.n for sums in bands) - len(bands))
    return slope, max(LEAST_SD**2, squares / freedom)


def _error(points: list[tuple[float, float, float]], law: list[float]) -> float:
    """Weighted squared error of `law` plus the constant that fits best."""
    total = sum(n for n, _, _ in points)
    offset = sum(n * (y - f) for (n, _, y), f in zip(points, law, strict=True)) / total
    return sum(n * (y - f - offset) ** 2 for (n, _, y), f in zip(points, law, strict=True))


def _error_of_line(points: list[tuple[float, float, float]]) -> float:
    """The error if latency rises gently or not at all with the number in flight."""
    total = sum(n for n, _, _ in points)
    mean_l, mean_y = (sum(point[0] * point[at] for point in points) / total for at in (1, 2))
    spread = sum(n * (level - mean_l) ** 2 for n, level, _ in points)
    common = sum(n * (level - mean_l) * (y - mean_y) for n, level, y in points)
    slope = min(GENTLE, max(0.0, common / spread)) if spread > 0 else 0.0
    return _error(points, [slope * level for _, level, _ in points])
