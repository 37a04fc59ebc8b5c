"""Early stopping: report the outcome of each trial to the stopping rule, and stop when it decides.

Trials are reported on the loop, in the order in which they end; scores also come from the scoring thread.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Literal, Protocol

from abreast.execute.listener import Listener
from abreast.execute.state import RunState
from abreast.model import Outcome

BACKLOG = 64  # answers that may wait for their score, in addition to the number in flight


@dataclass(frozen=True, slots=True)
class Decision:
    """Why no further case is needed: everything is decided, or the remaining cases are unlikely to decide more."""

    kind: Literal["decided", "futile"]
    reason: str  # a sentence that begins with the kind
    cases: int  # on which it is based
    planned: int  # cases


class StoppingRule(Protocol):
    """Observes the outcome of each trial, and decides when the rest is not needed."""

    score: str  # name of the score that decides
    decision: Decision | None
    begun: Collection[int]  # cases that earlier executions of this run began and did not finish

    def observe(self, position: int, value: float | None, skipped: bool = False) -> Decision | None:
        """Add the final score of a trial: None if infrastructure failed or the answer has no score."""


class EarlyStopping:
    """Connects scoring and judges with the stopping rule. `Trials` applies the decision."""

    def __init__(self, rule: StoppingRule, state: RunState, listener: Listener) -> None:
        self.score, self.begun = rule.score, rule.begun
        self._rule, self._state, self._listener = rule, state, listener
        self._loop = asyncio.get_running_loop()
        self._is_catching_up = True  # until the answers stored earlier have their scores
        self._scores: deque[tuple[int, float | None]] = deque()
        self._is_scheduled = False
        self._awaited = 0  # scores
        self._has_ended = False
        self._is_applied = False
        self.decision: Decision | None = rule.decision
        self.saved = 0  # trials

    # -- on the loop -----------------------------------------------------------------------------------------------

    def is_behind(self, unjudged: int) -> bool:
        """Whether to wait for pending scores before starting more, because they may decide the run.

        `unjudged` answers wait for the judge whose score decides.
        """
        if self.is_decision_due:
            return True  # until it is applied
        if self._has_ended:
            return False
        return self._is_catching_up or self._awaited + unjudged > BACKLOG + self._state.in_flight

    def await_scores(self, number: int) -> None:
        self._awaited += number

    def observe_failure(self, position: int, outcome: Outcome) -> None:
        """Count a failure of the variant as 0, and other failures as lost; a resume executes cancelled trials."""
        if outcome.status == "cancelled":
            return
        failure = outcome.failure
        is_own = outcome.status == "error" and failure is not None and failure.blame == "variant"
        self._observe(position, 0.0 if is_own else None, outcome.status == "skipped")

    def judged(self, position: int, value: float | None) -> None:
        self._observe(position, value)
        self._state.wake()

    @property
    def is_decision_due(self) -> bool:
        return self.decision is not None and not self._is_applied

    def apply(self, saved: int) -> None:
        """Record that only begun cases will be finished, which saves this many trials."""
        decision = self.decision
        assert decision is not None
        self._is_applied, self.saved = True, saved
        if saved:
            self._listener.event(
                "decided",
                outcome=decision.kind,
                message=decision.reason,
                cases=decision.cases,
                planned=decision.planned,
                saved=saved,
                in_flight=self._state.in_flight,
            )

    def _take_scores(self) -> None:
        self._is_scheduled = False
        while self._scores:
            self._observe(*self._scores.popleft())
            self._awaited -= not self._is_catching_up  # those stored earlier were not counted
        self._state.wake()

    def _end(self) -> None:
        self._take_scores()
        self._has_ended = True

    def _catch_up(self) -> None:
        self._take_scores()
        self._is_catching_up = False

    def _observe(self, position: int, value: float | None, skipped: bool = False) -> None:
        if self.decision is None and self._state.stopped is None:
            self.decision = self._rule.observe(position, value, skipped)

    # -- from the scoring thread -----------------------------------------------------------------------------------

    def scored(self, position: int, value: float | None) -> None:
        self._scores.append((position, value))
        if not self._is_scheduled:
            self._is_scheduled = True
            self._call(self._take_scores)

    def caught_up(self) -> None:
        """Record that all answers of earlier executions are scored, as far as possible."""
        self._call(self._catch_up)

    def ended(self) -> None:
        """Record that no further scores will come."""
        self._call(self._end)

    def _call(self, function: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(function)
