"""The Ray engine: sends each attempt to the node with the least work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from abreast.errors import PluginError, TrialError, classify
from abreast.execute.engine.base import Complete, Engine, EngineSetup, cancelled_outcome
from abreast.execute.engine.ray.attempts import Attempts, PendingAttempt
from abreast.execute.engine.ray.cluster import Cluster
from abreast.execute.engine.ray.node_pool import NodePool, RunCalls
from abreast.execute.engine.ray.node_runner import NodeRunner
from abreast.execute.engine.ray.warmups import NodeWarmUps
from abreast.execute.engine.workers import Threads
from abreast.execute.job import Job
from abreast.execute.limits.base import UNTIL_AN_EVENT, Limit
from abreast.model import Outcome


class RayEngine(Engine):
    """Executes jobs on the nodes of a Ray cluster."""

    def __init__(self, cluster: Cluster, setup: EngineSetup, complete: Complete) -> None:
        setup = replace(setup, built_targets=setup.targets())
        self._cluster, self._setup, self._targets = cluster, setup, setup.targets()
        self._loop = asyncio.get_running_loop()
        self._threads = Threads(self._loop)  # for blocking calls of Ray
        self._run = RunCalls()
        self._attempts = Attempts(complete)
        self._warm_ups = NodeWarmUps(self._attempts, complete)
        self._pool = NodePool(
            cluster, setup, self._threads, self._attempts, self._warm_ups, self._run, self._assign_soon
        )
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_assigning = self._is_cancelled = False

    # -- the interface of `Engine` -------------------------------------------------------------------------------------

    def submit(self, job: Job) -> None:
        self._pool.begin()
        target = self._targets[job.variant]
        if self._setup.carrying is not None and not job.is_warmup and target.after(job.trial.case):
            self._spawn(self._submit_chained(job))
        else:
            self._queue(PendingAttempt(job))

    def cancel(self) -> None:
        self._is_cancelled = True
        for runner in self._pool.runners():
            if runner.has_started:
                self._spawn(runner.cancel())
        self._assign_soon()

    def limits(
        self, requested: int | None, emit: Callable[..., Any], stop: Callable[[str, str, str], None]
    ) -> Sequence[Limit]:
        self._run.emit, self._run.stop = emit, stop
        return [NodeRoom(self)]

    async def close(self) -> list[str]:
        warnings = await self._pool.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._threads.call(self._cluster.close)
        self._threads.close()
        for target in self._targets:
            try:
                await target.close()
            except PluginError as error:
                warnings.append(error.message)
        return list(dict.fromkeys(warnings))

    # -- called by `NodeRoom` ------------------------------------------------------------------------------------------

    def begin(self, wake: Callable[[], None]) -> None:
        """Start the runners; `wake` makes the run check which trials may start."""
        self._run.wake = wake
        self._pool.begin()

    def has_room(self, variant: int) -> bool:
        has_room = any(runner.has_room for runner in self._pool.with_variant(variant))
        if not has_room:
            self._pool.refused_variants.add(variant)
        return has_room

    # -- attempts ------------------------------------------------------------------------------------------------------

    async def _submit_chained(self, job: Job) -> None:
        """Submit a trial with the workspace state that it continues from, which only the driver has."""
        assert self._setup.carrying is not None
        try:
            carried = await self._threads.call(self._setup.carrying, job.trial)
        except TrialError as error:
            self._attempts.fail(PendingAttempt(job), Outcome("error", failure=classify(error)))
        else:
            self._queue(PendingAttempt(job, carried))

    def _queue(self, attempt: PendingAttempt) -> None:
        self._attempts.queue(attempt)
        self._assign_soon()

    def _assign_soon(self) -> None:
        if not self._is_assigning:
            self._is_assigning = True
            self._loop.call_soon(self._assign)

    def _assign(self) -> None:
        """Send waiting attempts to runners with room, and warm-ups to all runners."""
        self._is_assigning = False
        attempts = self._attempts
        for ticket in attempts.take_backlog():
            job = attempts[ticket].job
            if self._is_cancelled:
                attempts.fail(attempts.withdraw(ticket), cancelled_outcome())
            elif job.is_warmup and (runners := list(self._pool.with_variant(job.variant))):
                attempts.withdraw(ticket)
                self._warm_ups.spread(job, runners, lambda job=job: self._queue(PendingAttempt(job)))  # type: ignore[misc]
            elif not job.is_warmup and (runner := self._choose(job.variant)) is not None:
                attempts.send(ticket, runner)
            elif self._pool.has_given_up:
                attempts.fail(attempts.withdraw(ticket), cancelled_outcome())
            else:
                attempts.backlog.append(ticket)

    def _choose(self, variant: int) -> NodeRunner | None:
        """Return the runner with the least work, by the recent duration of its attempts."""
        best, least, held_by = None, UNTIL_AN_EVENT, self._attempts.leases.held_by
        for runner in self._pool.ready if self._pool.is_settled else ():  # once per trial: 0.2 ms for 1,000 nodes
            if runner.has_room and variant in runner.variants:
                work = (held_by(runner) + 1) * (runner.mean_s or 1.0)
                if work < least:
                    best, least = runner, work
        return best

    def _spawn(self, work: Any) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class NodeRoom(Limit):
    """Makes jobs wait while no node has room for them."""

    holds_warmups = False

    def __init__(self, engine: RayEngine) -> None:
        self._engine = engine

    def wait(self, job: Job, now: float) -> float:
        return 0.0 if self._engine.has_room(job.variant) else UNTIL_AN_EVENT

    async def watch(self, wake: Callable[[], None]) -> None:
        self._engine.begin(wake)
