"""Early stopping of a run: what it has stored already is told first, so that it may decide before anything is paid."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from abreast.analyse.decision.sequential import UntilDecided
from abreast.analyse.decision.verdicts import Rule

if TYPE_CHECKING:
    from abreast.plan.plan import Plan
    from abreast.spec.schema import Spec
    from abreast.store import Store


def until_decided(
    spec: Spec, plan: Plan, baseline: str, score: str, version: str, store: Store, run_id: int
) -> UntilDecided:
    """Who decides, with everything that the run has stored."""
    rule = Rule(spec.margin or 0.0, spec.weight, plan.largest_group or 1, plan.final_spent, plan.population)
    stop = UntilDecided(plan, baseline, score, rule, spec.min_cases)
    per_case = len(plan.variants) * plan.repeats
    whole = plan.done.reshape(-1, per_case).all(axis=1)
    own = np.zeros(len(plan.cases), dtype=np.bool_)
    # Scores by an earlier version of the scorer do not count: those answers are about to be scored again.
    outcomes = store.queries.outcomes(run_id, score, version)
    for position, status, blame, value, is_scored, is_reused in outcomes:
        if not is_reused:
            own[position // per_case] = True
        if not plan.done[position] or (status == "ok" and not is_scored):
            continue  # it is executed again, or scored in a moment
        score_of_trial = 0.0 if status == "error" and blame == "variant" else value
        stop.observe(position, score_of_trial, status == "skipped")
    stop.begun = np.flatnonzero(own & ~whole).tolist()
    return stop
