"""Asking a model outside of a run: through the same targets, with the same retries and errors."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from types import TracebackType

from abreast.errors import BadInput
from abreast.execute.engine.local import LocalEngine
from abreast.execute.estimate import cost_of
from abreast.execute.job import Job
from abreast.execute.retry import Retry
from abreast.model import Case, Outcome, Trial, Variant
from abreast.report.words.variant_figures import dollars
from abreast.report.words.verdict_sentence import SIMULATED, many
from abreast.suites.coding_agents.agents import target_of
from abreast.targets import build

TIMEOUT_S = 180.0


@dataclass(slots=True)
class Spent:
    """What was asked for, and what it cost as far as that is known."""

    requests: int = 0
    cost_usd: float = 0.0
    unknown: int = 0  # of them the cost is not known

    def add(self, outcome: Outcome) -> None:
        cost = cost_of(outcome)
        self.requests += 1
        self.cost_usd += cost or 0.0
        self.unknown += cost is None and outcome.answer is not None


class Model:
    """A model by its name."""

    def __init__(self, where: str, name: str) -> None:
        params = target_of(where, name)
        self.name, self.spent = name, Spent()
        self._variant = Variant(name, params.pop("target"), params)
        try:
            self._target = build(self._variant, 0, {})
        except BadInput as error:
            raise BadInput(error.message.replace(f'variant "{name}"', where, 1), error.fix) from None

    def check(self) -> None:
        """Refuse what is known to be wrong before anything is asked, such as a missing key."""
        for problem in getattr(self._target, "problems", list)():
            raise BadInput(problem.message, problem.fix.removesuffix(", or name a key_command:"))

    def told(self) -> str:
        """What was spent, in a line."""
        spent = self.spent
        cost = dollars(spent.cost_usd) if spent.requests > spent.unknown else ""
        unknown = f"the cost of {spent.unknown:,} is not known" if spent.unknown else ""
        parts = filter(None, (many(spent.requests, "request"), cost, unknown))
        return f"{self.name}: {', '.join(parts)}{f' ({SIMULATED})' if self._target.simulated else ''}"

    async def __aenter__(self) -> Model:
        self._engine = LocalEngine([self._target], [lambda _length: TIMEOUT_S])
        self._retry = Retry()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._engine.cancel()
        await self._engine.close()

    async def ask(self, prompt: str) -> Outcome:
        """The outcome of the last attempt."""
        job = Job(Trial(0, Case("task", prompt), self._variant, 0), variant=0, block=0, slot=0, case=0)
        while True:
            job.attempt += 1
            outcome = await self._attempt(job)
            self.spent.add(outcome)
            failure = outcome.failure if outcome.status == "error" else None
            delay = None if failure is None else self._retry.delay(failure, job.attempt)
            if delay is None:
                return outcome
            await asyncio.sleep(delay)

    async def _attempt(self, job: Job) -> Outcome:
        ended: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._engine.submit(job, lambda _job, outcome: None if ended.done() else ended.set_result(outcome))
        return await ended
