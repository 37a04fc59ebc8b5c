"""Does this run keep to the locked plan?"""

from __future__ import annotations

from abreast.preflight.context import Context
from abreast.preflight.finding import Finding, many


def check(context: Context) -> Finding | None:
    lock = context.lock
    if lock is None:
        return None
    if context.locks:
        message = f"the plan is written to {lock.name} when the run starts"
        if not lock.earlier_runs:
            return Finding("lock", "note", message)
        stored = f"{many(lock.earlier_runs, 'run')} of this experiment {'is' if lock.earlier_runs == 1 else 'are'}"
        return Finding("lock", "warn", f"{message}; {stored} already stored, so results are known before it")
    if lock.differences:
        fix = "keep to the plan, or lock another one in a new file: --lock=FILE"
        return Finding("lock", "warn", lock.sentence(), fix)
    return Finding("lock", "pass", f"keeps to {lock.plan} ({lock.name})")
