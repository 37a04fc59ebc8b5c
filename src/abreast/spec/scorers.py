"""Build the scorers of a spec."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from abreast import scorers as scorer_factory
from abreast.errors import BadInput, suggestion
from abreast.model import Check
from abreast.scorers.base import Scorer
from abreast.scorers.human import HUMAN
from abreast.spec.cases import CaseTable
from abreast.spec.schema import Spec, SpecError
from abreast.spec.values import quote


def named_scorers(spec: Spec) -> list[tuple[Any, Mapping[str, Any]]]:
    """Yield each scorer of a spec as its name or function, and its settings."""
    result: list[tuple[Any, Mapping[str, Any]]] = []
    for index, item in enumerate(spec.scorers):
        at = ("scorers", index)
        kind, settings = item, None
        if isinstance(item, Mapping):
            if len(item) != 1:
                raise SpecError(at, f"scorers: {quote(item)} must have one key, its name", "use - number: {rel: 0.01}")
            ((kind, settings),) = item.items()
        if not isinstance(kind, str) and not callable(kind):
            raise SpecError(at, f"scorers: {quote(kind)} is not the name of a scorer", "use scorers: [exact]")
        if settings is not None and not isinstance(settings, Mapping):
            raise SpecError(
                at,
                f"scorers: the settings of {kind} must be a mapping, got {quote(settings)}",
                f"use - {kind}: {{name: mine}}",
            )
        result.append((kind, settings or {}))
    return result


def build_scorers(spec: Spec, base: Path) -> list[Scorer]:
    """Build the scorers of a spec and check that their columns are unique. Files are relative to `base`."""
    built: list[Scorer] = []
    columns: set[str] = set()
    for index, (kind, settings) in enumerate(named_scorers(spec)):
        try:
            scorer = scorer_factory.build(kind, settings, base)
        except BadInput as error:
            raise SpecError(("scorers", index), error.message, error.fix) from error
        for column in scorer.columns:
            if column == HUMAN and scorer.scored_by != "people":
                fix = f"give it another name: - {kind}: {{name: mine}}"
                raise SpecError(("scorers", index), 'scorers: the name "human" is reserved for human labels', fix)
            if column in columns:
                raise SpecError(
                    ("scorers", index),
                    f'scorers: two produce the column "score_{column}"',
                    f"give one of them another name: - {kind}: {{name: second}}",
                )
            columns.add(column)
        built.append(scorer)
    return built


def primary_column(spec: Spec, scorers: Sequence[Scorer]) -> str | None:
    """The column that drives the verdict, without `score_`."""
    columns = [column for scorer in scorers for column in scorer.columns]
    primary = (columns[0] if columns else None) if spec.primary is None else spec.primary.removeprefix("score_")
    if primary == HUMAN and spec.until_decided:
        raise SpecError(("until_decided",), "until_decided: people label the answers after the run", "omit it")
    if spec.primary is None or primary is None:
        return primary
    if primary not in columns:
        fix = f"use one of them, such as primary: {columns[0]}" if columns else "add scorers: [exact]"
        raise SpecError(
            ("primary",), f"primary: no scorer produces {quote(primary)}{suggestion(primary, columns)}", fix
        )
    return primary


def checks_of(scorers: Sequence[Scorer]) -> list[Check]:
    """The commands that scorers need to be run in the workspaces of agents."""
    return [scorer.check for scorer in scorers if scorer.check is not None]


def check_expected(cases: CaseTable, scorers: Sequence[Scorer]) -> None:
    """Refuse cases without the expected answers that scorers need."""
    for scorer in scorers:
        if cases.without_expected is not None and scorer.needs_expected:
            raise BadInput(
                f'{cases.without_expected}: "expected" is missing; the scorer "{scorer.columns[0]}" needs it',
                "add it, or use a scorer that does not",
            )
        if not cases.has_expected and scorer.takes_expected:
            raise BadInput(
                f'no case has "expected", which is a parameter of the scorer "{scorer.columns[0]}"',
                "add it to the cases, or give the parameter a default: expected=None",
            )
        if type(scorer).flaw is Scorer.flaw:  # do not read all cases of a large file for nothing
            continue
        for index, name in enumerate(cases.ids):
            problem = scorer.flaw(cases[index].expected)
            if problem is not None:
                raise BadInput(f"case {quote(name)}: expected{problem[0]}", problem[1])
