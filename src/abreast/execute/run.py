"""One execution of a plan: writer, engine, scheduler and scoring, put together and taken apart again."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import random
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from abreast.errors import StoreError
from abreast.execute.concurrency_stats import Flown, Flying
from abreast.execute.early_stopping import Deciding, Decision, Stop
from abreast.execute.engine.local import LocalEngine
from abreast.execute.estimate import Spent
from abreast.execute.job import Job
from abreast.execute.judging import Judging, Panel, without_judges
from abreast.execute.limits.assembly import Surroundings, assemble
from abreast.execute.limits.failing import Tally, tally
from abreast.execute.listener import Listener, Listeners
from abreast.execute.retry import Retry
from abreast.execute.scheduler import INTERRUPTED, Scheduler
from abreast.execute.scoring import Item, Scoring
from abreast.execute.warmup import WarmUp, warmup_costs
from abreast.model import Failure, Outcome
from abreast.plan.plan import Plan
from abreast.preflight.limits import asked_in_flight
from abreast.scorers.base import Scorer
from abreast.signals import detach_closed_terminal, ending_signals
from abreast.spec.schema import Limits
from abreast.store import Lease, LeaseLost, RowTooLarge, Store, Writer, rows
from abreast.targets import Target
from abreast.targets.processes.orphans import marked

GRACE_S = 30.0
TICK_S = 1.0
YOUNG_OBJECTS = 5_000  # allocated between two garbage collections; by default 700


@dataclass(frozen=True, slots=True)
class Ending:
    """How an execution ended."""

    stopped: str | None  # the kind of reason why it ended before its plan: interrupted, store, breaker, decided, ...
    why: str
    fix: str
    executed: int
    in_flight: Flown
    error: StoreError | None = None
    decision: Decision | None = None
    saved: int = 0  # trials that were not needed


class Records:
    """From outcomes to rows: what the scheduler hands over goes to the writer, what is safe comes back."""

    def __init__(self, plan: Plan, held: Lease) -> None:
        self._plan = plan
        self._run_id = held.run_id
        self._is_case_written = bytearray(len(plan.cases))
        self.writer: Writer
        self.judging: Judging | None = None

    def outcome(self, job: Job, outcome: Outcome) -> None:
        if job.asks is not None and self.judging is not None:
            self.judging.outcome(job, outcome)
            return
        writer, cases = self.writer, self._plan.cases
        of_case: list[tuple[str, rows.Row]] = []
        if not self._is_case_written[job.case]:  # with its first trial: a case without one may be cleaned away
            self._is_case_written[job.case] = True
            digests = cases.digest(job.case), cases.input_digest(job.case)
            of_case.append(("cases", rows.case_row(*digests, cases.original(job.case, job.trial.case))))
            if job.trial.case.tags:
                writer.register("tag", job.trial.case.tags)
        if outcome.answer is not None and outcome.answer.data:
            writer.register("data", outcome.answer.data)
        job.outcome = outcome
        writer.put_together(
            [*self._rows_of(job, outcome), *of_case],
            job,
            lambda error: [*self._rows_of(job, _unstorable(job, outcome, error)), *of_case],
        )

    def _rows_of(self, job: Job, outcome: Outcome) -> list[tuple[str, rows.Row]]:
        run_id, digest, position = self._run_id, self._plan.cases.digest(job.case), job.trial.position
        of_trial = [
            ("payloads", rows.payload_row(run_id, position, job.prompt, outcome.answer)),
            ("trials", rows.trial_row(run_id, job.trial, job.variant, job.block, digest, outcome, job.timing)),
        ]
        if outcome.answer is not None and outcome.answer.artifacts:
            of_trial += [("artifacts", row) for row in rows.artifact_rows(run_id, position, outcome.answer)]
        return of_trial

    def attempt(self, job: Job, outcome: Outcome, delay: float) -> None:
        if job.asks is not None and self.judging is not None:
            self.judging.attempt(job, outcome)
        elif outcome.failure is not None:
            position = job.trial.position
            self.writer.put(
                "attempts", rows.attempt_row(self._run_id, position, job.attempt, outcome, outcome.failure, delay)
            )


def _unstorable(job: Job, outcome: Outcome, error: StoreError) -> Outcome:
    """The outcome of a trial whose answer the store refuses: the variant's failure, never to be paid for again."""
    answer = outcome.answer
    if answer is not None:
        answer = replace(answer, text="", value=None, data={}, raw_response=None, artifacts={})
    kind = "too_big" if isinstance(error, RowTooLarge) else "crash"
    failure = Failure(kind, "variant", f"the answer cannot be stored: {error.message}")
    job.outcome = replace(outcome, status="error", answer=answer, failure=failure)
    return job.outcome


