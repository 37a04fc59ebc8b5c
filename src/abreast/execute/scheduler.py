"""The scheduler: the one place that decides which job starts now.

Jobs wait in one lane per variant, refilled from a cursor over the plan; jobs in back-off wait in a heap and hold
nothing. There is also a lane for each judge: its questions are jobs under the same limits, and they start before
further trials, because an answer without its score decides nothing. Trials that begin with what another one left wait
for it outside the lanes. The clock is injected: tests run in virtual time.
"""

from __future__ import annotations

import asyncio
import dataclasses
import heapq
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol

from abreast.execute.chains import Chains
from abreast.execute.job import Job
from abreast.execute.lanes import Lanes
from abreast.execute.limits import UNTIL_AN_EVENT, Limit, Stage
from abreast.execute.listener import Listener
from abreast.execute.retry import Retry
from abreast.model import Blame, Failure, Outcome
from abreast.plan.plan import Plan

WINDOW = 5_000  # no variant starts a block more than this many past the stored prefix
AHEAD = 32  # jobs of a lane whose requests are prepared before they start, at most
FEW = 50  # cases past that prefix, or a tenth of all, where a decision may make them needless
LEAD = 32  # blocks that one variant may start before the others in such a run
HOLD_S = 0.005  # for each in flight: who took longer keeps the place until the row is safe, which costs under 2 %


INTERRUPTED = "interrupted"
TYPED = "if a service is at fault, raise a typed error instead: RateLimited, Transient, ... of abreast.errors"


def undecided_if_broken(outcome: Outcome) -> Outcome:
    """Ctrl-C in a terminal reaches the processes that a target started, too. What breaks then says nothing of the
    variant, so a resume executes it again."""
    failure = outcome.failure
    if failure is None or outcome.status != "error" or failure.kind != "crash":
        return outcome
    told = Failure("cancelled", "unknown", f"broke while the run was being interrupted: {failure.message}")
    return dataclasses.replace(outcome, status="cancelled", failure=told)


def may_be_either(failure: Failure) -> bool:
    """Whether a final failure may be the variant's own or that of a service that is down: a foreign exception of a
    user's function, or a timeout."""
    return failure.presumed or (failure.kind == "timeout" and failure.blame == "variant")


class Engine(Protocol):
    """Executes jobs and says when they are done."""

    def submit(self, job: Job, finished: Callable[[Job, Outcome], None]) -> None: ...

    def cancel(self) -> None: ...

    @property
    def foresees(self) -> bool:
        """Whether it wants to know what will start next."""

    def foresee(self, jobs: Iterable[Job]) -> None:
        """These will probably start next, in this order, and no others."""


class Records(Protocol):
    """Where outcomes go. `done` is called with the jobs whose rows are safe."""

    def outcome(self, job: Job, outcome: Outcome) -> None: ...

    def attempt(self, job: Job, outcome: Outcome, delay: float) -> None: ...


class Judges(Protocol):
    """Where questions to judges come from. Their jobs come back through the same `Records`."""

    lanes: int

    @property
    def left(self) -> int:
        """Answers that wait for a judgement."""
        ...

    def next(self, lane: int, now: float) -> Job | None:
        """The next question to one of the judges, if there is one."""
        ...

    def look(self, enough: int) -> bool:
        """Find questions until there are enough for each, but only for a moment; whether there may be more."""
        ...


