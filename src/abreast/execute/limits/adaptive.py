"""Finding the most that a target takes, without being told: grow while it goes well, step back when it says no.

A refusal tells how many the target was serving: those still in flight. So one episode of refusals brings the limit down
to just that, however many refusals it has, and what was sent before it says nothing new. After that the limit is
probed upward in growing steps, each a little above what is known to work, so that a probe that fails costs a refusal or
two and a capacity that comes back is found again soon.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from abreast.execute.job import Job
from abreast.execute.limits import UNTIL_AN_EVENT, Limit
from abreast.model import Outcome

PROBE_AFTER = 3.0  # full rounds of success at one level before more is tried
CAUTIOUS_AFTER = 8.0  # the same, once a probe of that level has been refused


class Adaptive(Limit):
    """Concurrency between two bounds for the variants of one target."""

    def __init__(
        self, least: int, start: int, most: int, on_change: Callable[..., Any], variants: frozenset[int]
    ) -> None:
        self._least, self._most = least, max(least, most)
        self.allowed = min(max(start, least), self._most)
        self._variants = variants
        self._on_change = on_change
        self._held = 0  # places taken
        self._now = 0  # of them, those that the target has to do with
        self._cut_at = -1.0
        self._slow_start = True
        self._step = 1
        self._refused_at = 0  # the level that was refused last: approached with care
        self._successes = 0  # since the last change
        self._changed_at = 0.0
        self._reached = False  # whether the limit was the limit since then

    def wait(self, job: Job, now: float) -> float:
        return 0.0 if job.variant not in self._variants or self._held < self.allowed else UNTIL_AN_EVENT

    def take(self, job: Job, now: float) -> None:
        mine = job.variant in self._variants
        self._held += mine
        self._now += mine
        self._reached = self._reached or self._held >= self.allowed

    def release(self, job: Job, now: float) -> None:
        self._held -= job.variant in self._variants

    def settle(self, job: Job, outcome: Outcome, now: float) -> None:
        if job.variant not in self._variants:
            return
        self._now -= 1
        if outcome.failure is not None and outcome.failure.kind == "rate_limit":
            self._refused(job, now)
        elif outcome.status == "ok" and self._reached and job.dispatched_at >= self._changed_at:
            self._went_well(now)

    def _refused(self, job: Job, now: float) -> None:
        served = max(self._least, self._now)
        if job.dispatched_at > self._cut_at:
            self._refused_at, self._cut_at = self.allowed, now
            self._slow_start, self._step = False, 1
            self._change(min(self.allowed, served), "cut", now)
        elif served < self.allowed:  # the same episode: not another cut, but a clearer view of what is served
            self.allowed = served

    def _went_well(self, now: float) -> None:
        self._successes += 1
        if self._slow_start:
            rounds, step = 1.0, self.allowed
        else:
            known = self.allowed + self._step >= self._refused_at  # this far it was refused before
            rounds, step = CAUTIOUS_AFTER if known else PROBE_AFTER, self._step
        if self._successes < rounds * self.allowed or self.allowed >= self._most:
            return
        if not self._slow_start and self.allowed >= self._refused_at:  # the target has more room than it had
            self._step = min(self._step * 2, max(1, self.allowed // 4))
        self._change(min(self._most, self.allowed + step), "raise", now)

    def _change(self, allowed: int, kind: str, now: float) -> None:
        before, self.allowed = self.allowed, allowed
        self._changed_at, self._successes, self._reached = now, 0, self._held >= allowed
        if allowed != before:
            self._on_change(kind, before=before, after=allowed)
