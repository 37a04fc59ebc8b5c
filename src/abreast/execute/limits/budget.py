"""Budgets by reservation: spending plus the expected cost of jobs in flight never exceeds the cap."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Self

from abreast.execute.estimate import cost_of, tokens_of
from abreast.execute.job import Job
from abreast.execute.limits.base import UNTIL_AN_EVENT, Limit, LimitContext
from abreast.model import Outcome
from abreast.spec.schema import TargetLimits


def build(context: LimitContext) -> Iterator[Limit]:
    for name, variants in context.variants_of_target.items():
        if name in context.limits.targets:
            yield from _budgets(context.limits.targets[name], variants, context)
    yield from _budgets(context.limits, range(len(context.targets)), context)


def _budgets(own: TargetLimits, variants: Collection[int], context: LimitContext) -> Iterator[Limit]:
    estimates = context.estimates
    if own.budget_usd is not None:
        spent = estimates.spent_usd(variants)
        yield Budget(own.budget_usd, "usd", variants, expected=estimates.cost, actual=cost_of, spent=spent)
    if own.budget_tokens is not None:
        spent = estimates.spent_tokens(variants)
        yield Budget(own.budget_tokens, "tokens", variants, expected=estimates.tokens, actual=tokens_of, spent=spent)


class Budget(Limit):
    """A cap on dollars or tokens. While the use of a variant is unknown, only one of its trials is in flight."""

    def __init__(
        self,
        cap: float,
        unit: str,
        variants: Collection[int],
        expected: Callable[[Job], float | None],
        actual: Callable[[Outcome], float | None],
        spent: float = 0.0,
    ) -> None:
        self.cap, self.unit, self.spent = cap, unit, spent
        self.variants = variants
        self._expected, self._actual = expected, actual
        self._reserved: dict[int, float] = {}
        self._unknown: set[int] = set()  # variants whose first trial is in flight

    @property
    def key(self) -> object:
        return super().key, self.unit

    def change(self, new: Self) -> None:
        self.cap = new.cap

    @property
    def reserved(self) -> float:
        return sum(self._reserved.values())

    def wait(self, job: Job, now: float) -> float:
        if self.spent >= self.cap:
            return UNTIL_AN_EVENT
        expected = self._expected(job)
        if expected is None:
            return UNTIL_AN_EVENT if job.variant in self._unknown else 0.0
        return 0.0 if self.spent + self.reserved + expected <= self.cap else UNTIL_AN_EVENT

    def affordable(self, jobs: list[Job], now: float) -> list[Job]:
        """Keep the jobs before the first that the remaining budget does not cover."""
        remaining = self.cap - self.spent - self.reserved
        for number, job in enumerate(jobs):
            if self.applies_to(job.variant):
                remaining -= self._expected(job) or 0.0
                if remaining < 0 or self.wait(job, now) > 0:
                    return jobs[:number]
        return jobs

    def take(self, job: Job, now: float) -> None:
        expected = self._expected(job)
        if expected is None:
            self._unknown.add(job.variant)
        self._reserved[job.trial.position] = expected or 0.0

    def settle(self, job: Job, outcome: Outcome, now: float) -> None:
        reserved = self._reserved.pop(job.trial.position, 0.0)
        self._unknown.discard(job.variant)
        actual = self._actual(outcome)
        if actual is None:  # a timeout may have cost what was expected; a refusal by the provider costs nothing
            has_timed_out = outcome.failure is not None and outcome.failure.kind == "timeout"
            actual = reserved if has_timed_out else 0.0
        self.spent += actual

    def exhausted(self, job: Job, now: float) -> tuple[str, str, str] | None:
        if self._reserved or self.wait(job, now) == 0.0:
            return None
        if self.unit == "usd":
            message = f"budget ${self.cap:,.2f} reached: ${self.spent:,.2f} spent"
            fix = "resume with a larger budget: --budget USD"
        else:
            message = f"budget of {self.cap:,.0f} tokens reached: {self.spent:,.0f} used"
            fix = "raise limits.budget_tokens and run again"
        return "budget", f"{message}, another trial may exceed it", fix
