"""The local engine: asyncio tasks in the driver, with threads and processes for what blocks."""

from __future__ import annotations

import asyncio
import math
import operator
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields, replace
from typing import Any

from abreast.errors import Crashed, PluginError, Skipped, TooBig, TrialError, classify
from abreast.execute.engine.base import Complete, Engine, EngineSetup, cancelled_outcome
from abreast.execute.engine.workers import Workers
from abreast.execute.job import Job
from abreast.execute.limits.base import Limit
from abreast.execute.limits.breaker import FIXES
from abreast.model import STATE, Answer, Failure, Outcome, Request, Usage
from abreast.redaction import redact, redact_outcome
from abreast.sizes import EXCERPT, excerpt, megabytes, text_size, value_size
from abreast.spec.schema import Limits
from abreast.targets import Target
from abreast.targets.base import Moment
from abreast.targets.processes.orphans import marked

STARTUP_S = 120.0  # for a process to start and to import what it needs
PATIENCE_S = 5.0  # for a target that was told to end
LONGEST_MODEL = 200  # characters of the name of a model


@dataclass(slots=True)
class Flight:
    job: Job
    started_at: float
    start: float
    seconds: float  # it may take
    deadline: float
    ending: Outcome | None = None  # how it ends if it does as it was told
    preparing: bool = False  # nothing was asked yet
    over_at: float | None = None  # since when it only cleans up


