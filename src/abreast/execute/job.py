"""Jobs: what the scheduler starts and an engine executes, on its way through as many attempts as it takes.

A job is plain data, so that an engine can send it anywhere. There is a type for each source of jobs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from abreast.model import Outcome, Trial
from abreast.store.rows import Timing


@dataclass(slots=True, eq=False)
class Job:
    """What is asked, where it stands in the order of starts, and what has happened to it so far."""

    is_warmup: ClassVar[bool] = False

    trial: Trial
    variant: int  # the index of its target: those of the variants, then those of the judges
    block: int  # the so-manieth block to start
    slot: int  # the so-manieth of its block
    case: int = -1
    ready_at: float = 0.0  # since when it could have started
    attempt: int = 0
    excused: int = 0  # attempts that use up no retries: they failed because the target was down
    holds: bool = True  # its place, until its row is safe
    dispatched_at: float = 0.0
    prompt: str = ""  # as the engine sent it
    outcome: Outcome | None = None  # from the last attempt until its row is safe
    timing: Timing = field(default_factory=Timing)

    @property
    def order(self) -> tuple[int, int]:
        return self.block, self.slot


@dataclass(slots=True, eq=False)
class TrialJob(Job):
    """A trial of the plan."""


@dataclass(slots=True, eq=False)
class WarmUpJob(Job):
    """A query before the measured ones: it has no row, and its failures are not counted."""

    is_warmup: ClassVar[bool] = True


@dataclass(slots=True, eq=False)
class JudgeJob(Job):
    """A question to a judge."""

    question: Any = None
