"""The Ray engine: streams attempts to one runner per node and results back, and starts again what was lost with a node.

It is no failure of a target if a node is lost: neither limits nor retries learn of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import pickle
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from abreast.errors import BadInput, PluginError, TrialError, classify
from abreast.execute.engine.base import Complete, Engine, EngineSetup, cancelled_outcome
from abreast.execute.engine.ray.cluster import Cluster, ClusterNode
from abreast.execute.engine.ray.facts import refuse_other
from abreast.execute.engine.ray.leases import MOST_DEATHS, Inbox, Leases
from abreast.execute.engine.ray.messages import RecentCases, Report, Result, Start, dumps_code
from abreast.execute.engine.ray.warmups import WarmUpGroup
from abreast.execute.engine.workers import Threads
from abreast.execute.job import Job
from abreast.execute.limits.base import UNTIL_AN_EVENT, Limit
from abreast.model import Failure, Outcome
from abreast.redaction import redact, redact_outcome

if TYPE_CHECKING:
    from ray.actor import ActorHandle

    from abreast.execute.engine.ray.runner import Runner

TICK_S = 0.5
NODES_S = 2.0  # between two looks at which nodes there are
BEGIN_S = 120.0  # for a runner to start and build its targets
SETTLE_S = 15.0  # for the first nodes to be ready before the first trial
REPEAT_S = 0.2  # before a call is repeated that did not get through
RESTART_S = 2.0  # before a node gets another runner; doubles
LONGEST_RESTART_S = 60.0
CLOSE_S = 90.0  # for a runner to end what it started
NO_NODES_NOTICE_S, NO_NODES_S = 5.0, 60.0  # without any node, until that is reported and until the run stops
MOST_WAITING = 16  # attempts that wait on a node whose own limits hold them
SMOOTHING = 0.05  # weight of the last attempt in the mean duration on a node


@dataclass(slots=True, eq=False)
class Attempt:
    """An attempt in flight."""

    job: Job
    carried: Any = None  # the workspace state that it continues from
    group: WarmUpGroup | None = None  # of a warm-up on several nodes


@dataclass(slots=True, eq=False)
class NodeRunner:
    """The driver's view of a runner."""

    node: ClusterNode
    variants: dict[int, int]  # indexes of the runner by those of the run
    actor: ActorHandle[Runner] | None = None
    is_governed: bool = False  # limits of the node let attempts wait
    warming: int = 0  # warm-ups until it gets trials
    outbox: list[tuple[int, int]] = field(default_factory=list)  # tickets and leases
    is_outbox_filled: asyncio.Event = field(default_factory=asyncio.Event)
    number: int = 0  # attempts put into the outbox so far
    received: int = 0  # of them, those that the runner has
    waiting: int = 0  # of them, those that wait on the node
    results: Inbox[Result] = field(default_factory=Inbox)
    cases: RecentCases[bool] = field(default_factory=RecentCases)
    mean_s: float = 0.0  # recent duration of attempts
    task: asyncio.Task[None] | None = None

    @property
    def has_room(self) -> bool:
        return not self.is_governed or self.waiting + self.number - self.received < MOST_WAITING

    def observe(self, seconds: float) -> None:
        self.mean_s = seconds if not self.mean_s else self.mean_s + SMOOTHING * (seconds - self.mean_s)


