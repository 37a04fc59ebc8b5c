"""What a provider announces in the headers of its answers: when nothing is left, nothing is sent until there is again.

An announcement counts what the provider had seen when it made it. What was started after that request has yet to be
taken off. So the announcement of the request that started last counts, and an earlier one says nothing new.
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
    yield Announced([context.pool(target) for target in context.targets], context.estimates.tokens, context.tell)


@dataclass(slots=True)
class _Left:
    """A rate as last announced: the remaining amount, and how much had been started by then."""

    limit: float | None  # or the most that was ever left, if only that is announced
    left: float
    mark: float
    reset_at: float = math.inf  # when all of it is there again, if that was said

    def renew(self, started: float, now: float) -> bool:
        """Restore the full amount after a reset; without a known limit, stop waiting."""
        if now < self.reset_at:
            return False
        self.left = self.limit or math.inf
        self.mark, self.reset_at = started, math.inf
        return True

    def wait(self, amount: float, started: float, now: float, idle: bool) -> float:
        if self.left - (started - self.mark) >= amount:
            return 0.0
        if self.reset_at == math.inf:
            return 0.0 if idle else UNTIL_AN_EVENT  # the next answer tells; without one there would be none
        return max(0.001, self.reset_at - now)


@dataclass(slots=True)
class _Target:
    """What was started at a target, and what its provider says is left."""

    name: str
    started: int = 0  # requests so far
    tokens: float = 0.0  # expected of those started since tokens were first announced
    blind: int = 0  # requests started before that
    heard: int = 0  # the request whose announcement counts; later ones replace it
    flying: dict[int, tuple[int, float]] = field(default_factory=dict)  # by position: which request, tokens up to it
    requests_left: _Left | None = None
    tokens_left: _Left | None = None
    told: bool = False  # whether anything was announced
    paused: bool = False


class Announced(Limit):
    """Pauses starts at a target whose provider says that its rate is used up."""

    def __init__(self, targets: Sequence[str], expected: Callable[[Job], float], tell: Callable[..., Any]) -> None:
        """`targets` are those of the variants; `expected` is how many tokens a job will take."""
        known = {name: _Target(name) for name in targets}
        self._of_variant = [known[name] for name in targets]
        self._expected = expected
        self._tell = tell

    def wait(self, job: Job, now: float) -> float:
        target = self._of_variant[job.variant]
        if not target.told:
            return 0.0
        self._renew(target, now)
        idle = not target.flying
        requests = tokens = 0.0
        if target.requests_left is not None:
            requests = target.requests_left.wait(1.0, target.started, now, idle)
        if target.tokens_left is not None:
            amount = self._expected(job)
            tokens = target.tokens_left.wait(amount, self._sent(target, amount), now, idle)
        longest = max(requests, tokens)
        self._note(target, longest, "requests" if requests >= tokens else "tokens")
        return longest

    def _note(self, target: _Target, wait: float, what: str) -> None:
        if wait == 0.0:
            target.paused = False
        elif wait != UNTIL_AN_EVENT and not target.paused:
            target.paused = True
            rate = target.requests_left if what == "requests" else target.tokens_left
            limit = None if rate is None else rate.limit
            self._tell("announced", target=target.name, used_up=what, limit=limit, seconds=round(wait, 3))

    def _renew(self, target: _Target, now: float) -> None:
        renewed = False
        if target.requests_left is not None:
            renewed = target.requests_left.renew(target.started, now)
        if target.tokens_left is not None:
            renewed = target.tokens_left.renew(target.tokens, now) or renewed
        if renewed:
            target.heard = target.started  # what was sent before tells of a time that is over

    def _sent(self, target: _Target, amount: float) -> float:
        """Tokens started so far; those in flight since before tokens were counted are taken to be like this one."""
        unseen = max(0, target.blind - target.heard)
        return target.tokens + unseen * amount

    def take(self, job: Job, now: float) -> None:
        target = self._of_variant[job.variant]
        target.started += 1
        if target.tokens_left is not None:
            target.tokens += self._expected(job)
        target.flying[job.trial.position] = target.started, target.tokens

    def settle(self, job: Job, outcome: Outcome, now: float) -> None:
        target = self._of_variant[job.variant]
        number, tokens = target.flying.pop(job.trial.position)
        answer, failure = outcome.answer, outcome.failure
        rate = answer.rate if answer is not None else failure.rate if failure is not None else None
        if rate is None:
            return
        if target.told:
            self._renew(target, now)
        if number <= target.heard:
            return
        target.told, target.heard = True, number
        if rate.requests is not None:
            target.requests_left = _heard(rate.requests, number, target.requests_left, now)
        if rate.tokens is not None:
            if target.tokens_left is None:
                target.blind = target.started
            target.tokens_left = _heard(rate.tokens, tokens, target.tokens_left, now)
        if failure is not None and failure.kind == "rate_limit" and failure.retry_after is not None:
            limit = target.requests_left.limit if target.requests_left is not None else None
            target.requests_left = _Left(limit, 0.0, number, now + failure.retry_after + MARGIN_S)


def _heard(told: Allowance, mark: float, before: _Left | None, now: float) -> _Left:
    limit = told.limit
    if limit is None:
        highest = before.limit if before is not None else None
        limit = max(told.remaining or 0.0, highest or 0.0) or None
    left = math.inf if told.remaining is None else told.remaining
    reset_at = math.inf if told.reset_s is None else now + told.reset_s + MARGIN_S
    return _Left(limit, left, mark, reset_at)
