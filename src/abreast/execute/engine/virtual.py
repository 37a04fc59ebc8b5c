"""A virtual engine for tests: a function decides how and when attempts end; no target is called.

In an event loop with a virtual clock, an hour takes no time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from abreast.errors import classify
from abreast.execute.engine.base import Complete, Engine, cancelled_outcome
from abreast.execute.job import Job
from abreast.model import Failure, Outcome
from abreast.redaction import redact, redact_outcome

Behaviour = Callable[[Job], tuple[float, Outcome]]
"""Returns the seconds that an attempt takes and its outcome. Exceptions are classified as if the target raised them."""


class VirtualEngine(Engine):
    """Ends every attempt as `behave` says, by a timer of the loop."""

    def __init__(
        self, behave: Behaviour, complete: Complete, timeout_s: float = 1000.0, capacity: int | None = None
    ) -> None:
        self._behave, self._complete = behave, complete
        self._timeout_s, self._capacity = timeout_s, capacity
        self._loop = asyncio.get_running_loop()
        self._in_flight: dict[Job, asyncio.TimerHandle] = {}
        self._is_cancelled = False

    def submit(self, job: Job) -> None:
        try:
            seconds, outcome = self._behave(job)
        except Exception as error:  # noqa: BLE001 - without an outcome the run would wait forever
            seconds, outcome = 0.0, Outcome("error", failure=classify(error))
        if seconds > self._timeout_s:
            message = f"no answer within {self._timeout_s:g} s"
            seconds, outcome = self._timeout_s, Outcome("error", failure=Failure("timeout", "variant", message))
        if self._is_cancelled:
            seconds, outcome = 0.0, cancelled_outcome()
        now = time.time()
        outcome.started_at, outcome.service_s, outcome.finished_at = now, seconds, now + seconds
        if job.attempt == 1:
            job.timing.first_started_at = now
        job.prompt = redact(str(job.trial.case.input))
        self._in_flight[job] = self._loop.call_later(seconds, self._end, job, outcome)

    def _end(self, job: Job, outcome: Outcome) -> None:
        del self._in_flight[job]
        self._complete(job, redact_outcome(outcome))

    def cancel(self) -> None:
        self._is_cancelled = True
        for job, timer in self._in_flight.items():
            timer.cancel()
            self._in_flight[job] = self._loop.call_soon(self._end, job, cancelled_outcome())  # type: ignore[assignment]

    def capacity(self) -> int | None:
        return self._capacity

    async def close(self) -> list[str]:
        for timer in self._in_flight.values():
            timer.cancel()
        self._in_flight.clear()
        return []
