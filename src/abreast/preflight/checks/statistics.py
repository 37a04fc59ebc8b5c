"""Check what this plan can decide: the detectable differences, early stopping, and the rules."""

from __future__ import annotations

import math

from abreast.preflight.context import Context
from abreast.preflight.finding import Finding
from abreast.stats import alphas, cases_needed, smallest_detectable
from abreast.stats.intervals.final import GROUPS
from abreast.stats.intervals.population import THESE_CASES, repeats_needed, units_needed
from abreast.stats.verdict import SEQUENTIAL_CASES
from abreast.text import many

TYPICAL_SD = 0.5  # standard deviation of differences between two contenders that mostly agree
TYPICAL_REPEAT_SD = 0.5  # largest standard deviation of yes-or-no scores of one case
FAIR = 0.2  # a difference that most experiments should detect
SMALL = 0.15


def check_power(context: Context) -> Finding:
    """Report how large a difference this many cases can detect."""
    plan, noun = context.plan, context.spec.case_noun
    if len(plan.variants) < 2:
        return Finding("power", "note", "one variant: scores only, no comparison")
    if not context.is_scored:
        return Finding("power", "note", "no scorer: answers are stored but not compared", "add scorers: [exact]")
    cases, independent, comparisons = len(plan.cases), plan.independent_cases, len(plan.variants) - 1
    size = f"{many(cases, noun)} × {many(plan.repeats, 'repeat')}"
    these = f"this {noun}" if cases == 1 else f"these {cases:,} {noun}s"
    is_grouped = cases != independent
    if plan.is_chained and independent < GROUPS:
        message = f"{cases:,} cases in {many(independent, 'chain')}: each continues from the one before"
        message += f", so they count as {many(independent, 'independent case')}"
        return Finding("power", "warn", message, "use independent cases")
    if plan.population == THESE_CASES:
        spread = TYPICAL_REPEAT_SD * math.sqrt(2)
        effect = smallest_detectable(spread, cases * plan.repeats, alpha=sum(alphas(1, comparisons)))
        message = (
            f"{size} can decide about {these} alone, and can usually detect "
            f"differences of {min(1.0, effect) * 100:.0f} points or more on {'it' if cases == 1 else 'them'}"
        )
        return Finding("power", "warn", message, _cases_in_general_fix(comparisons, noun, is_grouped))
    if independent < units_needed(comparisons) and not (is_grouped and independent >= GROUPS):
        message = f"{size} cannot decide anything, and --fail-if worse always passes"
        on_these = f"use --repeats {repeats_needed(cases, comparisons)} to decide about {these}"
        fix = f"{on_these}; {_cases_in_general_fix(comparisons, noun, is_grouped)}"
        return Finding("power", "warn", message, fix)
    effect = smallest_detectable(TYPICAL_SD, independent, alpha=alphas(cases, comparisons)[1])
    groups = f" in {many(independent, 'group')}" if is_grouped else ""
    message = (
        f"{many(cases, noun)}{groups} can decide about {noun}s in general, and can usually detect differences of "
        f"{min(1.0, effect) * 100:.0f} points or more"
    )
    if effect > SMALL:
        return Finding("power", "warn", message, f"add {noun}s to detect smaller ones")
    return Finding("power", "pass", message)


def _cases_in_general_fix(comparisons: int, noun: str, is_grouped: bool) -> str:
    """Say how many cases can decide about cases in general."""
    least = units_needed(comparisons)
    enough = cases_needed(TYPICAL_SD, FAIR, alpha=alphas(least, comparisons)[1])
    units = many(least, "group" if is_grouped else noun)
    return (
        f"use at least {units} to decide about {noun}s in general, about {enough:,} to detect {FAIR * 100:.0f} points"
    )


def check_early_stop(context: Context) -> Finding | None:
    if not context.spec.until_decided:
        return None
    if len(context.plan.variants) < 2:
        return Finding("early stop", "fail", "one variant: there is nothing to decide", "omit --until-decided")
    if not context.is_scored:
        return Finding("early stop", "fail", "no scorer: nothing can be decided", "add scorers: [exact]")
    cases = len(context.plan.cases)
    if cases < SEQUENTIAL_CASES:
        message = f"{cases:,} cases are fewer than {SEQUENTIAL_CASES}: the verdict comes at the end"
        return Finding("early stop", "note", message)
    return Finding("early stop", "pass", f"as soon as it is decided, at the latest after {cases:,} cases")


def check_extension(context: Context) -> Finding | None:
    """Report which earlier run this one extends, and what can still decide."""
    extension = context.extension
    if extension is None:
        return None
    if extension.added:
        message = f"this run extends {extension.run} by {many(extension.added, 'case')}"
    else:
        message = f"this run repeats {many(extension.cases, 'case')} of {extension.run}"
    message += f"; {extension.rule}"
    if not extension.grown_groups:
        return Finding("extension", "note", message)
    groups = f"{many(extension.grown_groups, 'group')} of {extension.run}"
    verb = "has" if extension.grown_groups == 1 else "have"
    message += f"; {groups} {verb} new cases, so reported results change"
    return Finding("extension", "warn", message, "put new cases into new groups")


def check_lock(context: Context) -> Finding | None:
    lock = context.lock
    if lock is None:
        return None
    if context.writes_lock:
        message = f"the plan is written to {lock.name} when the run starts"
        if not lock.earlier_runs:
            return Finding("lock", "note", message)
        stored = f"{many(lock.earlier_runs, 'run')} of this experiment {'is' if lock.earlier_runs == 1 else 'are'}"
        return Finding("lock", "warn", f"{message}; {stored} already stored, so its results are known")
    if lock.differences:
        fix = "follow the plan, or lock another one in a new file with --lock=FILE"
        return Finding("lock", "warn", lock.sentence(), fix)
    return Finding("lock", "pass", f"follows {lock.plan} ({lock.name})")
