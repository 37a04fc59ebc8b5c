"""How large a difference this many cases can detect."""

from __future__ import annotations

from collections.abc import Sequence

from abreast.preflight.context import Context
from abreast.preflight.finding import Finding, many
from abreast.stats import alphas, smallest_detectable
from abreast.stats.final import GROUPS

TYPICAL_SD = 0.5  # of differences between two contenders that mostly agree
SMALL = 0.15


def check(context: Context) -> Finding:
    if len(context.plan.variants) < 2:
        return Finding("power", "note", "one variant: scores only, nothing to compare with")
    if not context.scored:
        return Finding("power", "note", "no scorer: answers are stored, nothing is compared", "add scorers: [exact]")
    cases, independent = len(context.plan.cases), _independent(context.plan.cases.groups)
    if cases < 2:
        return Finding("power", "warn", "one case can show nothing about a difference", "add cases")
    if context.plan.is_chained and independent < GROUPS:
        told = (
            f"{cases:,} cases in {many(independent, 'chain')}: each begins with what the one before left, so they say"
        )
        return Finding(
            "power",
            "warn",
            f"{told} no more than {many(independent, 'case')} would",
            "ask for cases that are independent",
        )
    alpha = alphas(cases, len(context.plan.variants) - 1)[1]
    effect = smallest_detectable(TYPICAL_SD, independent, alpha=alpha)
    what = f"{cases:,} cases" if independent == cases else f"{cases:,} cases in {many(independent, 'group')}"
    message = f"{what} can usually detect differences of {min(1.0, effect) * 100:.0f} points or more"
    if effect > SMALL:
        return Finding("power", "warn", message, "add cases to detect smaller ones")
    return Finding("power", "pass", message)


def _independent(groups: Sequence[str | None]) -> int:
    """Pieces of evidence, if cases of one group say no more than one of them would."""
    known = {group for group in groups if group is not None}
    return len(known) + sum(group is None for group in groups)
