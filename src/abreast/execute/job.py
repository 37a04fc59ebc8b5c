"""A job: one trial, or one question to a judge, on its way through as many attempts as it takes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from abreast.model import Outcome, Request, Trial
from abreast.store.rows import Timing


@dataclass(slots=True, eq=False)
class Job:
    """The trial, where it stands in the dispatch order, and what has happened to it so far."""

    trial: Trial
    variant: int
    block: int  # the so-manieth block to start
    slot: int  # the so-manieth of its block
    case: int
    ready_at: float = 0.0  # since when it could have started
    attempt: int = 0
    excused: int = 0  # attempts that use up no retries: they failed because the target was down
    holds: bool = True  # its place, until its row is safe
    dispatched_at: float = 0.0
    prompt: str = ""
    outcome: Outcome | None = None
    timing: Timing = field(default_factory=Timing)
    asks: Any = None  # of a judge: the question it is asked; None for a trial
    made: asyncio.Future[tuple[Request, float]] | None = None  # what it sends, made ahead, and how long that took

    @property
    def is_warmup(self) -> bool:
        return self.block < 0

    @property
    def order(self) -> tuple[int, int]:
        return self.block, self.slot
