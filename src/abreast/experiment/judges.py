"""The judges of an experiment and their targets."""

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
    retries_unusable: bool = False,
) -> Panel | None:
    """Return the judges among the scorers, prepared for these variants' names and digests; None without judges."""
    judges = [scorer for scorer in scorers if isinstance(scorer, Judge)]
    if not judges:
        return None
    index, targets = variants.index(baseline), []
    for judge in judges:
        variant, target = _build_target(judge, seed, shared)
        judge.seat(variant_digest(variant, target), digests[index])
        targets.append(target)
    return Panel(
        judges=judges,
        targets=targets,
        variants=len(variants),
        baseline=index,
        only_own_run=alone,
        retries_unusable=retries_unusable,
    )


def _build_target(judge: Judge, seed: int, shared: dict[str, Any]) -> tuple[Variant, Target]:
    variant = Variant(judge.name, judge.target, judge.params, judge.executor, judge.target_version)
    try:
        return variant, build(variant, seed, shared)
    except BadInput as error:
        message = error.message.replace(f'variant "{judge.name}"', f'scorer "{judge.name}"', 1)
        raise BadInput(message, error.fix) from error


def written_scorer(scorer: Any) -> Any:
    """Return a scorer as in a spec file, with functions by name."""
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


def estimate_calls(
    panel: Panel, missing: npt.NDArray[np.bool_], store: Store | None, run_id: int | None, reuses: Sequence[Reuse]
) -> tuple[JudgeEstimate, ...]:
    """Estimate the calls of each judge: for trials to execute, and for unjudged answers of the continued run and of
    earlier runs."""
    estimates = []
    missing_by_variant = missing.reshape(-1, panel.variants).sum(axis=0)
    for judge in panel.judges:
        judged = [index for index in range(panel.variants) if not judge.pairwise or index != panel.baseline]
        answers, mean = int(missing_by_variant[judged].sum()), None
        if store is not None:
            if run_id is not None:
                unjudged = panel.unjudged(store, run_id, judge)
                answers += sum(position % panel.variants in judged for position in unjudged)
            sources = [(reuse.run_id, reuse.source) for reuse in reuses if not reuse.failed and reuse.variant in judged]
            answers += store.queries.count_unscored(sources, judge.name, judge.version)
            mean = store.queries.mean_judge_cost(judge.name)
        calls = answers * len(judge.items)
        if calls:
            estimates.append(JudgeEstimate(judge.name, calls, None if mean is None else mean * calls))
    return tuple(estimates)
