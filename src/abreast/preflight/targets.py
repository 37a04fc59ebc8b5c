"""Can every target answer at all: is there a key, is the program installed, is the folder there?"""

from __future__ import annotations

from abreast.preflight.context import Context
from abreast.preflight.finding import Finding


def check(context: Context) -> Finding | None:
    """What a target says of itself; nothing if nothing is left to execute."""
    if not context.estimate.trials:
        return None
    notes: dict[str, None] = {}
    known = [f'variant "{variant.name}"' for variant in context.plan.variants]
    known += [f'scorer "{name}"' for name in context.judges]
    for where, target in zip(known, (*context.targets, *context.judges.values()), strict=True):
        for problem in getattr(target, "problems", list)():
            return Finding("targets", "fail", f"{where}: {problem.message}", problem.fix)
        notes |= dict.fromkeys(f"{where}: {note}" for note in getattr(target, "notes", list)())
    if not notes:
        return None
    first, *others = notes
    more = f" (and {len(others):,} more)" if others else ""
    return Finding("targets", "note", f"{first}{more}", "", tuple(notes) if others else ())
