"""The runner: the only actor on a node, with a local engine in a separate thread.

Ray's calls arrive on the actor's loop, which a user's code cannot block. When the driver is gone, the runner ends
everything that it started, and then itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

from abreast.execute.engine.base import EngineSetup
from abreast.execute.engine.local import LocalEngine
from abreast.execute.engine.ray.facts import NodeFacts, facts_of, received_setup
from abreast.execute.engine.ray.leases import HEARTBEAT_S, DriverContact, Inbox, Outbox
from abreast.execute.engine.ray.messages import AttemptResult, RecentCases, Report, Start, dumps, dumps_result
from abreast.execute.job import Job
from abreast.execute.limits.base import UNTIL_AN_EVENT, Limit
from abreast.execute.sources.lanes import Lanes
from abreast.model import Case, Outcome, Trial
from abreast.targets.processes.cleanup import clean

SWITCH_S = 0.0005  # between the engine's thread and that of Ray's calls, which has little to do
END_S = 20.0  # for attempts to end after the driver is gone
CHECK_S = 0.5


class Runner:
    """The actor. Its methods are called by the driver."""

    def __init__(self) -> None:
        self._contact = DriverContact(time.monotonic())
        self._starts: Inbox[Start] = Inbox()
        self._results: Outbox[bytes] = Outbox()
        self._events: list[tuple[str, dict[str, Any]]] = []
        self._is_news = asyncio.Event()
        self._queue: NodeQueue | None = None

    async def pass_keys(self, keys: Mapping[str, str]) -> None:
        """Set the keys that the node's environment lacks."""
        os.environ.update(keys)

    async def begin(self, base: Path | None, setup: bytes) -> tuple[bool, NodeFacts]:
        """Build the targets; return whether the node limits how many attempts run, and its facts.

        `base` is the folder of the spec; None if Ray sent it.
        """
        self._loop = asyncio.get_running_loop()
        sys.setswitchinterval(SWITCH_S)
        ready: Future[NodeQueue] = Future()
        engine = threading.Thread(
            target=_serve, args=(base, setup, self._add, self._emit, ready), name="abreast-engine", daemon=True
        )
        engine.start()
        self._queue = await asyncio.wrap_future(ready)
        self._contact = DriverContact(time.monotonic())
        threading.Thread(target=self._watch_driver, name="abreast-watch", daemon=True).start()
        return self._queue.is_governed, self._queue.facts

    async def submit(self, first: int, starts: bytes) -> None:
        """Start attempts; `first` is the number of the first of them."""
        if self._contact.hear(time.monotonic()):
            new = self._starts.new(first, pickle.loads(starts))
            self._engine.call(self._engine.start, new)
            if self._engine.is_governed:
                self._engine.call(self._loop.call_soon_threadsafe, self._is_news.set)

    async def collect(self, acknowledged: int) -> bytes:
        """Return results as soon as there are any, at the latest after a second."""
        if not self._contact.hear(time.monotonic()):
            await asyncio.Event().wait()  # the runner ends
        self._results.acknowledge(acknowledged)
        if not self._results:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._is_news.wait(), HEARTBEAT_S)
        self._is_news.clear()
        first, results = self._results.unacknowledged()
        events, self._events = self._events, []
        return dumps(Report(time.time(), self._engine.received, self._engine.waiting, first, results, events))

    async def cancel(self) -> None:
        if self._queue is not None:
            self._queue.call(self._queue.cancel)

    async def close(self) -> list[str]:
        """End everything; return warnings. Also works before `begin`."""
        if self._queue is None:
            return []
        return await asyncio.wrap_future(self._engine.end())

    @property
    def _engine(self) -> NodeQueue:
        assert self._queue is not None
        return self._queue

    def _add(self, results: list[AttemptResult]) -> None:
        """Take results from the engine's thread."""
        self._loop.call_soon_threadsafe(self._add_on_loop, list(map(dumps_result, results)))

    def _add_on_loop(self, results: list[bytes]) -> None:
        self._results.extend(results)
        self._is_news.set()

    def _emit(self, kind: str, **details: Any) -> None:
        self._loop.call_soon_threadsafe(self._events.append, (kind, details))

    def _watch_driver(self) -> None:
        while not self._contact.has_expired(time.monotonic()):
            time.sleep(CHECK_S)
        with contextlib.suppress(Exception):  # however it ends, the process does
            self._engine.end().result(END_S)
        os._exit(0)


