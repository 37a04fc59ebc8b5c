"""The adaptive limit: grow while answers arrive, fall back to what the target serves when it is congested.

Growth is paced: one more slot at a time, many in the time of one answer, and never to more than 5/3 of what was
answered within the last answer time. So the first refusals, even late ones, stop it near the edge. After a cut the
limit rests for some rounds of answers, longer if the last attempt to grow cost many refusals, and then tries again. A
single refusal where the last cut ended cuts it again.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Any, Self

from abreast.execute.job import Job
from abreast.execute.limits.adaptive.latency import Knee, LatencyCurve, LatencyTrial
from abreast.execute.limits.adaptive.refusals import EVIDENCE, EXPECTED, RefusalTest
from abreast.execute.limits.base import UNTIL_AN_EVENT, Limit
from abreast.model import Outcome

GROWTH = 5 / 3  # the limit grows to at most this multiple of the answers within the last answer time
DOUBLING_ANSWERS = 0.5  # doubling takes at least this many answer times,
DOUBLING_REFUSALS = 16.0  # and refusal times, so that a refusal arrives before many more requests are sent
CATCH_UP = 8.0  # delayed growth catches up by 1/8 of a doubling at once
REST, LONGEST_REST = 3.0, 10.0  # rounds of answers before the limit grows again after a cut
COST = 0.04  # share of requests that may be refused in the long run because of growth
SAME_EDGE = 0.16  # two cuts that differ by less than this share of the edge, or by 1, are at the same edge
LATE = 0.5  # answer times: later refusals leave rejected requests among those in flight
HEADROOM = 1.2  # the limit as a multiple of the knee: a short queue keeps the server busy
SLACK = 1.15  # the limit stays if it exceeds that by less than this factor
BELOW = 0.7  # the limit as a share of the lowest level tried, if latency already grows there
BLIND_EVERY_S = 0.5  # seconds per request before the first answer of a service, which may announce a limit
UNSTORED = 1.25  # most requests in flight and answers not stored yet, as a multiple of the limit
BACKGROUND_EVERY, BACKGROUND_LEAST = 100, 0.02  # answers between checks of the background; smallest share reported


class Adaptive(Limit):
    """Concurrency between two bounds for the variants of one target.

    With `is_service`, latency counts as a signal, and few requests are sent before the first answer, which may
    announce a limit.
    """

    is_shared = True
    holds_warmups = False

    def __init__(
        self,
        least: int,
        start: int,
        most: int,
        on_change: Callable[..., Any],
        variants: frozenset[int],
        is_service: bool = False,
    ) -> None:
        self._least, self._most = least, max(least, most)
        self.allowed = min(max(start, least), self._most)
        self._start = self.allowed
        self._on_change = on_change
        self.variants = variants
        self._refusals = RefusalTest()
        self._curve = LatencyCurve() if is_service else None
        self._slots = 0  # requests in flight and answers that are not stored yet
        self._levels: dict[int, int] = {}  # requests in flight when the request was sent, by position
        self._sent = 0
        self._first_sent_at = 0.0
        self._answer_s: float | None = None  # running mean of answer times
        self._refusal_s = 0.0
        self._answered_at: deque[float] = deque()  # times of the answers within the last answer time
        self._together, self._together_at = 0, -math.inf  # answers that arrived at the same moment
        self._is_growing = True
        self._grown_at = 0.0
        self._cut_at = -math.inf
        self._is_draining = False  # after a cut, until a round of requests sent since then is answered
        self._round = 0  # answers to requests sent since the last cut
        self._rest = 0.0  # answers to wait for before the limit grows
        self._edge = 0  # the limit after the last cut
        self._cost = 0  # refusals that led to the last cut or came with it
        self._unfitted = 0  # answers since the curve was last fitted
        self._log_s, self._log_level = 0.0, 0.0  # running means of log latency and of the log level
        self._before: tuple[int, float, float] | None = None  # limit and means before the first of several cuts
        self._trial: LatencyTrial | None = None  # trial of the last cut
        self._reported, self._reported_background, self._answers = self.allowed, 0.0, 0

    def change(self, new: Self) -> None:
        self._least, self._most, self._start = new._least, new._most, new._start
        self.allowed = self._reported = min(max(self.allowed, self._least), self._most)

    # -- starting ----------------------------------------------------------------------------------------------------

    def wait(self, job: Job, now: float) -> float:
        if self._answer_s is None and self._levels:
            return self._wait_blind(now)
        if self._slots >= min(self._most, UNSTORED * self.allowed):
            return UNTIL_AN_EVENT
        if len(self._levels) < self.allowed:
            return 0.0
        if not self._may_grow():
            return UNTIL_AN_EVENT
        return max(0.0, self._next_place_at() - now)

    def _wait_blind(self, now: float) -> float:
        """Before the first answer, refused requests are not replaced, and a service gets few requests."""
        if self._sent >= self.allowed:
            return UNTIL_AN_EVENT
        if self._curve is None:
            return 0.0
        return max(0.0, self._first_sent_at + self._sent * BLIND_EVERY_S - now)

    def _may_grow(self) -> bool:
        served = max(len(self._answered_at), 0 if self._edge else self._start)
        return self._answers > 0 and self._is_growing and self.allowed < min(self._most, GROWTH * served)

    def _next_place_at(self) -> float:
        return self._grown_at + self._doubling_s() * math.log2(1 + 1 / self.allowed)

    def _doubling_s(self) -> float:
        return max((self._answer_s or 0.0) * DOUBLING_ANSWERS, self._refusal_s * DOUBLING_REFUSALS)

    def take(self, job: Job, now: float) -> None:
        if not self._sent:
            self._first_sent_at = now
        self._sent += 1
        self._slots += 1
        self._levels[job.trial.position] = len(self._levels) + 1
        self._refusals.send(job.trial.position, len(self._levels))
        if len(self._levels) > self.allowed:
            self._grown_at = max(self._next_place_at(), now - self._doubling_s() / CATCH_UP)
            self.allowed = len(self._levels)
            if self.allowed >= 2 * self._reported or self.allowed == self._most:
                self._report("raise")

    def release(self, job: Job, now: float) -> None:
        self._slots -= 1

    # -- learning ----------------------------------------------------------------------------------------------------

    def settle(self, job: Job, outcome: Outcome, now: float) -> None:
        level = self._levels.pop(job.trial.position)
        if outcome.failure is not None and outcome.failure.kind == "rate_limit":
            self._refused(job, level, outcome.service_s, now)
            return
        self._together, self._together_at = 1 + self._together * (self._together_at == now), now
        if self._answer_s is None:
            self._answer_s, self._grown_at = outcome.service_s, now
        if outcome.status == "ok":
            self._refusals.accept(job.trial.position)
            self._answered(job, level, outcome, now)
        else:
            self._refusals.forget(job.trial.position)

    def _refused(self, job: Job, level: int, seconds: float, now: float) -> None:
        self._refusal_s = seconds
        self._cost += 1
        served = len(self._levels) + self._together * (self._together_at == now)
        is_expected = self._is_draining or (self._is_growing and level > self._edge and self._is_at_edge(level))
        if self._is_draining and job.dispatched_at < self._cut_at:
            self._refusals.forget(job.trial.position)
            self.allowed = max(self._least, min(self.allowed, served))  # the same congestion
        elif self._refusals.refuse(job.trial.position, level, EXPECTED if is_expected else EVIDENCE):
            if not self._is_draining:
                self._cost = self._refusals.streak
            if not is_expected:
                self._reported = max(self._reported, self.allowed)
            self._cut(min(self.allowed, served), now)
            self._is_draining = True

    def _is_at_edge(self, level: int) -> bool:
        """Whether a level is close to where the last cut ended."""
        return self._edge > 0 and abs(level - self._edge) <= max(1.0, SAME_EDGE * self._edge)

    def _answered(self, job: Job, level: int, outcome: Outcome, now: float) -> None:
        assert self._answer_s is not None
        self._answer_s += (outcome.service_s - self._answer_s) / 16
        self._answered_at.append(now)
        while self._answered_at[0] < now - self._answer_s:
            self._answered_at.popleft()
        if job.dispatched_at >= self._cut_at:
            self._round += 1
            if self._is_draining and self._round >= self.allowed:
                self._end_of_congestion()
            elif not self._is_growing and not self._is_draining and self._round >= self._rest:
                self._grow(now)
        if self._curve is not None:
            self._learn_latency(self._curve, job, level, outcome, now)
        self._answers += 1
        if self._answers % BACKGROUND_EVERY == 0:
            self._report_background()

    def _end_of_congestion(self) -> None:
        """Choose when to grow again after a round of requests sent since the cut is answered."""
        if self._refusal_s > LATE * (self._answer_s or 0.0):
            self.allowed = max(self._least, min(self.allowed, max(len(self._answered_at), int(0.85 * self.allowed))))
        self._pause(self._cost / COST)
        self._report("cut", reason="refusals")

    def _pause(self, answers: float) -> None:
        """Rest for some rounds, or for this many answers if the edge is the same as at the last cut."""
        self._rest = REST * self.allowed
        if self._is_at_edge(self.allowed):
            self._rest = max(self._rest, min(answers, LONGEST_REST * max(self.allowed, LONGEST_REST)))
        self._edge, self._round, self._is_draining = self.allowed, 0, False

    def _grow(self, now: float) -> None:
        self._is_growing, self._grown_at, self._before = True, now, None
        if self._curve is not None:
            self._curve.fade()

    def _cut(self, allowed: int, now: float) -> None:
        self.allowed = max(self._least, allowed)
        self._is_growing, self._cut_at, self._round = False, now, 0

    def _learn_latency(self, curve: LatencyCurve, job: Job, level: int, outcome: Outcome, now: float) -> None:
        tokens = None if outcome.answer is None else outcome.answer.usage.output_tokens
        curve.add(level, outcome.service_s, tokens)
        log_s = math.log(max(outcome.service_s, 1e-6))
        weight = 1 / 16 if self._answers else 1.0
        self._log_s += (log_s - self._log_s) * weight
        self._log_level += (math.log(level) - self._log_level) * weight
        if self._trial is not None:
            if job.dispatched_at >= self._cut_at:
                self._trial.add(math.log(level), log_s)
            if self._trial.is_over:
                self._judge(self._trial, now)
            return
        self._unfitted += 1
        if self._unfitted < max(4, self.allowed // 4):
            return
        self._unfitted = 0
        knee = curve.knee()
        if knee is not None:
            self._queued(knee, now)

    def _queued(self, knee: Knee, now: float) -> None:
        target = math.ceil(knee.level * (HEADROOM if knee.is_bracketed else BELOW))
        if self.allowed <= max(self._least, SLACK * target):
            return
        self._reported = max(self._reported, self.allowed)
        if self._before is None:
            self._before = self.allowed, self._log_level, self._log_s
        self._trial = LatencyTrial(max(self._least, target), *self._before)
        self._cut(target, now)
        self._pause(math.inf)
        self._report("cut", reason="latency", latency=round(knee.rise, 2))

    def _judge(self, trial: LatencyTrial, now: float) -> None:
        """Undo a cut if latency did not fall with it: something else slows answers down."""
        self._trial = None
        if trial.has_helped or self._is_draining:
            return
        self._curve = LatencyCurve()
        self.allowed = max(self.allowed, trial.before)
        self._grow(now)
        self._report("raise")

    # -- reporting ---------------------------------------------------------------------------------------------------

    def _report(self, kind: str, **detail: Any) -> None:
        if self.allowed != self._reported:
            self._on_change(kind, before=self._reported, after=self.allowed, **detail)
            self._reported = self.allowed

    def _report_background(self) -> None:
        """Report the share of requests that are refused although the target is not congested, when it changes."""
        share, before = self._refusals.background(self.allowed), self._reported_background
        if share >= BACKGROUND_LEAST and not 1 / 1.5 < share / (before or math.inf) < 1.5:
            self._reported_background = share
            self._on_change("background", share=round(share, 3))
