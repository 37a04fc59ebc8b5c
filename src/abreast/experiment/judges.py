"""The judges of an experiment, each with its target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from abreast.errors import BadInput
from abreast.execute.judging import Panel
from abreast.model import Variant
from abreast.plan import variant_digest
from abreast.scorers.base import Scorer
from abreast.scorers.judge import Judge
from abreast.targets import Target, build
from abreast.targets.python import reference_of


def seat(
    scorers: Sequence[Scorer],
    variants: Sequence[str],
    digests: Sequence[str],
    baseline: str,
    seed: int,
    shared: dict[str, Any],
    alone: bool = False,
    anew: bool = False,
) -> Panel | None:
    """The judges among these scorers, for variants of these names and digests; None if there is none."""
    judges = [scorer for scorer in scorers if isinstance(scorer, Judge)]
    if not judges:
        return None
    index, targets = variants.index(baseline), []
    for judge in judges:
        variant, target = _built(judge, seed, shared)
        judge.seat(variant_digest(variant, target), digests[index])
        targets.append(target)
    return Panel(judges, targets, len(variants), index, alone, anew)


def _built(judge: Judge, seed: int, shared: dict[str, Any]) -> tuple[Variant, Target]:
    variant = Variant(judge.name, judge.target, judge.params, judge.executor, judge.target_version)
    try:
        return variant, build(variant, seed, shared)
    except BadInput as error:
        message = error.message.replace(f'variant "{judge.name}"', f'scorer "{judge.name}"', 1)
        raise BadInput(message, error.fix) from error


def written_scorer(scorer: Any) -> Any:
    """A scorer as a spec file would have it; functions by name."""
    if isinstance(scorer, str):
        return scorer
    if not isinstance(scorer, Mapping):
        return reference_of(scorer)
    return {
        kind: {key: reference_of(value) if callable(value) else value for key, value in settings.items()}
        if isinstance(settings, Mapping)
        else settings
        for kind, settings in scorer.items()
    }
