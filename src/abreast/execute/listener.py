"""Listeners of a run: the progress display, `--verbose`, `--events`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from abreast.execute.job import Job
from abreast.model import Failure, Outcome
from abreast.redaction import redact_log_value


class Listener:
    """Observes a run; override what matters. Called on the driver's loop, so be quick."""

    def started(self, job: Job, in_flight: int) -> None:
        """An attempt was sent."""

    def retried(self, job: Job, failure: Failure, delay: float) -> None:
        """An attempt failed because of infrastructure and will be repeated."""

    def finished(self, job: Job, outcome: Outcome) -> None:
        """A trial has its outcome; it is not stored yet."""

    def stored(self, jobs: Sequence[Job]) -> None:
        """These outcomes are on disk."""

    def judging(self, waiting: int, outcome: Outcome | None = None) -> None:
        """The number of answers that wait for a judge changed, after this outcome of a call."""

    def event(self, kind: str, **detail: Any) -> None:
        """The scheduler or a limit reports an event."""

    def tick(self) -> None:
        """A second has passed."""


CALLS = tuple(name for name in vars(Listener) if not name.startswith("_"))


class Listeners(Listener):
    """Several listeners as one. One that fails (a closed pipe, a full disk) is removed; the run goes on."""

    def __init__(self, listeners: Sequence[Listener]) -> None:
        self._all: list[Listener] = []
        for listener in listeners:
            self._all += listener._all if isinstance(listener, Listeners) else [listener]
        self._find_overrides()
        for name in CALLS:
            setattr(self, name, partial(self._call, name))

    def _find_overrides(self) -> None:
        """Find the methods that listeners override: most override few, and these are called for every trial."""
        self._functions = {
            name: [
                getattr(listener, name)
                for listener in self._all
                if getattr(type(listener), name) is not getattr(Listener, name)
            ]
            for name in CALLS
        }

    def _call(self, name: str, *arguments: Any, **detail: Any) -> None:
        if detail:  # of an event
            detail = redact_log_value(detail)
        for function in self._functions[name]:
            try:
                function(*arguments, **detail)
            except Exception as error:  # noqa: BLE001 - reported to the other listeners
                broken = function.__self__
                self._all = [listener for listener in self._all if listener is not broken]
                self._find_overrides()
                self.event("warning", message=f"{type(broken).__name__} failed and was removed ({error})")


@dataclass(frozen=True, slots=True)
class InFlightStats:
    """Trials in flight: the number requested (None if adaptive), the mean over time, and the maximum."""

    asked: int | None
    mean: float
    most: int


class ConcurrencyStats(Listener):
    """Measures how many trials were in flight over time, from the first start to the last end."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._in_flight = 0
        self._since = 0.0
        self._begin: float | None = None
        self._trial_seconds = 0.0
        self.most = 0

    def started(self, job: Job, in_flight: int) -> None:
        self._change(1)

    def retried(self, job: Job, failure: Failure, delay: float) -> None:
        self._change(-1)

    def finished(self, job: Job, outcome: Outcome) -> None:
        self._change(-1)

    def _change(self, difference: int) -> None:
        now = self._clock()
        if self._begin is None:
            self._begin = now
        else:
            self._trial_seconds += self._in_flight * (now - self._since)
        self._since = now
        self._in_flight += difference
        if self._in_flight > self.most:
            self.most = self._in_flight

    @property
    def mean(self) -> float:
        """Weighted by time; the maximum if everything ended before the clock moved."""
        elapsed = 0.0 if self._begin is None else self._since - self._begin
        return self._trial_seconds / elapsed if elapsed > 0 else float(self.most)