class Recorder(Listener):
    """What the scheduler did goes to the table `events`."""

    def __init__(self, records: Records, run_id: int) -> None:
        self._records = records
        self._run_id = run_id

    def event(self, kind: str, **detail: Any) -> None:
        self._records.writer.put("events", (self._run_id, time.time(), kind, rows.to_json(detail)))


class LeftRunning(Listener):
    """A timeout cannot end a thread. That is said once."""

    def __init__(self, targets: Sequence[Target], tell: Callable[..., Any]) -> None:
        self._targets = targets
        self._tell = tell
        self._told = False

    def finished(self, job: Job, outcome: Outcome) -> None:
        failure, target = outcome.failure, self._targets[job.variant]
        if failure is not None and failure.kind == "timeout" and target.place == "thread" and not self._told:
            self._told = True
            what = f"a call of {target.name} that timed out goes on in its thread"
            self._tell("warning", message=f"{what}; executor: process ends such calls")


class Reports:
    """What the thread of the writer reports, brought to the loop: rows are safe, or the store has failed."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        scheduler: Scheduler,
        engine: LocalEngine,
        listener: Listener,
        scores: bool,
    ) -> None:
        self._loop, self._scheduler, self._engine = loop, scheduler, engine
        self._listener, self._scores = listener, scores
        self.scoring: Scoring
        self.judging: Judging | None = None
        self.deciding: Deciding | None = None
        self.decides_by_judge = False
        self.stored = 0

    def committed(self, jobs: list[Any]) -> None:
        self._loop.call_soon_threadsafe(self._are_safe, jobs)

    def failed(self, error: StoreError) -> None:
        self._loop.call_soon_threadsafe(self._has_failed, error)

    def _are_safe(self, jobs: list[Job]) -> None:
        deciding, judging = self.deciding, self.judging
        answers: list[Item] = []
        for job in jobs:
            if job.asks is not None and judging is not None:
                judging.safe(job)
                continue
            self.stored += 1
            answer = None if job.outcome is None or job.outcome.status != "ok" else job.outcome.answer
            if self._scores and answer is not None:
                answers.append((job.trial.position, job.trial.case, answer))
                if deciding is not None and not self.decides_by_judge:
                    deciding.awaits_a_score()
            if deciding is not None and answer is None and job.outcome is not None:
                deciding.has_no_answer(job.trial.position, job.outcome)
            if judging is not None and job.outcome is not None:
                judging.put(job.trial.position, job.outcome)
            job.outcome = None
        if answers:
            self.scoring.put(answers)
        self._scheduler.stored(jobs)

    def _has_failed(self, error: StoreError) -> None:
        self._scheduler.store_failed = True
        self._listener.event("store_failed", message=error.message)
        self._scheduler.stop("store")
        self.scoring.abandon(self._loop)
        if isinstance(error, LeaseLost):
            self._engine.cancel()


class RareCollections:
    """Collect garbage less often while runs are under way. What a trial allocates lives until its row is safe: a
    collection before that searches it for nothing, which takes 6 % of the CPU time of short trials."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = 0  # several runs of one process need not end in the order in which they began
        self._before = gc.get_threshold()

    def __enter__(self) -> None:
        with self._lock:
            self._running += 1
            if self._running == 1:
                self._before = gc.get_threshold()
                young, *older = self._before
                gc.set_threshold(max(young, YOUNG_OBJECTS) if young else 0, *older)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._running -= 1
            if not self._running:
                gc.set_threshold(*self._before)


