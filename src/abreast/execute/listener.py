"""Who wants to know what happens during a run: the progress display, `--verbose`, `--events`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from abreast.execute.job import Job
from abreast.model import Failure, Outcome


class Listener:
    """Hears of everything; override what matters. Called on the driver's loop, so be quick."""

    def started(self, job: Job, in_flight: int) -> None:
        """An attempt was sent."""

    def retried(self, job: Job, failure: Failure, delay: float) -> None:
        """An attempt failed by infrastructure and will be made again."""

    def finished(self, job: Job, outcome: Outcome) -> None:
        """A trial has its outcome; it is not stored yet."""

    def stored(self, jobs: Sequence[Job]) -> None:
        """These outcomes are on disk."""

    def event(self, kind: str, **detail: Any) -> None:
        """The scheduler did something worth knowing."""


class Listeners(Listener):
    """Several, as one."""

    def __init__(self, listeners: Sequence[Listener]) -> None:
        self._all = tuple(listeners)

    def started(self, job: Job, in_flight: int) -> None:
        for listener in self._all:
            listener.started(job, in_flight)

    def retried(self, job: Job, failure: Failure, delay: float) -> None:
        for listener in self._all:
            listener.retried(job, failure, delay)

    def finished(self, job: Job, outcome: Outcome) -> None:
        for listener in self._all:
            listener.finished(job, outcome)

    def stored(self, jobs: Sequence[Job]) -> None:
        for listener in self._all:
            listener.stored(jobs)

    def event(self, kind: str, **detail: Any) -> None:
        for listener in self._all:
            listener.event(kind, **detail)
