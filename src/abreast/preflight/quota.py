"""What share of a quota will this take, and is so much left of it?"""

from __future__ import annotations

from abreast.preflight.context import Context
from abreast.preflight.cost import duration
from abreast.preflight.estimate import QuotaEstimate
from abreast.preflight.finding import Finding


def check(context: Context) -> Finding | None:
    quotas = context.estimate.quotas
    if not quotas:
        return None
    short = any(quota.left is not None and quota.needed > quota.left for quota in quotas)
    told = "; ".join(_sentence(quota, len(quotas) > 1) for quota in quotas)
    fix = "the run pauses until there is room; --on-quota stop ends it instead, and resume goes on" if short else ""
    return Finding("quota", "note" if short else "pass", told, fix)


def _sentence(quota: QuotaEstimate, named: bool) -> str:
    whose = f"{quota.target}: " if named else ""
    share = f"{quota.needed / quota.most:.0%}"
    left = "what is left is unknown" if quota.left is None else f"{quota.left:,} left now"
    window = f"{quota.most:,} in {duration(quota.window_s)}"
    return f"{whose}takes {quota.needed:,} of {window} ({share}), {left}"
