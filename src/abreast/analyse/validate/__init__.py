"""What makes a result untrustworthy: one function per check, each reads the rows of one run and changes nothing.

`serious` is what would have to be explained before anybody believes the result; a `note` is worth knowing. The checks
count in the database and fetch text only of a bounded sample, so that a run of 100,000 trials takes seconds.
"""

from __future__ import annotations

import shlex
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
    (judge_without_labels, "judges that no human labels calibrate"),
    (missing_values, "missing tags, returned values and parameters"),
    (costs, "unknown costs and tokens"),
    (one_answer_for_all, "one answer for all cases"),
    (variants_that_answer_alike, "variants that answer alike"),
    (unbalanced_blocks, "blocks that cannot be compared"),
    (own_failures, "variants that hardly answer"),
    (lopsided_censoring, "timeouts, caps and refusals that fall on one side"),
    (doubtful_verdicts, "verdicts that lost pairs could change, or whose intervals contradict"),
    (differences, "variants that differ in several things or in nothing"),
    (models, "models that change or do not differ"),
    (clocks, "impossible times"),
    (order, "variants asked at different times"),
    (kind_of_run, "debug runs and retried failures"),
)


@dataclass(frozen=True, slots=True)
class Validation:
    """What was looked for in how many trials, and what was found, the serious first."""

    run: dict[str, Any]
    trials: int
    looked_for: tuple[str, ...]
    findings: tuple[ResultFinding, ...]
    noun: str = "trial"

    @property
    def serious(self) -> int:
        return sum(finding.level == "serious" for finding in self.findings)


def validate(store: Store, run: str) -> Validation:
    """Make every check on one run."""
    evidence = Evidence(store, store.run(run))
    found = [finding for check, _ in CHECKS for finding in check(evidence)] if evidence.trials else []
    if not evidence.trials:
        message, fix = "no trial is stored: there is no result yet", f"abreast resume {evidence.run['run']}"
        found = [of_trials("balance", "serious", message, fix, 0)]
    found.sort(key=lambda finding: finding.level == "note")
    return Validation(evidence.run, evidence.trials, tuple(what for _, what in CHECKS), tuple(found))


def validate_table(store: Store, table: str, track_id: str | None = None) -> Validation:
    """Make every check on what trackers wrote into a table, all of them or one; the newest rows of a large one."""
    condition = Condition.known("track_id") if track_id is None else Condition.matching({"track_id": track_id})
    tracked = TrackedCalls(shlex.quote(str(store.path)), table, read(store, table, condition, last=MOST_ROWS))
    found = [finding for check, _ in TRACKED_CHECKS for finding in check(tracked)]
    found.sort(key=lambda finding: finding.level == "note")
    name = table if track_id is None else f"{track_id} in {table}"
    looked_for = tuple(what for _, what in TRACKED_CHECKS)
    return Validation({"run": name, "simulated": False}, len(tracked.frame), looked_for, tuple(found), "row")
