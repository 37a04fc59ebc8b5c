"""Budgets by reservation: what is spent and what is in flight together never pass the cap."""

from __future__ import annotations

from collections.abc import Callable

from abreast.execute.job import Job
from abreast.execute.limits import UNTIL_AN_EVENT, Limit
from abreast.model import Outcome


class Budget(Limit):
    """A cap on dollars or tokens. While nothing is known of a variant, one trial of it goes ahead alone."""

    def __init__(
        self,
        cap: float,
        unit: str,
        variants: frozenset[int],
        expected: Callable[[Job], float | None],
        actual: Callable[[Outcome], float | None],
        spent: float = 0.0,
    ) -> None:
        self.cap, self.unit, self.spent = cap, unit, spent
        self._variants = variants
        self._expected, self._actual = expected, actual
        self._reserved: dict[int, float] = {}
        self._unknown: set[int] = set()  # variants whose first trial is in flight

    @property
    def reserved(self) -> float:
        return sum(self._reserved.values())

    def wait(self, job: Job, now: float) -> float:
        if job.variant not in self._variants:
            return 0.0
        if self.spent >= self.cap:
            return UNTIL_AN_EVENT
        expected = self._expected(job)
        if expected is None:
            return UNTIL_AN_EVENT if job.variant in self._unknown else 0.0
        return 0.0 if self.spent + self.reserved + expected <= self.cap else UNTIL_AN_EVENT

    def affordable(self, jobs: list[Job], now: float) -> list[Job]:
        """Up to the one that what is left does not reach for, after all before it."""
        left = self.cap - self.spent - self.reserved
        for number, job in enumerate(jobs):
            if job.variant in self._variants:
                left -= self._expected(job) or 0.0
                if left < 0 or self.wait(job, now) > 0:
                    return jobs[:number]
        return jobs

    def take(self, job: Job, now: float) -> None:
        if job.variant not in self._variants:
            return
        expected = self._expected(job)
        if expected is None:
            self._unknown.add(job.variant)
        self._reserved[job.trial.position] = expected or 0.0

    def settle(self, job: Job, outcome: Outcome, now: float) -> None:
        if job.variant not in self._variants:
            return
        reserved = self._reserved.pop(job.trial.position, 0.0)
        self._unknown.discard(job.variant)
        actual = self._actual(outcome)
        if actual is None:  # a timeout may have cost what was expected; a refusal of the provider costs nothing
            timed_out = outcome.failure is not None and outcome.failure.kind == "timeout"
            actual = reserved if timed_out else 0.0
        self.spent += actual

    def exhausted(self, job: Job, now: float) -> tuple[str, str, str] | None:
        if job.variant not in self._variants or self._reserved or self.wait(job, now) == 0.0:
            return None
        if self.unit == "usd":
            told = (
                f"budget ${self.cap:,.2f} reached: ${self.spent:,.2f} spent, another trial may take more than is left"
            )
            return "budget", told, "resume with a larger one: --budget USD"
        told = f"budget of {self.cap:,.0f} tokens reached: {self.spent:,.0f} used, another may take more than is left"
        return "budget", told, "raise limits.budget_tokens and run again"
