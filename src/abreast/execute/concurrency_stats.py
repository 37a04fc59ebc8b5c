"""How many trials were in flight, over the time of an execution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from abreast.execute.job import Job
from abreast.execute.listener import Listener
from abreast.model import Failure, Outcome


@dataclass(frozen=True, slots=True)
class InFlightStats:
    """How many were asked for (None: to be found out), how many there were on average, and how many at most."""

    asked: int | None
    mean: float
    most: int


class ConcurrencyStats(Listener):
    """Adds up how long how many were in flight, from the first start to the last end."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._now = 0
        self._since = 0.0
        self._begin: float | None = None
        self._trial_seconds = 0.0
        self.most = 0

    def started(self, job: Job, in_flight: int) -> None:
        self._pass()
        self._now += 1
        if self._now > self.most:
            self.most = self._now

    def retried(self, job: Job, failure: Failure, delay: float) -> None:
        self._pass()
        self._now -= 1

    def finished(self, job: Job, outcome: Outcome) -> None:
        self._pass()
        self._now -= 1

    def _pass(self) -> None:
        now = self._clock()
        if self._begin is None:
            self._begin = now
        else:
            self._trial_seconds += self._now * (now - self._since)
        self._since = now

    @property
    def mean(self) -> float:
        """Weighted by time; what is over before the clock moves counts as it was at most."""
        elapsed = 0.0 if self._begin is None else self._since - self._begin
        return self._trial_seconds / elapsed if elapsed > 0 else float(self.most)