class LocalEngine(Engine):
    """Runs every job as a task of the driver's loop."""

    def __init__(
        self,
        targets: Sequence[Target],
        timeouts: Sequence[Callable[[int], float]],
        complete: Complete,
        settings: Limits | None = None,
    ) -> None:
        """`timeouts` are by variant, as the targets are: the seconds that a prompt of some length may take."""
        self._targets = targets
        self._complete = complete
        self._settings = settings or Limits()
        self._answer_size = self._settings.answer_bytes
        self._timeouts = timeouts
        self._loop = asyncio.get_running_loop()
        self._workers = Workers(self._loop, self._clock, self._more_time)
        self._begun: dict[asyncio.Task[None], Flight] = {}  # a task cancelled before it begins would say nothing
        self._cancelled = False
        self._watch: asyncio.TimerHandle | None = None  # one timer for all deadlines
        self._looks_at = math.inf
        self.prepares_ahead = any(target.transforms for target in targets)
        self._ahead: deque[Job] = deque()  # whose requests are to be made before they start
        self._made: dict[Job, asyncio.Task[tuple[Request, float]]] = {}  # such requests, and how long each took
        self._making = False  # one of those
        self._waiting = 0  # in flight, until their own is made

    @classmethod
    def from_setup(cls, setup: EngineSetup, complete: Complete) -> LocalEngine:
        targets = setup.targets()
        return cls(targets, setup.timeouts(targets), complete, setup.limits)

    def submit(self, job: Job) -> None:
        self._loop.create_task(self._attempt(job))  # which the loop holds until it begins

    def cancel(self) -> None:
        """Cancel what is in flight, and what was submitted a moment ago as soon as it begins."""
        self._cancelled = True
        for task, flight in self._begun.items():
            self._tell_to_end(task, flight, cancelled_outcome())

    def limits(self, requested: int | None, tell: Callable[..., Any]) -> Sequence[Limit]:
        """The governor of this machine, where trials run in threads and processes."""
        limits: list[Limit] = []
        places = [target.place for target in self._targets]
        starts = [target.start_cpu_s for target in self._targets]
        if any(place != "loop" for place in places) or any(starts):
            from abreast.execute.engine.machine import Machine
            from abreast.execute.limits import resources  # late: only for threads and processes

            if any(place != "loop" for place in places):
                limits.append(resources.governor(self._settings, places, requested, tell))
            if any(starts):
                limits.append(resources.Stagger(starts, Machine().cores()))
        return limits

    def reaping(self) -> AbstractContextManager[None]:
        return marked()

    async def close(self) -> list[str]:
        """Close the targets and the workers; return problems of plugins."""
        self._ahead.clear()
        self._made.clear()
        if self._watch is not None:
            self._watch.cancel()
        problems = []
        for target in self._targets:
            try:
                await target.close()
            except PluginError as error:  # every answer is stored by now
                problems.append(error.message)
        self._workers.close()
        return problems

    async def _attempt(self, job: Job) -> None:
        start, seconds = self._loop.time(), self._timeouts[job.variant](0)
        flight = Flight(job, time.time(), start, seconds, start + seconds)
        if job.attempt == 1:
            job.timing.first_started_at = flight.started_at
        task = asyncio.current_task(self._loop)
        assert task is not None
        self._begun[task] = flight
        self._look_at(flight.deadline)
        try:
            outcome = cancelled_outcome() if self._cancelled else await self._outcome(job, flight)
        except GeneratorExit:
            raise
        except BaseException as error:  # noqa: BLE001 - pytest's Skipped is one; without an outcome the run would wait
            outcome = Outcome("error", failure=classify(error))
        if flight.ending is not None and outcome.status != "ok":
            outcome = _cut_off(flight.ending, outcome)
        if self._begun.pop(task, None) is not None:  # else nobody waits for it any more
            self._end(flight, outcome)

    async def _outcome(self, job: Job, flight: Flight) -> Outcome:
        try:
            request = await self._request(job, flight)
            prompt = _cut(request.prompt, self._answer_size)
            job.prompt = redact(prompt)
            if prompt is not request.prompt:
                size = megabytes(text_size(request.prompt))
                raise TooBig.of(f"the prompt has {size} and was not sent", self._answer_size)
            flight.seconds = self._timeouts[job.variant](len(request.prompt))
            flight.deadline = self._loop.time() + flight.seconds
            answer = await self._targets[job.variant].answer(job.trial, request, job.attempt, self._workers)
            return Outcome("ok", within_size(checked(answer), self._answer_size))
        except asyncio.CancelledError:
            return Outcome("error", failure=Failure("crash", "variant", "the target cancelled itself"))
        except Skipped as reason:
            return Outcome("skipped", failure=Failure("skipped", "unknown", str(reason)))
        except TrialError as error:
            return Outcome("error", _checked_remains(error.answer, self._answer_size), classify(error))

    def _clock(self, moment: Moment, ago: float) -> None:
        """Exclude starting a worker, preparing a folder and cleaning up from the time of a trial."""
        task = asyncio.current_task()
        flight = None if task is None else self._begun.get(task)
        now = self._loop.time() - ago
        if flight is not None and flight.ending is not None and moment == "over":
            flight.deadline = now + STARTUP_S  # it has ended as it was told, and keeps what is left
        if flight is None or flight.ending is not None:
            return
        flight.preparing = moment == "preparing"
        if moment == "checking":  # each check has its own time
            flight.deadline = math.inf
        elif moment != "ready":
            flight.deadline = now + max(STARTUP_S, flight.seconds)
            flight.over_at = now if moment == "over" else None
        else:
            flight.job.timing.queue_s += now - flight.start
            flight.started_at += now - flight.start
            flight.start, flight.deadline = now, now + flight.seconds
            self._look_at(flight.deadline)

    def _more_time(self) -> Callable[[float], None]:
        task = asyncio.current_task()
        flight = None if task is None else self._begun.get(task)

        def extend(seconds: float) -> None:
            if seconds and flight is not None and flight.ending is None:
                flight.deadline += min(seconds, self._loop.time() - flight.start)

        return extend

    def _end(self, flight: Flight, outcome: Outcome) -> None:
        outcome = redact_outcome(outcome)  # before anything is scored, stored or shown
        if outcome.failure is None or outcome.failure.blame != "infrastructure":
            self._made.pop(flight.job, None)  # no attempt follows
        elapsed = (flight.over_at or self._loop.time()) - flight.start
        waited = 0.0 if outcome.answer is None else outcome.answer.waited_s
        outcome.started_at = flight.started_at
        outcome.service_s = max(0.0, elapsed - waited)
        outcome.finished_at = flight.started_at + elapsed
        self._complete(flight.job, outcome)

    def _look_at(self, deadline: float) -> None:
        if deadline < self._looks_at:
            if self._watch is not None:
                self._watch.cancel()
            self._looks_at = deadline
            self._watch = self._loop.call_at(deadline, self._look)

    def _look(self) -> None:
        """Cancel attempts that are out of time, and give up on those that ignore it."""
        now = self._loop.time() + 0.001
        for task, flight in list(self._begun.items()):
            if flight.deadline > now:
                continue
            if flight.ending is None:
                self._tell_to_end(task, flight, _late(flight))
            else:
                del self._begun[task]
                asyncio._unregister_task(task)  # or the end of the loop would wait for it
                self._end(flight, flight.ending)
        self._watch, self._looks_at = None, math.inf
        self._look_at(min((flight.deadline for flight in self._begun.values()), default=math.inf))

    def _tell_to_end(self, task: asyncio.Task[None], flight: Flight, ending: Outcome) -> None:
        flight.ending, flight.deadline = ending, self._loop.time() + PATIENCE_S
        self._look_at(flight.deadline)
        task.cancel()

    async def _request(self, job: Job, flight: Flight) -> Request:
        """What is sent. A user's transform may take a while, so it does not run where everything else waits for it;
        if it was run ahead, its time is the trial's all the same."""
        target = self._targets[job.variant]
        if not target.transforms:
            return target.request(job.trial)
        made = self._made.get(job)
        if made is None:
            self._waiting += 1
            try:
                return (await self._make(job))[0]
            finally:
                self._waiting -= 1
                self._make_next()
        waited = self._loop.time()
        try:
            request, seconds = await asyncio.shield(made)
        except BaseException:
            self._made.pop(job, None)  # the next attempt tries again
            raise
        before = max(0.0, seconds - (self._loop.time() - waited)) if job.attempt == 1 else 0.0
        flight.start -= before
        flight.started_at -= before
        return request

    def prepare_ahead(self, jobs: Iterable[Job]) -> None:
        """Make their requests, one after the other, while others are in flight. What was expected before and is not any
        more, is not made."""
        self._ahead = deque(job for job in jobs if self._is_fresh(job) and self._targets[job.variant].transforms)
        self._make_next()

    def _make_next(self) -> None:
        """Make the next request ahead, unless a trial in flight waits for its own."""
        while self._ahead and not (self._making or self._waiting or self._cancelled):
            job = self._ahead.popleft()
            if self._is_fresh(job):  # else it has started, and makes its own
                self._making = True
                made = self._made[job] = self._loop.create_task(self._make(job))
                made.add_done_callback(self._end_making)

    def _end_making(self, made: asyncio.Task[tuple[Request, float]]) -> None:
        if not made.cancelled():
            made.exception()  # or it would be logged if the trial never begins
        self._making = False
        self._make_next()

    def _is_fresh(self, job: Job) -> bool:
        return not job.attempt and job not in self._made

    async def _make(self, job: Job) -> tuple[Request, float]:
        start = time.monotonic()
        request = await self._workers.in_thread(self._targets[job.variant].request, job.trial)
        return request, time.monotonic() - start


