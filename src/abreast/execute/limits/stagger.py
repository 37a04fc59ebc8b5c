"""Programs that take a while to start do not all start at once: that would only make each of them slower."""

from __future__ import annotations

from collections.abc import Sequence

from abreast.execute.job import Job
from abreast.execute.limits import Limit


class Stagger(Limit):
    """After a start, none for as long as the cores need for it."""

    def __init__(self, start_cpu_s: Sequence[float], cores: float) -> None:
        """`start_cpu_s` is by variant: the seconds of a core that it takes to start one."""
        self._gaps = [seconds / cores for seconds in start_cpu_s]
        self._free_at = float("-inf")

    def wait(self, job: Job, now: float) -> float:
        return max(0.0, self._free_at - now) if self._gaps[job.variant] else 0.0

    def take(self, job: Job, now: float) -> None:
        if self._gaps[job.variant]:
            self._free_at = now + self._gaps[job.variant]
