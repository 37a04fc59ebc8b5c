"""Can every target answer at all: is there a key, is the program installed, is the folder there?"""

from __future__ import annotations

from collections.abc import Iterator

from abreast.preflight.context import Context
from abreast.preflight.finding import Finding, Level, listed
from abreast.targets import Target


def check(context: Context) -> Finding | None:
    """What a target says of itself, if something is left for it to do."""
    notes: dict[str, list[str]] = {}
    problems: dict[str, str] = {}
    for where, target in _needed(context):
        for problem in target.problems():
            problems.setdefault(f"{where}: {problem.message.removeprefix(f'{where}: ')}", problem.fix)
        for note in target.notes():
            notes.setdefault(note, []).append(where)
    if problems:
        return _told("fail", list(problems), next(iter(problems.values())))
    everybody = len(context.plan.variants)
    told = [note if len(whose) >= everybody > 1 else f"{listed(whose)}: {note}" for note, whose in notes.items()]
    return _told("note", told) if told else None


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