class RayEngine(Engine):
    """Executes jobs on the nodes of a Ray cluster."""

    def __init__(self, cluster: Cluster, setup: EngineSetup, complete: Complete) -> None:
        self._cluster, self._setup, self._complete = cluster, setup, complete
        self._loop = asyncio.get_running_loop()
        self._threads = Threads(self._loop)  # for calls of Ray that block
        self._base = Path(setup.settings["base"]).resolve()
        self._targets = setup.targets()
        self._leases: Leases[NodeRunner] = Leases()
        self._attempts: dict[int, Attempt] = {}
        self._tickets = itertools.count(1)
        self._backlog: deque[int] = deque()  # tickets without a runner
        self._is_assigning = False
        self._starting: dict[str, NodeRunner] = {}  # by id of the node
        self._runners: list[NodeRunner] = []  # that take attempts
        self._restarts: dict[str, tuple[float, float]] = {}  # by id: when a node may get another runner, and the delay
        self._refused: set[str] = set()  # ids of nodes with other versions or code
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_settled = False  # the nodes of the beginning have a runner, or cannot have one
        self._warm_ups: list[Job] = []  # that ended, for nodes that join
        self._is_cancelled = self._is_closing = False
        self._began_at = self._without_nodes_since = self._loop.time()
        self._is_reported = False
        self._emit: Callable[..., Any] = lambda *_, **__: None
        self._stop: Callable[[str, str, str], None] = lambda *_: None
        self._wake: Callable[[], None] = lambda: None

    # -- of `Engine` ---------------------------------------------------------------------------------------------------

    def submit(self, job: Job) -> None:
        self.begin()
        target = self._targets[job.variant]
        if self._setup.carrying is not None and not job.is_warmup and target.after(job.trial.case):
            self._spawn(self._submit_chained(job))
        else:
            self._queue(Attempt(job))

    def cancel(self) -> None:
        self._is_cancelled = True
        for runner in self._all_runners():
            if runner.actor is not None:
                self._spawn(self._cancel(runner))
        self._assign_soon()

    def limits(
        self, requested: int | None, emit: Callable[..., Any], stop: Callable[[str, str, str], None]
    ) -> Sequence[Limit]:
        self._emit, self._stop = emit, stop
        return [NodeRoom(self)]

    async def close(self) -> list[str]:
        self._is_closing = True
        warnings: list[str] = []
        runners = [runner for runner in self._all_runners() if runner.actor is not None]
        for closed in await asyncio.gather(*map(self._close_runner, runners)):
            warnings += closed
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

    # -- what limits and tests need ------------------------------------------------------------------------------------

    def begin(self, wake: Callable[[], None] | None = None) -> None:
        """Connect to the cluster and start the runners, unless that has begun."""
        self._wake = wake or self._wake
        if not self._tasks and not self._is_closing:
            self._spawn(self._supervise())
            self._spawn(self._tick())

    def has_room(self, variant: int) -> bool:
        return self._is_settled and any(runner.has_room and variant in runner.variants for runner in self._runners)

    # -- attempts ------------------------------------------------------------------------------------------------------

    async def _submit_chained(self, job: Job) -> None:
        """Read the state that a trial continues from, which only the driver has, and send it along."""
        assert self._setup.carrying is not None
        try:
            carried = await self._threads.call(self._setup.carrying, job.trial)
        except TrialError as error:
            self._fail(Attempt(job), Outcome("error", failure=classify(error)))
        else:
            self._queue(Attempt(job, carried))

    def _queue(self, attempt: Attempt) -> None:
        ticket = next(self._tickets)
        self._attempts[ticket] = attempt
        self._backlog.append(ticket)
        self._assign_soon()

    def _assign_soon(self) -> None:
        if not self._is_assigning:
            self._is_assigning = True
            self._loop.call_soon(self._assign)

    def _assign(self) -> None:
        """Give each attempt of the backlog to a runner, if there is one with room."""
        self._is_assigning = False
        waiting, self._backlog = self._backlog, deque()
        for ticket in waiting:
            attempt = self._attempts[ticket]
            if self._is_cancelled:
                self._give_up(ticket, cancelled_outcome())
            elif attempt.job.is_warmup and attempt.group is None:
                self._spread(ticket, attempt)
            elif not self._is_settled or (runner := self._choose(attempt.job.variant)) is None:
                self._backlog.append(ticket)
            else:
                self._send(ticket, runner)

    def _choose(self, variant: int) -> NodeRunner | None:
        """The runner with the least work, by the recent duration of attempts there."""
        best, least = None, UNTIL_AN_EVENT
        for runner in self._runners:
            if runner.has_room and variant in runner.variants:
                work = (self._leases.held_by(runner) + 1) * (runner.mean_s or 1.0)
                if work < least:
                    best, least = runner, work
        return best

    def _send(self, ticket: int, runner: NodeRunner) -> None:
        runner.outbox.append((ticket, self._leases.grant(ticket, runner)))
        runner.number += 1
        runner.is_outbox_filled.set()

    def _start_of(self, ticket: int, lease: int, runner: NodeRunner) -> Start:
        attempt = self._attempts[ticket]
        job, trial = attempt.job, attempt.job.trial
        is_there = job.case in runner.cases
        if job.case >= 0 and not is_there:
            runner.cases.add(job.case, True)
        return Start(
            ticket,
            lease,
            type(job),
            runner.variants[job.variant],
            trial.position,
            trial.repeat,
            trial.occurrence,
            job.attempt,
            job.case,
            None if is_there else trial.case,
            attempt.carried,
        )

    def _take(self, runner: NodeRunner, result: Result, offset: float) -> None:
        """Complete an attempt, unless it is another runner's by now; `offset` converts the times to our clock."""
        if not self._leases.complete(result.ticket, result.lease):
            return
        attempt, outcome = self._attempts.pop(result.ticket), result.outcome
        outcome.started_at += offset
        outcome.finished_at += offset
        if outcome.status == "ok":
            runner.observe(outcome.service_s)
        job = attempt.job
        job.prompt = redact(result.prompt)
        if attempt.group is not None:
            attempt.group.end(outcome)
            return
        job.timing.queue_s += result.queue_s
        if result.first_started_at is not None:
            job.timing.first_started_at = result.first_started_at + offset
        self._complete(job, redact_outcome(outcome))

    def _give_up(self, ticket: int, outcome: Outcome) -> None:
        self._leases.drop(ticket)
        self._fail(self._attempts.pop(ticket), outcome)

    def _fail(self, attempt: Attempt, outcome: Outcome) -> None:
        """Complete an attempt that is in no runner."""
        now = time.time()
        outcome.started_at = outcome.finished_at = now
        if attempt.job.attempt == 1:
            attempt.job.timing.first_started_at = now
        if attempt.group is not None:
            attempt.group.end(outcome)
        else:
            self._complete(attempt.job, redact_outcome(outcome))

    # -- warm-ups ------------------------------------------------------------------------------------------------------

    def _spread(self, ticket: int, attempt: Attempt) -> None:
        """Send a warm-up to all runners, each of which has its own connections."""
        job = attempt.job
        runners = [runner for runner in self._runners if job.variant in runner.variants]
        if not self._is_settled or not runners:
            self._backlog.append(ticket)
            return
        del self._attempts[ticket]

        def complete(outcome: Outcome) -> None:
            if job not in self._warm_ups:
                self._warm_ups.append(job)
            job.timing.first_started_at = outcome.started_at
            self._complete(job, redact_outcome(outcome))

        self._warm_up(job, runners, complete, lambda: self._queue(Attempt(job)))

    def _warm_up(
        self,
        job: Job,
        runners: Sequence[NodeRunner],
        complete: Callable[[Outcome], None],
        lose: Callable[[], None],
    ) -> None:
        group = WarmUpGroup(len(runners), complete, lose)
        for runner in runners:
            ticket = next(self._tickets)
            self._attempts[ticket] = Attempt(job, group=group)
            self._send(ticket, runner)

    def _join(self, runner: NodeRunner) -> None:
        """Let a runner take trials, once it is warm."""
        if runner.warming == 0 and self._starting.pop(runner.node.id, None) is runner:
            self._runners.append(runner)
            self._emit("node_joined", node=runner.node.name)
            self._is_reported = False
            self._assign_soon()
            self._wake()

    def _warm_up_late(self, runner: NodeRunner, job: Job) -> None:
        """Warm up a node that joined later; its cost counts in the next execution."""

        def complete(outcome: Outcome) -> None:
            from abreast.execute.sources.warmup import warmup_event

            self._emit("warmup", **warmup_event(job, self._targets[job.variant].name, outcome), node=runner.node.name)
            end()

        def end() -> None:
            runner.warming -= 1
            self._join(runner)

        runner.warming += 1
        self._warm_up(job, [runner], complete, end)

    # -- runners -------------------------------------------------------------------------------------------------------

    def _all_runners(self) -> list[NodeRunner]:
        return [*self._starting.values(), *self._runners]

    async def _supervise(self) -> None:
        """Start runners on nodes that have none, also on those that join later."""
        await self._threads.call(self._cluster.connect)
        while True:
            nodes = {node.id: node for node in await self._threads.call(self._cluster.nodes)}
            for runner in self._all_runners():
                if runner.node.id not in nodes:
                    self._lose(runner, "the node died")
            now = self._loop.time()
            busy = {runner.node.id for runner in self._all_runners()}
            for node in nodes.values():
                is_due = self._restarts.get(node.id, (0.0, 0.0))[0] <= now
                if is_due and node.id not in busy | self._refused and not self._is_closing:
                    self._start_runner(node)
            self._settle()
            await asyncio.sleep(NODES_S)

    def _settle(self) -> None:
        """Let trials start once the first nodes are ready, so that each gets its share, or after `SETTLE_S`."""
        is_late = self._loop.time() - self._began_at > SETTLE_S
        if not self._is_settled and self._runners and (is_late or not self._starting):
            self._is_settled = True
            self._assign_soon()
            self._wake()

    def _start_runner(self, node: ClusterNode) -> None:
        indexes = node.eligible(self._setup.variants)
        if indexes:
            runner = NodeRunner(node, {index: own for own, index in enumerate(indexes)})
            self._starting[node.id] = runner
            runner.task = self._spawn(self._run(runner))

    async def _run(self, runner: NodeRunner) -> None:
        """Exchange messages with a runner until it is lost."""
        from ray.exceptions import RayError

        try:
            await asyncio.wait_for(self._begin_runner(runner), BEGIN_S)
        except BadInput as error:  # it joined after the checks
            self._emit("warning", message=f"{error.message}; the node is not used: {error.fix}")
            self._refused.add(runner.node.id)
            self._lose(runner, error.message)
            return
        except (RayError, TimeoutError) as error:
            self._lose(runner, *_cause(error))
            return
        self._leases.add_runner(runner, self._loop.time())
        for job in self._warm_ups:
            if job.variant in runner.variants:
                self._warm_up_late(runner, job)
        self._join(runner)
        self._settle()
        try:
            async with asyncio.TaskGroup() as exchange:
                exchange.create_task(self._submit_all(runner))
                exchange.create_task(self._collect(runner))
        except* RayError as errors:
            self._lose(runner, *_cause(errors.exceptions[0]))

    async def _begin_runner(self, runner: NodeRunner) -> None:
        runner.actor = await self._threads.call(self._cluster.start_runner, runner.node, self._base)
        keys = self._cluster.passed_keys()
        if keys:
            await runner.actor.pass_keys.remote(keys)
        setup = dumps_code(self._setup.portable(runner.variants))
        folder = self._cluster.base_on_nodes(self._base)
        runner.is_governed, facts = await runner.actor.begin.remote(folder, setup)
        refuse_other(f"node {runner.node.name}", facts, self._setup, sorted(runner.variants))

    async def _submit_all(self, runner: NodeRunner) -> None:
        """Send what the outbox has, and what gathers in it meanwhile."""
        first = 1
        while True:
            await runner.is_outbox_filled.wait()
            runner.is_outbox_filled.clear()
            tickets, runner.outbox = runner.outbox, []
            starts = dumps_code([self._start_of(ticket, lease, runner) for ticket, lease in tickets])
            await self._call(runner, "submit", first, starts)
            first += len(tickets)

    async def _collect(self, runner: NodeRunner) -> None:
        """Receive results. Each call is a heartbeat for the runner, and each reply one for us."""
        while True:
            report: Report = pickle.loads(await self._call(runner, "collect", runner.results.received))
            self._leases.hear(runner, self._loop.time())
            runner.received, runner.waiting = report.received, report.waiting
            offset = time.time() - report.sent_at
            for result in runner.results.new(report.first, report.results):
                self._take(runner, result, offset)
            for kind, details in report.events:
                self._emit(kind, node=runner.node.name, **details)
            if self._backlog:
                self._assign_soon()
            if runner.is_governed:
                self._wake()

    async def _call(self, runner: NodeRunner, method: str, *arguments: Any) -> Any:
        """Call a runner, again and again while the network is down; in the end `_tick` gives it up."""
        from ray.exceptions import ActorUnavailableError

        while True:
            try:
                return await getattr(runner.actor, method).remote(*arguments)
            except ActorUnavailableError:
                await asyncio.sleep(REPEAT_S)

    def _lose(self, runner: NodeRunner, reason: str, failure: Failure | None = None) -> None:
        """Start the attempts of a lost runner again elsewhere, or fail them with `failure`."""
        if runner not in self._all_runners() or self._is_closing:
            return
        self._starting.pop(runner.node.id, None)
        if runner in self._runners:
            self._runners.remove(runner)
        delay = min(LONGEST_RESTART_S, 2 * self._restarts.get(runner.node.id, (0.0, RESTART_S / 2))[1])
        self._restarts[runner.node.id] = self._loop.time() + delay, delay
        again, given_up = self._leases.end(runner)
        self._emit("node_lost", node=runner.node.name, reason=reason, in_flight=len(again) + len(given_up))
        if runner.actor is not None:
            self._threads.call(_kill, runner.actor)
        for ticket in again:
            group = self._attempts[ticket].group
            if group is not None:
                self._leases.drop(ticket)
                del self._attempts[ticket]
                group.end(None)
            elif failure is not None:
                self._give_up(ticket, Outcome("error", failure=failure))
            else:
                self._backlog.append(ticket)
        for ticket in given_up:
            message = f"{MOST_DEATHS} nodes were lost while they executed it, the last one because {reason}"
            fix = "check the memory of the nodes, or set limits.memory_per_trial"
            self._give_up(ticket, Outcome("error", failure=Failure("resources", "infrastructure", message, fix=fix)))
        self._assign_soon()
        self._settle()
        if runner.task is not None and runner.task is not asyncio.current_task():
            runner.task.cancel()

    async def _cancel(self, runner: NodeRunner) -> None:
        from ray.exceptions import RayError

        with contextlib.suppress(RayError):
            assert runner.actor is not None
            await runner.actor.cancel.remote()

    async def _close_runner(self, runner: NodeRunner) -> list[str]:
        from ray.exceptions import RayError

        assert runner.actor is not None
        try:
            warnings: list[str] = await asyncio.wait_for(_reply(runner.actor.close.remote()), CLOSE_S)
        except (RayError, TimeoutError) as error:
            warnings = [f"node {runner.node.name}: its runner did not end: {_cause(error)[0]}"]
        await self._threads.call(_kill, runner.actor)
        return warnings

    async def _tick(self) -> None:
        """Give up runners that do not answer, and a run without any node."""
        while True:
            await asyncio.sleep(TICK_S)
            now = self._loop.time()
            for runner in self._leases.overdue(now):
                self._lose(runner, "it did not answer for 5 s")
            self._settle()
            if self._runners:
                self._without_nodes_since = now
                continue
            silent = now - self._without_nodes_since
            if silent > NO_NODES_NOTICE_S and not self._is_reported:
                self._is_reported = True
                self._emit("warning", message=f"no node of the Ray cluster at {self._cluster.address} is available")
            if silent > NO_NODES_S:
                self._stop(
                    "nodes",
                    f"no node of the Ray cluster at {self._cluster.address} was available for {NO_NODES_S:g} s",
                    "check the cluster with `ray status`",
                )
                self.cancel()

    def _spawn(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


class NodeRoom(Limit):
    """Lets jobs wait while no node can take them."""

    holds_warmups = False

    def __init__(self, engine: RayEngine) -> None:
        self._engine = engine

    def wait(self, job: Job, now: float) -> float:
        return 0.0 if self._engine.has_room(job.variant) else UNTIL_AN_EVENT

    async def watch(self, wake: Callable[[], None]) -> None:
        self._engine.begin(wake)


async def _reply(reference: Any) -> Any:
    return await reference


def _kill(actor: ActorHandle[Runner]) -> None:
    import ray

    with contextlib.suppress(Exception):  # it is dead already, or the cluster is
        ray.kill(actor, no_restart=True)


def _cause(error: Exception) -> tuple[str, Failure | None]:
    """Why a runner is lost, and the failure of its attempts if Ray killed it for lack of memory."""
    from ray.exceptions import OutOfMemoryError

    if isinstance(error, OutOfMemoryError):
        reason = "Ray killed its runner because the memory of the node was short"
        fix = "reduce --parallel, or set limits.memory_per_trial"
        return reason, Failure("resources", "infrastructure", reason, fix=fix)
    if isinstance(error, TimeoutError):
        return f"its runner did not begin within {BEGIN_S:g} s", None
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}", None
