"""One execution of a plan: build writer, engine, scheduler and scoring, run them, and close them again."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import random
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from abreast.errors import StoreError
from abreast.execute.controls import Controller, ControlWatch
from abreast.execute.early_stopping import Decision, EarlyStopping, StoppingRule
from abreast.execute.engine.base import EngineFactory, EngineSetup, find_engine
from abreast.execute.estimate import Estimates, PriorUse
from abreast.execute.failures import Retry
from abreast.execute.job import Job
from abreast.execute.limits.base import LimitContext
from abreast.execute.limits.registry import ActiveLimits
from abreast.execute.listener import ConcurrencyStats, InFlightStats, Listener, Listeners
from abreast.execute.outages import StoreOutages
from abreast.execute.records import EventRecorder, ThreadTimeoutWarning, TrialRecords
from abreast.execute.scheduler import Scheduler
from abreast.execute.scoring import Item, Scoring
from abreast.execute.sources.judging import NO_JUDGES, Judging, Panel, scored_by_code
from abreast.execute.sources.lanes import Source
from abreast.execute.sources.trials import Trials
from abreast.execute.sources.warmup import WarmUps, warmup_costs
from abreast.execute.state import INTERRUPTED, Acknowledgements, RunState
from abreast.plan.plan import Plan
from abreast.scorers.base import Scorer
from abreast.signals import detach_closed_terminal, ending_signals
from abreast.spec.schema import Limits
from abreast.store import Lease, LeaseLost, Store, Writer
from abreast.targets import Target

GRACE_S = 30.0
TICK_S = 1.0
YOUNG_OBJECTS = 5_000  # allocated between two garbage collections; by default 700


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    stopped: str | None  # why it ended before its plan: interrupted, store, breaker, decided, ...
    why: str
    fix: str
    executed: int
    in_flight: InFlightStats
    decision: Decision | None = None
    saved: int = 0  # trials that were not needed


@dataclass(frozen=True, kw_only=True)
class Execution:
    """Everything one execution needs."""

    plan: Plan
    targets: Sequence[Target]
    scorers: Sequence[Scorer]
    limits: Limits
    store: Store
    lease: Lease
    listener: Listener
    unscored: Iterable[Item] = ()
    waits_for_quota: bool = True
    ignores_warmup_failures: bool = False
    grace_s: float = GRACE_S
    register_interrupt: Callable[[Callable[[], object]], None] | None = None  # gets the function that interrupts
    owns_loop: bool = True  # and handles signals; False on a user's loop
    stop: StoppingRule | None = None
    panel: Panel | None = None
    engine: EngineFactory = field(default_factory=partial(find_engine, "local"))
    engine_setup: EngineSetup

    async def run(self) -> Ending:
        """Execute what is missing, score what is stored, and close everything. Raises StoreError if rows are lost."""
        acknowledgements = Acknowledgements(asyncio.get_running_loop())
        writer = self.store.writer(
            self.lease, acknowledgements.committed, acknowledgements.failed, acknowledgements.interrupted
        )
        try:
            active = ActiveExecution(self, acknowledgements, writer)
        except BaseException:
            writer.close()
            raise
        return await active.run()


class ActiveExecution:
    """An execution under way, on the running loop."""

    def __init__(self, execution: Execution, acknowledgements: Acknowledgements, writer: Writer) -> None:
        self._execution, self._writer, self._panel = execution, writer, execution.panel or NO_JUDGES
        self._targets = [*execution.targets, *self._panel.targets]
        self._stats = ConcurrencyStats(asyncio.get_running_loop().time)
        recorded = Listeners([execution.listener, EventRecorder(writer)])
        thread_timeouts = ThreadTimeoutWarning(execution.targets, recorded.event)
        self._listener = Listeners([recorded, self._stats, thread_timeouts])
        self._state = RunState(acknowledgements, self._listener)
        self._engine = execution.engine.build(execution.engine_setup, self._state.complete)
        context = self._limit_context()
        of_engine = self._engine.limits(context.concurrency.requested, context.emit, context.stop)
        self._limits = ActiveLimits(context, of_engine)
        self._retry = Retry(execution.limits.retries, random.Random(execution.plan.seed))
        self._early_stopping = (
            None if execution.stop is None else EarlyStopping(execution.stop, self._state, self._listener)
        )
        self._build_sources()
        self._controller = Controller(
            state=self._state,
            limits=self._limits,
            trials=self._trials,
            sources=[self._judging, self._trials],
            retry=self._retry,
            emit=self._listener.event,
            cancel=self._engine.cancel,
            stops_early=execution.stop is not None,
        )

    def _limit_context(self) -> LimitContext:
        execution, store, run_id = self._execution, self._execution.store, self._run_id
        return LimitContext(
            limits=execution.limits,
            targets=self._targets,
            judges=len(self._panel.targets),
            plan=execution.plan,
            emit=self._listener.event,
            stop=self._state.stop,
            estimates=Estimates(len(self._targets), self._prior_use() if execution.lease.epoch > 1 else ()),
            waits_for_quota=execution.waits_for_quota,
            ledger=store.quota_ledger,
            own_failures=store.own_failures(run_id),
            answered=store.answered(run_id),
            capacity=self._engine.capacity(),
        )

    def _build_sources(self) -> None:
        """Build trials, judging and scoring. Early stopping gets the scores of one of the latter two."""
        execution, panel, early_stopping = self._execution, self._panel, self._early_stopping
        is_judged = early_stopping is not None and panel.gives(early_stopping.score)
        scorers, limits = scored_by_code(execution.scorers), list(self._limits)
        self._scoring = Scoring(scorers, self._writer, execution.unscored, None if is_judged else early_stopping)
        self._judging = Judging(
            panel=panel,
            first_variant=len(execution.targets),
            store=execution.store,
            writer=self._writer,
            limits=limits,
            listener=self._listener,
            state=self._state,
            early_stopping=early_stopping if is_judged else None,
        )
        self._trials = Trials(
            plan=execution.plan,
            limits=limits,
            records=TrialRecords(execution.plan.cases, self._writer),
            on_commit=self._committed,
            listener=self._listener,
            state=self._state,
            early_stopping=early_stopping,
            unjudged=self._judging.deciding_backlog,
        )

    @property
    def _run_id(self) -> int:
        return self._execution.lease.run_id

    def _prior_use(self) -> list[PriorUse]:
        """Return the use by earlier executions of this run, warm-ups included. Reads every trial."""
        execution, store = self._execution, self._execution.store
        warmups = warmup_costs(store, self._run_id)
        uses = []
        of_variants = store.spent(self._run_id, len(execution.targets))
        for variant, (costed, cost_usd, counted, tokens) in zip(execution.plan.variants, of_variants, strict=True):
            costs = warmups.get(variant.name, [])
            uses.append(PriorUse(costed + len(costs), cost_usd + sum(costs), counted, tokens))
        judges = [judge.name for judge in self._panel.judges]
        return uses + [PriorUse(*row) for row in store.spent_on_judges(self._run_id, judges)]

    def _committed(self, jobs: Sequence[Job]) -> None:
        """Pass stored trials on to scoring, judges and early stopping."""
        answers: list[Item] = []
        for job in jobs:
            outcome, job.outcome = job.outcome, None
            assert outcome is not None
            answer = outcome.answer if outcome.status == "ok" else None
            if answer is None:
                if self._early_stopping is not None:
                    self._early_stopping.observe_failure(job.trial.position, outcome)
            elif self._scoring.has_scorers:
                answers.append((job.trial.position, job.trial.case, answer))
            if self._panel.judges:
                self._judging.add(job.trial.position, outcome)
        if answers:
            self._scoring.put(answers)

    async def run(self) -> Ending:
        execution, state = self._execution, self._state
        self._scoring.start()
        with RARE_COLLECTIONS, self._engine.reaping(), self._handle_interrupts(), execution.store.following():
            self._controller.start_timeout()
            control_watch = ControlWatch(execution.store, self._run_id, self._controller.apply)
            store_watch = asyncio.create_task(self._watch_store())
            outages = StoreOutages(execution.store.address, self._writer, state, self._listener.event)
            outage_watch = asyncio.create_task(outages.watch())
            watches = [asyncio.create_task(limit.watch(state.wake)) for limit in self._limits]
            watches.append(asyncio.create_task(self._tick()))
            try:
                await self._schedule()
            finally:
                self._controller.end()
                await control_watch.close()
                in_flight = self._report_in_flight()
                for task in watches:
                    task.cancel()
                error = await self._close()
                store_watch.cancel()
                outage_watch.cancel()
        if error is not None:
            raise error
        return self._ending(in_flight)

    def _report_in_flight(self) -> InFlightStats:
        in_flight = InFlightStats(self._limits.requested, self._stats.mean, self._stats.most)
        if in_flight.most:
            mean = round(in_flight.mean, 2)
            self._listener.event("in_flight", asked=in_flight.asked, mean=mean, most=in_flight.most)
        return in_flight

    async def _close(self) -> StoreError | None:
        """Close engine, scoring, writer and limits; return the error of a store that cannot be written."""
        error: StoreError | None = None
        for problem in await self._engine.close():
            self._listener.event("warning", message=problem)
        report_delay = partial(asyncio.get_running_loop().call_soon_threadsafe, self._listener.event, "scoring")
        await asyncio.to_thread(self._scoring.finish, report_delay)
        try:
            await asyncio.to_thread(self._writer.close)
        except StoreError as caught:
            error = caught
        await asyncio.sleep(0)  # the last acknowledgements
        for limit in self._limits:
            limit.close()
        return error

    def _ending(self, in_flight: InFlightStats) -> Ending:
        state, early_stopping = self._state, self._early_stopping
        stopped, why = state.stopped, state.why
        decision, saved = (None, 0) if early_stopping is None else (early_stopping.decision, early_stopping.saved)
        if stopped is None and decision is not None and saved:
            stopped, why = "decided", decision.reason
        return Ending(
            stopped=stopped,
            why=why,
            fix=state.fix,
            executed=self._trials.executed,
            in_flight=in_flight,
            decision=decision,
            saved=saved,
        )

    async def _schedule(self) -> None:
        """Warm up, then execute the trials and ask the judges."""
        execution, state = self._execution, self._state
        sources: list[Source] = [self._trials]
        if self._panel.judges:
            self._judging.begin()
            sources.insert(0, self._judging)
        self._trials.apply_decision()  # if stored results suffice, nothing is warmed up
        if not all(source.is_done for source in sources):
            ignores_failures = execution.ignores_warmup_failures
            emit = self._listener.event
            limits = list(self._limits)
            warm_ups = WarmUps(execution.plan, execution.targets, limits, state, emit, ignores_failures)
            await self._run_scheduler([warm_ups])
        await self._run_scheduler(sources)

    async def _run_scheduler(self, sources: Sequence[Source]) -> None:
        scheduler = Scheduler(
            sources=sources,
            engine=self._engine,
            limits=list(self._limits),
            retry=self._retry,
            state=self._state,
            clock=asyncio.get_running_loop().time,
        )
        await self._controller.run(scheduler)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            self._writer.in_flight = self._state.in_flight
            self._listener.tick()

    async def _watch_store(self) -> None:
        """Stop when the store fails: trials in flight may finish, unless another process now owns the run."""
        while True:
            error = await self._state.acknowledgements.failures.get()
            self._execution.listener.event("store_failed", message=error.message)  # not stored
            self._state.stop("store")
            self._scoring.abandon(asyncio.get_running_loop())
            if isinstance(error, LeaseLost):
                self._engine.cancel()

    @contextlib.contextmanager
    def _handle_interrupts(self) -> Iterator[None]:
        """First Ctrl-C: start nothing more. Second, or after the grace period: cancel trials in flight. Third: exit.

        SIGTERM and SIGHUP count as Ctrl-C. On a user's loop no signal is handled, and there is no grace period.
        """
        loop, execution, state = asyncio.get_running_loop(), self._execution, self._state
        grace_s = execution.grace_s if execution.owns_loop else 0.0
        handlers = {number: signal.getsignal(number) for number in ending_signals()}

        def interrupt() -> None:
            detach_closed_terminal()
            if state.stopped is None:
                execution.listener.event("interrupted", in_flight=state.in_flight, grace_s=grace_s)
                state.stop(INTERRUPTED)
                self._scoring.abandon(loop)
                loop.call_later(grace_s, self._engine.cancel)
            else:
                self._engine.cancel()
                if execution.owns_loop:
                    restore_handlers()  # the next signal ends the process, even if a target ignores the cancellation

        def restore_handlers() -> None:
            for number, handler in handlers.items():
                if loop.remove_signal_handler(number) and number != signal.SIGINT:
                    signal.signal(number, handler)

        if not execution.owns_loop or threading.current_thread() is not threading.main_thread():
            if execution.register_interrupt is not None:
                execution.register_interrupt(partial(loop.call_soon_threadsafe, interrupt))
            yield
            return
        for number in handlers:
            loop.add_signal_handler(number, interrupt)
        try:
            yield
        finally:
            restore_handlers()


class RareCollections:
    """Collects garbage less often during runs.

    A trial's objects live until its row is safe. Collections before that find nothing, and take 6 % of the CPU time of
    short trials.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = 0  # several runs of one process may end in any order
        self._thresholds = gc.get_threshold()

    def __enter__(self) -> None:
        with self._lock:
            self._running += 1
            if self._running == 1:
                self._thresholds = gc.get_threshold()
                young, *older = self._thresholds
                gc.set_threshold(max(young, YOUNG_OBJECTS) if young else 0, *older)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._running -= 1
            if not self._running:
                gc.set_threshold(*self._thresholds)


RARE_COLLECTIONS = RareCollections()
