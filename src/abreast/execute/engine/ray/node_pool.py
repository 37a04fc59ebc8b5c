"""The runners on the cluster's nodes: started on every node, including those that join later, and replaced when lost.

A lost node is not a failure of the target: limits and retries do not see it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from abreast.errors import BadInput
from abreast.execute.engine.base import EngineSetup
from abreast.execute.engine.ray.attempts import Attempts
from abreast.execute.engine.ray.cluster import Cluster, ClusterNode
from abreast.execute.engine.ray.facts import NodeFacts, node_problem
from abreast.execute.engine.ray.messages import AttemptResult, Report
from abreast.execute.engine.ray.node_runner import BEGIN_S, NodeRunner, loss
from abreast.execute.engine.ray.warmups import NodeWarmUps
from abreast.execute.engine.workers import Threads
from abreast.execute.job import Job
from abreast.model import Failure, Outcome

TICK_S = 0.5
NODES_S = 2.0  # between two listings of the nodes
SETTLE_S = 15.0  # for the initial nodes to be ready before the first trial
RESTART_S = 2.0  # before a node gets another runner; doubles
LONGEST_RESTART_S = 60.0
NO_NODES_NOTICE_S, NO_NODES_S = 5.0, 60.0  # without a node: until a warning, and until the run stops


@dataclass
class RunCalls:
    """Callbacks of the run, set by `RayEngine.limits` and `RayEngine.begin`."""

    emit: Callable[..., Any] = lambda *_, **__: None
    stop: Callable[[str, str, str], None] = lambda *_: None
    wake: Callable[[], None] = lambda: None


class NodePool:
    """All runners: those that are starting, and those that take attempts."""

    def __init__(
        self,
        cluster: Cluster,
        setup: EngineSetup,
        threads: Threads,
        attempts: Attempts,
        warm_ups: NodeWarmUps,
        run: RunCalls,
        assign: Callable[[], None],
    ) -> None:
        """`assign` sends waiting attempts to runners with room."""
        self._cluster, self._setup, self._threads = cluster, setup, threads
        self._attempts, self._warm_ups, self._run = attempts, warm_ups, run
        self._assign = assign
        self._base = Path(setup.settings["base"]).resolve()
        self._loop = asyncio.get_running_loop()
        self.ready: list[NodeRunner] = []  # those that take attempts
        self._starting: dict[str, NodeRunner] = {}  # by id of the node
        self._restarts: dict[str, tuple[float, float]] = {}  # by id: when a node may get another runner, and the delay
        self._refused: set[str] = set()  # ids of nodes with other versions or code
        self._tasks: set[asyncio.Task[Any]] = set()
        self.is_settled = False  # every initial node has a runner, or cannot have one
        self._is_closing = False
        self._began_at = self._short_since = self._loop.time()
        self.refused_variants: set[int] = set()  # those for which no runner had room, since the last tick
        self._is_reported = False
        self._explained: set[str] = set()  # kinds of events
        self.has_given_up = False  # what has no runner now will not get one

    def begin(self) -> None:
        """Connect to the cluster and start the runners, unless already begun."""
        if not self._tasks and not self._is_closing:
            self._spawn(self._supervise())
            self._spawn(self._watch())

    def runners(self) -> list[NodeRunner]:
        return [*self._starting.values(), *self.ready]

    def with_variant(self, variant: int) -> Iterator[NodeRunner]:
        """Yield the runners that can execute the variant; none before the first nodes are ready."""
        return (runner for runner in self.ready if variant in runner.variants) if self.is_settled else iter(())

    async def close(self) -> list[str]:
        """End all runners; return warnings."""
        self._is_closing = True
        started = [runner for runner in self.runners() if runner.has_started]
        closed = await asyncio.gather(*(runner.close(self._cluster, self._threads) for runner in started))
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        return [warning for warnings in closed for warning in warnings]

    # -- start ---------------------------------------------------------------------------------------------------------

    async def _supervise(self) -> None:
        """Start runners on nodes that have none, including those that join later."""
        await self._threads.call(self._cluster.connect)
        while True:
            nodes = {node.id: node for node in await self._threads.call(self._cluster.nodes)}
            for runner in self.runners():
                if runner.node.id not in nodes:
                    self._lose(runner, "the node died")
            now = self._loop.time()
            busy = {runner.node.id for runner in self.runners()}
            for node in nodes.values():
                is_due = self._restarts.get(node.id, (0.0, 0.0))[0] <= now
                if is_due and node.id not in busy | self._refused and not self._is_closing:
                    self._start(node)
            self._settle()
            await asyncio.sleep(NODES_S)

    def _start(self, node: ClusterNode) -> None:
        indexes = node.eligible(self._setup.variants)
        if indexes:
            runner = NodeRunner(node, indexes)
            self._starting[node.id] = runner
            runner.task = self._spawn(self._serve(runner))

    async def _serve(self, runner: NodeRunner) -> None:
        """Begin a runner and exchange messages with it until it is lost."""
        from ray.exceptions import RayError, RayTaskError

        begin = runner.begin(self._cluster, self._threads, self._base, self._setup)
        try:
            facts = await asyncio.wait_for(begin, BEGIN_S)
        except (BadInput, RayTaskError) as error:  # it joined after the checks
            self._refuse(runner, error)
            return
        except (RayError, TimeoutError) as error:
            self._lose(runner, *loss(error, BEGIN_S))
            return
        self._attempts.leases.add_runner(runner, self._loop.time())
        for job in self._warm_ups.ended:
            if job.variant in runner.variants:
                self._warm_up(runner, facts, job)
        self._join(runner, facts)
        self._settle()
        try:
            async with asyncio.TaskGroup() as exchange:
                exchange.create_task(runner.submit_all(self._attempts.start_of))
                exchange.create_task(runner.collect(self._receive))
        except* Exception as errors:  # noqa: BLE001 - also an answer that cannot be restored here
            self._lose(runner, *loss(errors.exceptions[0], BEGIN_S))

    def _join(self, runner: NodeRunner, facts: NodeFacts) -> None:
        """Let a runner take trials once it is warm."""
        if runner.warming == 0 and self._starting.pop(runner.node.id, None) is runner:
            self.ready.append(runner)
            versions = {"python": facts.python, "abreast": facts.abreast, **facts.cli_versions}
            self._run.emit("node_joined", node=runner.node.name, late=self.is_settled, versions=versions)
            self._assign()
            self._run.wake()

    def _warm_up(self, runner: NodeRunner, facts: NodeFacts, job: Job) -> None:
        """Warm up a node that joined later; its cost counts in the next execution."""

        def complete(outcome: Outcome) -> None:
            from abreast.execute.sources.warmup import warmup_event

            target = self._setup.targets()[job.variant].name
            self._run.emit("warmup", **warmup_event(job, target, outcome), node=runner.node.name)
            end()

        def end() -> None:
            runner.warming -= 1
            self._join(runner, facts)

        runner.warming += 1
        self._warm_ups.send(job, [runner], complete, end)

    def _settle(self) -> None:
        """Let trials start once the first nodes are ready, so that each gets its share, or after `SETTLE_S`."""
        is_late = self._loop.time() - self._began_at > SETTLE_S
        if not self.is_settled and self.ready and (is_late or not self._starting):
            self.is_settled = True
            self._assign()
            self._run.wake()

    # -- exchange and loss ---------------------------------------------------------------------------------------------

    def _receive(self, runner: NodeRunner, report: Report, results: Sequence[AttemptResult]) -> None:
        self._attempts.leases.hear(runner, self._loop.time())
        offset = time.time() - report.sent_at
        for result in results:
            self._attempts.take(runner, result, offset)
        for kind, details in report.events:
            self._report(runner, kind, details)
        if self._attempts.backlog:
            self._assign()
        if runner.is_governed:
            self._run.wake()

    def _report(self, runner: NodeRunner, kind: str, details: dict[str, Any]) -> None:
        """Report an event of a node, in words only for the first node that has it."""
        message = details.pop("message", None)
        if message is not None and kind not in self._explained:
            self._explained.add(kind)
            details["message"] = f"node {runner.node.name}: {message}"
        self._run.emit(kind, node=runner.node.name, **details)

    def _refuse(self, runner: NodeRunner, error: Exception) -> None:
        """Exclude a node whose versions or code differ from the driver's."""
        where = f"node {runner.node.name}"
        problem = error if type(error) is BadInput else node_problem(where, error)
        self._refused.add(runner.node.id)
        self._remove(runner)
        self._settle()
        if self.runners():
            self._run.emit("warning", message=f"{problem.message}; {where} is not used: {problem.fix}")
        else:
            self._give_up(problem.message, problem.fix)

    def _lose(self, runner: NodeRunner, reason: str, failure: Failure | None = None) -> None:
        """Start the attempts of a lost runner again elsewhere, or fail them with `failure`."""
        if runner not in self.runners() or self._is_closing:
            return
        self._remove(runner)
        delay = min(LONGEST_RESTART_S, 2 * self._restarts.get(runner.node.id, (0.0, RESTART_S / 2))[1])
        self._restarts[runner.node.id] = self._loop.time() + delay, delay
        in_flight = self._attempts.end_leases(runner, reason, failure)
        self._run.emit("node_lost", node=runner.node.name, reason=reason, in_flight=in_flight)
        self._assign()
        self._settle()
        if runner.task is not None and runner.task is not asyncio.current_task():
            runner.task.cancel()

    def _remove(self, runner: NodeRunner) -> None:
        self._starting.pop(runner.node.id, None)
        if runner in self.ready:
            self.ready.remove(runner)
        runner.kill(self._cluster, self._threads)

    async def _watch(self) -> None:
        """Give up runners that do not answer, and stop a run that waits too long for a node."""
        while True:
            await asyncio.sleep(TICK_S)
            now = self._loop.time()
            for runner in self._attempts.leases.overdue(now):
                self._lose(runner, "it did not answer for 5 s")
            self._settle()
            shortage = self._shortage()
            if shortage is None or (self._starting and not self.is_settled):
                self._short_since, self._is_reported = now, False
            elif now - self._short_since > NO_NODES_S:
                self._give_up(f"waited {NO_NODES_S:g} s for {shortage}", "check the cluster with `ray status`")
            elif now - self._short_since > NO_NODES_NOTICE_S and not self._is_reported:
                self._is_reported = True
                self._run.emit("warning", message=f"waiting for {shortage}")

    def _shortage(self) -> str | None:
        """What the run waits for; None if each variant with jobs that wait has a runner."""
        waiting = self.refused_variants | {self._attempts[ticket].job.variant for ticket in self._attempts.backlog}
        waiting -= {variant for runner in self.ready for variant in runner.variants}
        self.refused_variants.clear()
        if not waiting:
            return None
        self._run.wake()  # what still wants room asks again
        nodes = f"a node of the Ray cluster at {self._cluster.address}"
        if not self.ready:
            return nodes
        return f'{nodes} that has what variant "{self._setup.variants[min(waiting)].name}" needs'

    def _give_up(self, message: str, fix: str) -> None:
        self.has_given_up = True
        self._run.stop("nodes", message, fix)
        self._assign()

    def _spawn(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
