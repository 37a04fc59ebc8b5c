"""Checks for untrustworthy results: one function each, which reads the rows of a run and changes nothing.

A `serious` finding must be explained before the result can be believed; a `note` is worth knowing. Checks count in the
database and fetch text of a bounded sample only, so that a run of 100,000 trials takes seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from abreast.analyse.validate.cases import duplicate_inputs, leaked_answers
from abreast.analyse.validate.columns import costs, judge_without_labels, missing_values, scores_that_say_nothing
from abreast.analyse.validate.evidence import Evidence, ResultFinding, of_trials
from abreast.analyse.validate.outcomes import (
    doubtful_verdicts,
    lopsided_censoring,
    one_answer_for_all,
    own_failures,
    unbalanced_blocks,
    variants_that_answer_alike,
)
from abreast.analyse.validate.times import clocks, kind_of_run, order
from abreast.analyse.validate.tracked import TRACKED_CHECKS, TrackedCalls
from abreast.analyse.validate.variants import differences, models
from abreast.store import Store
from abreast.store.user_tables.tables import Condition, read

__all__ = ["CHECKS", "ResultFinding", "Validation", "validate", "validate_table"]

MOST_ROWS = 100_000  # of a tracked table


CHECKS: tuple[tuple[Callable[[Evidence], Iterator[ResultFinding]], str], ...] = (
    (duplicate_inputs, "duplicate inputs"),
    (leaked_answers, "prompts that give the answer away"),
    (scores_that_say_nothing, "scores that are missing, constant or out of range"),
    (judge_without_labels, "judges that are not calibrated by human labels"),
    (missing_values, "missing tags, returned values and parameters"),
    (costs, "unknown costs and tokens"),
    (one_answer_for_all, "one answer for all cases"),
    (variants_that_answer_alike, "variants that give the same answers"),
    (unbalanced_blocks, "blocks that cannot be compared"),
    (own_failures, "variants that hardly answer"),
    (lopsided_censoring, "timeouts, caps and refusals that hit one variant only"),
    (doubtful_verdicts, "verdicts that lost pairs could change, or whose intervals contradict each other"),
    (differences, "variants that differ in several things or in nothing"),
    (models, "models that change or do not differ"),
    (clocks, "impossible times"),
    (order, "variants that ran at different times"),
    (kind_of_run, "debug runs and retried failures"),
)


@dataclass(frozen=True, slots=True)
class Validation:
    """The findings of all checks, serious ones first, and what was looked for in how many trials."""

    run: dict[str, Any]
    trials: int
    looked_for: tuple[str, ...]
    findings: tuple[ResultFinding, ...]
    noun: str = "trial"

    @property
    def serious(self) -> int:
        return sum(finding.level == "serious" for finding in self.findings)


def validate(store: Store, run: str) -> Validation:
    evidence = Evidence(store, store.run(run))
    if evidence.trials:
        findings = [finding for check, _ in CHECKS for finding in check(evidence)]
    else:
        findings = [of_trials("balance", "serious", "no stored trials, so no result yet", evidence.resume, 0)]
    return Validation(evidence.run, evidence.trials, tuple(name for _, name in CHECKS), _serious_first(findings))


def validate_table(store: Store, table: str, track_id: str | None = None) -> Validation:
    """Run every check on the newest rows of a table that trackers wrote, of all trackers or of one."""
    condition = Condition.not_null("track_id") if track_id is None else Condition.matching({"track_id": track_id})
    tracked = TrackedCalls(store.quoted_address, table, read(store, table, condition, last=MOST_ROWS))
    findings = _serious_first([finding for check, _ in TRACKED_CHECKS for finding in check(tracked)])
    run = {"run": table if track_id is None else f"{track_id} in {table}", "simulated": False}
    return Validation(run, len(tracked.frame), tuple(name for _, name in TRACKED_CHECKS), findings, "row")


def _serious_first(findings: list[ResultFinding]) -> tuple[ResultFinding, ...]:
    return tuple(sorted(findings, key=lambda finding: finding.level == "note"))
