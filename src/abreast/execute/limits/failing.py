"""Stop the run when nearly every trial of a variant fails by its own fault: further trials would be wasted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from abreast.errors import location
from abreast.execute.failures import FIXES
from abreast.execute.job import Job
from abreast.execute.limits.base import Limit, LimitContext
from abreast.model import Failure, Outcome
from abreast.plan.plan import Plan

FIRST_TRIALS = 10  # stop if all of these fail,
MANY_TRIALS, SHARE_PERCENT = 20, 95  # or this share of more trials
LONGEST_MESSAGE = 500  # characters


def build(context: LimitContext) -> Iterator[Limit]:
    plan, failures = context.plan, context.own_failures
    if plan is not None and failures is not None and not context.limits.allow_failing:
        yield Failing(tally_outcomes(plan, plan.done, failures), context.stop)


@dataclass(slots=True)
class VariantTally:
    """Outcomes of a variant in a run, and its own failures by kind."""

    variant: str
    trials: int = 0
    failures: Counter[str] = field(default_factory=Counter)

    def is_broken(self, kind: str) -> bool:
        """Whether nearly all trials failed with this kind of error.

        >>> [VariantTally("b", trials, Counter(crash=trials)).is_broken("crash") for trials in (9, 10)]
        [False, True]
        >>> [VariantTally("b", trials, Counter(crash=trials - 1)).is_broken("crash") for trials in (19, 20)]
        [False, True]
        """
        failed = self.failures[kind]
        if self.trials >= MANY_TRIALS:
            return 100 * failed >= SHARE_PERCENT * self.trials
        return failed == self.trials >= FIRST_TRIALS


def tally_outcomes(plan: Plan, done: npt.NDArray[np.bool_], failures: Iterable[tuple[int, str]]) -> list[VariantTally]:
    """Count finished trials by variant; `failures` are the variants' own, as position and kind."""
    number = len(plan.variants)
    tallies = [
        VariantTally(variant.name, int(done[index::number].sum())) for index, variant in enumerate(plan.variants)
    ]
    for position, kind in failures:
        if position < len(done) and done[position]:
            tallies[position % number].failures[kind] += 1
    return tallies


def failures_of_broken(plan: Plan, final: Sequence[int], failures: Sequence[tuple[int, str]]) -> frozenset[int]:
    """Positions of the failures that stop a run with these final outcomes."""
    done = np.zeros(len(plan), dtype=np.bool_)
    done[list(final)] = True
    tallies = tally_outcomes(plan, done, failures)
    return frozenset(position for position, kind in failures if tallies[position % len(tallies)].is_broken(kind))


class Failing(Limit):
    """Stops the run when a variant fails in the same way in nearly every trial. Infrastructure errors do not count."""

    def __init__(self, tallies: Sequence[VariantTally], stop: Callable[[str, str, str], None]) -> None:
        self._tallies = tallies  # by variant, from earlier executions of the run
        self._stop = stop
        self._first: dict[tuple[int, str], Failure] = {}

    def store(self, job: Job, outcome: Outcome) -> None:
        failure = outcome.failure if outcome.status == "error" else None
        if outcome.status == "cancelled" or (failure is not None and failure.blame != "variant"):
            return
        tally = self._tallies[job.variant]
        tally.trials += 1
        if failure is None:
            return
        tally.failures[failure.kind] += 1
        first = self._first.setdefault((job.variant, failure.kind), failure)
        if tally.is_broken(failure.kind):
            self._stop("failing", _describe(tally, first), first.fix or FIXES.get(first.kind, ""))


def _describe(tally: VariantTally, first: Failure) -> str:
    failed, message = tally.failures[first.kind], " ".join(first.message.split())[:LONGEST_MESSAGE]
    line = location(first.detail)
    return (
        f'variant "{tally.variant}" failed in {failed:,} of {tally.trials:,} trials ({first.kind}); '
        f"first error: {message}" + (f", at {line}" if line else "")
    )
