"""The scorers that a spec names, built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from abreast import scorers as scorer_room
from abreast.errors import BadInput, suggestion
from abreast.scorers.base import Scorer
from abreast.spec.schema import Spec


def build_scorers(spec: Spec) -> list[Scorer]:
    """The scorers of a spec, each column given once."""
    built: list[Scorer] = []
    for item in spec.scorers:
        if isinstance(item, Mapping):
            if len(item) != 1:
                raise BadInput(f"scorers: {item!r} must have one key, its name", "write - number: {rel: 0.01}")
            ((kind, settings),) = item.items()
        else:
            kind, settings = item, {}
        if not isinstance(kind, str) and not callable(kind):
            raise BadInput(f"scorers: {kind!r} is not the name of a scorer")
        if settings is not None and not isinstance(settings, Mapping):
            raise BadInput(f"scorers: the settings of {kind} must be a mapping, got {settings!r}")
        built.append(scorer_room.build(kind, settings or {}))
    columns = [column for scorer in built for column in scorer.columns]
    for column in columns:
        if columns.count(column) > 1:
            raise BadInput(f'scorers: two give the column "score_{column}"', "give one of them another name:")
    return built


def primary_column(spec: Spec, scorers: Sequence[Scorer]) -> str | None:
    """The column that drives the verdict, without its `score_`."""
    columns = [column for scorer in scorers for column in scorer.columns]
    if spec.primary is None:
        return columns[0] if columns else None
    wanted = spec.primary.removeprefix("score_")
    if wanted not in columns:
        raise BadInput(f'primary: no scorer gives "{wanted}"{suggestion(wanted, columns)}')
    return wanted


def check_expected(place: str | None, scorers: Sequence[Scorer]) -> None:
    for scorer in scorers:
        if place is not None and scorer.needs_expected:
            raise BadInput(
                f'{place}: "expected" is missing; the scorer "{scorer.columns[0]}" needs it',
                "add it, or use a scorer that does not",
            )
