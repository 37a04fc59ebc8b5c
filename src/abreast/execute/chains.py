"""Trials that begin with what another one left: they wait until that one is stored, and hold up nobody meanwhile."""

from __future__ import annotations

from typing import Literal

from abreast.execute.job import Job
from abreast.model import Outcome
from abreast.plan.plan import Plan

Fate = Literal["starts", "waits", "never starts"]


class Chains:
    """Who waits for whom. A trial follows an outcome that stands, the variant's own failures included; what a failure
    of the infrastructure left is nobody's beginning: a resume executes that one again, and then those after it."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._stands: dict[int, bool] = {}  # the outcomes of this execution, by position
        self._over: set[int] = set()  # trials whose rows are safe, or that never start
        self._waiting: dict[int, list[Job]] = {}  # by the position of the trial before

    def fate(self, job: Job) -> Fate:
        """What becomes of a job now; who waits comes back from `over`."""
        before = self._plan.before(job.trial.position)
        if before is None or self._plan.done[before]:
            return "starts"
        if before not in self._over:
            self._waiting.setdefault(before, []).append(job)
            return "waits"
        return "starts" if self._stands.get(before) else "never starts"

    def concluded(self, job: Job, outcome: Outcome) -> None:
        """A trial has its final outcome; its row is not safe yet."""
        own_failure = outcome.failure is not None and outcome.failure.blame == "variant"
        stands = outcome.status in ("ok", "skipped") or (outcome.status == "error" and own_failure)
        self._stands[job.trial.position] = stands

    def over(self, job: Job) -> list[Job]:
        """Its row is safe, or it never starts: those that waited for it."""
        self._over.add(job.trial.position)
        return self._waiting.pop(job.trial.position, [])
