"""More at once than a subscription takes well?"""

from __future__ import annotations

from abreast.plan.concurrency import Concurrency
from abreast.preflight.context import Context
from abreast.preflight.finding import Finding
from abreast.spec.schema import QUOTAS

MOST = 4


def check(context: Context) -> Finding | None:
    """A target is on a subscription if it says so itself, or if its quota is that of a plan (max-5x, max-20x)."""
    limits = context.limits
    concurrency = Concurrency(limits, context.targets)
    for target in {target.name: target for target in context.targets}.values():
        plan = limits.of(target.name).quota
        if plan not in QUOTAS and not target.subscription:
            continue
        most = concurrency.most_of(target.name)
        if most is None or most > MOST:
            many = "as many trials as go" if most is None else f"{most:,} trials"
            named = f" ({plan})" if plan in QUOTAS else ""
            return Finding(
                "subscription",
                "warn",
                f"{many} of {target.name} in flight: subscription plans{named} throttle more than {MOST}, "
                "and what is refused uses up the quota as well",
                f"--parallel {MOST}, or limits.targets.{target.name}.parallel",
            )
    return None
