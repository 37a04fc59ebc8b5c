"""The scorers that a spec names, built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from abreast import scorers as scorer_room
from abreast.errors import BadInput, suggestion
from abreast.model import Check
from abreast.scorers.base import Scorer
from abreast.spec.cases import CaseTable
from abreast.spec.schema import Misplaced, Spec
from abreast.spec.values import shown


def named_scorers(spec: Spec) -> list[tuple[Any, Mapping[str, Any]]]:
    """Each scorer of a spec as what it is called, or the function itself, and its settings."""
    found: list[tuple[Any, Mapping[str, Any]]] = []
    for index, item in enumerate(spec.scorers):
        at = ("scorers", index)
        kind, settings = item, None
        if isinstance(item, Mapping):
            if len(item) != 1:
                raise Misplaced(
                    at, f"scorers: {shown(item)} must have one key, its name", "write - number: {rel: 0.01}"
                )
            ((kind, settings),) = item.items()
        if not isinstance(kind, str) and not callable(kind):
            raise Misplaced(at, f"scorers: {shown(kind)} is not the name of a scorer", "write scorers: [exact]")
        if settings is not None and not isinstance(settings, Mapping):
            raise Misplaced(
                at,
                f"scorers: the settings of {kind} must be a mapping, got {shown(settings)}",
                f"write - {kind}: {{name: mine}}",
            )
        found.append((kind, settings or {}))
    return found


def build_scorers(spec: Spec, base: Path) -> list[Scorer]:
    """The scorers of a spec, each column given once. Files that they name are seen from `base`."""
    built: list[Scorer] = []
    columns: set[str] = set()
    for index, (kind, settings) in enumerate(named_scorers(spec)):
        try:
            scorer = scorer_room.build(kind, settings, base)
        except BadInput as error:
            raise Misplaced(("scorers", index), error.message, error.fix) from error
        for column in scorer.columns:
            if column == "human":
                fix = f"give it another name: - {kind}: {{name: mine}}"
                raise Misplaced(("scorers", index), 'scorers: the name "human" is reserved for human labels', fix)
            if column in columns:
                raise Misplaced(
                    ("scorers", index),
                    f'scorers: two give the column "score_{column}"',
                    f"give one of them another name: - {kind}: {{name: second}}",
                )
            columns.add(column)
        built.append(scorer)
    return built


def primary_column(spec: Spec, scorers: Sequence[Scorer]) -> str | None:
    """The column that drives the verdict, without its `score_`."""
    columns = [column for scorer in scorers for column in scorer.columns]
    if spec.primary is None:
        return columns[0] if columns else None
    wanted = spec.primary.removeprefix("score_")
    if wanted not in columns:
        fix = f"write one of them, such as primary: {columns[0]}" if columns else "add scorers: [exact]"
        raise Misplaced(("primary",), f"primary: no scorer gives {shown(wanted)}{suggestion(wanted, columns)}", fix)
    return wanted


def checks_of(scorers: Sequence[Scorer]) -> list[Check]:
    """What is run in the workspaces of agents for scorers that read how it went."""
    return [scorer.check for scorer in scorers if scorer.check is not None]


def check_expected(cases: CaseTable, scorers: Sequence[Scorer]) -> None:
    """Check that every case has what the scorers compare answers with."""
    for scorer in scorers:
        if cases.without_expected is not None and scorer.needs_expected:
            raise BadInput(
                f'{cases.without_expected}: "expected" is missing; the scorer "{scorer.columns[0]}" needs it',
                "add it, or use a scorer that does not",
            )
        if not cases.has_expected and scorer.takes_expected:
            raise BadInput(
                f'no case has "expected", which the scorer "{scorer.columns[0]}" takes as a parameter',
                "add it to the cases, or give the parameter a default: expected=None",
            )
        if type(scorer).flaw is Scorer.flaw:  # to read all cases of a large file takes time
            continue
        for index, name in enumerate(cases.ids):
            problem = scorer.flaw(cases[index].expected)
            if problem is not None:
                raise BadInput(f"case {shown(name)}: expected{problem[0]}", problem[1])
