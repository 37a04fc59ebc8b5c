"""Expected cost and tokens of a trial: a guess from its input, then the use of earlier trials of its variant."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from abreast.execute.job import Job
from abreast.execute.limits.base import Limit, LimitContext
from abreast.model import Outcome
from abreast.targets.base import CHARACTERS_PER_TOKEN

MARGIN_SD = 1.28  # nine in ten trials take less than is reserved for them


@dataclass(slots=True)
class RunningMean:
    """Running mean and spread (Welford)."""

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0

    def add(self, value: float) -> None:
        self.count += 1
        delta = value - self.mean
        self.mean += delta / self.count
        self.squares += delta * (value - self.mean)

    @property
    def with_margin(self) -> float:
        spread = math.sqrt(self.squares / (self.count - 1)) if self.count > 1 else 0.0
        return self.mean + MARGIN_SD * spread


@dataclass(frozen=True, slots=True)
class PriorUse:
    """Use of one variant in earlier executions: trials with a known cost or token count, and sums."""

    costed: int = 0
    cost_usd: float = 0.0
    counted: int = 0
    tokens: float = 0.0


def build(context: LimitContext) -> Iterator[Limit]:
    yield context.estimates


class Estimates(Limit):
    """Learns from every attempt that ends, and sums up costs and tokens; used by limits that reserve."""

    def __init__(self, variants: int, before: Sequence[PriorUse] = ()) -> None:
        self._cost = [RunningMean() for _ in range(variants)]
        self._tokens = [RunningMean() for _ in range(variants)]
        self._spent_usd, self._spent_tokens = [0.0] * variants, [0.0] * variants
        for variant, spent in enumerate(before):
            self._spent_usd[variant], self._spent_tokens[variant] = spent.cost_usd, spent.tokens
            if spent.costed:
                self._cost[variant] = RunningMean(spent.costed, spent.cost_usd / spent.costed)
            if spent.counted:
                self._tokens[variant] = RunningMean(spent.counted, spent.tokens / spent.counted)

    def settle(self, job: Job, outcome: Outcome, now: float) -> None:
        cost, tokens = cost_of(outcome), tokens_of(outcome)
        if cost is not None:
            self._cost[job.variant].add(cost)
            self._spent_usd[job.variant] += cost
        if tokens is not None:
            self._tokens[job.variant].add(tokens)
            self._spent_tokens[job.variant] += tokens

    def spent_usd(self, variants: Iterable[int]) -> float:
        """Dollars spent by the run so far, earlier executions included."""
        return sum(self._spent_usd[variant] for variant in variants)

    def spent_tokens(self, variants: Iterable[int]) -> float:
        return sum(self._spent_tokens[variant] for variant in variants)

    def tokens(self, job: Job) -> float:
        mean = self._tokens[job.variant]
        return mean.with_margin if mean.count else len(str(job.trial.case.input)) / CHARACTERS_PER_TOKEN

    def cost(self, job: Job) -> float | None:
        """None while the cost of this variant is unknown."""
        mean = self._cost[job.variant]
        return mean.with_margin if mean.count else None


def cost_of(outcome: Outcome) -> float | None:
    """Dollars to pay; 0 if a subscription includes the answer."""
    answer = outcome.answer
    if answer is None:
        return None
    return 0.0 if answer.cost_basis == "included" else answer.cost_usd


def tokens_of(outcome: Outcome) -> float | None:
    """Input and output tokens, if reported."""
    if outcome.answer is None:
        return None
    usage = outcome.answer.usage
    if usage.input_tokens is None and usage.output_tokens is None:
        return None
    return float((usage.input_tokens or 0) + (usage.output_tokens or 0))
