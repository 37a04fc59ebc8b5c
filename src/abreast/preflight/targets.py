"""Can every target answer at all: is there a key, is the program installed, is the folder there?"""

from __future__ import annotations

from collections.abc import Iterator

from abreast.preflight.context import Context
from abreast.preflight.finding import Finding
from abreast.targets import Target


def check(context: Context) -> Finding | None:
    """What a target says of itself, if something is left for it to do."""
    notes: dict[str, None] = {}
    for where, target in _needed(context):
        for problem in getattr(target, "problems", list)():
            return Finding("targets", "fail", f"{where}: {problem.message}", problem.fix)
        notes |= dict.fromkeys(f"{where}: {note}" for note in getattr(target, "notes", list)())
    if not notes:
        return None
    first, *others = notes
    more = f" (and {len(others):,} more)" if others else ""
    return Finding("targets", "note", f"{first}{more}", "", tuple(notes) if others else ())


def _needed(context: Context) -> Iterator[tuple[str, Target]]:
    """Where each stands in the spec: the variants' if a trial is left, and those of judges that will be asked."""
    if context.estimate.trials:
        for variant, target in zip(context.plan.variants, context.targets, strict=True):
            yield f'variant "{variant.name}"', target
    asked = {one.scorer for one in context.estimate.judges}
    for name, target in context.judges.items():
        if name in asked:
            yield f'scorer "{name}"', target
