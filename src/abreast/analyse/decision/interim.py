"""Interim verdicts on a run that is being executed: only those that stay valid at every look."""

from __future__ import annotations

from typing import TYPE_CHECKING

from abreast.stats.intervals.population import THESE_CASES
from abreast.stats.verdict import SEQUENTIAL_CASES

if TYPE_CHECKING:
    from abreast.analyse.run import Analysis

RUNNING = "running"


def why_no_verdict_yet(analysis: Analysis) -> str:
    """Explain why there is no verdict yet; empty if it is valid at every look, or the run has ended.

    Until the plan is complete, a verdict rests on the confidence sequence alone.
    """
    rows = analysis.rows
    if analysis.run["status"] != RUNNING or not analysis.comparisons:
        return ""
    if any(item.calibration is not None for item in analysis.comparisons):
        return "the correction by people's labels needs all answers"
    if rows.population == THESE_CASES:
        return f"a verdict on these {rows.case_noun}s needs all of their repeats"
    if rows.planned_cases < SEQUENTIAL_CASES and not rows.final_spent:
        return f"fewer than {SEQUENTIAL_CASES} {rows.case_noun}s are planned, too few for an interim verdict"
    return ""
