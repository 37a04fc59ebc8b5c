"""Where jobs come from: the trials of a plan, the questions to its judges, warm-ups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from abreast.execute.job import Job
from abreast.execute.limits.base import UNTIL_AN_EVENT
from abreast.execute.sources.lanes import Lanes
from abreast.model import Outcome


class Source:
    """Jobs of one kind: it fills their lanes, and hears what becomes of them. The scheduler calls all of it."""

    job_type: ClassVar[type[Job]]
    decides_blame: ClassVar[bool] = False  # final failures may wait until it is known who is to blame
    lead: float = UNTIL_AN_EVENT  # blocks that one lane may be ahead of the others

    def __init__(self, lanes: Lanes) -> None:
        self.lanes = lanes

    @property
    def is_done(self) -> bool:
        """Whether all its jobs are stored, and no other will follow."""
        raise NotImplementedError

    def is_held_back(self) -> bool:
        """Whether nothing more of it shall start now, whatever the limits say."""
        return False

    def refill(self, now: float) -> None:
        """Add jobs to lanes that are short of them."""

    def upcoming(self) -> list[Job]:
        """Jobs that will start next, if it is worth preparing them."""
        return []

    def skip(self, job: Job) -> bool:
        """Leave out a job that can never start; False if the run has to stop instead."""
        return False

    def started(self, job: Job, in_flight: int) -> None:
        """An attempt was sent."""

    def retried(self, job: Job, outcome: Outcome, delay: float) -> None:
        """An attempt has failed; there is another one after a delay."""

    def concluded(self, job: Job, outcome: Outcome, now: float) -> None:
        """A job has its final outcome, but for the blame."""

    def store(self, job: Job, outcome: Outcome) -> None:
        """Store the final outcome, and acknowledge the job once it is safe."""
        raise NotImplementedError

    def stored(self, jobs: Sequence[Job], now: float) -> None:
        """The outcomes of these jobs are safe."""
