"""Who wants to know what happens during a run: the progress display, `--verbose`, `--events`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from abreast.execute.job import Job
from abreast.model import Failure, Outcome
from abreast.redaction import redact_log_value


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

    def judging(self, left: int, outcome: Outcome | None = None) -> None:
        """So many answers wait for a judge, who came to this if it was called."""

    def event(self, kind: str, **detail: Any) -> None:
        """The scheduler did something worth knowing."""

    def tick(self) -> None:
        """Another second is over; called while a run goes on."""


class Listeners(Listener):
    """Several, as one. One that breaks (a closed pipe, a full disk) hears no more: it must not end a run."""

    def __init__(self, listeners: Sequence[Listener]) -> None:
        self._all: list[Listener] = []
        for listener in listeners:
            self._all += listener._all if isinstance(listener, Listeners) else [listener]
        self._sort()

    def _sort(self) -> None:
        """Who listens to what: most listen to little, and this is asked for every trial."""
        self._functions = {
            name: [
                getattr(each, name) for each in self._all if getattr(type(each), name) is not getattr(Listener, name)
            ]
            for name in ("started", "retried", "finished", "stored", "judging", "event", "tick")
        }

    def _call(self, name: str, *arguments: Any, **detail: Any) -> None:
        for function in self._functions[name]:
            try:
                function(*arguments, **detail)
            except Exception as error:  # noqa: BLE001 - said to those that still listen
                self._leave_out(function.__self__, error)

    def started(self, job: Job, in_flight: int) -> None:
        self._call("started", job, in_flight)

    def retried(self, job: Job, failure: Failure, delay: float) -> None:
        self._call("retried", job, failure, delay)

    def finished(self, job: Job, outcome: Outcome) -> None:
        self._call("finished", job, outcome)

    def stored(self, jobs: Sequence[Job]) -> None:
        self._call("stored", jobs)

    def judging(self, left: int, outcome: Outcome | None = None) -> None:
        self._call("judging", left, outcome)

    def event(self, kind: str, **detail: Any) -> None:
        self._call("event", kind, **redact_log_value(detail))

    def tick(self) -> None:
        self._call("tick")

    def _leave_out(self, broken: Listener, error: Exception) -> None:
        self._all = [listener for listener in self._all if listener is not broken]
        self._sort()
        self.event("warning", message=f"{type(broken).__name__} broke and is left out ({error})")
