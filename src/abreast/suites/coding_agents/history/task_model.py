"""Requests to a model outside of a run, with the same targets, retries and errors."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from types import TracebackType

from abreast.errors import BadInput
from abreast.execute.engine.base import EngineSetup, find_engine
from abreast.execute.estimate import cost_of
from abreast.execute.failures import Retry
from abreast.execute.job import Job, TrialJob
from abreast.execute.listener import Listener
from abreast.execute.scheduler import Scheduler
from abreast.execute.sources.lanes import Lanes, Source
from abreast.execute.state import Acknowledgements, RunState
from abreast.model import Case, Outcome, Trial, Variant
from abreast.report.words.variant_figures import dollars
from abreast.report.words.verdict_sentence import SIMULATED
from abreast.spec.schema import Limits
from abreast.suites.coding_agents.agents import target_of
from abreast.targets import build
from abreast.text import many

TIMEOUT_S = 180.0


@dataclass(slots=True)
class Spending:
    requests: int = 0
    cost_usd: float = 0.0
    unknown: int = 0  # requests whose cost is unknown

    def add(self, outcome: Outcome) -> None:
        cost = cost_of(outcome)
        self.requests += 1
        self.cost_usd += cost or 0.0
        self.unknown += cost is None and outcome.answer is not None


class PromptSource(Source):
    """A source of jobs from prompts; the caller waits for the outcome and nothing is stored."""

    job_type = TrialJob

    def __init__(self, variant: Variant, state: RunState, spending: Spending) -> None:
        super().__init__(Lanes(range(1), ()))
        self._variant, self._state, self._spending = variant, state, spending
        self._number = 0
        self._waiting: dict[Job, asyncio.Future[Outcome]] = {}

    is_done = False  # until the run is stopped

    async def ask(self, prompt: str) -> Outcome:
        loop = asyncio.get_running_loop()
        trial = Trial(self._number, Case("task", prompt), self._variant, 0)
        job = TrialJob(trial=trial, variant=0, block=self._number, slot=0, ready_at=loop.time())
        self._number += 1
        future: asyncio.Future[Outcome] = loop.create_future()
        self._waiting[job] = future
        self.lanes.append(job)
        self._state.wake()
        return await future

    def retried(self, job: Job, outcome: Outcome, delay: float) -> None:
        self._spending.add(outcome)

    def store(self, job: Job, outcome: Outcome) -> None:
        self._spending.add(outcome)
        future = self._waiting.pop(job)
        if not future.cancelled():
            future.set_result(outcome)
        self._state.acknowledgements.add([job])


class TaskModel:
    def __init__(self, where: str, name: str) -> None:
        params = target_of(where, name)
        self.name, self.spending = name, Spending()
        self._variant = Variant(name, params.pop("target"), params)
        try:
            self._target = build(self._variant, 0, {})
        except BadInput as error:
            raise BadInput(error.message.replace(f'variant "{name}"', where, 1), error.fix) from None

    def check(self) -> None:
        """Report known problems, such as a missing key, before the first request."""
        for problem in self._target.problems():
            raise BadInput(problem.message, problem.fix.removesuffix(", or name a key_command:"))

    def spending_in_words(self) -> str:
        spending = self.spending
        cost = dollars(spending.cost_usd) if spending.requests > spending.unknown else ""
        unknown = f"cost of {spending.unknown:,} unknown" if spending.unknown else ""
        parts = filter(None, (many(spending.requests, "request"), cost, unknown))
        return f"{self.name}: {', '.join(parts)}{f' ({SIMULATED})' if self._target.simulated else ''}"

    async def __aenter__(self) -> TaskModel:
        loop = asyncio.get_running_loop()
        self._state = RunState(Acknowledgements(loop), Listener())
        setup = EngineSetup(variants=[self._variant], limits=Limits(timeout=TIMEOUT_S), built_targets=[self._target])
        self._engine = find_engine("local").build(setup, self._state.complete)
        self._prompts = PromptSource(self._variant, self._state, self.spending)
        scheduler = Scheduler(
            sources=[self._prompts],
            engine=self._engine,
            limits=(),
            retry=Retry(),
            state=self._state,
            clock=loop.time,
        )
        self._running = asyncio.create_task(scheduler.run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._state.stop("over")
        self._engine.cancel()
        await self._running
        await self._engine.close()

    async def ask(self, prompt: str) -> Outcome:
        """Return the outcome of the last attempt."""
        asking = asyncio.ensure_future(self._prompts.ask(prompt))
        try:
            await asyncio.wait({asking, self._running}, return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                self._running.result()  # raises the error that ended the scheduler
            return await asking
        finally:
            asking.cancel()
