"""Finding the most that a target takes: grow while it goes well, cut once when the target says it is too much."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from abreast.execute.job import Job
from abreast.execute.limits import UNTIL_AN_EVENT
from abreast.model import Outcome

CUT = 0.7


class Adaptive:
    """Concurrency between two bounds: slow start, one cut per congestion episode, slow growth after it."""

    def __init__(
        self, least: int, start: int, most: int, on_change: Callable[..., Any], variants: frozenset[int]
    ) -> None:
        self._least, self._most = least, most
        self.allowed = float(min(max(start, least), most))
        self._variants = variants
        self._now = 0
        self._cut_at = -1.0
        self._slow_start = True
        self._on_change = on_change

    def wait(self, job: Job, now: float) -> float:
        return 0.0 if job.variant not in self._variants or self._now < int(self.allowed) else UNTIL_AN_EVENT

    def take(self, job: Job, now: float) -> None:
        self._now += job.variant in self._variants

    def settle(self, job: Job, outcome: Outcome, now: float) -> None:
        if job.variant not in self._variants:
            return
        saturated = self._now >= int(self.allowed)
        self._now -= 1
        if outcome.failure is not None and outcome.failure.kind == "rate_limit":
            # Everything sent before the last cut belongs to the same episode: it says nothing new.
            if job.dispatched_at >= self._cut_at:
                self._change(max(self._least, self.allowed * CUT), "cut")
                self._cut_at, self._slow_start = now, False
        elif outcome.status == "ok" and saturated:
            step = 1.0 if self._slow_start else 1.0 / self.allowed
            self._change(min(float(self._most), self.allowed + step), "raise")

    def _change(self, allowed: float, kind: str) -> None:
        before, self.allowed = int(self.allowed), allowed
        if int(allowed) != before:
            self._on_change(kind, before=before, after=int(allowed))
