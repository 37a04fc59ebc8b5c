"""From the limits of a spec to the limits of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from abreast.execute.estimate import Estimates, Spent, cost_of, tokens_of
from abreast.execute.limits import Limit
from abreast.execute.limits.announced import Announced
from abreast.execute.limits.breaker import Breaker, Service
from abreast.execute.limits.budget import Budget
from abreast.execute.limits.concurrency import Blocks, InFlight, PerVariant, Together
from abreast.execute.limits.failing import Failing, Tally
from abreast.execute.limits.quota import Quota
from abreast.execute.limits.rate import RequestRate, TokenRate
from abreast.execute.limits.stagger import Stagger
from abreast.execute.limits.turns import Turns
from abreast.plan.plan import Plan
from abreast.preflight.limits import asked_in_flight
from abreast.spec.schema import Bounds, Limits, TargetLimits, quota_window, size_in_bytes
from abreast.store.user_state.quota_ledger import Ledger
from abreast.targets import Target

if TYPE_CHECKING:
    from abreast.execute.limits.resources import Resources


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the limits of a run need besides their numbers."""

    tell: Callable[..., Any]  # an event, by kind and details
    stop: Callable[[str, str, str], None]  # kind, message, fix
    spent: Sequence[Spent] = ()  # by variant, before this execution
    waits_for_quota: bool = True
    ledger: Callable[[], Ledger] = field(default=Ledger)
    plan: Plan | None = None
    tallies: Sequence[Tally] = ()  # outcomes by variant, before this execution
    answered: frozenset[int] = frozenset()  # variants that answered in this run, before this execution


def assemble(limits: Limits, targets: Sequence[Target], around: Surroundings, judges: int = 0) -> list[Limit]:
    """Every limit that was asked for, what providers announce, and no other. The last so many targets are judges'."""
    estimates = Estimates(len(targets), around.spent)
    trials = len(targets) - judges
    found: list[Limit] = [estimates, *_concurrency(limits, trials), *_judging(limits, trials, targets)]
    if limits.turns and around.plan is not None:
        found.append(Turns(around.plan))
    members: dict[str, set[int]] = {}
    for index, target in enumerate(targets):
        members.setdefault(target.name, set()).add(index)
    everything = frozenset(range(len(targets)))
    for name, indexes in members.items():
        own, variants = limits.of(name), frozenset(indexes)
        found += _parallel_of_target(own, targets[min(variants)], variants, limits, around)
        found += _rates(own, variants, estimates)
        found += _quota(own, targets[min(variants)], variants, around)
        if name in limits.targets:
            found += _budgets(limits.targets[name], variants, estimates, around.spent)
    found += _budgets(limits, everything, estimates, around.spent)
    found.append(Announced([_pool(target) for target in targets], estimates.tokens, around.tell))
    found.append(_breaker(limits, targets, around))
    if around.tallies and not limits.allow_failing:
        found.append(Failing(around.tallies, lambda message, fix: around.stop("failing", message, fix)))
    if any(target.place != "loop" for target in targets):
        found.append(_resources(limits, targets, asked_in_flight(limits, targets[:trials]), around))
    starts = [target.start_cpu_s for target in targets]
    if any(starts):
        from abreast.execute.engine.machine import Machine

        found.append(Stagger(starts, Machine().cores()))
    return found


def _pool(target: Target) -> str:
    """What shares a rate and fails together: an address with its model, or all of a target."""
    return target.pool or target.name


def _breaker(limits: Limits, targets: Sequence[Target], around: Surroundings) -> Breaker:
    services: dict[str, Service] = {}
    for index, target in enumerate(targets):
        service = services.setdefault(_pool(target), Service(target.name, limits.of(target.name).breaker))
        service.answered_before = service.answered_before or index in around.answered

    def stop(message: str, fix: str) -> None:
        around.stop("breaker", message, fix)

    by_variant = [services[_pool(target)] for target in targets]
    return Breaker(by_variant, limits.retries, stop, around.tell, around.waits_for_quota)


