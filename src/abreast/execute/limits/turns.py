"""One variant at a time, for agents that cannot run concurrently on one machine or account."""

from __future__ import annotations

from collections.abc import Iterator

from abreast.execute.job import Job
from abreast.execute.limits.base import UNTIL_AN_EVENT, Limit, LimitContext
from abreast.model import Outcome
from abreast.plan.plan import Plan, block_order


def build(context: LimitContext) -> Iterator[Limit]:
    if context.limits.turns and context.plan is not None:
        yield VariantTurns(context.plan)


class VariantTurns(Limit):
    """For each case, run all repeats of one variant, then of the next, in random order. Judges take no turns."""

    holds_warmups = False

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.variants = range(len(plan.variants))
        cases, variants = len(plan.cases), len(plan.variants)
        self._missing = (~plan.done).reshape(cases, plan.repeats, variants).sum(axis=1)
        self._case = -1  # current case, as index in the order of starts
        self._order: list[int] = []  # variants of this case that may have trials left, the current one first
        self._advance()

    def wait(self, job: Job, now: float) -> float:
        if not self._order:
            return 0.0
        is_its_turn = job.block // self._plan.repeats == self._case and job.variant == self._order[0]
        return 0.0 if is_its_turn else UNTIL_AN_EVENT

    def conclude(self, job: Job, outcome: Outcome, now: float) -> None:
        self.leave_out(job)

    def leave_out(self, job: Job) -> None:
        self._missing[job.case, job.variant] -= 1
        self._advance()

    def _advance(self) -> None:
        """Go to the next variant of this case, or of the next case, with trials left."""
        plan = self._plan
        while True:
            while self._order and not self._missing[plan.case(self._case * plan.repeats), self._order[0]]:
                del self._order[0]
            if self._order or self._case + 1 == len(plan.cases):
                return
            self._case += 1
            self._order = block_order(plan.seed, self._case * plan.repeats, len(plan.variants))
