"""The most trials in flight: in total, per variant, per block, and per target.

A trial counts as in flight until its row is safe, so that a kill never loses more than may be in flight.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial
from typing import Self

from abreast.execute.job import Job
from abreast.execute.limits.base import UNTIL_AN_EVENT, Limit, LimitContext
from abreast.spec.schema import Bounds


def build(context: LimitContext) -> Iterator[Limit]:
    rules, limits = context.concurrency, context.limits
    if rules.blocks is not None:
        yield Blocks(rules.blocks, rules.per_block, context.trials)
    for most in (rules.total, context.capacity):
        if most is not None:
            yield InFlight(most)
    if rules.per_variant is not None:
        yield PerVariant(rules.per_variant, context.trials)
    if rules.per_judges is not None:
        judges = range(len(context.trials), len(context.targets))
        without_own = [index for index in judges if limits.of(context.targets[index].name).parallel == limits.parallel]
        if without_own:
            yield InFlight(rules.per_judges, frozenset(without_own))
    for name, variants in context.variants_of_target.items():
        parallel = rules.of_target(name)
        if isinstance(parallel, Bounds):
            from abreast.execute.limits.adaptive import Adaptive

            yield Adaptive(
                least=parallel.min,
                start=parallel.start,
                most=parallel.max,
                on_change=partial(context.emit, target=name),
                variants=variants,
                is_service=context.targets[min(variants)].is_service,
            )
        elif parallel is not None and name in limits.targets:
            yield InFlight(parallel, variants)


class InFlight(Limit):
    """At most this many jobs of these variants, or of all, in flight."""

    is_shared = True
    holds_warmups = False

    def __init__(self, most: int, variants: Collection[int] | None = None) -> None:
        self._most = most
        self._in_flight = 0
        self.variants = variants

    def change(self, new: Self) -> None:
        self._most = new._most

    def wait(self, job: Job, now: float) -> float:
        return 0.0 if self._in_flight < self._most else UNTIL_AN_EVENT

    def take(self, job: Job, now: float) -> None:
        self._in_flight += 1

    def release(self, job: Job, now: float) -> None:
        self._in_flight -= 1


class PerVariant(Limit):
    holds_warmups = False

    def __init__(self, most: int, variants: Collection[int]) -> None:
        self._most = most
        self._in_flight = dict.fromkeys(variants, 0)
        self.variants = variants

    def change(self, new: Self) -> None:
        self._most = new._most

    def wait(self, job: Job, now: float) -> float:
        return 0.0 if self._in_flight[job.variant] < self._most else UNTIL_AN_EVENT

    def take(self, job: Job, now: float) -> None:
        self._in_flight[job.variant] += 1

    def release(self, job: Job, now: float) -> None:
        self._in_flight[job.variant] -= 1


class Blocks(Limit):
    """At most this many blocks in flight, and trials of each. A block whose trials all wait does not count."""

    holds_warmups = False

    def __init__(self, blocks: int, per_block: int, variants: Collection[int] | None = None) -> None:
        self._blocks, self._per_block = blocks, per_block
        self._in_flight: dict[int, int] = {}  # trials by block
        self.variants = variants

    def change(self, new: Self) -> None:
        self._blocks, self._per_block = new._blocks, new._per_block

    def wait(self, job: Job, now: float) -> float:
        running = self._in_flight.get(job.block, 0)
        is_free = running < self._per_block if running else len(self._in_flight) < self._blocks
        return 0.0 if is_free else UNTIL_AN_EVENT

    def take(self, job: Job, now: float) -> None:
        self._in_flight[job.block] = self._in_flight.get(job.block, 0) + 1

    def release(self, job: Job, now: float) -> None:
        self._in_flight[job.block] -= 1
        if not self._in_flight[job.block]:
            del self._in_flight[job.block]
