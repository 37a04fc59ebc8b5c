"""Early stopping, as far as the execution is concerned: it reports what became of each trial, and learns when to stop.

Who decides is behind a protocol. Trials are reported on the loop, in whatever order they end; scores also come from
the thread of the scoring.
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

BACKLOG = 64  # answers that may wait for their score, besides as many as are in flight


@dataclass(frozen=True, slots=True)
class Decision:
    """Why no further case is needed: everything is decided, or the remaining cases are unlikely to decide the rest."""

    kind: Literal["decided", "futile"]
    reason: str  # a sentence that begins with the kind
    cases: int  # that it took
    planned: int  # cases


class StoppingRule(Protocol):
    """Observes the outcome of each trial, and decides when the rest is not needed."""

    score: str  # the name of the score that counts
    decision: Decision | None  # what is known already
    begun: Collection[int]  # cases that earlier executions of this run began and did not finish

    def observe(self, position: int, value: float | None, skipped: bool = False) -> Decision | None:
        """Take the final score of a trial; None if it is lost: infrastructure failed, or the answer has no score."""
        ...


def value_without_answer(outcome: Outcome) -> float | None:
    """A failure of the variant counts as 0; other failures count as lost."""
    own = outcome.status == "error" and outcome.failure is not None and outcome.failure.blame == "variant"
    return 0.0 if own else None


class EarlyStopping:
    """Connects scoring and judges with the stopping rule. `Trials` applies the decision."""

    def __init__(self, rule: StoppingRule, state: RunState, listener: Listener) -> None:
        self.score, self.begun = rule.score, rule.begun
        self._rule, self._state, self._listener = rule, state, listener
        self._loop = asyncio.get_running_loop()
        self._is_catching_up = True  # the scores of answers that were stored before may decide it
        self._scores: deque[tuple[int, float | None]] = deque()
        self._is_scheduled = False
        self._awaited = 0  # scores
        self._has_ended = False
        self._is_applied = False
        self.decision: Decision | None = rule.decision
        self.saved = 0  # trials

    # -- on the loop -----------------------------------------------------------------------------------------------

    def is_behind(self, unjudged: int) -> bool:
        """Starting more would be of no use: the run waits for these scores in any case, and they may decide it.

        `unjudged` answers wait for the judge who gives the score that counts.
        """
        if self.is_decision_due:
            return True  # until it is applied
        if self._has_ended:
            return False
        return self._is_catching_up or self._awaited + unjudged > BACKLOG + self._state.in_flight

    def await_scores(self, number: int) -> None:
        self._awaited += number

    def observe_failure(self, position: int, outcome: Outcome) -> None:
        if outcome.status != "cancelled":  # which is no outcome: a resume executes it
            self._observe(position, value_without_answer(outcome), outcome.status == "skipped")

    def judged(self, position: int, value: float | None) -> None:
        self._observe(position, value)
        self._state.wake()

    @property
    def is_decision_due(self) -> bool:
        return self.decision is not None and not self._is_applied

    def apply(self, saved: int) -> None:
        """Note that only begun cases are finished, which saves this many trials."""
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
            self._awaited -= not self._is_catching_up  # those stored before were not counted
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
        """All answers of earlier executions are scored, as far as possible."""
        self._call(self._catch_up)

    def ended(self) -> None:
        """No further scores will come."""
        self._call(self._end)

    def _call(self, function: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # nobody waits any more, and the loop is closed
            self._loop.call_soon_threadsafe(function)
