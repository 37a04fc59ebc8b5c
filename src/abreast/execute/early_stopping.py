"""Early stopping, as far as the execution is concerned: it tells what became of each trial, and is told when to stop.

Who decides is behind a protocol. All calls are on the loop, in whatever order trials end.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Literal, Protocol

from abreast.execute.listener import Listener
from abreast.execute.scheduler import Scheduler
from abreast.model import Outcome

BACKLOG = 64  # answers that may wait for their score, besides as many as are in flight


@dataclass(frozen=True, slots=True)
class Decision:
    """Why no further case is needed: everything is decided, or the remaining cases are unlikely to decide the rest."""

    kind: Literal["decided", "futile"]
    reason: str  # a sentence that begins with the kind
    cases: int  # that it took
    planned: int  # cases


class Stop(Protocol):
    """Hears what became of each trial, and says when the rest is not needed."""

    score: str  # the name of the score that counts
    decision: Decision | None  # what is known already
    begun: Collection[int]  # cases that earlier executions of this run began and did not finish

    def observe(self, position: int, value: float | None, skipped: bool = False) -> Decision | None:
        """The final score of a trial; None for one that is lost: infrastructure failed, or the answer has no score."""
        ...


def value_without_answer(outcome: Outcome) -> float | None:
    """A failure of the variant's own is its result; any other says nothing of it."""
    own = outcome.status == "error" and outcome.failure is not None and outcome.failure.blame == "variant"
    return 0.0 if own else None


class Deciding:
    """Between the scheduler, the scoring and who decides."""

    def __init__(
        self,
        stop: Stop,
        scheduler: Scheduler,
        listener: Listener,
        loop: asyncio.AbstractEventLoop,
        at_judges: Callable[[], int] = lambda: 0,
    ) -> None:
        """`at_judges` is how many answers wait for a judge who gives the score that counts."""
        self.score = stop.score
        self._stop, self._scheduler, self._listener, self._loop = stop, scheduler, listener, loop
        self._at_judges = at_judges
        self._waits = True  # for the scores of answers that were stored before: they may decide it
        self._scores: deque[tuple[int, float | None]] = deque()
        self._told = False
        self._awaited = 0
        self._ends = False
        self.decision: Decision | None = None
        self.saved = 0  # trials
        scheduler.paced_by(self.is_behind)
        if stop.decision is not None:
            self._decide(stop.decision)

    # -- on the loop -----------------------------------------------------------------------------------------------

    def is_behind(self) -> bool:
        """Starting more would be of no use: the run waits for these scores in any case, and they may decide it."""
        if self._ends:
            return False
        return self._waits or self._awaited + self._at_judges() > BACKLOG + self._scheduler.in_flight

    def awaits_a_score(self) -> None:
        self._awaited += 1

    def has_no_answer(self, position: int, outcome: Outcome) -> None:
        if outcome.status != "cancelled":  # which is no outcome: a resume executes it
            self._observe(position, value_without_answer(outcome), outcome.status == "skipped")

    def judged(self, position: int, value: float | None) -> None:
        self._observe(position, value)
        self._scheduler.wake()

    def _take_scores(self) -> None:
        self._told = False
        while self._scores:
            self._observe(*self._scores.popleft())
            self._awaited -= not self._waits  # those stored before were not counted
        self._scheduler.wake()

    def _ended(self) -> None:
        self._take_scores()
        self._ends = True

    def _caught_up(self) -> None:
        self._take_scores()
        self._waits = False

    def _observe(self, position: int, value: float | None, skipped: bool = False) -> None:
        if self.decision is None:
            decision = self._stop.observe(position, value, skipped)
            if decision is not None:
                self._decide(decision)

    def _decide(self, decision: Decision) -> None:
        """Cases that were begun are finished, so that no case is left in part; nothing else starts."""
        if self._scheduler.stopped is not None:
            return
        self.decision = decision
        self.saved = self._scheduler.finish_what_is_begun(self._stop.begun)
        if self.saved:
            self._listener.event(
                "decided",
                outcome=decision.kind,
                message=decision.reason,
                cases=decision.cases,
                planned=decision.planned,
                saved=self.saved,
                in_flight=self._scheduler.in_flight,
            )

    # -- from the scoring thread -----------------------------------------------------------------------------------

    def scored(self, position: int, value: float | None) -> None:
        self._scores.append((position, value))
        if not self._told:
            self._told = True
            self._call(self._take_scores)

    def caught_up(self) -> None:
        self._call(self._caught_up)

    def ended(self) -> None:
        self._call(self._ended)

    def _call(self, function: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # nobody waits any more, and the loop is closed
            self._loop.call_soon_threadsafe(function)
