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
from abreast.execute.early_stopping import Decision, EarlyStopping, StoppingRule
from abreast.execute.engine.base import Engine, EngineSetup, find_engine
from abreast.execute.estimate import Spent
from abreast.execute.job import Retry
from abreast.execute.limits.base import LimitContext
from abreast.execute.limits.concurrency import InFlight
from abreast.execute.limits.failing import tally
from abreast.execute.limits.registry import build_limits
from abreast.execute.listener import ConcurrencyStats, InFlightStats, Listener, Listeners
from abreast.execute.records import CommitHandler, EventRecorder, ThreadTimeoutWarning, TrialRecords
from abreast.execute.scheduler import Scheduler
from abreast.execute.scoring import Item, Scoring
from abreast.execute.sources.judging import Judging, Panel, without_judges
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
    stopped: str | None  # the kind of reason why it ended before its plan: interrupted, store, breaker, decided, ...
    why: str
    fix: str
    executed: int
    in_flight: InFlightStats
    error: StoreError | None = None
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
        """Execute what is missing, score what is stored, and release everything."""
        loop = asyncio.get_running_loop()
        acknowledgements = Acknowledgements(loop)
        writer = self.store.writer(self.held, acknowledgements.committed, acknowledgements.failed)
        try:
            parts = Parts(self, acknowledgements, writer)
        except BaseException:
            writer.close()
            raise
        state, engine, scoring, listener = parts.state, parts.engine, parts.scoring, parts.listener
        error: StoreError | None = None
        scoring.start()
        with RARE_COLLECTIONS, engine.reaping(), self._interruptible(state, engine, scoring), self.store.following():
            seconds = self.limits.run_timeout
            if seconds is not None:
                loop.call_later(seconds, state.stop, "run_timeout", f"{seconds:g} s are over", "")
            failing = asyncio.create_task(self._watch_store(state, engine, scoring))
            watching = [asyncio.create_task(limit.watch(state.wake)) for limit in parts.limits]
            watching.append(asyncio.create_task(_tick(listener)))
            try:
                await self._schedule(parts)
            finally:
                in_flight = InFlightStats(parts.requested, parts.stats.mean, parts.stats.most)
                if in_flight.most:
                    mean = round(in_flight.mean, 2)
                    listener.event("in_flight", asked=in_flight.asked, mean=mean, most=in_flight.most)
                for task in watching:
                    task.cancel()
                for problem in await engine.close():
                    listener.event("warning", message=problem)
                await asyncio.to_thread(scoring.finish)
                try:
                    await asyncio.to_thread(writer.close)
                except StoreError as caught:
                    error = caught
                await asyncio.sleep(0)  # the last acknowledgements
                failing.cancel()
                for limit in parts.limits:
                    limit.close()
        stopped, why, early_stopping = state.stopped, state.why, parts.early_stopping
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

    async def _schedule(self, parts: Parts) -> None:
        """Warm up, then execute the trials and ask the judges."""
        state, limits = parts.state, parts.limits
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
            warm_ups = WarmUps(self.plan, self.targets, limits, state, parts.listener.event, self.goes_on_cold)
            await schedule(sources=[warm_ups]).run()
        await schedule(sources=sources).run()

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


class Parts:
    """The parts of one execution; each gets those it needs from the ones before."""

    def __init__(self, execution: Execution, acknowledgements: Acknowledgements, writer: Writer) -> None:
        plan, targets, panel, stop = execution.plan, execution.targets, execution.panel, execution.stop
        judges: Sequence[Target] = () if panel is None else panel.targets
        build_engine = find_engine(execution.engine)
        recorded = Listeners([execution.listener, EventRecorder(writer)])
        self.stats = ConcurrencyStats(asyncio.get_running_loop().time)
        self.listener = Listeners([recorded, self.stats, ThreadTimeoutWarning(targets, recorded.event)])
        self.state = RunState(acknowledgements, self.listener)
        setup = EngineSetup(
            variants=[*plan.variants, *(() if panel is None else panel.contenders)],
            judges=len(judges),
            seed=plan.seed,
            settings=execution.target_settings,
            limits=execution.limits,
            built_targets=[*targets, *judges],
        )
        self.engine = build_engine(setup, self.state.complete)
        run_id, store = execution.held.run_id, execution.store
        context = LimitContext(
            limits=execution.limits,
            targets=[*targets, *judges],
            judges=len(judges),
            plan=plan,
            tell=self.listener.event,
            stop=self.state.stop,
            spent=_spent(execution) if execution.limits.needs_spending else (),
            waits_for_quota=execution.waits_for_quota,
            tallies=tally(plan, plan.done, store.own_failures(run_id)),
            answered=store.answered(run_id),
        )
        self.requested = context.concurrency.requested  # trials in flight
        capacity = self.engine.capacity()
        of_engine = [] if capacity is None else [InFlight(capacity)]
        self.limits = [*build_limits(context), *of_engine, *self.engine.limits(self.requested, context.tell)]
        self.early_stopping = None if stop is None else EarlyStopping(stop, self.state, self.listener)
        is_judged = stop is not None and panel is not None and panel.gives(stop.score)
        scorers = without_judges(execution.scorers)
        self.scoring = Scoring(scorers, writer, execution.unscored, None if is_judged else self.early_stopping)
        self.judging = (
            None
            if panel is None
            else Judging(
                panel=panel,
                first_variant=len(targets),
                store=store,
                writer=writer,
                limits=self.limits,
                listener=self.listener,
                state=self.state,
                early_stopping=self.early_stopping if is_judged else None,
            )
        )
        self.trials = Trials(
            plan=plan,
            limits=self.limits,
            records=TrialRecords(plan, writer),
            on_commit=CommitHandler(self.scoring, self.judging, self.early_stopping).committed,
            listener=self.listener,
            state=self.state,
            early_stopping=self.early_stopping,
            unjudged=(lambda: 0) if self.judging is None else self.judging.deciding_backlog,
        )


def _spent(execution: Execution) -> list[Spent]:
    """Use by earlier executions of this run, warm-ups included. Reads every trial."""
    store, run_id, panel = execution.store, execution.held.run_id, execution.panel
    warmups = warmup_costs(store, run_id)
    spent = []
    of_variants = store.spent(run_id, len(execution.targets))
    for variant, (costed, cost_usd, counted, tokens) in zip(execution.plan.variants, of_variants, strict=True):
        costs = warmups.get(variant.name, [])
        spent.append(Spent(costed + len(costs), cost_usd + sum(costs), counted, tokens))
    judges = [] if panel is None else [judge.name for judge in panel.judges]
    return spent + [Spent(*row) for row in store.spent_on_judges(run_id, judges)]


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