class NodeQueue:
    """The local engine of a node, and the attempts that wait until its limits let them start."""

    def __init__(
        self, setup: EngineSetup, add: Callable[[list[AttemptResult]], None], emit: Callable[..., Any]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._variants, self._add = setup.variants, add
        self._cases: RecentCases[Case] = RecentCases()
        self._carried: dict[int, Any] = {}  # workspace states by position
        settings = {**setup.settings, "carrying": lambda trial: self._carried[trial.position]}
        setup = replace(setup, settings=settings)
        targets = setup.targets()
        self.facts = facts_of(targets)
        self._engine = LocalEngine(targets, setup.timeouts(targets), self._complete, setup.limits)
        self._limits: Sequence[Limit] = self._engine.limits(None, emit, lambda *_: None)
        self._lanes = Lanes(range(len(targets)), self._limits)
        self._starts: dict[Job, tuple[Start, float]] = {}  # with the time of receipt
        self._ended: list[AttemptResult] = []  # in this iteration of the loop
        self._timer: asyncio.TimerHandle | None = None
        self._closing = asyncio.Event()
        self._is_idle = asyncio.Event()
        self._warnings: Future[list[str]] = Future()
        self.received = self.waiting = 0  # attempts

    @property
    def is_governed(self) -> bool:
        return bool(self._limits)

    def call(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Call a function on the engine's loop, from any thread."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(function, *arguments)

    async def serve(self) -> None:
        """Execute attempts until `end`."""
        with self._engine.reaping():
            watches = [asyncio.create_task(limit.watch(self._start_waiting)) for limit in self._limits]
            await self._closing.wait()
            self.cancel()
            if self._starts:
                self._is_idle.clear()
                await self._is_idle.wait()
            for task in watches:
                task.cancel()
            warnings = await self._engine.close()
        self._warnings.set_result(warnings)

    def end(self) -> Future[list[str]]:
        self.call(self._closing.set)
        return self._warnings

    def start(self, starts: Sequence[Start]) -> None:
        now = self._loop.time()
        for start in starts:
            if start.case is not None and start.case_index >= 0:
                self._cases.add(start.case_index, start.case)
            case = self._cases[start.case_index] if start.case is None else start.case
            variant = self._variants[start.variant]
            trial = Trial(start.position, case, variant, start.repeat, start.occurrence)
            self.received += 1
            job = start.job_type(trial, start.variant, self.received, 0, start.case_index, attempt=start.attempt)
            if start.carried is not None:
                self._carried[start.position] = start.carried
            self._starts[job] = start, now
            self.waiting += 1
            self._lanes.append(job)
        self._start_waiting()

    def _start_waiting(self) -> None:
        """Start waiting attempts as far as the node's limits allow."""
        if self._timer is not None:
            self._timer.cancel()
        now = self._loop.time()
        self._lanes.begin(now)
        while (job := self._lanes.first()) is not None:
            self._lanes.take(job)
            self._dispatch(job, now)
        earliest = self._lanes.earliest
        self._timer = None if earliest == UNTIL_AN_EVENT else self._loop.call_later(earliest, self._start_waiting)

    def _dispatch(self, job: Job, now: float) -> None:
        self.waiting -= 1
        job.timing.queue_s = now - self._starts[job][1]
        for limit in self._limits:
            limit.take(job, now)
        self._engine.submit(job)

    def _complete(self, job: Job, outcome: Outcome) -> None:
        now = self._loop.time()
        for limit in self._limits:
            limit.settle(job, outcome, now)
            limit.release(job, now)
        start, _ = self._starts.pop(job)
        self._carried.pop(start.position, None)
        timing = job.timing
        first_started_at = timing.first_started_at if job.attempt == 1 else None
        self._ended.append(
            AttemptResult(start.ticket, start.lease, outcome, job.prompt, timing.queue_s, first_started_at)
        )
        if len(self._ended) == 1:
            self._loop.call_soon(self._hand_over)
        if not self._starts:
            self._is_idle.set()

    def _hand_over(self) -> None:
        ended, self._ended = self._ended, []
        self._add(ended)
        if self.waiting:
            self._start_waiting()

    def cancel(self) -> None:
        """Cancel everything, including attempts that wait."""
        self._engine.cancel()
        for job in list(self._lanes):
            self._dispatch(job, self._loop.time())  # ends as cancelled
        self._lanes.keep(lambda job: False)


def _serve(
    base: Path | None,
    setup: bytes,
    add: Callable[[list[AttemptResult]], None],
    emit: Callable[..., Any],
    ready: Future[NodeQueue],
) -> None:
    """Run the engine of a node in this thread."""

    async def main() -> None:
        try:
            clean()
            queue = NodeQueue(received_setup(base, setup), add, emit)
        except BaseException as error:  # noqa: BLE001 - the driver reports it
            ready.set_exception(error)
            return
        ready.set_result(queue)
        await queue.serve()

    asyncio.run(main())
