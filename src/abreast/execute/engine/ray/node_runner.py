"""The driver's side of a runner: the facts about its node, and the messages to and from it."""

from __future__ import annotations

import asyncio
import contextlib
import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from abreast.execute.engine.base import EngineSetup
from abreast.execute.engine.ray.cluster import Cluster, ClusterNode
from abreast.execute.engine.ray.facts import NodeFacts, refuse_other
from abreast.execute.engine.ray.leases import Inbox
from abreast.execute.engine.ray.messages import AttemptResult, RecentCases, Report, Start, dumps_code
from abreast.execute.engine.workers import Threads
from abreast.model import Failure

if TYPE_CHECKING:
    from ray.actor import ActorHandle

    from abreast.execute.engine.ray.runner import Runner

BEGIN_S = 120.0  # for a runner to start and build its targets
REPEAT_S = 0.2  # before a call that did not get through is repeated
CLOSE_S = 90.0  # for a runner to end what it started
MOST_WAITING = 16  # attempts that a node's own limits hold back
SMOOTHING = 0.05  # weight of the last attempt in the mean duration on a node


class NodeRunner:
    """A runner, as the driver sees it."""

    def __init__(self, node: ClusterNode, variants: Sequence[int]) -> None:
        """`variants` are the indexes of the variants that the node can execute."""
        self.node = node
        self.variants = {index: own for own, index in enumerate(variants)}  # indexes of the runner by those of the run
        self.cases: RecentCases[bool] = RecentCases()
        self.warming = 0  # warm-ups to complete before it gets trials
        self.mean_s = 0.0  # recent duration of attempts
        self.task: asyncio.Task[None] | None = None  # exchanges messages with it
        self._actor: ActorHandle[Runner] | None = None
        self.is_governed = False  # the node's limits can make attempts wait
        self._outbox: list[tuple[int, int]] = []  # tickets and leases
        self._is_outbox_filled = asyncio.Event()
        self._results: Inbox[bytes] = Inbox()
        self._sent = 0  # attempts put into the outbox so far
        self._received = 0  # of them, those that the runner has
        self._waiting = 0  # of them, those that wait on the node

    @property
    def has_started(self) -> bool:
        return self._actor is not None

    @property
    def has_room(self) -> bool:
        return not self.is_governed or self._waiting + self._sent - self._received < MOST_WAITING

    def observe(self, seconds: float) -> None:
        """Record the duration of an attempt."""
        self.mean_s = seconds if not self.mean_s else self.mean_s + SMOOTHING * (seconds - self.mean_s)

    def put(self, ticket: int, lease: int) -> None:
        """Queue an attempt for `submit_all`."""
        self._outbox.append((ticket, lease))
        self._sent += 1
        self._is_outbox_filled.set()

    async def begin(self, cluster: Cluster, threads: Threads, base: Path, setup: EngineSetup) -> NodeFacts:
        """Start the actor, which builds the targets. Raises BadInput if versions or code differ from the driver's."""
        self._actor = await threads.call(cluster.start_runner, self.node)
        keys = cluster.passed_keys()
        if keys:
            await self._actor.pass_keys.remote(keys)
        content = dumps_code(setup.portable(self.variants))
        facts: NodeFacts
        self.is_governed, facts = await self._actor.begin.remote(cluster.base_on_nodes(base), content)
        refuse_other(f"node {self.node.name}", facts, setup, sorted(self.variants))
        return facts

    async def submit_all(self, start_of: Callable[[int, int, NodeRunner], Start]) -> None:
        """Send the attempts in the outbox, and those added meanwhile."""
        first = 1
        while True:
            await self._is_outbox_filled.wait()
            self._is_outbox_filled.clear()
            tickets, self._outbox = self._outbox, []
            starts = dumps_code([start_of(ticket, lease, self) for ticket, lease in tickets])
            await self._call("submit", first, starts)
            first += len(tickets)

    async def collect(self, receive: Callable[[NodeRunner, Report, list[AttemptResult]], None]) -> None:
        """Receive results. Each call is a heartbeat for the runner, and each reply one for the driver."""
        while True:
            report: Report = pickle.loads(await self._call("collect", self._results.received))
            self._received, self._waiting = report.received, report.waiting
            receive(self, report, [pickle.loads(result) for result in self._results.new(report.first, report.results)])

    async def _call(self, method: str, *arguments: Any) -> Any:
        """Call the runner, repeatedly while the network is down; eventually its lease expires."""
        from ray.exceptions import ActorUnavailableError

        while True:
            try:
                return await getattr(self._actor, method).remote(*arguments)
            except ActorUnavailableError:
                await asyncio.sleep(REPEAT_S)

    async def cancel(self) -> None:
        """Cancel its attempts."""
        from ray.exceptions import RayError

        assert self._actor is not None
        with contextlib.suppress(RayError):
            await self._actor.cancel.remote()

    async def close(self, cluster: Cluster, threads: Threads) -> list[str]:
        """End it once its attempts have ended; return warnings."""
        from ray.exceptions import RayError

        assert self._actor is not None
        try:
            warnings: list[str] = await asyncio.wait_for(_reply(self._actor.close.remote()), CLOSE_S)
        except (RayError, TimeoutError) as error:
            warnings = [f"node {self.node.name}: its runner did not end: {loss(error, CLOSE_S)[0]}"]
        await threads.call(cluster.kill, self._actor)
        return warnings

    def kill(self, cluster: Cluster, threads: Threads) -> None:
        """End it at once, without waiting."""
        if self._actor is not None:
            threads.call(cluster.kill, self._actor)


async def _reply(reference: Any) -> Any:
    return await reference


def loss(error: Exception, seconds: float) -> tuple[str, Failure | None]:
    """Explain why a runner is lost, and return the failure of its attempts if Ray killed it for lack of memory.

    `seconds` is the timeout of the call that failed.
    """
    from ray.exceptions import ActorDiedError, OutOfMemoryError, RayTaskError

    if isinstance(error, OutOfMemoryError):
        reason = "Ray killed its runner because the node was short of memory"
        fix = "reduce --parallel, or set limits.memory_per_trial"
        return reason, Failure("resources", "infrastructure", reason, fix=fix)
    if isinstance(error, TimeoutError):
        return f"its runner did not answer within {seconds:g} s", None
    if isinstance(error, ActorDiedError):
        return "its runner died", None
    cause = error.cause if isinstance(error, RayTaskError) else error
    return f"{type(cause).__name__}: {' '.join(str(cause).split())[:300]}", None
