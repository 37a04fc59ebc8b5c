"""Can this run stop early at all?"""

from __future__ import annotations

from abreast.preflight.context import Context
from abreast.preflight.finding import Finding
from abreast.stats.verdict import SEQUENTIAL_CASES


def check(context: Context) -> Finding | None:
    """Only where it is asked for."""
    if not context.until_decided:
        return None
    if len(context.plan.variants) < 2:
        return Finding("early stop", "fail", "one variant: there is nothing to decide", "leave out --until-decided")
    if not context.scored:
        return Finding("early stop", "fail", "no scorer: nothing can be decided", "add scorers: [exact]")
    cases = len(context.plan.cases)
    if cases < SEQUENTIAL_CASES:
        message = f"{cases:,} cases are fewer than {SEQUENTIAL_CASES}: the verdict comes at the end"
        return Finding("early stop", "note", message)
    return Finding("early stop", "pass", f"once it is decided, at the latest after {cases:,} cases")
