"""The base class of limits. Each decides one aspect of whether a job may start now; `registry` lists them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Self

from abreast.execute.job import Job
from abreast.model import Blame, Failure, Outcome
from abreast.plan.concurrency import Concurrency

if TYPE_CHECKING:
    from abreast.execute.estimate import Estimates
    from abreast.plan.plan import Plan
    from abreast.spec.schema import Limits
    from abreast.store.user_state.quota_ledger import Ledger
    from abreast.targets import Target

UNTIL_AN_EVENT = float("inf")

Stage = Literal["running", "at rest", "stopped"]
"""When blame is decided: while trials are executed, when no further trial can help to decide, or after a stop."""


class Limit:
    """Override the methods that matter: none is required, and unchanged ones cost nothing.

    The scheduler calls `wait` for the first job in each lane, then `take`, `settle` and `release` for every attempt.
    `conclude`, `blame`, `store` and `leave_out` are called for trials, never for judges and warm-ups.
    """

    variants: Collection[int] | None = None
    """Indexes of the variants, and after them of the judges, that it applies to; None: all."""

    is_shared = False
    """Whether `wait` gives the same answer for every job that the limit applies to."""

    holds_warmups = True
    """Whether warm-ups wait for it; False if it only bounds how many trials are in flight."""

    @property
    def key(self) -> object:
        """The key that identifies it among the limits of a run, whatever its settings."""
        return type(self), None if self.variants is None else frozenset(self.variants)

    def change(self, new: Self) -> None:
        """Continue with the settings of `new`, which has the same key and was built from changed settings."""

    def applies_to(self, variant: int) -> bool:
        return self.variants is None or variant in self.variants

    def wait(self, job: Job, now: float) -> float:
        """Return 0 if the job may start, else seconds, or `UNTIL_AN_EVENT`. Must not change visible state."""
        return 0.0

    def affordable(self, jobs: list[Job], now: float) -> list[Job]:
        """Return the jobs, of those up next, that will probably start in this run."""
        return jobs

    def take(self, job: Job, now: float) -> None:
        """An attempt of the job starts."""

    def settle(self, job: Job, outcome: Outcome, now: float) -> None:
        """The attempt has ended."""

    def least_delay(self, job: Job, now: float) -> float:
        """Return the least seconds until the next attempt of a job that failed."""
        return 0.0

    def release(self, job: Job, now: float) -> None:
        """The job no longer counts as in flight: it waits for its next attempt, or its row is safe."""

    def conclude(self, job: Job, outcome: Outcome, now: float) -> None:
        """The trial has its final outcome: no attempt follows."""

    def blame(self, job: Job, failure: Failure, stage: Stage) -> Blame | None:
        """Decide whether a failure is due to the variant or its service; None while undecided."""
        return "variant"

    def store(self, job: Job, outcome: Outcome) -> None:
        """The trial's final outcome, with its blame decided, goes to the store."""

    def leave_out(self, job: Job) -> None:
        """The trial does not start in this run, because the trial it continues failed."""

    def exhausted(self, job: Job, now: float) -> tuple[str, str, str] | None:
        """Return why this job can never start now that nothing is in flight: kind, message and fix."""
        return None

    async def watch(self, wake: Callable[[], None]) -> None:
        """Watch the conditions of this limit while trials run; `wake` makes the scheduler call `wait` again."""

    def close(self) -> None:
        """The run is over."""


def by_variant(limits: Iterable[Limit], variants: range) -> list[list[Limit]]:
    lists: list[list[Limit]] = [[] for _ in variants]
    for limit in limits:
        for variant in variants if limit.variants is None else limit.variants:
            if variant in variants:
                lists[variant - variants.start].append(limit)
    return lists


@dataclass(frozen=True, kw_only=True)
class LimitContext:
    """The settings and the execution that limits are built from."""

    limits: Limits
    targets: Sequence[Target]  # targets of the variants, then of the judges
    judges: int = 0  # number of targets that belong to judges
    plan: Plan | None = None
    emit: Callable[..., Any]  # report an event, by kind and details
    stop: Callable[[str, str, str], None]  # end the run: kind, message, fix
    estimates: Estimates
    waits_for_quota: bool = True
    ledger: Callable[[], Ledger]  # ledger of the calls of accounts with a quota
    own_failures: Sequence[tuple[int, str]] | None = None  # from earlier executions, as position and kind
    answered: frozenset[int] = frozenset()  # variants that answered in this run, before this execution
    capacity: int | None = None  # most jobs that the engine executes at the same time

    @property
    def trials(self) -> range:
        """Indexes of the variants; those of the judges follow."""
        return range(len(self.targets) - self.judges)

    @cached_property
    def variants_of_target(self) -> dict[str, frozenset[int]]:
        """Indexes of variants and judges by target name."""
        members: dict[str, set[int]] = {}
        for index, target in enumerate(self.targets):
            members.setdefault(target.name, set()).add(index)
        return {name: frozenset(indexes) for name, indexes in members.items()}

    @cached_property
    def concurrency(self) -> Concurrency:
        return Concurrency(self.limits, self.targets[: len(self.trials)])

    def pool(self, target: Target) -> str:
        """Name of the service that shares one rate and fails as one: an address with its model, or the whole target."""
        return target.pool or target.name
