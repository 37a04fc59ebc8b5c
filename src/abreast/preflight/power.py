"""How large a difference this many cases can detect."""

from __future__ import annotations

import math

from abreast.preflight.context import Context
from abreast.preflight.finding import Finding, many
from abreast.stats import alphas, cases_needed, smallest_detectable
from abreast.stats.intervals.final import GROUPS
from abreast.stats.intervals.population import THESE_CASES, repeats_needed, units_needed

TYPICAL_SD = 0.5  # of differences between two contenders that mostly agree
TYPICAL_REPEAT_SD = 0.5  # of yes-or-no scores of one case, at most
FAIR = 0.2  # a difference that many would want to detect
SMALL = 0.15


def check(context: Context) -> Finding:
    if len(context.plan.variants) < 2:
        return Finding("power", "note", "one variant: scores only, nothing to compare with")
    if not context.scored:
        return Finding("power", "note", "no scorer: answers are stored, nothing is compared", "add scorers: [exact]")
    cases, independent = len(context.plan.cases), context.plan.independent_cases
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
    if context.plan.population == THESE_CASES:
        return _on_these_cases(context, cases, cases != independent)
    alpha = alphas(cases, len(context.plan.variants) - 1)[1]
    if independent < units_needed(len(context.plan.variants) - 1) and not (
        cases != independent and independent >= GROUPS
    ):
        return _undecidable(context, cases, cases != independent)
    effect = smallest_detectable(TYPICAL_SD, independent, alpha=alpha)
    noun = context.case_noun
    size = many(cases, noun) + ("" if independent == cases else f" in {many(independent, 'group')}")
    message = (
        f"{size} can decide about {noun}s in general, and can usually detect differences of "
        f"{min(1.0, effect) * 100:.0f} points or more"
    )
    if effect > SMALL:
        return Finding("power", "warn", message, f"add {noun}s to detect smaller ones")
    return Finding("power", "pass", message)


def _on_these_cases(context: Context, cases: int, is_grouped: bool) -> Finding:
    plan, noun = context.plan, context.case_noun
    comparisons = len(plan.variants) - 1
    spread = TYPICAL_REPEAT_SD * math.sqrt(2)
    effect = smallest_detectable(spread, cases * plan.repeats, alpha=sum(alphas(1, comparisons)))
    message = (
        f"{_size(context)} can decide about {_these(cases, noun)} alone, and can usually detect "
        f"differences of {min(1.0, effect) * 100:.0f} points or more on {'it' if cases == 1 else 'them'}"
    )
    return Finding("power", "warn", message, _for_cases_in_general(comparisons, noun, is_grouped))


def _undecidable(context: Context, cases: int, is_grouped: bool) -> Finding:
    comparisons, noun = len(context.plan.variants) - 1, context.case_noun
    on_these = f"--repeats {repeats_needed(cases, comparisons)} can decide about {_these(cases, noun)}"
    return Finding(
        "power",
        "warn",
        f"{_size(context)} cannot decide anything, whatever the answers are, and --fail-if worse always passes",
        f"{on_these}; {_for_cases_in_general(comparisons, noun, is_grouped)}",
    )


def _size(context: Context) -> str:
    return f"{many(len(context.plan.cases), context.case_noun)} × {many(context.plan.repeats, 'repeat')}"


def _these(cases: int, noun: str) -> str:
    return f"this {noun}" if cases == 1 else f"these {cases:,} {noun}s"


def _for_cases_in_general(comparisons: int, noun: str, is_grouped: bool) -> str:
    """What a plan must have to decide about cases in general."""
    least = units_needed(comparisons)
    alpha = alphas(least, comparisons)[1]
    enough = cases_needed(TYPICAL_SD, FAIR, alpha=alpha)
    units = many(least, "group" if is_grouped else noun)
    return f"{noun}s in general need at least {units}, and about {enough:,} to detect {FAIR * 100:.0f} points"
