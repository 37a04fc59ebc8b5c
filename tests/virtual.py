"""An event loop in virtual time: waiting costs nothing, and a program always takes the same time.

`Rig` puts a scheduler together in it, without a store: `Memory` acknowledges what it is given.
"""

from __future__ import annotations

import asyncio
import random
import selectors
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from abreast.execute.controls import Controller
from abreast.execute.engine.base import Complete, Engine
from abreast.execute.engine.local import LocalEngine
from abreast.execute.estimate import Estimates
from abreast.execute.failures import Retry
from abreast.execute.job import Job
from abreast.execute.limits.base import LimitContext
from abreast.execute.limits.registry import ActiveLimits
from abreast.execute.listener import Listener
from abreast.execute.scheduler import Scheduler
from abreast.execute.sources.trials import Trials
from abreast.execute.state import Acknowledgements, RunState
from abreast.model import Outcome
from abreast.plan.plan import Plan
from abreast.spec.schema import Limits
from abreast.store.user_state.quota_ledger import FileLedger


class _Selector(selectors.DefaultSelector):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None:
            raise RuntimeError("everything waits for an event that nothing will cause")
        self.now += max(0.0, timeout)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now


def run(main: Coroutine[Any, Any, Any]) -> Any:
    """`asyncio.run` in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


class Memory:
    """A store that acknowledges in the next iteration of the loop."""

    acknowledgements: Acknowledgements

    def outcome(self, job: Job, outcome: Outcome) -> None:
        asyncio.get_running_loop().call_soon(self.acknowledgements.add, [job])

    def attempt(self, job: Job, outcome: Outcome, delay: float) -> None: ...


class Rig:
    """A scheduler with the trials of a plan, its limits and an engine. Build it in a running loop."""

    def __init__(
        self,
        plan: Plan,
        targets: Sequence[Any],
        limits: Limits,
        listener: Listener,
        records: Memory,
        *,
        timeout: float = 1000.0,
        emit: Callable[..., Any] | None = None,
        engine: Callable[[Complete], Engine] | None = None,
        early_stopping: Any = None,
    ) -> None:
        loop = asyncio.get_running_loop()
        records.acknowledgements = Acknowledgements(loop)
        self.state = RunState(records.acknowledgements, listener)
        timeouts = [lambda _length: timeout] * len(targets)
        make = engine or (lambda complete: LocalEngine(targets, timeouts, complete))
        self.engine = make(self.state.complete)
        context = LimitContext(
            limits=limits,
            targets=targets,
            plan=plan,
            emit=emit or listener.event,
            stop=self.state.stop,
            ledger=FileLedger,
            estimates=Estimates(len(targets)),
        )
        self.limits = ActiveLimits(context)
        built = list(self.limits)
        self.trials = Trials(
            plan=plan,
            limits=built,
            records=records,
            on_commit=lambda jobs: None,
            listener=listener,
            state=self.state,
            early_stopping=early_stopping,
        )
        retry = Retry(limits.retries, random.Random(1))
        self.scheduler = Scheduler(
            sources=[self.trials],
            engine=self.engine,
            limits=built,
            retry=retry,
            state=self.state,
            clock=loop.time,
        )
        self.controller = Controller(
            state=self.state,
            limits=self.limits,
            trials=self.trials,
            sources=[self.trials],
            retry=retry,
            emit=emit or listener.event,
            cancel=self.engine.cancel,
            stops_early=early_stopping is not None,
        )

    async def run(self) -> float:
        """Execute everything; return the elapsed seconds."""
        loop = asyncio.get_running_loop()
        begin = loop.time()
        await self.controller.run(self.scheduler)
        self.controller.end()
        elapsed = loop.time() - begin
        await self.engine.close()
        return elapsed