def _cut_off(ending: Outcome, outcome: Outcome) -> Outcome:
    """How an attempt ends that was told to, with what it used until then. If its time was over while it waited for its
    provider, as the target reports, the timeout is not the variant's failure."""
    failure, late = outcome.failure, ending.failure
    is_unanswered = failure is not None and failure.blame == "infrastructure" and not failure.presumed
    if ending.status == "error" and failure is not None and late is not None and is_unanswered:
        return replace(outcome, failure=replace(failure, message=f"{late.message}; {failure.message}"))
    return replace(ending, answer=outcome.answer)


def _late(flight: Flight) -> Outcome:
    """The outcome of an attempt that ran out of time, while it was preparing, running or cleaning up."""
    if not flight.preparing and flight.over_at is None:
        told = f"no answer within {flight.seconds:g} s"
        return Outcome("error", failure=Failure("timeout", "variant", told, fix=FIXES["timeout"]))
    most = max(STARTUP_S, flight.seconds)
    told = "not ready to start" if flight.preparing else "what it left was not read"
    failure = Failure("timeout", "infrastructure", f"{told} within {most:g} s", fix="reduce --parallel")
    return Outcome("error", failure=failure)


def checked(answer: object) -> Answer:
    """Check an answer, which may come from a user's target, so that it can be stored and scored."""
    if not isinstance(answer, Answer):
        raise Crashed(f"the target returned {type(answer).__name__}, not an Answer")
    usage, cost, data = answer.usage, answer.cost_usd, answer.data
    is_mapping = type(data) is dict or isinstance(data, Mapping)
    if type(answer.text) is not str or not is_mapping or not isinstance(usage, Usage):
        raise Crashed("the answer's text must be text, its data a mapping and its usage a Usage")
    for text in (answer.raw_response or "", answer.model or "", *answer.artifacts, *answer.artifacts.values()):
        if not isinstance(text, str):
            raise Crashed("the answer's raw_response, model and artifacts must be text")
    tokens = _TOKENS(usage)
    if not isinstance(answer.waited_s, int | float) or not 0 <= answer.waited_s < math.inf:
        raise Crashed(f"the answer's waited_s must be seconds of at least 0, got {answer.waited_s!r}"[:500])
    if _PLAIN_COUNTS.issuperset(map(type, tokens)) and (cost is None or type(cost) is float):
        if cost is not None:
            _amount(cost)
        return answer
    return replace(answer, usage=Usage(*map(_count, tokens)), cost_usd=None if cost is None else _amount(cost))


