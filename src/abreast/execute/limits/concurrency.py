"""How many trials may be in flight: in all, of one variant, of one block, and of one target.

A trial keeps its place until its row is safe, so that a kill never costs more than may be in flight.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial

from abreast.execute.job import Job
from abreast.execute.limits.base import UNTIL_AN_EVENT, Limit, LimitContext
from abreast.spec.schema import Bounds


def build(context: LimitContext) -> Iterator[Limit]:
    """Limits by the rules of `plan/concurrency`."""
    rules, limits = context.concurrency, context.limits
    if rules.blocks is not None:
        yield Blocks(rules.blocks, rules.per_block, context.trials)
    if rules.total is not None:
        yield InFlight(rules.total)
    if rules.per_variant is not None:
        yield PerVariant(rules.per_variant, context.trials)
    if rules.per_judges is not None:
        judges = range(len(context.trials), len(context.targets))
        free = [index for index in judges if limits.of(context.targets[index].name).parallel == limits.parallel]
        if free:
            yield InFlight(rules.per_judges, frozenset(free))
    for name, variants in context.variants_of_target.items():
        most = rules.of_target(name)
        if isinstance(most, Bounds):
            from abreast.execute.limits.adaptive import Adaptive

            yield Adaptive(
                least=most.min,
                start=most.start,
                most=most.max,
                on_change=partial(context.emit, target=name),
                variants=variants,
                is_service=context.targets[min(variants)].is_service,
            )
        elif most is not None and name in limits.targets:
            yield InFlight(most, variants)


class InFlight(Limit):
    """At most this many jobs of these variants, or of all, in flight."""

    is_shared = True
    holds_warmups = False

    def __init__(self, most: int, variants: Collection[int] | None = None) -> None:
        self._most = most
        self._now = 0
        self.variants = variants

    def wait(self, job: Job, now: float) -> float:
        return 0.0 if self._now < self._most else UNTIL_AN_EVENT

    def take(self, job: Job, now: float) -> None:
        self._now += 1

    def release(self, job: Job, now: float) -> None:
        self._now -= 1


class PerVariant(Limit):
    """At most this many trials of each variant in flight."""

    holds_warmups = False

    def __init__(self, most: int, variants: Collection[int]) -> None:
        self._most = most
        self._now = dict.fromkeys(variants, 0)
        self.variants = variants

    def wait(self, job: Job, now: float) -> float:
        return 0.0 if self._now[job.variant] < self._most else UNTIL_AN_EVENT

    def take(self, job: Job, now: float) -> None:
        self._now[job.variant] += 1

    def release(self, job: Job, now: float) -> None:
        self._now[job.variant] -= 1


class Blocks(Limit):
    """At most this many blocks in flight, and trials of each. A block whose trials all wait holds no place."""

    holds_warmups = False

    def __init__(self, blocks: int, trials_of_each: int, variants: Collection[int] | None = None) -> None:
        self._blocks = blocks
        self._each = trials_of_each
        self._now: dict[int, int] = {}
        self.variants = variants

    def wait(self, job: Job, now: float) -> float:
        running = self._now.get(job.block, 0)
        free = running < self._each if running else len(self._now) < self._blocks
        return 0.0 if free else UNTIL_AN_EVENT

    def take(self, job: Job, now: float) -> None:
        self._now[job.block] = self._now.get(job.block, 0) + 1

    def release(self, job: Job, now: float) -> None:
        self._now[job.block] -= 1
        if not self._now[job.block]:
            del self._now[job.block]
