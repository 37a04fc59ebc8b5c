"""Rate limits that a provider announces in the headers of its answers: wait while nothing remains.

An announcement covers the requests that the provider had received by then; later ones have to be subtracted. So the
announcement of the request that started last counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from abreast.execute.job import Job
from abreast.execute.limits.base import UNTIL_AN_EVENT, Limit, LimitContext
from abreast.model import Allowance, Outcome

MARGIN_S = 0.05  # clocks and roundings differ


def build(context: LimitContext) -> Iterator[Limit]:
    yield Announced([context.pool(target) for target in context.targets], context.estimates.tokens, context.emit)


@dataclass(slots=True)
class RemainingRate:
    """A rate as last announced: the remaining amount, and the amount started by then."""

    limit: float | None  # if not announced, the highest remaining amount so far
    remaining: float
    started: float
    reset_at: float = math.inf  # when the full amount is available again, if announced

    def renew(self, started: float, now: float) -> bool:
        """Restore the full amount after a reset; without a known limit, stop waiting."""
        if now < self.reset_at:
            return False
        self.remaining = self.limit or math.inf
        self.started, self.reset_at = started, math.inf
        return True

    def wait(self, amount: float, started: float, now: float, is_idle: bool) -> float:
        if self.remaining - (started - self.started) >= amount:
            return 0.0
        if self.reset_at == math.inf:
            return 0.0 if is_idle else UNTIL_AN_EVENT  # only an answer announces more
        return max(0.001, self.reset_at - now)


@dataclass(slots=True)
class TargetRates:
    """Requests and tokens started at a target, and the rates that its provider announced."""

    name: str
    started: int = 0  # requests so far
    tokens: float = 0.0  # expected use of the requests started since tokens were first announced
    blind: int = 0  # requests started before tokens were first announced
    announcer: int = 0  # number of the request whose announcement counts
    in_flight: dict[int, tuple[int, float]] = field(default_factory=dict)  # request number and tokens by position
    request_rate: RemainingRate | None = None
    token_rate: RemainingRate | None = None
    has_announced: bool = False
    is_paused: bool = False


class Announced(Limit):
    """Pauses starts at a target whose provider announces that its rate is used up."""

    def __init__(self, targets: Sequence[str], expected: Callable[[Job], float], emit: Callable[..., Any]) -> None:
        """`targets` are those of the variants; `expected` estimates the tokens of a job."""
        rates = {name: TargetRates(name) for name in targets}
        self._of_variant = [rates[name] for name in targets]
        self._expected, self._emit = expected, emit

    def wait(self, job: Job, now: float) -> float:
        target = self._of_variant[job.variant]
        if not target.has_announced:
            return 0.0
        self._renew(target, now)
        is_idle = not target.in_flight
        requests = tokens = 0.0
        if target.request_rate is not None:
            requests = target.request_rate.wait(1.0, target.started, now, is_idle)
        if target.token_rate is not None:
            amount = self._expected(job)
            tokens = target.token_rate.wait(amount, self._sent(target, amount), now, is_idle)
        longest = max(requests, tokens)
        self._report(target, longest, "requests" if requests >= tokens else "tokens")
        return longest

    def _report(self, target: TargetRates, wait: float, unit: str) -> None:
        if wait == 0.0:
            target.is_paused = False
        elif wait != UNTIL_AN_EVENT and not target.is_paused:
            target.is_paused = True
            rate = target.request_rate if unit == "requests" else target.token_rate
            limit = None if rate is None else rate.limit
            self._emit("announced", target=target.name, used_up=unit, limit=limit, seconds=round(wait, 3))

    def _renew(self, target: TargetRates, now: float) -> None:
        renewed = False
        if target.request_rate is not None:
            renewed = target.request_rate.renew(target.started, now)
        if target.token_rate is not None:
            renewed = target.token_rate.renew(target.tokens, now) or renewed
        if renewed:
            target.announcer = target.started  # announcements of requests sent before the reset are outdated

    def _sent(self, target: TargetRates, amount: float) -> float:
        """Tokens started so far; requests started before tokens were counted are assumed to be like this one."""
        uncounted = max(0, target.blind - target.announcer)
        return target.tokens + uncounted * amount

    def take(self, job: Job, now: float) -> None:
        target = self._of_variant[job.variant]
        target.started += 1
        if target.token_rate is not None:
            target.tokens += self._expected(job)
        target.in_flight[job.trial.position] = target.started, target.tokens

    def settle(self, job: Job, outcome: Outcome, now: float) -> None:
        target = self._of_variant[job.variant]
        number, tokens = target.in_flight.pop(job.trial.position)
        answer, failure = outcome.answer, outcome.failure
        rate = answer.rate if answer is not None else failure.rate if failure is not None else None
        if rate is None:
            return
        if target.has_announced:
            self._renew(target, now)
        if number <= target.announcer:
            return
        target.has_announced, target.announcer = True, number
        if rate.requests is not None:
            target.request_rate = _announced(rate.requests, number, target.request_rate, now)
        if rate.tokens is not None:
            if target.token_rate is None:
                target.blind = target.started
            target.token_rate = _announced(rate.tokens, tokens, target.token_rate, now)
        if failure is not None and failure.kind == "rate_limit" and failure.retry_after is not None:
            limit = target.request_rate.limit if target.request_rate is not None else None
            target.request_rate = RemainingRate(limit, 0.0, number, now + failure.retry_after + MARGIN_S)


def _announced(allowance: Allowance, started: float, before: RemainingRate | None, now: float) -> RemainingRate:
    limit = allowance.limit
    if limit is None:
        highest = before.limit if before is not None else None
        limit = max(allowance.remaining or 0.0, highest or 0.0) or None
    remaining = math.inf if allowance.remaining is None else allowance.remaining
    reset_at = math.inf if allowance.reset_s is None else now + allowance.reset_s + MARGIN_S
    return RemainingRate(limit, remaining, started, reset_at)
