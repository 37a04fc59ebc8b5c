"""Check limits, subscriptions and quotas."""

from __future__ import annotations

from abreast.errors import suggestion
from abreast.plan.concurrency import Concurrency
from abreast.preflight.checks.cost import duration
from abreast.preflight.context import Context
from abreast.preflight.estimate import QuotaEstimate
from abreast.preflight.finding import Finding
from abreast.spec.schema import QUOTAS


def check_limits(context: Context) -> Finding:
    """Explain the limits, and find mistakes in them."""
    limits = context.limits
    targets = list(dict.fromkeys(target.name for target in (*context.targets, *context.judges.values())))
    variants = [variant.name for variant in context.plan.variants]
    for problem, names, valid in (
        ("limits.targets: no variant and no judge has the target", limits.targets, targets),
        ("limits.variants: no variant", limits.variants, variants),
    ):
        for name in names:
            if name not in valid:
                return Finding("limits", "fail", f'{problem} "{name}"{suggestion(name, valid)}', "correct the name")
    if limits.budget_usd is not None:
        functions = [target.name for target in context.targets if target.name.startswith("python:")]
        if functions:
            message = f"the budget holds only if {functions[0]} returns cost_usd with its answers"
            return Finding("limits", "note", message)
    for target in context.targets:
        own = limits.of(target.name)
        rates = [name for name in ("requests_per_second", "requests_per_minute") if getattr(own, name) is not None]
        if rates and target.asks_often:
            message = f"{rates[0]} counts trials: a trial of {target.name} makes any number of requests"
            return Finding("limits", "note", message)
    for name in ("parallel", "trial_parallelism", "per_variant"):
        value = getattr(limits, name)
        if isinstance(value, int) and value < 1:
            return Finding("limits", "note", f"{name} {value} means 1: one at a time", f"set {name}: 1 or more")
    return Finding("limits", "pass", describe(limits.parallel, limits.trial_parallelism))


def describe(parallel: object, blocks: int | None) -> str:
    if parallel is None:
        return f"{blocks} blocks at once, one variant at a time in each" if blocks else "one trial at a time"
    if parallel == "variants":
        return f"{blocks or 1} block{'s' if (blocks or 1) > 1 else ''} at once, all variants of each together"
    if isinstance(parallel, int):
        return f"at most {parallel} trial{'s' if parallel > 1 else ''} in flight"
    return "as many trials in flight as the target can take"


SUBSCRIPTION_MOST = 4  # in flight


def check_subscription(context: Context) -> Finding | None:
    """Warn of more trials in flight than a subscription allows.

    A target uses a subscription if it declares one, or if its quota is that of a plan (max-5x, max-20x).
    """
    limits = context.limits
    concurrency = Concurrency(limits, context.targets)
    for target in {target.name: target for target in context.targets}.values():
        plan = limits.of(target.name).quota
        if plan not in QUOTAS and not target.subscription:
            continue
        most = concurrency.most_of(target.name)
        if most is None or most > SUBSCRIPTION_MOST:
            trials = "any number of trials" if most is None else f"{most:,} trials"
            plans = f"subscription plans{f' ({plan})' if plan in QUOTAS else ''}"
            message = f"{trials} of {target.name} in flight: {plans} throttle more than {SUBSCRIPTION_MOST}"
            fix = f"set --parallel {SUBSCRIPTION_MOST}, or limits.targets.{target.name}.parallel"
            return Finding("subscription", "warn", f"{message}, and refused requests use up the quota as well", fix)
    return None


def check_quota(context: Context) -> Finding | None:
    quotas = context.estimate.quotas
    if not quotas:
        return None
    is_short = any(quota.remaining is not None and quota.needed > quota.remaining for quota in quotas)
    message = "; ".join(_sentence(quota, len(quotas) > 1) for quota in quotas)
    fix = "let the run pause, or end it with --on-quota stop and resume later" if is_short else ""
    return Finding("quota", "note" if is_short else "pass", message, fix)


def _sentence(quota: QuotaEstimate, names_target: bool) -> str:
    prefix = f"{quota.target}: " if names_target else ""
    share = f"{quota.needed / quota.most:.0%}"
    remaining = "the remainder is unknown" if quota.remaining is None else f"{quota.remaining:,} left now"
    window = f"{quota.most:,} in {duration(quota.window_s)}"
    return f"{prefix}needs {quota.needed:,} of {window} ({share}), {remaining}"
