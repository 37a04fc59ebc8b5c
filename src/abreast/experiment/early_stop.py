"""Early stopping of a run, which may be decided by what it has stored already, before anything is paid."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from abreast.analyse.decision.sequential import UntilDecided
from abreast.analyse.decision.verdicts import Rule

if TYPE_CHECKING:
    from abreast.experiment.setup import Setup

# Scores by an earlier version of the scorer do not count: those answers are about to be scored again.
_STORED = """
SELECT t.position, t.status, t.error_blame, s.value, s.position IS NOT NULL, t.reused_from IS NOT NULL
FROM trials t LEFT JOIN scores s ON s.run_id = t.run_id AND s.position = t.position AND s.name = ? AND s.version = ?
WHERE t.run_id = ?
"""


def until_decided(setup: Setup, run_id: int) -> UntilDecided:
    """The rule that ends the run early, with everything that the run has stored."""
    plan, spec, store, score = setup.plan, setup.spec, setup.store, setup.primary
    version = setup.primary_version
    assert score is not None
    rule = Rule(spec.margin or 0.0, spec.weight, plan.largest_group or 1, plan.final_spent, plan.population)
    stop = UntilDecided(plan, setup.baseline, score, rule, spec.min_cases)
    per_case = len(plan.variants) * plan.repeats
    whole = plan.done.reshape(-1, per_case).all(axis=1)
    own = np.zeros(len(plan.cases), dtype=np.bool_)
    for position, status, blame, value, is_scored, is_reused in store.each(_STORED, (score, version, run_id)):
        if not is_reused:
            own[position // per_case] = True
        if not plan.done[position] or (status == "ok" and not is_scored):
            continue  # it is executed again, or scored in a moment
        score_of_trial = 0.0 if status == "error" and blame == "variant" else value
        stop.observe(position, score_of_trial, status == "skipped")
    stop.begun = np.flatnonzero(own & ~whole).tolist()
    return stop
