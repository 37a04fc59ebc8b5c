"""Who wants to know what happens during a run: the progress display, `--verbose`, `--events`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    """Several, as one. One that breaks (a closed pipe, a full disk) hears no more: it must not end a run."""

    def __init__(self, listeners: Sequence[Listener]) -> None:
        self._all = list(listeners)

    def started(self, job: Job, in_flight: int) -> None:
        self._tell(lambda listener: listener.started(job, in_flight))

    def retried(self, job: Job, failure: Failure, delay: float) -> None:
        self._tell(lambda listener: listener.retried(job, failure, delay))

    def finished(self, job: Job, outcome: Outcome) -> None:
        self._tell(lambda listener: listener.finished(job, outcome))

    def stored(self, jobs: Sequence[Job]) -> None:
        self._tell(lambda listener: listener.stored(jobs))

    def event(self, kind: str, **detail: Any) -> None:
        self._tell(lambda listener: listener.event(kind, **detail))

    def _tell(self, what: Callable[[Listener], None]) -> None:
        broken: list[tuple[Listener, Exception]] = []
        for listener in self._all:
            try:
                what(listener)
            except Exception as error:  # noqa: BLE001 - said below to those that still listen
                broken.append((listener, error))
        for listener, reason in broken:
            self._all.remove(listener)
            self.event("warning", message=f"{type(listener).__name__} broke and is left out ({reason})")
