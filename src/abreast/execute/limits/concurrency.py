"""How many trials may be in flight: in all, of one variant, of one block, and of one target.

A trial keeps its place until its row is safe, so that a kill never costs more than may be in flight.
"""

from __future__ import annotations

from abreast.execute.job import Job
from abreast.execute.limits import UNTIL_AN_EVENT, Limit


class InFlight(Limit):
    """At most so many at once."""

    is_shared = True

    def __init__(self, most: int) -> None:
        self.most = most
        self.now = 0

    def wait(self, job: Job, now: float) -> float:
        return 0.0 if self.now < self.most else UNTIL_AN_EVENT

    def take(self, job: Job, now: float) -> None:
        self.now += 1

    def release(self, job: Job, now: float) -> None:
        self.now -= 1


class PerVariant(Limit):
    """At most so many of each of these variants at once."""

    def __init__(self, most: dict[int, int]) -> None:
        self._most = most
        self._now = dict.fromkeys(most, 0)

    def wait(self, job: Job, now: float) -> float:
        most = self._most.get(job.variant)
        return 0.0 if most is None or self._now[job.variant] < most else UNTIL_AN_EVENT

    def take(self, job: Job, now: float) -> None:
        if job.variant in self._now:
            self._now[job.variant] += 1

    def release(self, job: Job, now: float) -> None:
        if job.variant in self._now:
            self._now[job.variant] -= 1


class Together(Limit):
    """At most so many jobs of these variants at once, counted together: those that occupy a core each."""

    is_shared = True

    def __init__(self, variants: frozenset[int], most: int) -> None:
        self._variants = variants
        self._most = most
        self._now = 0

    def applies_to(self, variant: int) -> bool:
        return variant in self._variants

    def wait(self, job: Job, now: float) -> float:
        return 0.0 if job.variant not in self._variants or self._now < self._most else UNTIL_AN_EVENT

    def take(self, job: Job, now: float) -> None:
        self._now += job.variant in self._variants

    def release(self, job: Job, now: float) -> None:
        self._now -= job.variant in self._variants


class Blocks(Limit):
    """At most so many blocks in flight, and so many trials of each. A block whose trials all wait holds no place."""

    def __init__(self, blocks: int, trials_of_each: int) -> None:
        self._blocks = blocks
        self._each = trials_of_each
        self._now: dict[int, int] = {}

    def wait(self, job: Job, now: float) -> float:
        if job.asks is not None:  # a judge belongs to no block
            return 0.0
        running = self._now.get(job.block, 0)
        free = running < self._each if running else len(self._now) < self._blocks
        return 0.0 if free else UNTIL_AN_EVENT

    def take(self, job: Job, now: float) -> None:
        if job.asks is None:
            self._now[job.block] = self._now.get(job.block, 0) + 1

    def release(self, job: Job, now: float) -> None:
        if job.asks is not None:
            return
        self._now[job.block] -= 1
        if not self._now[job.block]:
            del self._now[job.block]
