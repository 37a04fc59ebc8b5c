"""A simulated experiment, decided by the analysis and the stopping rule of a real run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from abreast.analyse.decision.sequential import UntilDecided
from abreast.analyse.decision.verdicts import Decided, Decider, DecisionRule
from abreast.analyse.paired import TrialGrid, pair
from abreast.model import Case, Variant
from abreast.plan.plan import Plan
from abreast.spec.cases import CaseTable, load_cases

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Scores:
    """Scores of all variants, the baseline first: one row per case, one column per repeat, nan where one is lost."""

    variants: tuple[Floats, ...]
    groups: tuple[str, ...] | None = None

    @property
    def cases(self) -> int:
        return len(self.variants[0])


@dataclass(frozen=True)
class Stage:
    """The verdicts of one run, one per variant, and the number of cases it executed."""

    decided: tuple[Decided, ...]
    cases: int


def run(scores: Scores, rule: DecisionRule, seed: int, until_decided: bool = False) -> Stage:
    """Run all cases, in a random order of groups, or stop when every comparison is decided."""
    plan = _plan(scores, seed)
    order = np.array([plan.case(block) for block in range(0, plan.blocks, plan.repeats)])
    if not until_decided:
        return Stage(decide(scores, order, scores.cases, rule), scores.cases)
    executed = _cases_until_decided(plan, scores, order, _with_largest(rule, scores))
    counted = order[: _end_of_group(order, executed, scores.groups)]
    return Stage(decide(scores, counted, scores.cases, rule), executed)


def extend(scores: Scores, rule: DecisionRule, sizes: Sequence[int]) -> list[Stage]:
    """A series of runs, each with more cases than the one before and with the earlier cases first."""
    return [
        Stage(decide(scores, np.arange(size), size, replace(rule, only_sequence=index > 0)), size)
        for index, size in enumerate(sizes)
    ]


def decide(scores: Scores, counted: Ints, planned: int, rule: DecisionRule) -> tuple[Decided, ...]:
    """Compare each variant with the baseline on these cases, in the order in which they started."""
    sides = [_side(variant) for variant in scores.variants]
    paired = {(0, index): pair(sides[0], side, counted) for index, side in enumerate(sides) if index}

    def groups_of(_: tuple[int, int], cases: Ints) -> list[str] | None:
        return None if scores.groups is None else [scores.groups[case] for case in cases.tolist()]

    decider = Decider(dict.fromkeys(paired, planned), groups_of, _with_largest(rule, scores))
    return tuple(decider.decide(paired).values())


def _with_largest(rule: DecisionRule, scores: Scores) -> DecisionRule:
    return replace(rule, largest=max(Counter(scores.groups or ()).values(), default=1))


def _side(scores: Floats) -> TrialGrid:
    no, unknown = np.zeros(scores.shape, dtype=bool), np.full(scores.shape, np.nan)
    return TrialGrid(
        score=scores, present=~no, failed=np.isnan(scores), skipped=no, service_s=unknown, cost_usd=unknown
    )


def _cases_until_decided(plan: Plan, scores: Scores, order: Ints, rule: DecisionRule) -> int:
    stop = UntilDecided(plan, plan.variants[0].name, "score", rule)
    for case in order.tolist():
        for repeat in range(plan.repeats):
            for index, variant in enumerate(scores.variants):
                value = float(variant[case, repeat])
                stop.observe(plan.position(case, repeat, index), None if np.isnan(value) else value)
        if stop.decision is not None:
            return stop.decision.cases
    return scores.cases


def _end_of_group(order: Ints, executed: int, groups: tuple[str, ...] | None) -> int:
    """Without the cases of a group that is only partly executed."""
    if groups is None or executed == len(order):
        return executed
    started = [groups[case] for case in order[:executed].tolist()]
    return started.index(started[-1]) if groups[order[executed]] == started[-1] else executed


def _plan(scores: Scores, seed: int) -> Plan:
    names = [f"v{index}" for index in range(len(scores.variants))]
    variants = [Variant(name, "simulated") for name in names]
    return Plan(_case_table(scores.cases, scores.groups), variants, names, scores.variants[0].shape[1], seed)


@lru_cache(maxsize=64)
def _case_table(cases: int, groups: tuple[str, ...] | None) -> CaseTable:
    labels = groups or (None,) * cases
    return load_cases([Case(f"c{n}", f"q{n}", "yes", group=label) for n, label in enumerate(labels)], Path())
