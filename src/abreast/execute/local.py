"""The local engine: asyncio tasks in the driver, with threads and processes for what blocks."""

from __future__ import annotations

import asyncio
import math
import operator
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from abreast.errors import Crashed, Skipped, classify
from abreast.execute.job import Job
from abreast.execute.workers import Workers
from abreast.model import Answer, Failure, Outcome, Request, Usage
from abreast.targets import Target

PATIENCE_S = 5.0  # for a target that was told to end


@dataclass(slots=True)
class Flight:
    """One attempt on its way."""

    job: Job
    finished: Callable[[Job, Outcome], None]
    clock: Callable[[], float]
    started_at: float
    start: float
    seconds: float = math.inf
    deadline: float = math.inf

    def end(self, outcome: Outcome) -> None:
        outcome.started_at = self.started_at
        outcome.service_s = self.clock() - self.start
        outcome.finished_at = self.started_at + outcome.service_s
        self.finished(self.job, outcome)


class LocalEngine:
    """Runs every job as a task; its outcome comes back whatever happens."""

    def __init__(self, targets: Sequence[Target], timeout: Callable[[int], float]) -> None:
        self._targets = targets
        self._timeout = timeout
        self._loop = asyncio.get_running_loop()
        self._workers = Workers(self._loop)
        self._begun: dict[asyncio.Task[None], Flight] = {}  # a task cancelled before it begins would say nothing
        self._cancelled = False
        self._watch: asyncio.TimerHandle | None = None

    def submit(self, job: Job, finished: Callable[[Job, Outcome], None]) -> None:
        self._loop.create_task(self._attempt(job, finished))  # which the loop holds until it begins
        if self._watch is None:
            self._watch = self._loop.call_later(PATIENCE_S, self._give_up)

    def cancel(self) -> None:
        """Cancel what is in flight, and what was submitted a moment ago as soon as it begins."""
        self._cancelled = True
        for task, flight in self._begun.items():
            task.cancel()
            flight.deadline = min(flight.deadline, self._loop.time())

    def _give_up(self) -> None:
        """Go on without what neither ended at its deadline nor let itself be cancelled."""
        now = self._loop.time()
        late = [task for task, flight in self._begun.items() if now > flight.deadline + PATIENCE_S]
        for task in late:
            flight = self._begun.pop(task)
            flight.end(_cancelled() if self._cancelled else _timed_out(flight.seconds))
            asyncio._unregister_task(task)  # or the end of the loop would wait for it
        self._watch = self._loop.call_later(PATIENCE_S, self._give_up) if self._begun else None

    async def close(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
        for target in self._targets:
            await target.close()
        self._workers.close()

    async def _attempt(self, job: Job, finished: Callable[[Job, Outcome], None]) -> None:
        flight = Flight(job, finished, self._loop.time, time.time(), self._loop.time())
        if job.attempt == 1:
            job.timing.first_started_at = flight.started_at
        task = asyncio.current_task()
        assert task is not None
        self._begun[task] = flight
        try:
            outcome = _cancelled() if self._cancelled else await self._outcome(job, flight)
        except GeneratorExit:
            raise
        except BaseException as error:  # noqa: BLE001 - pytest's Skipped is one; without an outcome the run would wait
            outcome = Outcome("error", failure=classify(error))
        if self._begun.pop(task, None) is not None:  # else nobody waits for it any more
            flight.end(outcome)

    async def _outcome(self, job: Job, flight: Flight) -> Outcome:
        limit: asyncio.Timeout | None = None
        try:
            request = await self._request(job)
            job.prompt = request.prompt
            flight.seconds = self._timeout(len(request.prompt))
            flight.deadline = self._loop.time() + flight.seconds
            async with asyncio.timeout_at(flight.deadline) as limit:
                answer = await self._targets[job.variant].answer(job.trial, request, job.attempt, self._workers)
            return Outcome("ok", checked(answer))
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                return _cancelled()
            return Outcome("error", failure=Failure("crash", "variant", "the target cancelled itself"))
        except TimeoutError as error:
            if limit is not None and limit.expired():
                return _timed_out(flight.seconds)
            return Outcome("error", failure=classify(error))
        except Skipped as reason:
            return Outcome("skipped", failure=Failure("skipped", "unknown", str(reason)))

    async def _request(self, job: Job) -> Request:
        """What is sent. A user's transform may take a while, so it does not run where everything else waits for it."""
        target = self._targets[job.variant]
        if not target.transforms:
            return target.request(job.trial)
        async with asyncio.timeout(self._timeout(0)):
            made: Request = await self._workers.in_thread(target.request, job.trial)
            return made


def _cancelled() -> Outcome:
    return Outcome("cancelled", failure=Failure("cancelled", "unknown", "cancelled while in flight"))


def _timed_out(seconds: float) -> Outcome:
    return Outcome("error", failure=Failure("timeout", "variant", f"no answer within {seconds:g} s"))


def checked(answer: object) -> Answer:
    """An answer that can be stored and scored: a target may be a user's, and so may what it returns."""
    if not isinstance(answer, Answer):
        raise Crashed(f"the target returned {type(answer).__name__}, not an Answer")
    usage, cost = answer.usage, answer.cost_usd
    if type(answer.text) is not str or not isinstance(answer.data, Mapping) or not isinstance(usage, Usage):
        raise Crashed("the answer's text must be text, its data a mapping and its usage a Usage")
    tokens = (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens)
    if all(type(count) in _PLAIN_COUNTS for count in tokens) and (cost is None or type(cost) is float):
        if cost is not None:
            _amount(cost)
        return answer
    return replace(answer, usage=Usage(*map(_count, tokens)), cost_usd=None if cost is None else _amount(cost))


_PLAIN_COUNTS = (int, type(None))


def _count(value: object) -> int | None:
    """Tokens as a plain whole number, whatever whole number it was."""
    try:
        return None if value is None else int(operator.index(value))  # type: ignore[arg-type]
    except TypeError:
        raise Crashed(f"the answer's tokens must be whole numbers, got {value!r}"[:500]) from None


def _amount(value: object) -> float:
    try:
        amount = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        amount = math.nan
    if not 0 <= amount < math.inf:
        raise Crashed(f"the answer's cost_usd must be dollars of at least 0, got {value!r}"[:500])
    return amount
