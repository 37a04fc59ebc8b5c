"""Limits: each decides one thing about "may this job start now?"; one file each."""

from __future__ import annotations

from typing import Protocol

from abreast.execute.job import Job
from abreast.model import Outcome

UNTIL_AN_EVENT = float("inf")


class Limit(Protocol):
    """Three synchronous functions. `wait` has no side effects and gives 0, seconds, or `UNTIL_AN_EVENT`."""

    def wait(self, job: Job, now: float) -> float: ...

    def take(self, job: Job, now: float) -> None: ...

    def settle(self, job: Job, outcome: Outcome, now: float) -> None: ...
