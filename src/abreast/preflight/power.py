"""Can so many cases show anything at all?"""

from __future__ import annotations

from abreast.preflight.context import Context
from abreast.preflight.finding import Finding
from abreast.stats import smallest_detectable

TYPICAL_SD = 0.5  # of differences between two contenders that mostly agree
SMALL = 0.15


def check(context: Context) -> Finding:
    if len(context.plan.variants) < 2:
        return Finding("power", "note", "one variant: scores only, nothing to compare with")
    cases = len(context.plan.cases)
    effect = smallest_detectable(TYPICAL_SD, cases)
    if cases < 2:
        return Finding("power", "warn", "one case can show nothing about a difference", "add cases")
    message = f"{cases:,} cases can typically show effects above {min(1.0, effect) * 100:.0f} points"
    if effect > SMALL:
        return Finding("power", "warn", message, "add cases to see smaller ones")
    return Finding("power", "pass", message)
