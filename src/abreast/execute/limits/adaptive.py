"""Finding the most that a target takes, without being told: grow while it goes well, step back when it says no.

Growth is paced: one more place at a time, many in the time of one answer, so that the first refusals, which come
quickly, stop it near the edge. A refusal tells how many the target was serving: those that are still in flight, and
those whose answers arrived together with it. One episode of refusals brings the limit down to just that, however many
there are. Then one more is tried now and again; if a whole round of answers comes back, there is room again, and the
limit grows as in the beginning.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

from abreast.execute.job import Job
from abreast.execute.limits import UNTIL_AN_EVENT, Limit
from abreast.model import Outcome

DOUBLES_IN = 0.5  # of the time that an answer takes,
SEES_IN = 4.0  # and no sooner than so many times what a refusal takes: it must be heard in time
PROBE_ROUNDS = 4  # of answers at one level before one more is tried,
PROBE_LEAST = 50  # and at least so many answers: one refusal in fifty is little

State = Literal["growing", "steady", "probing"]


class Adaptive(Limit):
    """Concurrency between two bounds for the variants of one target."""

    is_shared = True

    def __init__(
        self, least: int, start: int, most: int, on_change: Callable[..., Any], variants: frozenset[int]
    ) -> None:
        self._least, self._most = least, max(least, most)
        self.allowed = min(max(start, least), self._most)
        self._told = self.allowed
        self._variants = variants
        self._on_change = on_change
        self._held = 0  # places taken
        self._flying = 0  # of them, those that the target has to do with
        self._ended, self._ended_at = 0, -math.inf  # answers that arrived at the same moment
        self._state: State = "growing"
        self._answer_s: float | None = None  # what an answer takes, as a running mean
        self._refusal_s = 0.0  # what a refusal takes
        self._grown_at = 0.0
        self._changed_at = 0.0
        self._successes = 0  # since then
        self._reached = False  # whether the limit was the limit since then
        self._in_episode = False  # of refusals

    def applies_to(self, variant: int) -> bool:
        return variant in self._variants

    def wait(self, job: Job, now: float) -> float:
        if job.variant not in self._variants or self._held < self.allowed:
            return 0.0
        return max(0.0, self._next_place_at() - now)

    def _next_place_at(self) -> float:
        if self._state != "growing" or self._answer_s is None or self.allowed >= self._most:
            return UNTIL_AN_EVENT
        return self._grown_at + self._doubling_s() * math.log2(1 + 1 / self.allowed)

    def _doubling_s(self) -> float:
        return max((self._answer_s or 0.0) * DOUBLES_IN, self._refusal_s * SEES_IN)

    def take(self, job: Job, now: float) -> None:
        if job.variant not in self._variants:
            return
        self._held += 1
        self._flying += 1
        if self._held > self.allowed:
            self._grown_at = max(self._next_place_at(), now - self._doubling_s())
            self.allowed = self._held
            if self.allowed >= 2 * self._told or self.allowed == self._most:
                self._tell("raise")
        self._reached = self._reached or self._held >= self.allowed

    def release(self, job: Job, now: float) -> None:
        self._held -= job.variant in self._variants

    def settle(self, job: Job, outcome: Outcome, now: float) -> None:
        if job.variant not in self._variants:
            return
        self._flying -= 1
        if outcome.failure is not None and outcome.failure.kind == "rate_limit":
            self._refused(outcome.service_s, now)
            return
        self._ended, self._ended_at = 1 + self._ended * (self._ended_at == now), now
        if outcome.status == "ok":
            self._answered(job, outcome.service_s, now)

    def _refused(self, seconds: float, now: float) -> None:
        if not self._in_episode:
            self._in_episode, self._told = True, self.allowed
        self._refusal_s = seconds
        served = self._flying + self._ended * (self._ended_at == now)
        self.allowed = max(self._least, min(self.allowed, served))
        self._change("steady", now)

    def _answered(self, job: Job, seconds: float, now: float) -> None:
        if self._answer_s is None:
            self._grown_at = now
        self._answer_s = seconds if self._answer_s is None else self._answer_s + (seconds - self._answer_s) / 16
        if not self._reached or job.dispatched_at < self._changed_at:
            return
        self._successes += 1
        if self._in_episode:  # what was sent since the last refusal is answered: it is over
            self._in_episode = False
            self._tell("cut")
        if self._state == "probing" and self._successes >= self.allowed:
            self._change("growing", now)
        elif self._state == "steady" and self._successes >= max(PROBE_ROUNDS * self.allowed, PROBE_LEAST):
            self.allowed = min(self._most, self.allowed + 1)
            self._change("probing", now)
            self._tell("raise")

    def _change(self, state: State, now: float) -> None:
        self._state, self._successes = state, 0
        self._changed_at = self._grown_at = now
        self._reached = self._held >= self.allowed

    def _tell(self, kind: str) -> None:
        if self.allowed != self._told:
            self._on_change(kind, before=self._told, after=self.allowed)
            self._told = self.allowed