def within_size(answer: Answer, most: int) -> Answer:
    """The answer with an oversized raw response and artifacts shortened; raise if the answer itself is oversized."""
    short = _shortened(answer, most)
    if short.text is answer.text and short.data is answer.data:
        return short
    size = max(text_size(answer.text), value_size((answer.value, answer.data)))
    raise TooBig.of(f"the answer has {megabytes(size)}", most, short)


def _shortened(answer: Answer, most: int) -> Answer:
    """The answer with every oversized text cut to its head and tail, and without oversized values."""
    raw, artifacts, model = answer.raw_response, answer.artifacts, answer.model
    length = len(answer.text) + len(raw or "") + sum(map(len, artifacts.values()))
    has_value = answer.value is not None or bool(answer.data)
    is_value_small = not has_value or value_size((answer.value, answer.data)) <= most
    if is_value_small and 4 * length <= most and len(model or "") <= LONGEST_MODEL:  # a character has up to 4 bytes
        return answer
    return replace(
        answer,
        text=_cut(answer.text, most),
        value=answer.value if is_value_small else None,
        data=answer.data if is_value_small else {},
        raw_response=None if raw is None else _cut(raw, most),
        # what another trial begins with is for a program, and has a limit of its own
        artifacts={name: text if name == STATE else _cut(text, most) for name, text in artifacts.items()},
        model=None if model is None else model[:LONGEST_MODEL],
    )


def _cut(text: str, most: int) -> str:
    if text_size(text) <= most:
        return text
    return excerpt(redact(text), min(most // 5, EXCERPT))  # of 4 bytes each, and the note


def _checked_remains(answer: object, most: int) -> Answer | None:
    """The answer of a failed attempt, if it can be stored."""
    try:
        return None if answer is None else _shortened(checked(answer), most)
    except Crashed:
        return None


_TOKENS = operator.attrgetter(*(field.name for field in fields(Usage)))
_PLAIN_COUNTS = frozenset((int, type(None)))


def _count(value: object) -> int | None:
    """Convert tokens to a plain int."""
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