def _resources(limits: Limits, targets: Sequence[Target], requested: int | None, around: Surroundings) -> Resources:
    from abreast.execute.engine.machine import Machine
    from abreast.execute.limits.resources import Cores, Memory, Resources  # late: only for threads and processes

    machine = Machine()
    free = None if limits.free_memory is None else size_in_bytes(limits.free_memory)
    declared = None if limits.memory_per_trial is None else size_in_bytes(limits.memory_per_trial)
    places = [target.place for target in targets]
    return Resources(
        places,
        machine.read(),
        memory=Memory(places, declared),
        cores=Cores(machine.cores(), limits.free_cores),
        free_memory=max(256_000_000, machine.total_memory() // 20) if free is None else free,
        requested=requested,
        on_change=around.tell,
    )


def _concurrency(limits: Limits, variants: int) -> list[Limit]:
    parallel, blocks = limits.parallel, limits.trial_parallelism
    found: list[Limit] = []
    if blocks is not None or parallel == "variants":
        of_each = 1 if parallel is None else max(1, variants)
        found.append(Blocks(max(1, blocks or 1), of_each))
    elif parallel is None and not any(own.parallel is not None for own in limits.targets.values()):
        found.append(InFlight(1))
    if isinstance(parallel, int):
        found.append(InFlight(max(1, parallel)))
    if limits.per_variant is not None:
        found.append(PerVariant(dict.fromkeys(range(variants), max(1, limits.per_variant))))
    return found


def _judging(limits: Limits, variants: int, targets: Sequence[Target]) -> list[Limit]:
    """Where no number holds for all that is in flight, judges are at most as many as trials would be."""
    parallel, blocks = limits.parallel, limits.trial_parallelism
    if isinstance(parallel, int) or (parallel is not None and parallel != "variants"):
        return []  # it counts judges too, or what their target takes is found out
    most = max(1, blocks or 1) * (1 if parallel is None else max(1, variants))
    free = [index for index in range(variants, len(targets)) if limits.of(targets[index].name).parallel == parallel]
    return [Together(frozenset(free), most)] if free else []


def _parallel_of_target(
    own: TargetLimits, target: Target, variants: frozenset[int], limits: Limits, around: Surroundings
) -> list[Limit]:
    parallel = own.parallel
    if parallel == "auto" or isinstance(parallel, Bounds):
        from abreast.execute.limits.adaptive import Adaptive

        bounds = parallel if isinstance(parallel, Bounds) else Bounds()

        def changed(kind: str, **detail: Any) -> None:
            around.tell(kind, target=target.name, **detail)

        return [Adaptive(bounds.min, bounds.start, bounds.max, changed, variants, target.is_service)]
    if target.name in limits.targets and isinstance(parallel, int):
        return [Together(variants, max(1, parallel))]
    return []


def _rates(own: TargetLimits, variants: frozenset[int], estimates: Estimates) -> list[Limit]:
    found: list[Limit] = []
    for most, period in ((own.requests_per_second, 1.0), (own.requests_per_minute, 60.0)):
        if most is not None:
            # A rate below one in its period is one in a longer one.
            found.append(RequestRate(max(1, int(most)), period * max(1.0, 1.0 / most), variants))
    if own.tokens_per_minute is not None:
        found.append(TokenRate(own.tokens_per_minute, 60.0, variants, estimates.tokens))
    return found


def _quota(own: TargetLimits, target: Target, variants: frozenset[int], around: Surroundings) -> list[Limit]:
    if own.quota is None:
        return []
    most, window = quota_window(own.quota)
    account = target.account or target.name
    return [Quota(most, window, account, variants, around.ledger(), around.waits_for_quota, around.tell)]


def _budgets(own: TargetLimits, variants: frozenset[int], estimates: Estimates, before: Sequence[Spent]) -> list[Limit]:
    mine = [spent for variant, spent in enumerate(before) if variant in variants]
    found: list[Limit] = []
    if own.budget_usd is not None:
        spent = sum(item.cost_usd for item in mine)
        found.append(Budget(own.budget_usd, "usd", variants, estimates.cost, cost_of, spent))
    if own.budget_tokens is not None:
        spent = sum(item.tokens for item in mine)
        found.append(Budget(own.budget_tokens, "tokens", variants, estimates.tokens, tokens_of, spent))
    return found
