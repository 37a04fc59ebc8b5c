"""One execution of a plan: writer, engine, scheduler and scoring, put together and taken apart again."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import random
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from abreast.errors import StoreError
from abreast.execute.concurrency_stats import ConcurrencyStats, InFlightStats
from abreast.execute.early_stopping import Decision, EarlyStopping, StoppingRule
from abreast.execute.engine.base import Engine, EngineSetup, find_engine
from abreast.execute.estimate import Spent
from abreast.execute.job import Retry
from abreast.execute.limits.base import Limit, LimitContext
from abreast.execute.limits.concurrency import InFlight
from abreast.execute.limits.failing import tally
from abreast.execute.limits.registry import build_limits
from abreast.execute.listener import Listener, Listeners
from abreast.execute.records import CommitHandler, EventRecorder, ThreadTimeoutWarning, TrialRecords
from abreast.execute.scheduler import Scheduler
from abreast.execute.scoring import Item, Scoring
from abreast.execute.sources.judging import Judging, Panel, without_judges
from abreast.execute.sources.source import Source
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
    """How an execution ended."""

    stopped: str | None  # the kind of reason why it ended before its plan: interrupted, store, breaker, decided, ...
    why: str
    fix: str
    executed: int
    in_flight: InFlightStats
    error: StoreError | None = None
    decision: Decision | None = None
    saved: int = 0  # trials that were not needed


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The parts of one execution."""

    writer: Writer
    listener: Listener
    state: RunState
    engine: Engine
    limits: Sequence[Limit]
    stats: ConcurrencyStats
    requested: int | None  # trials in flight
    early_stopping: EarlyStopping | None
    scoring: Scoring
    judging: Judging | None
    trials: Trials

    def in_flight(self) -> InFlightStats:
        """Report how many trials were in flight."""
        stats = InFlightStats(self.requested, self.stats.mean, self.stats.most)
        if stats.most:
            self.listener.event("in_flight", asked=stats.asked, mean=round(stats.mean, 2), most=stats.most)
        return stats


