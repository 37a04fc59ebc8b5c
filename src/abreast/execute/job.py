"""Jobs: what the scheduler starts and an engine executes, on its way through as many attempts as it takes.

A job is plain data, so that an engine can send it anywhere. There is a type for each source of jobs.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any, ClassVar

from abreast.model import Failure, Outcome, Trial
from abreast.store.rows import Timing


@dataclass(slots=True, eq=False)
class Job:
    """A trial or question, its place in the order of starts, and its state."""

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


FIRST_S = 0.5
LONGEST_S = 60.0
NEVER_RETRIED = ("auth", "rejected", "tool_denied", "not_carried")  # a wrong key is wrong next time too


@dataclass(slots=True)
class Retry:
    """Exponential back-off with full jitter, for infrastructure errors only.

    The variant's own failures are its result.
    """

    retries: int = 3
    chance: random.Random = field(default_factory=random.Random)

    def delay(self, failure: Failure, attempt: int, excused: int = 0) -> float | None:
        """Seconds until the next attempt; None if this one was the last. Excused attempts use up no retries."""
        if failure.blame != "infrastructure" or failure.kind in NEVER_RETRIED or attempt - excused > self.retries:
            return None
        jitter = self.chance.uniform(0.0, min(LONGEST_S, FIRST_S * 2 ** min(attempt - 1, 10)))
        if failure.retry_after is None:
            return jitter
        return failure.retry_after + min(jitter, 0.1 * failure.retry_after)
