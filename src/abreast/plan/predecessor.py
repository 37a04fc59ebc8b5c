"""Find the earlier run that a new one extends, and whether any run so extended has used the final interval.

A run and those it extends share an experiment, its variants with their digests, the baseline and the primary score.
Cases of the earlier run keep their order and come first, so that the confidence sequence continues. The record is
stored with the new run: later changes to the store do not change its order.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache, cached_property
from typing import Any

from abreast.plan.plan import Plan
from abreast.spec.schema import Spec
from abreast.stats.intervals.population import ALL_CASES, THESE_CASES, Population, units_needed
from abreast.store import Store
from abreast.store.runs.provenance import Extension

Identity = tuple[str, str]
"""Id and input digest of a case."""


class _EarlierRun:
    """A run of the same variants, compared with a new plan."""

    def __init__(self, store: Store, row: Mapping[str, Any], indexes: Callable[[], Mapping[Identity, int]]) -> None:
        self.name = str(row["run"])
        self.is_complete = row["status"] == "complete"
        self.provenance: Mapping[str, Any] = json.loads(row["provenance"])
        self.extension = Extension.read(self.provenance)
        self._store, self._run_id, self._indexes = store, int(row["run_id"]), indexes
        spec = json.loads(row["spec"])
        self._repeats, self._weight = int(spec.get("repeats", 1)), str(spec.get("weight", "case"))
        self._planned_trials = int(row["planned_trials"])

    @cached_property
    def digests(self) -> dict[str, str]:
        return self._store.queries.variant_digests(self._run_id)

    @property
    def _per_case(self) -> int:
        return max(1, self._repeats * len(self.digests))

    @property
    def planned_cases(self) -> int:
        return self._planned_trials // self._per_case

    @cached_property
    def order(self) -> tuple[int, ...]:
        """Cases of the new plan on which a verdict on this run could be based: complete without a gap, in order."""
        order, indexes = [], self._indexes()
        started = self._store.queries.case_turns(self._run_id, self._repeats)
        for turn, (case_id, input_digest, stored_turn, outcomes) in enumerate(started):
            if stored_turn != turn or outcomes < self._per_case:
                break
            if (index := indexes.get((case_id, input_digest))) is not None:
                order.append(index)
        return tuple(order)

    def is_repeated_by(self, plan: Plan, weight: str) -> bool:
        """Whether the plan has the same cases in the same groups, as many repeats and the same weight."""
        cases = plan.cases
        if (self._repeats, self._weight, self.planned_cases) != (plan.repeats, weight, len(cases)):
            return False
        if self.provenance.get("data_hash") == cases.hash:
            return True
        return len(self.order) == len(cases) and all(
            self._groups.get(name) == group for name, group in zip(cases.ids, cases.groups, strict=True)
        )

    @cached_property
    def _groups(self) -> dict[str, str | None]:
        """Groups by case id."""
        return {case.id: case.group for case in self._store.queries.stored_cases(self._run_id)}

    def spent_at(self, population: Population) -> int | None:
        """Planned cases of the first run that used the final interval for this population."""
        if self.extension is not None and self.extension.final_spent:
            return self.extension.spent_at
        could_decide = self.planned_cases >= units_needed(max(1, len(self.digests) - 1))
        if self.provenance.get("population", ALL_CASES) == THESE_CASES:
            could_decide = population == THESE_CASES
        return self.planned_cases if self.is_complete and could_decide else None


def find_extension(plan: Plan, store: Store, spec: Spec, primary: str | None, baseline: str) -> Extension | None:
    """Find the earlier run that this plan extends; None if it shares no case with any, or repeats a complete one."""
    if primary is None or len(plan.variants) < 2:
        return None
    cases, runs = plan.cases, _earlier_runs(plan, store, spec.name, primary, baseline)
    for run in runs:
        if run.is_complete and run.is_repeated_by(plan, spec.weight):  # the same data, so the same rule
            return replace(run.extension, order=run.order) if run.extension else None
    extended = _longest(run for run in runs if not run.is_repeated_by(plan, spec.weight))
    if extended is None:
        return None
    spent = (at for run in (extended, *runs) if run.order and (at := run.spent_at(plan.population)) is not None)
    return Extension(
        run=extended.name,
        cases=len(extended.order),
        added=len(cases) - len(extended.order),
        spent_at=next(spent, None),
        grown_groups=_grown_groups(plan, extended),
        largest_group=extended.provenance.get("largest_group"),
        order=(_longest(runs) or extended).order,
    )


def _earlier_runs(plan: Plan, store: Store, experiment: str, primary: str, baseline: str) -> list[_EarlierRun]:
    """Finished and stopped runs of the same contenders, the newest first."""
    cases = plan.cases
    indexes = cache(lambda: {(name, cases.input_digest(index)): index for index, name in enumerate(cases.ids)})
    digests = {variant.name: digest for variant, digest in zip(plan.variants, plan.digests, strict=True)}
    runs = [
        _EarlierRun(store, row, indexes)
        for row in reversed(store.runs())
        if (row["experiment"], row["primary_score"], row["baseline"]) == (experiment, primary, baseline)
        and row["status"] in ("complete", "stopped_early", "incomplete")
        and not row["debug"]
    ]
    return [run for run in runs if run.digests == digests]


def _longest(runs: Iterable[_EarlierRun]) -> _EarlierRun | None:
    """The run with most cases of the plan, the first of several; None if none has any."""
    longest, most = None, 0
    for run in runs:
        if run.planned_cases > most and len(run.order) > most:  # the order is expensive to read
            longest, most = run, len(run.order)
    return longest


def _grown_groups(plan: Plan, extended: _EarlierRun) -> int:
    """Number of groups that decided about the extended run and have new cases."""
    order, groups = extended.order, plan.cases.groups
    judged = {groups[index] for index in order} - {None}
    if not extended.is_complete:
        judged.discard(groups[order[-1]])  # a group counts only once it is complete
    return len(judged & {groups[index] for index in set(range(len(groups))) - set(order)})