@dataclass(frozen=True, kw_only=True)
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
    stop: StoppingRule | None = None  # looks at results on the way, and may say that they suffice
    panel: Panel | None = None  # who judges
    engine: str = "local"
    target_settings: Mapping[str, Any] = field(default_factory=dict)  # for engines that build targets elsewhere

    async def run(self) -> Ending:
        """Execute what is missing, score what is stored, and give everything back."""
        parts = self._build()
        state, engine, scoring = parts.state, parts.engine, parts.scoring
        error: StoreError | None = None
        with RARE_COLLECTIONS, engine.reaping(), self._interruptible(state, engine, scoring), self.store.following():
            self._end_in_time(state)
            failing = asyncio.create_task(self._watch_store(state, engine, scoring))
            watching = [asyncio.create_task(limit.watch(state.wake)) for limit in parts.limits]
            watching.append(asyncio.create_task(_tick(parts.listener)))
            try:
                await self._schedule(parts)
            finally:
                in_flight = parts.in_flight()
                for task in watching:
                    task.cancel()
                for problem in await engine.close():
                    parts.listener.event("warning", message=problem)
                await asyncio.to_thread(scoring.finish)
                try:
                    await asyncio.to_thread(parts.writer.close)
                except StoreError as caught:
                    error = caught
                await asyncio.sleep(0)  # the last acknowledgements
                failing.cancel()
                for limit in parts.limits:
                    limit.close()
        return self._ending(parts, in_flight, error)

    def _build(self) -> Parts:
        """Start the writer and put the other parts together; the writer ends if one of them cannot be built."""
        acknowledgements = Acknowledgements(asyncio.get_running_loop())
        writer = self.store.writer(self.held, acknowledgements.committed, acknowledgements.failed)
        with contextlib.ExitStack() as on_failure:
            on_failure.callback(writer.close)
            parts = self._assemble(acknowledgements, writer)
            on_failure.pop_all()
        return parts

    def _assemble(self, acknowledgements: Acknowledgements, writer: Writer) -> Parts:
        """Put the parts together; each gets those it needs from the ones before."""
        loop = asyncio.get_running_loop()
        build_engine = find_engine(self.engine)
        heard = Listeners([self.listener, EventRecorder(writer)])
        stats = ConcurrencyStats(loop.time)
        listener = Listeners([heard, stats, ThreadTimeoutWarning(self.targets, heard.event)])
        state = RunState(acknowledgements, listener)
        engine = build_engine(self._engine_setup(), state.complete)
        context = self._limit_context(state, listener)
        limits = [*build_limits(context), *_limits_of_engine(engine, context)]
        early_stopping = None if self.stop is None else EarlyStopping(self.stop, state, listener)
        is_judged = self.stop is not None and self.panel is not None and self.panel.gives(self.stop.score)
        scorers = without_judges(self.scorers)
        scoring = Scoring(scorers, writer, self.unscored, None if is_judged else early_stopping)
        judging = self._judging(writer, limits, listener, state, early_stopping if is_judged else None)
        trials = Trials(
            plan=self.plan,
            limits=limits,
            records=TrialRecords(self.plan, writer),
            on_commit=CommitHandler(scoring, judging, early_stopping).committed,
            listener=listener,
            state=state,
            early_stopping=early_stopping,
            unjudged=(lambda: 0) if judging is None else judging.deciding_backlog,
        )
        return Parts(
            writer=writer,
            listener=listener,
            state=state,
            engine=engine,
            limits=limits,
            stats=stats,
            requested=context.concurrency.requested,
            early_stopping=early_stopping,
            scoring=scoring,
            judging=judging,
            trials=trials,
        )

    async def _schedule(self, parts: Parts) -> None:
        """Warm up, then execute the trials and ask the judges."""
        state, limits = parts.state, parts.limits
        warm_ups = WarmUps(
            plan=self.plan,
            targets=self.targets,
            limits=limits,
            state=state,
            tell=parts.listener.event,
            goes_on_cold=self.goes_on_cold,
        )
        schedule = partial(
            Scheduler,
            engine=parts.engine,
            limits=limits,
            retry=Retry(self.limits.retries, random.Random(self.plan.seed)),
            state=state,
            clock=asyncio.get_running_loop().time,
        )
        sources: list[Source] = [parts.trials]
        if parts.judging is not None:
            parts.judging.begin()
            sources.insert(0, parts.judging)
        parts.trials.apply_decision()  # what is stored may suffice: then nothing is warmed up
        if not all(source.is_done for source in sources):
            await schedule(sources=[warm_ups]).run()
        await schedule(sources=sources).run()

    def _ending(self, parts: Parts, in_flight: InFlightStats, error: StoreError | None) -> Ending:
        state, early_stopping = parts.state, parts.early_stopping
        stopped, why = state.stopped, state.why
        decision, saved = (None, 0) if early_stopping is None else (early_stopping.decision, early_stopping.saved)
        if stopped is None and decision is not None and saved:
            stopped, why = "decided", decision.reason
        return Ending(
            stopped=stopped,
            why=why,
            fix=state.fix,
            executed=parts.trials.executed,
            in_flight=in_flight,
            error=error,
            decision=decision,
            saved=saved,
        )

    def _engine_setup(self) -> EngineSetup:
        judges, judge_targets = ((), ()) if self.panel is None else (self.panel.contenders, self.panel.targets)
        return EngineSetup(
            variants=[*self.plan.variants, *judges],
            judges=len(judges),
            seed=self.plan.seed,
            settings=self.target_settings,
            limits=self.limits,
            built_targets=[*self.targets, *judge_targets],
        )

    def _limit_context(self, state: RunState, listener: Listener) -> LimitContext:
        judges = () if self.panel is None else self.panel.targets
        failures = self.store.own_failures(self.held.run_id)
        return LimitContext(
            limits=self.limits,
            targets=[*self.targets, *judges],
            judges=len(judges),
            plan=self.plan,
            tell=listener.event,
            stop=state.stop,
            spent=self._spent(),
            waits_for_quota=self.waits_for_quota,
            tallies=tally(self.plan, self.plan.done, failures),
            answered=self.store.answered(self.held.run_id),
        )

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

    def _judging(
        self,
        writer: Writer,
        limits: Sequence[Limit],
        listener: Listener,
        state: RunState,
        early_stopping: EarlyStopping | None,
    ) -> Judging | None:
        if self.panel is None:
            return None
        return Judging(
            panel=self.panel,
            first_variant=len(self.targets),
            store=self.store,
            writer=writer,
            limits=limits,
            listener=listener,
            state=state,
            early_stopping=early_stopping,
        )

    def _end_in_time(self, state: RunState) -> None:
        seconds = self.limits.run_timeout
        if seconds is not None:
            loop = asyncio.get_running_loop()
            loop.call_later(seconds, state.stop, "run_timeout", f"{seconds:g} s are over", "")

    async def _watch_store(self, state: RunState, engine: Engine, scoring: Scoring) -> None:
        """Stop when the store fails: what is in flight may finish, unless the run belongs to another process now."""
        while True:
            error = await state.acknowledgements.failures.get()
            self.listener.event("store_failed", message=error.message)
            state.stop("store")
            scoring.abandon(asyncio.get_running_loop())
            if isinstance(error, LeaseLost):
                engine.cancel()

    @contextlib.contextmanager
    def _interruptible(self, state: RunState, engine: Engine, scoring: Scoring) -> Iterator[None]:
        """First Ctrl-C: start nothing more. Second, or after the grace period: cancel what is in flight. Third: end.
        SIGTERM and SIGHUP count as Ctrl-C. On a user's loop no signal does, and there is no grace period."""
        loop = asyncio.get_running_loop()
        grace_s = self.grace_s if self.owns_loop else 0.0
        handlers = {number: signal.getsignal(number) for number in ending_signals()}

        def interrupted() -> None:
            detach_closed_terminal()
            if state.stopped is None:
                self.listener.event("interrupted", in_flight=state.in_flight, grace_s=grace_s)
                state.stop(INTERRUPTED)
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


def _limits_of_engine(engine: Engine, context: LimitContext) -> Iterator[Limit]:
    capacity = engine.capacity()
    if capacity is not None:
        yield InFlight(capacity)
    yield from engine.limits(context.concurrency.requested, context.tell)


async def _tick(listener: Listener) -> None:
    while True:
        await asyncio.sleep(TICK_S)
        listener.tick()


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
