"""Warm-up: one query to a target before the measured ones, so that no trial pays for a first connection.

It goes through the same engine, timeout, retries and limits as a trial, but it is none: it has no row and no score,
only an event. What it costs counts against budget and quota.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from abreast.execute.estimate import cost_of
from abreast.execute.job import Job
from abreast.execute.limits import UNTIL_AN_EVENT, Limit
from abreast.execute.limits.breaker import fix_of
from abreast.execute.retry import Retry
from abreast.execute.scheduler import Engine
from abreast.model import Failure, Outcome
from abreast.plan.plan import Plan
from abreast.store import Store
from abreast.targets import Target

LOOK_AGAIN_S = 0.5  # whether somebody pressed Ctrl-C meanwhile


@dataclasses.dataclass(frozen=True, slots=True)
class WarmUp:
    """The warm-ups of one execution, all at the same time."""

    plan: Plan
    targets: Sequence[Target]
    engine: Engine
    limits: Sequence[Limit]
    retry: Retry
    tell: Callable[..., Any]
    stopped: Callable[[], bool]
    clock: Callable[[], float]

    async def run(self) -> tuple[str, str] | None:
        """None if all went well or there was none to do; else what is wrong, and the fix. A target that fails by its
        own fault, at a question that is too hard or too long for it, is there and warm."""
        outcomes = await asyncio.gather(*(self._warm(variant) for variant in self._variants()))
        for variant, failure in outcomes:
            if failure is not None and failure.blame != "variant":
                told = " ".join(failure.message.split())
                message = f"the warm-up of {self.targets[variant].name} failed: {failure.kind}: {told}"
                return message, fix_of(failure)
        return None

    def _variants(self) -> list[int]:
        """One for each target that asks for it and has something left to execute: its first variant."""
        if not self.targets:
            return []
        left = (~self.plan.done).reshape(-1, len(self.targets)).sum(axis=0)
        chosen: dict[str, int] = {}
        for index, (variant, target) in enumerate(zip(self.plan.variants, self.targets, strict=True)):
            wanted = getattr(target, "warmup", False) if variant.warmup is None else variant.warmup
            if left[index] and wanted:
                chosen.setdefault(target.name, index)
        return list(chosen.values())

    async def _warm(self, variant: int) -> tuple[int, Failure | None]:
        trial = self.plan.trial(self.plan.position(0, 0, variant))
        # A place of its own: no trial has it.
        job = Job(dataclasses.replace(trial, position=-1 - variant), variant, -1 - variant, 0, 0, self.clock())
        while await self._admitted(job):
            outcome = await self._attempt(job)
            failure = outcome.failure if outcome.status == "error" else None
            delay = None if failure is None else self.retry.delay(failure, job.attempt)
            if delay is None or self.stopped():
                self._tell(job, outcome)
                return variant, failure
            await asyncio.sleep(delay)
        return variant, None

    async def _admitted(self, job: Job) -> bool:
        """Wait for rates and quotas. What a trial could not do either (a used-up budget), the scheduler will tell."""
        while not self.stopped():
            now = self.clock()
            waits = [limit.wait(job, now) for limit in self.limits]
            if UNTIL_AN_EVENT in waits and any(limit.exhausted(job, now) is not None for limit in self.limits):
                return False
            longest = max((wait for wait in waits if wait != UNTIL_AN_EVENT), default=0.0)
            if longest == 0.0:
                return True
            await asyncio.sleep(min(longest, LOOK_AGAIN_S))
        return False

    async def _attempt(self, job: Job) -> Outcome:
        now = self.clock()
        for limit in self.limits:
            limit.take(job, now)
        job.attempt += 1
        job.dispatched_at = now
        ended: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self.engine.submit(job, lambda _job, outcome: None if ended.done() else ended.set_result(outcome))
        outcome = await ended
        now = self.clock()
        for limit in self.limits:
            limit.settle(job, outcome, now)
            limit.release(job, now)
        return outcome

    def _tell(self, job: Job, outcome: Outcome) -> None:
        failure = outcome.failure
        self.tell(
            "warmup",
            target=self.targets[job.variant].name,
            status=outcome.status,
            seconds=round(outcome.service_s, 3),
            cost_usd=cost_of(outcome),
            error=None if failure is None else f"{failure.kind}: {failure.message}",
            attempts=job.attempt,
            variant=job.trial.variant.name,
            case=job.trial.case.id,
        )


def warmup_costs(store: Store, run_id: int) -> dict[str, list[float]]:
    """What earlier warm-ups of a run cost, by variant."""
    found: dict[str, list[float]] = {}
    for event in store.queries.events(run_id, "warmup"):
        if event.detail["cost_usd"] is not None:
            found.setdefault(event.detail["variant"], []).append(event.detail["cost_usd"])
    return found
