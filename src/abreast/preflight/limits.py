"""Limits that cannot be meant as they are written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from abreast.errors import suggestion
from abreast.preflight.finding import Finding
from abreast.spec.schema import Bounds, Limits
from abreast.targets import Target

if TYPE_CHECKING:
    from abreast.preflight.context import Context


def check(context: Context) -> Finding:
    limits = context.limits
    known = [target.name for target in (*context.targets, *context.judges.values())]
    for name in limits.targets:
        if name not in known:
            near = suggestion(name, known)
            return Finding(
                "limits", "fail", f'limits.targets: no variant and no judge has the target "{name}"{near}', "correct it"
            )
    names = [variant.name for variant in context.plan.variants]
    for name in limits.variants:
        if name not in names:
            return Finding(
                "limits", "fail", f'limits.variants: no variant "{name}"{suggestion(name, names)}', "correct it"
            )
    if limits.budget_usd is not None:
        silent = [target.name for target in context.targets if target.name.startswith("python:")]
        if silent:
            told = f"the budget holds only if {silent[0]} returns cost_usd with its answers"
            return Finding("limits", "note", told)
    for target in context.targets:
        own = limits.of(target.name)
        rates = [name for name in ("requests_per_second", "requests_per_minute") if getattr(own, name) is not None]
        if rates and target.asks_often:
            told = f"a trial of {target.name} makes as many requests as it likes: {rates[0]} counts trials"
            return Finding("limits", "note", told)
    for name in ("parallel", "trial_parallelism", "per_variant"):
        value = getattr(limits, name)
        if isinstance(value, int) and value < 1:
            return Finding("limits", "note", f"{name} {value} means 1: one at a time", f"write {name}: 1 or more")
    return Finding("limits", "pass", describe(limits.parallel, limits.trial_parallelism))


def describe(parallel: object, blocks: int | None) -> str:
    """How much happens at once, in words."""
    if parallel is None:
        return f"{blocks} blocks at once, one variant at a time in each" if blocks else "one trial at a time"
    if parallel == "variants":
        return f"{blocks or 1} block{'s' if (blocks or 1) > 1 else ''} at once, all variants of each together"
    if isinstance(parallel, int):
        return f"at most {parallel} trial{'s' if parallel > 1 else ''} in flight"
    return "as many trials in flight as the target takes"


def asked_in_flight(limits: Limits, targets: Sequence[Target]) -> int | None:
    """How many trials may be in flight by what was declared; None if that is found out on the way."""
    variants, parallel, blocks = len(targets), limits.parallel, limits.trial_parallelism
    ceilings: list[int] = []
    if blocks is not None or parallel == "variants":
        ceilings.append(max(1, blocks or 1) * (1 if parallel is None else variants))
    elif parallel is None and not any(own.parallel is not None for own in limits.targets.values()):
        ceilings.append(1)
    if isinstance(parallel, int):
        ceilings.append(max(1, parallel))
    if limits.per_variant is not None:
        ceilings.append(max(1, limits.per_variant) * (1 if limits.turns else variants))
    of_targets = [limits.of(name).parallel for name in dict.fromkeys(target.name for target in targets)]
    fixed = [max(1, number) for number in of_targets if isinstance(number, int)]
    if len(fixed) == len(of_targets):
        ceilings.append(sum(fixed))
    return min(ceilings, default=None)


def likely_in_flight(limits: Limits, targets: Sequence[Target]) -> int:
    """The same as a number to reckon with: where it is found out, what it starts with."""
    asked = asked_in_flight(limits, targets)
    if asked is not None:
        return asked
    total = 0
    for name in dict.fromkeys(target.name for target in targets):
        parallel = limits.of(name).parallel
        total += (
            parallel if isinstance(parallel, int) else (parallel if isinstance(parallel, Bounds) else Bounds()).start
        )
    return max(1, total)


def most_in_flight_of(name: str, limits: Limits, targets: Sequence[Target]) -> int | None:
    """How many trials of one target may be in flight; None if that is found out on the way."""
    variants = sum(target.name == name for target in targets)
    asked, parallel = asked_in_flight(limits, targets), limits.of(name).parallel
    if isinstance(parallel, Bounds):
        ceilings = [parallel.max]
    else:
        ceilings = [max(1, parallel)] if isinstance(parallel, int) else []
    if asked is not None:
        ceilings.append(asked)
    if limits.per_variant is not None:
        ceilings.append(max(1, limits.per_variant) * variants)
    if parallel == "variants" or (limits.trial_parallelism is not None and parallel is not None):
        ceilings.append(max(1, limits.trial_parallelism or 1) * variants)
    return min(ceilings, default=None)
