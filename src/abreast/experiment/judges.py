"""The judges of an experiment, each with its target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from abreast.errors import BadInput
from abreast.execute.sources.judging import Panel
from abreast.model import Variant
from abreast.plan.keys import variant_digest
from abreast.preflight.estimate import JudgeEstimate
from abreast.scorers.judge import Judge
from abreast.targets import Target, build
from abreast.targets.python import reference_of

if TYPE_CHECKING:
    from abreast.scorers.base import Scorer
    from abreast.store import Reuse, Store


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
    return Panel(
        judges=judges,
        targets=targets,
        variants=len(variants),
        baseline=index,
        only_own_run=alone,
        retries_unusable=anew,
    )


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


def calls_of(
    panel: Panel, left: npt.NDArray[np.bool_], store: Store | None, run_id: int | None, reuses: Sequence[Reuse]
) -> tuple[JudgeEstimate, ...]:
    """What judges will be asked for: answers to come, answers of the run that goes on, and answers of earlier runs that
    they have not judged."""
    found = []
    of_each = left.reshape(-1, panel.variants).sum(axis=0)
    for judge in panel.judges:
        judged = [index for index in range(panel.variants) if not judge.pairwise or index != panel.baseline]
        answers, mean = int(sum(of_each[index] for index in judged)), None
        if store is not None:
            if run_id is not None:
                known = panel.unjudged(store, run_id, judge)
                answers += sum(position % panel.variants in judged for position in known)
            taken = [(one.run_id, one.source) for one in reuses if not one.failed and one.variant in judged]
            answers += store.queries.count_unscored(taken, judge.name, judge.version)
            mean = store.queries.mean_judge_cost(judge.name)
        calls = answers * len(judge.items)
        if calls:
            found.append(JudgeEstimate(judge.name, calls, None if mean is None else mean * calls))
    return tuple(found)
