"""The scheduler: the one place that decides which job starts now.

Jobs come from sources and wait in their lanes, one per variant or judge; jobs in back-off wait in a heap and do not
count as in flight. Sources take turns in order: questions to judges start before further trials, because an answer
without its score decides nothing. The clock is injected: tests run in virtual time.
"""

from __future__ import annotations

import asyncio
import dataclasses
import heapq
from collections.abc import Callable, Iterable, Sequence

from abreast.execute.engine.base import Engine
from abreast.execute.failures import Retry, cancelled_if_crashed
from abreast.execute.job import Job
from abreast.execute.limits.base import UNTIL_AN_EVENT, Limit, Stage, by_variant
from abreast.execute.sources.lanes import Source
from abreast.execute.state import INTERRUPTED, RunState
from abreast.model import Blame, Failure, Outcome

HOLD_S = 0.005  # per job in flight: a longer attempt counts as in flight until its row is safe, which costs under 2 %
TYPED_ERRORS_FIX = "if a service is at fault, raise a typed error of abreast.errors: RateLimited, Transient, ..."


class Scheduler:
    """Drains completions, releases back-offs, refills the lanes, starts jobs; then sleeps until something happens."""

    def __init__(
        self,
        *,
        sources: Sequence[Source],
        engine: Engine,
        limits: Sequence[Limit],
        retry: Retry,
        state: RunState,
        clock: Callable[[], float],
    ) -> None:
        self._sources, self._engine = sources, engine
        self._retry, self._state, self._clock = retry, state, clock
        self._source_of = {source.job_type: source for source in sources}
        self._use_limits(limits)
        self._backoff: list[tuple[float, int, Job]] = []
        self._undecided: list[tuple[Job, Outcome]] = []  # final failures whose blame is still open
        self._running: dict[Job, None] = {}  # in flight, in the order of starts
        self._counted: set[Job] = set()  # handed over, and counting as in flight until their rows are safe
        self._unacknowledged = 0  # outcomes handed over and not yet safe
        self._released = 0  # of them, those that no longer count as in flight

    def _use_limits(self, limits: Sequence[Limit]) -> None:
        self._limits = limits
        variants = range(sum(len(source.lanes) for source in self._sources))
        self._taking = by_variant((limit for limit in limits if type(limit).take is not Limit.take), variants)
        self._settling = by_variant((limit for limit in limits if type(limit).settle is not Limit.settle), variants)
        self._releasing = by_variant((limit for limit in limits if type(limit).release is not Limit.release), variants)

    def change_limits(self, limits: Sequence[Limit], added: Iterable[Limit]) -> None:
        """Continue under other limits; added limits count the jobs in flight."""
        now = self._clock()
        for job in self._counted:
            self._release_limits(job, now)
            job.counts_until_stored = False
            self._released += 1
        self._counted.clear()
        for limit in added:
            for job in self._running:
                if limit.applies_to(job.variant):
                    limit.take(job, job.dispatched_at)
        self._use_limits(limits)
        for source in self._sources:
            source.use_limits(limits)
        self._state.wake()

    async def run(self) -> None:
        """Run until every job is stored; after a stop, until those that were in flight are."""
        state, changed = self._state, self._state.changed
        state.most_in_flight = 0
        while True:
            changed.clear()
            now = self._clock()
            self._drain(now)
            self._end_backoffs(now)
            if state.stopped is None:
                for source in self._sources:
                    source.refill(now)
            wait = self._start(now)
            if self._undecided and wait == UNTIL_AN_EVENT:
                self._settle_blame("at rest" if self._is_at_rest() else "running")
            if self._engine.prepares_ahead:
                self._engine.prepare_ahead(self._next_up(now) if state.stopped is None else ())
            if self._is_over():
                return
            if not changed.is_set():
                await self._sleep(wait)
            else:
                await asyncio.sleep(0)

    def _is_over(self) -> bool:
        state, acknowledgements = self._state, self._state.acknowledgements
        if state.completed or acknowledgements.stored or self._undecided or state.in_flight:
            return False
        if state.stopped is not None:
            return self._unacknowledged == 0 or acknowledgements.has_failed
        return all(source.is_done for source in self._sources)

    async def _sleep(self, wait: float) -> None:
        changed = self._state.changed
        if wait == UNTIL_AN_EVENT:
            await changed.wait()
            return
        timer = asyncio.get_running_loop().call_later(wait, changed.set)
        try:
            await changed.wait()
        finally:
            timer.cancel()

    # -- ending --------------------------------------------------------------------------------------------------------

    def _drain(self, now: float) -> None:
        completed, acknowledged = self._state.completed, self._state.acknowledgements.stored
        while completed:
            self._finish(*completed.popleft(), now)
        while acknowledged:
            self._acknowledge(acknowledged.popleft(), now)

    def _finish(self, job: Job, outcome: Outcome, now: float) -> None:
        state = self._state
        if state.stopped == INTERRUPTED:
            outcome = cancelled_if_crashed(outcome)
        state.in_flight -= 1
        del self._running[job]
        for limit in self._settling[job.variant]:
            limit.settle(job, outcome, now)
        failure = outcome.failure
        delay = self._delay(job, failure, now) if failure is not None else None
        if delay is not None and state.stopped is None:
            job.timing.backoff_s += delay
            self._release_limits(job, now)
            self._source_of[type(job)].retried(job, outcome, delay)
            heapq.heappush(self._backoff, (now + delay, job.trial.position, job))
        else:
            self._conclude(job, outcome, now)

    def _delay(self, job: Job, failure: Failure, now: float) -> float | None:
        """Seconds until the next attempt; None if this one was the last."""
        delay = self._retry.delay(failure, job.attempt, job.excused)
        if delay is None:
            return None
        limits = (limit for limit in self._limits if limit.applies_to(job.variant))
        return max([delay, *(limit.least_delay(job, now) for limit in limits)])

    def _conclude(self, job: Job, outcome: Outcome, now: float) -> None:
        source = self._source_of[type(job)]
        source.concluded(job, outcome, now)
        failure = outcome.failure
        # A user's exception or a timeout may be the variant's fault, or due to a service that is down.
        is_undecided = (
            source.decides_blame
            and failure is not None
            and (failure.presumed or (failure.kind == "timeout" and failure.blame == "variant"))
        )
        if is_undecided or outcome.service_s < HOLD_S * job.timing.in_flight:
            job.counts_until_stored = False
            self._release_limits(job, now)
        if is_undecided:
            self._undecided.append((job, outcome))
        else:
            self._hand_over(job, outcome)
        if self._undecided:
            self._settle_blame("running")

    def _hand_over(self, job: Job, outcome: Outcome) -> None:
        self._unacknowledged += 1
        if job.counts_until_stored:
            self._counted.add(job)
        else:
            self._released += 1
        self._source_of[type(job)].store(job, outcome)

    def _acknowledge(self, jobs: Sequence[Job], now: float) -> None:
        """Release jobs whose rows are stored."""
        for job in jobs:
            if job.counts_until_stored:
                self._counted.discard(job)
                self._release_limits(job, now)
            else:
                self._released -= 1
        self._unacknowledged -= len(jobs)
        for source in self._sources:
            own = jobs if len(self._sources) == 1 else [job for job in jobs if type(job) is source.job_type]
            if own:
                source.stored(own, now)

    def _release_limits(self, job: Job, now: float) -> None:
        for limit in self._releasing[job.variant]:
            limit.release(job, now)

    def _settle_blame(self, stage: Stage) -> None:
        """Hand over failures of unclear blame once it is decided."""
        undecided = []
        stage = stage if self._state.stopped is None else "stopped"
        for job, outcome in self._undecided:
            failure = outcome.failure
            assert failure is not None
            blames = (limit.blame(job, failure, stage) for limit in self._limits if limit.applies_to(job.variant))
            blame: Blame | None = next((blame for blame in blames if blame != "variant"), "variant")
            if blame is None:
                undecided.append((job, outcome))
                continue
            fix = TYPED_ERRORS_FIX if failure.presumed and blame == "variant" else failure.fix
            outcome.failure = dataclasses.replace(failure, blame=blame, fix=fix)
            self._hand_over(job, outcome)
        self._undecided = undecided

    def _is_at_rest(self) -> bool:
        """Whether nothing under way could start another trial."""
        is_held_back = self._state.is_paused or any(source.is_held_back() for source in self._sources)
        return not (self._state.in_flight or self._unacknowledged or is_held_back)

    # -- starting ------------------------------------------------------------------------------------------------------

    def _end_backoffs(self, now: float) -> None:
        """Put jobs whose back-off is over at the front of their lane."""
        due = []
        while self._backoff and self._backoff[0][0] <= now:
            due.append(heapq.heappop(self._backoff)[2])
        for job in sorted(due, key=lambda job: job.order, reverse=True):
            job.ready_at = now
            self._source_of[type(job)].lanes.append_left(job)

    def _start(self, now: float) -> float:
        """Start all jobs that may start; return the seconds until the next might."""
        if self._state.stopped is not None or self._state.is_paused:
            return UNTIL_AN_EVENT
        earliest = self._backoff[0][0] - now if self._backoff else UNTIL_AN_EVENT
        tried = []
        for source in self._sources:
            if source.is_held_back():
                continue
            tried.append(source)
            if not self._start_of(source, now):
                return UNTIL_AN_EVENT
            earliest = min(earliest, source.lanes.earliest)
        if earliest == UNTIL_AN_EVENT and not self._state.in_flight:
            self._stop_if_exhausted(tried, now)
        return max(0.0, earliest)

    def _start_of(self, source: Source, now: float) -> bool:
        """Start jobs in these lanes; return False if nothing more may start anywhere."""
        lanes, lead = source.lanes, source.lead
        lanes.begin(now)
        while True:
            if self._released and self._released >= self._state.most_in_flight:
                return False  # a kill would lose more than twice what is in flight
            job = lanes.first(lead)
            if job is None:
                return True
            lanes.take(job)
            self._dispatch(source, job, now)
            source.refill(now)

    def _stop_if_exhausted(self, sources: Sequence[Source], now: float) -> None:
        """Stop if one of the first jobs can never start now that nothing is in flight."""
        for source in sources:
            for job in source.lanes.heads:
                limits = (limit for limit in self._limits if limit.applies_to(job.variant))
                reason = next(filter(None, (limit.exhausted(job, now) for limit in limits)), None)
                if reason is not None and not source.skip(job):
                    self._state.stop(*reason)
                    return

    def _next_up(self, now: float) -> list[Job]:
        """Return the jobs that will start next, as far as budgets and quotas allow."""
        jobs = [job for source in self._sources for job in source.upcoming()]
        for limit in self._limits:
            jobs = limit.affordable(jobs, now)
        return jobs

    def _dispatch(self, source: Source, job: Job, now: float) -> None:
        for limit in self._taking[job.variant]:
            limit.take(job, now)
        state, timing = self._state, job.timing
        state.in_flight += 1
        self._running[job] = None
        if state.in_flight > state.most_in_flight:
            state.most_in_flight = state.in_flight
        job.attempt += 1
        job.dispatched_at = now
        timing.attempts = job.attempt
        timing.queue_s += now - job.ready_at
        timing.in_flight = state.in_flight
        source.started(job, state.in_flight)
        self._engine.submit(job)
