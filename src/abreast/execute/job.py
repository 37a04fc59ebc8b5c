"""Jobs: the units that the scheduler starts and an engine executes, in one or more attempts.

A job is plain data, so that an engine can send it anywhere. There is a type for each source of jobs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from abreast.model import Outcome, Trial
from abreast.store.rows import Timing


@dataclass(slots=True, eq=False)
class Job:
    """A trial or question, its place in the order of starts, and its state."""

    is_warmup: ClassVar[bool] = False

    trial: Trial
    variant: int  # index of its target: first those of the variants, then those of the judges
    block: int  # index of its block in the order of starts
    slot: int  # its index within the block
    case: int = -1
    ready_at: float = 0.0  # time from which it could have started
    attempt: int = 0
    excused: int = 0  # attempts that use up no retries: they failed because the target was down
    counts_until_stored: bool = True  # as in flight; else only until the attempt ends
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