RARE_COLLECTIONS = RareCollections()


@dataclass(frozen=True, slots=True)
class Execution:
    """Everything one execution needs."""

    plan: Plan
    targets: Sequence[Target]
    scorers: Sequence[Scorer]
    limits: Limits
    store: Store
    held: Lease
    listener: Listener
    unscored: Iterable[Item] = ()
    waits_for_quota: bool = True
    goes_on_cold: bool = False  # although a warm-up failed
    grace_s: float = GRACE_S
    interruptible: Callable[[Callable[[], object]], None] | None = None  # is told how, where no signal arrives
    owns_loop: bool = True  # and with it the signals; else it is a guest on a user's loop
    stop: Stop | None = None  # who looks at results on the way, and may say that they suffice
    panel: Panel | None = None  # who judges

    async def run(self) -> Ending:
        """Execute what is missing, score what is stored, and give everything back."""
        loop = asyncio.get_running_loop()
        panel, judges = self.panel, () if self.panel is None else self.panel.targets
        targets = [*self.targets, *judges]
        engine = LocalEngine(targets, self._seconds(targets), self.limits.answer_bytes)
        records = Records(self.plan, self.held)
        flying = Flying(loop.time)
        heard = Listeners([self.listener, Recorder(records, self.held.run_id)])
        listener = Listeners([heard, flying, LeftRunning(self.targets, heard.event)])
        retry = Retry(self.limits.retries, random.Random(self.plan.seed))
        around = Surroundings(
            listener.event,
            lambda kind, message, fix: scheduler.stop(kind, message, fix),
            self._spent(),
            self.waits_for_quota,
            plan=self.plan,
            tallies=self._tallies(),
            answered=self.store.answered(self.held.run_id),
        )
        limits = assemble(self.limits, targets, around, len(judges))
        judging = None if panel is None else Judging(panel, self.store, self.held, len(self.targets), listener)
        scheduler = Scheduler(self.plan, engine, records, limits, retry, listener, loop.time, judging)
        warm_up = WarmUp(
            self.plan, self.targets, engine, limits, retry, listener.event, lambda: scheduler.is_idle, loop.time
        )
        scorers = without_judges(self.scorers)
        reports = Reports(loop, scheduler, engine, self.listener, bool(scorers))
        writer = self.store.writer(self.held, reports.committed, reports.failed)
        records.writer = writer
        at_judges = (lambda: 0) if judging is None else lambda: judging.behind
        deciding = None if self.stop is None else Deciding(self.stop, scheduler, listener, loop, at_judges)
        by_judge = deciding is not None and panel is not None and panel.gives(deciding.score)
        reports.deciding, reports.decides_by_judge = deciding, by_judge
        reports.scoring = Scoring(scorers, writer, self.unscored, None if by_judge else deciding)
        if judging is not None:
            records.judging = reports.judging = judging
            judging.writer = writer
            judging.begin(deciding if by_judge else None)
        error: StoreError | None = None
        with (
            RARE_COLLECTIONS,
            marked(),
            self._interruptible(scheduler, engine, reports.scoring),
            self.store.following(),
        ):
            self._end_in_time(scheduler)
            watching = [asyncio.create_task(limit.watch(scheduler.wake)) for limit in limits]
            watching.append(asyncio.create_task(_tick(listener)))
            try:
                cold = await warm_up.run()
                if cold is not None and not self.goes_on_cold:
                    scheduler.stop("warmup", *cold)
                await scheduler.run()
            finally:
                in_flight = Flown(asked_in_flight(self.limits, self.targets), flying.mean, flying.most)
                if flying.most:
                    mean = round(in_flight.mean, 2)
                    listener.event("in_flight", asked=in_flight.asked, mean=mean, most=in_flight.most)
                for task in watching:
                    task.cancel()
                for problem in await engine.close():
                    listener.event("warning", message=problem)
                await asyncio.to_thread(reports.scoring.finish)
                try:
                    await asyncio.to_thread(writer.close)
                except StoreError as caught:
                    error = caught
                await asyncio.sleep(0)  # the last acknowledgements
                for limit in limits:
                    limit.close()
        stopped, why, fix = scheduler.stopped, scheduler.why, scheduler.fix
        decision, saved = (None, 0) if deciding is None else (deciding.decision, deciding.saved)
        if stopped is None and decision is not None and saved:
            stopped, why = "decided", decision.reason
        return Ending(stopped, why, fix, reports.stored, in_flight, error, decision, saved)

    def _end_in_time(self, scheduler: Scheduler) -> None:
        seconds = self.limits.run_timeout
        if seconds is not None:
            loop = asyncio.get_running_loop()
            loop.call_later(seconds, scheduler.stop, "run_timeout", f"{seconds:g} s are over", "")

    def _seconds(self, targets: Sequence[Target]) -> list[Callable[[int], float]]:
        """The time a trial may take, of each variant and then of each judge."""
        variants = self.plan.variants
        own = [
            self.limits.seconds_of(variant.name, target.name)
            for variant, target in zip(variants, targets[: len(variants)], strict=True)
        ]
        return [*own, *(self.limits.of(target.name).seconds for target in targets[len(variants) :])]

    def _tallies(self) -> list[Tally]:
        """What the run has of each variant already: outcomes, and failures of its own by kind."""
        return tally(self.plan, self.plan.done, self.store.own_failures(self.held.run_id))

    def _spent(self) -> list[Spent]:
        """What this run has taken before, its warm-ups included; a look at every trial, so only where a limit asks."""
        if not self.limits.count_what_is_spent:
            return []
        found = []
        warmups = warmup_costs(self.store, self.held.run_id)
        for variant, row in zip(self.plan.variants, self.store.spent(self.held.run_id, len(self.targets)), strict=True):
            costs = warmups.get(variant.name, [])
            costed, cost_usd, counted, tokens = row
            found.append(Spent(costed + len(costs), cost_usd + sum(costs), counted, tokens))
        judges = [] if self.panel is None else [judge.name for judge in self.panel.judges]
        return found + [Spent(*row) for row in self.store.spent_on_judges(self.held.run_id, judges)]

    @contextlib.contextmanager
    def _interruptible(self, scheduler: Scheduler, engine: LocalEngine, scoring: Scoring) -> Iterator[None]:
        """First Ctrl-C: start nothing more. Second, or after the grace period: cancel what is in flight. Third: end.
        SIGTERM and SIGHUP count as Ctrl-C. On a user's loop no signal does, and there is no grace period."""
        loop = asyncio.get_running_loop()
        grace_s = self.grace_s if self.owns_loop else 0.0
        handlers = {number: signal.getsignal(number) for number in ending_signals()}

        def interrupted() -> None:
            detach_closed_terminal()
            if scheduler.stopped is None:
                self.listener.event("interrupted", in_flight=scheduler.in_flight, grace_s=grace_s)
                scheduler.stop(INTERRUPTED)
                scoring.abandon(loop)
                loop.call_later(grace_s, engine.cancel)
            else:
                engine.cancel()
                if self.owns_loop:
                    give_back()  # a target that will not be cancelled: what is stored is safe, and nobody has to wait

        def give_back() -> None:
            for number, handler in handlers.items():
                if loop.remove_signal_handler(number) and number != signal.SIGINT:
                    signal.signal(number, handler)

        if not self.owns_loop or threading.current_thread() is not threading.main_thread():
            if self.interruptible is not None:
                self.interruptible(partial(loop.call_soon_threadsafe, interrupted))
            yield
            return
        for number in handlers:
            loop.add_signal_handler(number, interrupted)
        try:
            yield
        finally:
            give_back()


async def _tick(listener: Listener) -> None:
    while True:
        await asyncio.sleep(TICK_S)
        listener.tick()
