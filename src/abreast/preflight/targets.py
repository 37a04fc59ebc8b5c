"""Can every target answer at all: is there a key, is the program installed, is the folder there?"""

from __future__ import annotations

from collections.abc import Iterator

from abreast.preflight.context import Context
from abreast.preflight.finding import Finding, Level
from abreast.targets import Target


def check(context: Context) -> Finding | None:
    """What a target says of itself, if something is left for it to do."""
    notes: dict[str, None] = {}
    problems: dict[str, str] = {}
    for where, target in _needed(context):
        for problem in getattr(target, "problems", list)():
            problems.setdefault(f"{where}: {problem.message.removeprefix(f'{where}: ')}", problem.fix)
        notes |= dict.fromkeys(f"{where}: {note}" for note in getattr(target, "notes", list)())
    if problems:
        return _told("fail", list(problems), next(iter(problems.values())))
    return _told("note", list(notes)) if notes else None


def _told(level: Level, sentences: list[str], fix: str = "") -> Finding:
    """The first of them, and how many there are besides."""
    first, *others = sentences
    more = f" (and {len(others):,} more)" if others else ""
    return Finding("targets", level, f"{first}{more}", fix, tuple(sentences) if others else ())


def _needed(context: Context) -> Iterator[tuple[str, Target]]:
    """Where each stands in the spec: the variants' if a trial is left, and those of judges that will be asked."""
    if context.estimate.trials:
        for variant, target in zip(context.plan.variants, context.targets, strict=True):
            yield f'variant "{variant.name}"', target
    asked = {one.scorer for one in context.estimate.judges}
    for name, target in context.judges.items():
        if name in asked:
            yield f'scorer "{name}"', target
