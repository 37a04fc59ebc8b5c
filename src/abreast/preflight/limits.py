"""Limits that cannot be meant as they are written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from abreast.errors import suggestion
from abreast.preflight.finding import Finding

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