class Scheduler:
    """Drain completions, release back-offs, refill the lanes, start what may start; sleep until something happens."""

    def __init__(
        self,
        plan: Plan,
        engine: Engine,
        records: Records,
        limits: Sequence[Limit],
        retry: Retry,
        listener: Listener,
        clock: Callable[[], float],
        judges: Judges | None = None,
    ) -> None:
        self._plan = plan
        self._engine = engine
        self._records = records
        self._limits = tuple(limits)
        asked, self._taking, self._settling, self._releasing, self._concluding, self._storing = (
            tuple(limit for limit in limits if getattr(type(limit), name) is not getattr(Limit, name))
            for name in ("wait", "take", "settle", "release", "conclude", "store")
        )
        self._retry = retry
        self._listener = listener
        self._clock = clock
        self._judges = judges
        self._chains = Chains(plan) if plan.is_chained else None
        self._lanes = Lanes(0, len(plan.variants), asked)
        self._judge_lanes = Lanes(len(plan.variants), 0 if judges is None else judges.lanes, asked)
        self._backoff: list[tuple[float, int, Job]] = []
        self._completed: deque[tuple[Job, Outcome]] = deque()
        self._stored: deque[Sequence[Job]] = deque()
        self._undecided: list[tuple[Job, Outcome]] = []  # final failures whose blame is still open
        self._blocks = plan.open_blocks()
        self._cursor = 0  # the next of them to be put into the lanes
        self._to_come = plan.missing_by_variant()  # trials that are not in a lane yet
        self._open: dict[int, int] = {}  # blocks begun and not all stored: how many trials are left
        self._prefix = 0  # so many of them are stored without a gap
        self._unstored = plan.missing()
        self._unacknowledged = 0  # outcomes handed over and not yet safe
        self._unsafe = 0  # of them, those that have given their place to another
        self.in_flight = 0
        self.most_in_flight = 0
        self.stopped: str | None = None  # the kind of reason
        self.why = ""  # the same in words
        self.fix = ""
        self.store_failed = False  # then no acknowledgement will come
        self._behind: Callable[[], bool] | None = None
        self._wake = asyncio.Event()

    @property
    def is_idle(self) -> bool:
        """Nothing more will start."""
        return self.stopped is not None or (self._unstored == 0 and self._is_judged())

    # -- from outside ----------------------------------------------------------------------------------------------

    def stop(self, kind: str, message: str = "", fix: str = "") -> None:
        """Start nothing more; what is in flight may finish. The first reason counts."""
        if self.stopped is None:
            self.stopped, self.why, self.fix = kind, message or kind, fix
            self._listener.event("stop", reason=kind, message=message, in_flight=self.in_flight)
        self._wake.set()

    def paced_by(self, behind: Callable[[], bool]) -> None:
        """Somebody looks at results on the way: while they are behind nothing starts, and variants keep together."""
        self._behind = behind

    def finish_what_is_begun(self, before: Collection[int] = ()) -> int:
        """Drop every case of which no trial has started, here or `before`; return how many trials that saves."""
        plan, repeats = self._plan, self._plan.repeats
        fresh = Counter(job.block for job in self._lanes if not job.attempt)
        untouched = {block for block in fresh if fresh[block] == plan.missing_in(block)}
        refilled, ahead = self._blocks[: self._cursor], self._blocks[self._cursor :]
        begun = {block // repeats for block in refilled if block not in untouched}
        begun.update(plan.block(case, 0) // repeats for case in before)
        left_out = {block for block in untouched if block // repeats not in begun}
        self._lanes.keep(lambda job: job.block not in left_out)
        for block in left_out:
            del self._open[block]
        self._advance()
        needed = [block for block in ahead if block // repeats in begun]
        self._blocks = [*refilled, *needed]
        saved = sum(fresh[block] for block in left_out) + sum(self._to_come)
        self._to_come = [0] * len(plan.variants)
        for block in needed:
            saved -= plan.missing_in(block)
            for position in plan.dispatch(block):
                self._to_come[position % len(plan.variants)] += not plan.done[position]
        self._unstored -= saved
        self._wake.set()
        return saved

    def wake(self) -> None:
        """Something outside changed that a limit looks at."""
        self._wake.set()

    def stored(self, jobs: Sequence[Job]) -> None:
        """These rows are on disk."""
        self._stored.append(jobs)
        self._wake.set()

    def finished(self, job: Job, outcome: Outcome) -> None:
        """An attempt has ended."""
        self._completed.append((job, outcome))
        self._wake.set()

    # -- the loop --------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Until every trial is stored, or until what was in flight at the stop is."""
        while True:
            self._wake.clear()
            now = self._clock()
            self._drain(now)
            self._release(now)
            self._refill(now)
            if self._judges is not None:
                self._refill_judges(self._judges, now)
            wait = self._start(now)
            if self._undecided and wait == UNTIL_AN_EVENT:
                self._settle_blame("at rest" if self._is_at_rest() else "running")
            if self._engine.foresees:
                self._engine.foresee(self._next_up(now) if self.stopped is None else ())
            if self._is_over():
                return
            if not self._wake.is_set():
                await self._sleep(wait)
            else:
                await asyncio.sleep(0)

    def _is_over(self) -> bool:
        if self._completed or self._stored or self._undecided or self.in_flight:
            return False
        if self.stopped is not None:
            return self._unacknowledged == 0 or self.store_failed
        return self._unstored == 0 and self._is_judged()

    def _is_judged(self) -> bool:
        return self._judges is None or not self._judges.left

    async def _sleep(self, wait: float) -> None:
        if wait == UNTIL_AN_EVENT:
            await self._wake.wait()
            return
        timer = asyncio.get_running_loop().call_later(wait, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            timer.cancel()

    def _drain(self, now: float) -> None:
        while self._completed:
            job, outcome = self._completed.popleft()
            if self.stopped == INTERRUPTED:
                outcome = undecided_if_broken(outcome)
            self.in_flight -= 1
            for limit in self._settling:
                limit.settle(job, outcome, now)
            failure = outcome.failure
            delay = self._delay(job, failure, now) if failure is not None else None
            if delay is not None and failure is not None and self.stopped is None:
                job.timing.backoff_s += delay
                self._release_place(job, now)
                self._records.attempt(job, outcome, delay)
                if job.asks is None:
                    self._listener.retried(job, failure, delay)
                heapq.heappush(self._backoff, (now + delay, job.trial.position, job))
            else:
                self._conclude(job, outcome, now)
        while self._stored:
            jobs = self._stored.popleft()
            for job in jobs:
                if job.holds:
                    self._release_place(job, now)
                else:
                    self._unsafe -= 1
                if job.asks is None:
                    self._close(job.block)
                    if self._chains is not None:
                        self._follow(self._chains, job, now)
            self._unacknowledged -= len(jobs)
            trials = jobs if self._judges is None else [job for job in jobs if job.asks is None]
            if trials:
                self._unstored -= len(trials)
                self._listener.stored(trials)

    def _delay(self, job: Job, failure: Failure, now: float) -> float | None:
        """Seconds until the next attempt; None if this one was the last."""
        delay = self._retry.delay(failure, job.attempt, job.excused)
        return None if delay is None else max([delay, *(limit.least_delay(job, now) for limit in self._limits)])

    def _conclude(self, job: Job, outcome: Outcome, now: float) -> None:
        for limit in self._concluding:
            limit.conclude(job, outcome, now)
        if job.asks is None:
            self._listener.finished(job, outcome)
        is_undecided = job.asks is None and outcome.failure is not None and may_be_either(outcome.failure)
        if is_undecided or outcome.service_s < HOLD_S * job.timing.in_flight:
            job.holds = False
            self._release_place(job, now)
        if is_undecided:
            self._undecided.append((job, outcome))
        else:
            self._hand_over(job, outcome)
        if self._undecided:
            self._settle_blame("running")

    def _hand_over(self, job: Job, outcome: Outcome) -> None:
        """Pass a final outcome to the writer."""
        for limit in self._storing:
            limit.store(job, outcome)
        if job.asks is None and self._chains is not None:
            self._chains.concluded(job, outcome)
        self._unacknowledged += 1
        self._unsafe += not job.holds
        self._records.outcome(job, outcome)

    def _settle_blame(self, stage: Stage) -> None:
        """Hand over failures that may be the variant's or its service's, once it is known whose they are."""
        undecided = []
        for job, outcome in self._undecided:
            assert outcome.failure is not None
            blame = self._blame(job, outcome.failure, stage if self.stopped is None else "stopped")
            if blame is None:
                undecided.append((job, outcome))
                continue
            fix = TYPED if outcome.failure.presumed and blame == "variant" else outcome.failure.fix
            outcome.failure = dataclasses.replace(outcome.failure, blame=blame, fix=fix)
            self._hand_over(job, outcome)
        self._undecided = undecided

    def _blame(self, job: Job, failure: Failure, stage: Stage) -> Blame | None:
        return next(
            (blame for limit in self._limits if (blame := limit.blame(job, failure, stage)) != "variant"), "variant"
        )

    def _is_at_rest(self) -> bool:
        """Nothing is under way that could start another trial."""
        return not (self.in_flight or self._unacknowledged or (self._behind is not None and self._behind()))

    def _follow(self, chains: Chains, job: Job, now: float) -> None:
        """Those that waited for this trial go to their lanes, or never start."""
        over = [job] if self.stopped is None else []
        while over:
            for follower in chains.over(over.pop()):
                if chains.fate(follower) == "starts":
                    follower.ready_at = now
                    self._lanes.insert(follower)
                else:
                    self._leave_out(follower)
                    over.append(follower)

    def _leave_out(self, job: Job) -> None:
        """What it would begin with is not there: a resume makes it good."""
        for limit in self._limits:
            limit.leave_out(job)
        trial = job.trial
        self._listener.event("left_out", case=trial.case.id, variant=trial.variant.name, repeat=trial.repeat)
        self._unstored -= 1
        self._close(job.block)
        self._wake.set()  # a limit may have waited for it

    def _release_place(self, job: Job, now: float) -> None:
        for limit in self._releasing:
            limit.release(job, now)

    def _close(self, block: int) -> None:
        self._open[block] -= 1
        if not self._open[block]:
            del self._open[block]
        self._advance()

    def _advance(self) -> None:
        while self._prefix < self._cursor and self._blocks[self._prefix] not in self._open:
            self._prefix += 1

    def _release(self, now: float) -> None:
        """Jobs whose back-off is over go to the front of their lane."""
        due = []
        while self._backoff and self._backoff[0][0] <= now:
            due.append(heapq.heappop(self._backoff)[2])
        for job in sorted(due, key=lambda job: job.order, reverse=True):
            job.ready_at = now
            (self._lanes if job.asks is None else self._judge_lanes).append_left(job)

    def _refill_judges(self, judges: Judges, now: float) -> None:
        if self.stopped is not None:
            return
        enough = AHEAD + self.in_flight
        if judges.look(enough):
            self._wake.set()
        for number in range(len(self._judge_lanes)):
            while self._judge_lanes.size(number) < enough and (job := judges.next(number, now)) is not None:
                self._judge_lanes.append(job)

    def _refill(self, now: float) -> None:
        if self.stopped is not None:
            return
        window = WINDOW if self._behind is None else self._few_blocks()
        end = min(len(self._blocks), self._prefix + window)
        while self._cursor < end and self._lanes.is_short(self.most_in_flight // len(self._lanes) + 2):
            self._add_block(self._blocks[self._cursor], now)

    def _add_block(self, block: int, now: float) -> None:
        """Add the missing trials of the next block to the lanes."""
        plan, done = self._plan, self._plan.done
        self._cursor += 1
        positions = plan.dispatch(block)
        case = plan.parts(positions[0])[0]
        jobs = [
            Job(plan.trial(position), position % len(plan.variants), block, slot, case, now)
            for slot, position in enumerate(positions)
            if not done[position]
        ]
        self._open[block] = len(jobs)
        for job in jobs:
            self._to_come[job.variant] -= 1
            if not self._to_come[job.variant]:
                self._lanes.complete(job.variant)
            if self._chains is None:
                self._lanes.append(job)
            else:
                self._add(job, now)

    def _add(self, job: Job, now: float) -> None:
        """A job of a chain: to its lane, unless it has to wait."""
        assert self._chains is not None
        fate = self._chains.fate(job)
        if fate == "starts":
            self._lanes.append(job)
        elif fate == "never starts":
            self._leave_out(job)
            self._follow(self._chains, job, now)

    def _start(self, now: float) -> float:
        """Start all jobs that may start; return the seconds until another one might."""
        if self.stopped is not None:
            return UNTIL_AN_EVENT
        earliest = self._backoff[0][0] - now if self._backoff else UNTIL_AN_EVENT
        asked = []
        for lanes in (self._judge_lanes, self._lanes):
            if lanes is self._lanes and self._behind is not None and self._behind():
                break
            asked.append(lanes)
            if not self._start_of(lanes, now):
                return UNTIL_AN_EVENT
            earliest = min(earliest, lanes.earliest)
        if earliest == UNTIL_AN_EVENT and not self.in_flight:
            self._stop_if_exhausted([job for lanes in asked for job in lanes.heads], now)
        return max(0.0, earliest)

    def _start_of(self, lanes: Lanes, now: float) -> bool:
        """Start what may start of these lanes; whether all of them were asked."""
        lanes.begin(now)
        lead = UNTIL_AN_EVENT if self._behind is None or lanes is not self._lanes else LEAD
        while True:
            if self._unsafe and self._unsafe >= self.most_in_flight:
                return False  # a kill would cost more than twice what is in flight
            job = lanes.first(lead)
            if job is None:
                return True
            lanes.take(job)
            self._dispatch(job, now)
            if lanes is self._lanes:
                self._refill(now)
            elif self._judges is not None:
                self._refill_judges(self._judges, now)

    def _next_up(self, now: float) -> list[Job]:
        """The first jobs of the lanes, about as many as are in flight, as far as budgets and quotas allow."""
        jobs = self._lanes.upcoming(min(AHEAD, self.in_flight // len(self._lanes) + 1))
        for limit in self._limits:
            jobs = limit.affordable(jobs, now)
        return jobs

    def _few_blocks(self) -> int:
        """A trial that waits for its next attempt holds back the decision, and should not let all others be paid for.

        What is asked for is in flight all the same.
        """
        few = max(FEW, len(self._plan.cases) // 10) * self._plan.repeats
        return min(WINDOW, few + 2 * self.in_flight)

    def _stop_if_exhausted(self, jobs: Sequence[Job], now: float) -> None:
        """Stop if one of these jobs can never start now that nothing is in flight."""
        for job in jobs:
            for limit in self._limits:
                why = limit.exhausted(job, now)
                if why is not None:
                    self.stop(*why)
                    return

    def _dispatch(self, job: Job, now: float) -> None:
        for limit in self._taking:
            limit.take(job, now)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        job.attempt += 1
        job.dispatched_at = now
        job.timing.attempts = job.attempt
        job.timing.queue_s += now - job.ready_at
        job.timing.in_flight = self.in_flight
        if job.asks is None:
            self._listener.started(job, self.in_flight)
        self._engine.submit(job, self.finished)
