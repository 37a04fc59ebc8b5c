"""Warm-up: one query to a target before the measured ones, so that no trial has to open the first connection.

It goes through the same scheduler, engine, timeout, retries and limits as a trial, but has no row and no score, only an
event. Its cost counts against budget and quota.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from abreast.execute.estimate import cost_of
from abreast.execute.failures import suggested_fix
from abreast.execute.job import Job, WarmUpJob
from abreast.execute.limits.base import Limit
from abreast.execute.sources.lanes import Lanes, Source
from abreast.execute.state import RunState
from abreast.model import Failure, Outcome
from abreast.plan.plan import Plan
from abreast.store import Store
from abreast.targets import Target


class WarmUps(Source):
    """The warm-ups of one execution, all at the same time."""

    job_type = WarmUpJob

    def __init__(
        self,
        plan: Plan,
        targets: Sequence[Target],
        limits: Sequence[Limit],
        state: RunState,
        emit: Callable[..., Any],
        ignores_failures: bool = False,
    ) -> None:
        super().__init__(Lanes(range(len(targets)), [limit for limit in limits if limit.holds_warmups]))
        self._plan, self._targets, self._state, self._emit = plan, targets, state, emit
        self._ignores_failures = ignores_failures
        self._variants = self._cold_variants()
        self._is_filled = False
        self._pending = len(self._variants)
        self._failures: dict[int, Failure] = {}

    def use_limits(self, limits: Sequence[Limit]) -> None:
        super().use_limits([limit for limit in limits if limit.holds_warmups])

    @property
    def is_done(self) -> bool:
        return self._pending == 0

    def _cold_variants(self) -> list[int]:
        """For each target that wants a warm-up, its first variant with trials left."""
        missing = self._plan.missing_by_variant()
        chosen: dict[str, int] = {}
        for index, (variant, target) in enumerate(zip(self._plan.variants, self._targets, strict=True)):
            is_wanted = target.warmup if variant.warmup is None else variant.warmup
            if missing[index] and is_wanted:
                chosen.setdefault(target.name, index)
        return list(chosen.values())

    def refill(self, now: float) -> None:
        if self._is_filled:
            return
        self._is_filled = True
        for variant in self._variants:
            trial = self._plan.trial(self._plan.position(0, 0, variant))
            trial = dataclasses.replace(trial, position=-1 - variant)  # not a trial of the plan
            block = variant - len(self._targets)
            self.lanes.append(WarmUpJob(trial=trial, variant=variant, block=block, slot=0, case=0, ready_at=now))

    def skip(self, job: Job) -> bool:
        """Skip a warm-up that can never start, for example because the budget is used up; the trials report that."""
        self.lanes.keep(lambda other: other is not job)
        self._end(1)
        self._state.wake()
        return True

    def concluded(self, job: Job, outcome: Outcome, now: float) -> None:
        failure = outcome.failure
        if failure is not None and outcome.status == "error":
            self._failures[job.variant] = failure
        self._emit("warmup", **warmup_event(job, self._targets[job.variant].name, outcome))

    def store(self, job: Job, outcome: Outcome) -> None:
        self._state.acknowledgements.add([job])  # there is no row

    def stored(self, jobs: Sequence[Job], now: float) -> None:
        self._end(len(jobs))

    def _end(self, number: int) -> None:
        self._pending -= number
        if self._pending == 0 and not self._ignores_failures:
            self._stop_if_cold()

    def _stop_if_cold(self) -> None:
        """Stop if a warm-up failed. A failure of the target itself is no reason: it shows that the target is up."""
        for variant in self._variants:
            failure = self._failures.get(variant)
            if failure is not None and failure.blame != "variant":
                message = f"the warm-up of {self._targets[variant].name} failed: {failure.kind}: "
                self._state.stop("warmup", message + " ".join(failure.message.split()), suggested_fix(failure))
                return


def warmup_event(job: Job, target: str, outcome: Outcome) -> dict[str, Any]:
    """The details of the event that records a warm-up."""
    failure = outcome.failure
    return {
        "target": target,
        "status": outcome.status,
        "seconds": round(outcome.service_s, 3),
        "cost_usd": cost_of(outcome),
        "error": None if failure is None else f"{failure.kind}: {failure.message}",
        "attempts": job.attempt,
        "variant": job.trial.variant.name,
        "case": job.trial.case.id,
    }


def warmup_costs(store: Store, run_id: int) -> dict[str, list[float]]:
    """Costs of earlier warm-ups of a run, by variant."""
    costs: dict[str, list[float]] = {}
    for event in store.queries.events(run_id, "warmup"):
        if event.detail["cost_usd"] is not None:
            costs.setdefault(event.detail["variant"], []).append(event.detail["cost_usd"])
    return costs
