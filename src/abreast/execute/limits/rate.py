"""Rates: a maximum number of requests or tokens in any window of a given length."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Self

from abreast.execute.estimate import tokens_of
from abreast.execute.job import Job
from abreast.execute.limits.base import Limit, LimitContext
from abreast.model import Outcome

BURST_S = 1.0  # seconds' worth of requests that may start together
JITTER = 0.01  # share of a window: later requests may arrive with less delay than earlier ones


def build(context: LimitContext) -> Iterator[Limit]:
    for name, variants in context.variants_of_target.items():
        own = context.limits.of(name)
        for most, period in ((own.requests_per_second, 1.0), (own.requests_per_minute, 60.0)):
            if most is not None:
                # a rate below one per period means one in a longer period
                yield RequestRate(max(1, int(most)), period * max(1.0, 1.0 / most), variants)
        if own.tokens_per_minute is not None:
            yield TokenRate(own.tokens_per_minute, 60.0, variants, context.estimates.tokens)


class RequestRate(Limit):
    """At most `most` requests in any window of `period_s`, spread evenly except for a short burst.

    A token bucket alone would let a burst through after a full window; the log of the window does not.
    """

    is_shared = True

    def __init__(self, most: int, period_s: float, variants: frozenset[int]) -> None:
        self._most = most
        self._period = period_s * (1 + JITTER)
        self.variants = variants
        self._rate = most / self._period
        self._burst = max(1.0, self._rate * BURST_S)
        self._tokens = self._burst
        self._filled_at: float | None = None
        self._log: deque[float] = deque()  # starts within the window

    def change(self, new: Self) -> None:
        self._most, self._period, self._rate, self._burst = new._most, new._period, new._rate, new._burst
        self._tokens = min(self._tokens, self._burst)

    def wait(self, job: Job, now: float) -> float:
        missing = 1.0 - self._level(now)
        for_bucket = missing / self._rate if missing > 1e-9 else 0.0
        for_window = self._log[-self._most] + self._period - now if len(self._log) >= self._most else 0.0
        return max(0.0, for_bucket, for_window)

    def take(self, job: Job, now: float) -> None:
        self._tokens = max(0.0, self._level(now) - 1.0)  # a limit set during a run counts what is in flight
        self._filled_at = now
        self._log.append(now)
        while self._log[0] <= now - self._period:
            self._log.popleft()

    def _level(self, now: float) -> float:
        if self._filled_at is None:
            return self._tokens
        return min(self._burst, self._tokens + (now - self._filled_at) * self._rate)


class TokenRate(Limit):
    """At most `most` tokens in any window of `period_s`: estimated before an answer, measured after it."""

    def __init__(
        self, most: float, period_s: float, variants: frozenset[int], expected: Callable[[Job], float]
    ) -> None:
        self._most, self._period, self._expected = most, period_s, expected
        self.variants = variants
        self._log: deque[list[float]] = deque()  # [when, tokens]
        self._sum = 0.0
        self._of_job: dict[int, list[float]] = {}

    def change(self, new: Self) -> None:
        self._most, self._period = new._most, new._period

    def wait(self, job: Job, now: float) -> float:
        self._forget(now)
        excess = self._sum + self._expected(job) - self._most
        if excess <= 0 or not self._log:  # a job larger than the limit itself starts alone
            return 0.0
        for when, tokens in self._log:
            excess -= tokens
            if excess <= 0:
                return max(1e-6, when + self._period - now)
        return max(1e-6, self._log[-1][0] + self._period - now)

    def take(self, job: Job, now: float) -> None:
        entry = [now, self._expected(job)]
        self._log.append(entry)
        self._sum += entry[1]
        self._of_job[job.trial.position] = entry

    def settle(self, job: Job, outcome: Outcome, now: float) -> None:
        entry = self._of_job.pop(job.trial.position)
        actual = tokens_of(outcome)
        if actual is None:
            return
        if entry[0] > now - self._period:
            self._sum += actual - entry[1]
        entry[1] = actual

    def _forget(self, now: float) -> None:
        while self._log and self._log[0][0] <= now - self._period:
            self._sum -= self._log.popleft()[1]
