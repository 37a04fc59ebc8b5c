"""The local engine: asyncio tasks in the driver, with threads and processes for what blocks."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

from abreast.errors import PluginError, Skipped, TooBig, TrialError, classify
from abreast.execute.engine.answers import cut, storable_part, validated, within_size
from abreast.execute.engine.base import Complete, Engine, EngineSetup, cancelled_outcome
from abreast.execute.engine.workers import LocalWorkers
from abreast.execute.failures import FIXES
from abreast.execute.job import Job
from abreast.execute.limits.base import Limit
from abreast.model import Failure, Outcome, Request
from abreast.redaction import redact, redact_outcome
from abreast.sizes import megabytes, text_size
from abreast.spec.schema import Limits
from abreast.targets import Target
from abreast.targets.base import Moment
from abreast.targets.processes.orphans import marked

STARTUP_S = 120.0  # for a process to start and to import what it needs
CANCEL_GRACE_S = 5.0  # for a cancelled attempt to end


@dataclass(slots=True)
class ActiveAttempt:
    job: Job
    started_at: float  # as Unix time
    start: float  # on the loop's clock, like `deadline` and `over_at`
    seconds: float  # its timeout
    deadline: float
    forced_ending: Outcome | None = None  # its outcome if it is cancelled
    is_preparing: bool = False  # nothing has been sent yet
    over_at: float | None = None  # when it began to clean up


class LocalEngine(Engine):
    """Runs every job as a task of the driver's loop."""

    def __init__(
        self,
        targets: Sequence[Target],
        timeouts: Sequence[Callable[[int], float]],
        complete: Complete,
        settings: Limits | None = None,
    ) -> None:
        """`timeouts`, like `targets`, are in the order of the variants; each maps the length of a prompt to seconds."""
        self._targets, self._timeouts, self._complete = targets, timeouts, complete
        self._settings = settings or Limits()
        self._answer_size = self._settings.answer_bytes
        self._loop = asyncio.get_running_loop()
        self._workers = LocalWorkers(self._loop, self._clock, self._more_time)
        self._attempts: dict[asyncio.Task[None], ActiveAttempt] = {}
        self._is_cancelled = False
        self._timer: asyncio.TimerHandle | None = None  # one for all deadlines
        self._timer_at = math.inf
        self.prepares_ahead = any(target.transforms for target in targets)
        self._upcoming: deque[Job] = deque()  # jobs whose requests to prepare before they start
        self._requests: dict[Job, asyncio.Task[tuple[Request, float]]] = {}  # prepared ahead, with the seconds it took
        self._is_preparing = False
        self._waiting = 0  # attempts in flight that wait for their request

    @classmethod
    def from_setup(cls, setup: EngineSetup, complete: Complete) -> LocalEngine:
        targets = setup.targets()
        return cls(targets, setup.timeouts(targets), complete, setup.limits)

    def submit(self, job: Job) -> None:
        self._loop.create_task(self._attempt(job))  # the loop references it until it starts, then `_attempts`

    def cancel(self) -> None:
        """Cancel attempts in flight; submitted jobs that have not started are cancelled when they start."""
        self._is_cancelled = True
        for task, attempt in self._attempts.items():
            self._end_early(task, attempt, cancelled_outcome())

    def limits(
        self, requested: int | None, emit: Callable[..., Any], stop: Callable[[str, str, str], None]
    ) -> Sequence[Limit]:
        """Limit the load on this machine, if trials run in threads or processes or use CPU time to start."""
        limits: list[Limit] = []
        places = [target.place for target in self._targets]
        starts = [target.start_cpu_s for target in self._targets]
        is_blocking = any(place != "loop" for place in places)
        if is_blocking or any(starts):
            from abreast.execute.engine import governor  # late: only for threads and processes
            from abreast.execute.engine.machine import Machine

            if is_blocking:
                limits.append(governor.governor(self._settings, places, requested, emit))
            if any(starts):
                limits.append(governor.Stagger(starts, Machine().cores()))
        return limits

    def reaping(self) -> AbstractContextManager[None]:
        return marked()

    async def close(self) -> list[str]:
        """Close the targets and the workers; return problems of plugins."""
        self._upcoming.clear()
        self._requests.clear()
        if self._timer is not None:
            self._timer.cancel()
        problems = []
        for target in self._targets:
            try:
                await target.close()
            except PluginError as error:  # not fatal: every answer is stored by now
                problems.append(error.message)
        self._workers.close()
        return problems

    async def _attempt(self, job: Job) -> None:
        start, seconds = self._loop.time(), self._timeouts[job.variant](0)
        attempt = ActiveAttempt(job, time.time(), start, seconds, start + seconds)
        if job.attempt == 1:
            job.timing.first_started_at = attempt.started_at
        task = asyncio.current_task(self._loop)
        assert task is not None
        self._attempts[task] = attempt
        self._check_at(attempt.deadline)
        try:
            outcome = cancelled_outcome() if self._is_cancelled else await self._outcome(job, attempt)
        except GeneratorExit:
            raise
        except BaseException as error:  # noqa: BLE001 - such as pytest's Skipped; without an outcome the run would hang
            outcome = Outcome("error", failure=classify(error))
        if attempt.forced_ending is not None and outcome.status != "ok":
            outcome = _merged_ending(attempt.forced_ending, outcome)
        if self._attempts.pop(task, None) is not None:  # else `_check_deadlines` gave it up
            self._end(attempt, outcome)

    async def _outcome(self, job: Job, attempt: ActiveAttempt) -> Outcome:
        try:
            request = await self._request(job, attempt)
            prompt = cut(request.prompt, self._answer_size)
            job.prompt = redact(prompt)
            if prompt is not request.prompt:
                size = megabytes(text_size(request.prompt))
                raise TooBig.of(f"the prompt has {size} and was not sent", self._answer_size)
            attempt.seconds = self._timeouts[job.variant](len(request.prompt))
            attempt.deadline = self._loop.time() + attempt.seconds
            answer = await self._targets[job.variant].answer(job.trial, request, job.attempt, self._workers)
            return Outcome("ok", within_size(validated(answer), self._answer_size))
        except asyncio.CancelledError:
            return Outcome("error", failure=Failure("crash", "variant", "the target cancelled itself"))
        except Skipped as reason:
            return Outcome("skipped", failure=Failure("skipped", "unknown", str(reason)))
        except TrialError as error:
            return Outcome("error", storable_part(error.answer, self._answer_size), classify(error))

    def _clock(self, moment: Moment, ago: float) -> None:
        """Exclude starting a worker, preparing a folder and cleaning up from a trial's duration."""
        task = asyncio.current_task()
        attempt = None if task is None else self._attempts.get(task)
        now = self._loop.time() - ago
        if attempt is None:
            return
        if attempt.forced_ending is not None:
            if moment == "over":
                attempt.deadline = now + STARTUP_S  # it ended when cancelled; allow time to read its results
            return
        attempt.is_preparing = moment == "preparing"
        if moment == "checking":  # each check has its own timeout
            attempt.deadline = math.inf
        elif moment != "ready":
            attempt.deadline = now + max(STARTUP_S, attempt.seconds)
            attempt.over_at = now if moment == "over" else None
        else:
            attempt.job.timing.queue_s += now - attempt.start
            attempt.started_at += now - attempt.start
            attempt.start, attempt.deadline = now, now + attempt.seconds
            self._check_at(attempt.deadline)

    def _more_time(self) -> Callable[[float], None]:
        task = asyncio.current_task()
        attempt = None if task is None else self._attempts.get(task)

        def extend(seconds: float) -> None:
            if seconds and attempt is not None and attempt.forced_ending is None:
                attempt.deadline += min(seconds, self._loop.time() - attempt.start)

        return extend

    def _end(self, attempt: ActiveAttempt, outcome: Outcome) -> None:
        outcome = redact_outcome(outcome)  # before anything is scored, stored or displayed
        if outcome.failure is None or outcome.failure.blame != "infrastructure":
            self._requests.pop(attempt.job, None)  # no attempt follows
        elapsed = (attempt.over_at or self._loop.time()) - attempt.start
        waited = 0.0 if outcome.answer is None else outcome.answer.waited_s
        outcome.started_at = attempt.started_at
        outcome.service_s = max(0.0, elapsed - waited)
        outcome.finished_at = attempt.started_at + elapsed
        self._complete(attempt.job, outcome)

    # -- deadlines -----------------------------------------------------------------------------------------------------

    def _check_at(self, deadline: float) -> None:
        if deadline < self._timer_at:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_at = deadline
            self._timer = self._loop.call_at(deadline, self._check_deadlines)

    def _check_deadlines(self) -> None:
        """Cancel attempts that are out of time, and give up those that ignore the cancellation."""
        now = self._loop.time() + 0.001
        for task, attempt in list(self._attempts.items()):
            if attempt.deadline > now:
                continue
            if attempt.forced_ending is None:
                self._end_early(task, attempt, _timed_out(attempt))
            else:
                del self._attempts[task]
                asyncio._unregister_task(task)  # else closing the loop would wait for it
                self._end(attempt, attempt.forced_ending)
        self._timer, self._timer_at = None, math.inf
        self._check_at(min((attempt.deadline for attempt in self._attempts.values()), default=math.inf))

    def _end_early(self, task: asyncio.Task[None], attempt: ActiveAttempt, ending: Outcome) -> None:
        attempt.forced_ending, attempt.deadline = ending, self._loop.time() + CANCEL_GRACE_S
        self._check_at(attempt.deadline)
        task.cancel()

    # -- requests ------------------------------------------------------------------------------------------------------

    async def _request(self, job: Job, attempt: ActiveAttempt) -> Request:
        """Return the request, built in a thread if the user's transform builds it.

        The time to prepare it counts towards the trial even if it was prepared ahead.
        """
        target = self._targets[job.variant]
        if not target.transforms:
            return target.request(job.trial)
        prepared = self._requests.get(job)
        if prepared is None:
            self._waiting += 1
            try:
                return (await self._prepare(job))[0]
            finally:
                self._waiting -= 1
                self._prepare_next()
        waits_since = self._loop.time()
        try:
            request, seconds = await asyncio.shield(prepared)
        except BaseException:
            self._requests.pop(job, None)  # the next attempt tries again
            raise
        ahead_s = max(0.0, seconds - (self._loop.time() - waits_since)) if job.attempt == 1 else 0.0
        attempt.start -= ahead_s
        attempt.started_at -= ahead_s
        return request

    def prepare_ahead(self, jobs: Iterable[Job]) -> None:
        """Prepare the requests of these jobs one at a time. Replaces the jobs of an earlier call."""
        self._upcoming = deque(job for job in jobs if self._is_fresh(job) and self._targets[job.variant].transforms)
        self._prepare_next()

    def _prepare_next(self) -> None:
        """Prepare the next request ahead, unless a trial in flight waits for its own."""
        while self._upcoming and not (self._is_preparing or self._waiting or self._is_cancelled):
            job = self._upcoming.popleft()
            if self._is_fresh(job):  # else it has started and prepares its own
                self._is_preparing = True
                prepared = self._requests[job] = self._loop.create_task(self._prepare(job))
                prepared.add_done_callback(self._end_preparing)

    def _end_preparing(self, prepared: asyncio.Task[tuple[Request, float]]) -> None:
        if not prepared.cancelled():
            prepared.exception()  # mark it as retrieved, or asyncio logs it if the trial never starts
        self._is_preparing = False
        self._prepare_next()

    def _is_fresh(self, job: Job) -> bool:
        return not job.attempt and job not in self._requests

    async def _prepare(self, job: Job) -> tuple[Request, float]:
        start = time.monotonic()
        request = await self._workers.in_thread(self._targets[job.variant].request, job.trial)
        return request, time.monotonic() - start


def _merged_ending(ending: Outcome, outcome: Outcome) -> Outcome:
    """Merge the forced ending of an attempt with what it reported, such as its usage.

    A timeout is not blamed on the variant if the target reports that it was waiting for its provider.
    """
    failure, late = outcome.failure, ending.failure
    is_unanswered = failure is not None and failure.blame == "infrastructure" and not failure.presumed
    if ending.status == "error" and failure is not None and late is not None and is_unanswered:
        return replace(outcome, failure=replace(failure, message=f"{late.message}; {failure.message}"))
    return replace(ending, answer=outcome.answer)


def _timed_out(attempt: ActiveAttempt) -> Outcome:
    """Return the outcome of an attempt that timed out while preparing, running or cleaning up."""
    if not attempt.is_preparing and attempt.over_at is None:
        message = f"no answer within {attempt.seconds:g} s"
        return Outcome("error", failure=Failure("timeout", "variant", message, fix=FIXES["timeout"]))
    message = "not ready to start" if attempt.is_preparing else "its results could not be collected"
    message += f" within {max(STARTUP_S, attempt.seconds):g} s"
    return Outcome("error", failure=Failure("timeout", "infrastructure", message, fix="reduce --parallel"))
