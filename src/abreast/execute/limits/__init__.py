"""Limits: each decides one thing about "may this job start now?"; one file each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from abreast.execute.job import Job
from abreast.model import Blame, Failure, Outcome

UNTIL_AN_EVENT = float("inf")

Stage = Literal["running", "at rest", "stopped"]
"""When blame is asked for: while trials are executed, when no further trial will tell, or after the run stopped."""


class Limit:
    """Synchronous functions, all optional. The scheduler asks `wait` of the first job in each lane."""

    is_shared = False
    """Whether `wait` gives the same answer for every job that the limit applies to."""

    def applies_to(self, variant: int) -> bool:
        """Whether jobs of this variant are limited."""
        return True

    def wait(self, job: Job, now: float) -> float:
        """0 if the job may start, else seconds, or `UNTIL_AN_EVENT`. Changes nothing that others see."""
        return 0.0

    def affordable(self, jobs: list[Job], now: float) -> list[Job]:
        """Those of the next jobs that will probably start in this run, as soon as there is a place for them."""
        return jobs

    def take(self, job: Job, now: float) -> None:
        """An attempt of the job starts."""

    def settle(self, job: Job, outcome: Outcome, now: float) -> None:
        """The attempt has ended."""

    def release(self, job: Job, now: float) -> None:
        """The job gives its place to another: it waits for its next attempt, or its row is safe."""

    def conclude(self, job: Job, outcome: Outcome, now: float) -> None:
        """The trial has its final outcome: no attempt follows."""

    def least_delay(self, job: Job, now: float) -> float:
        """Seconds that a job waits at least until its next attempt, after one that failed."""
        return 0.0

    def blame(self, job: Job, failure: Failure, stage: Stage) -> Blame | None:
        """Decide who is to blame for a failure of a variant or of what it depends on; None while that is open."""
        return "variant"

    def store(self, job: Job, outcome: Outcome) -> None:
        """The trial's final outcome, with its blame decided, goes to the store."""

    def leave_out(self, job: Job) -> None:
        """The trial does not start in this run: what it would begin with is not there."""

    def exhausted(self, job: Job, now: float) -> tuple[str, str, str] | None:
        """Why this job can never start in this run now that nothing is in flight: kind, message and fix."""
        return None

    async def watch(self, wake: Callable[[], None]) -> None:
        """Watch what this limit depends on while trials run; `wake` makes the scheduler ask again."""

    def close(self) -> None:
        """The run is over."""
