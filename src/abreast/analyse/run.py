"""The analysis of one run from its rows: paired by case, repeats averaged."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np

from abreast.analyse.answer_fields import every_mcp_call_failed
from abreast.analyse.decision.verdicts import Censoring, Decided, Decider, DecisionRule, Question, lopsided
from abreast.analyse.human_labels.calibration import Calibration, calibrate
from abreast.analyse.paired import Pairs, pair, trial_grid
from abreast.analyse.rows import Floats, Rows
from abreast.analyse.segments import Segment, adjusted, segments_of
from abreast.analyse.variants import VariantSummary, compared_trials, error_counts, summarise
from abreast.scorers.human import HUMAN
from abreast.stats import Look, Ranking, Verdict, Weight, bradley_terry
from abreast.stats.calibration import case_weights
from abreast.stats.intervals.population import THESE_CASES
from abreast.store import Store
from abreast.text import dollars, many

LARGEST = 10  # cases that differ most
CHANGED = 100  # changed cases that a comparison keeps


@dataclass(frozen=True, slots=True)
class CaseDifference:
    """The mean scores of both sides in one case."""

    case_id: str
    baseline: float
    variant: float


@dataclass(frozen=True, slots=True)
class MissingEvidence:
    """Cases, or repeats of each case, that a comparison lacks."""

    count: int
    noun: str
    usd: float | None  # their cost on both sides, if known

    def __str__(self) -> str:
        price = f", about {dollars(self.usd)}" if self.usd else ""
        return f"{self.count:,} more {self.noun}{'' if self.count == 1 else 's'}{price}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One contender against the baseline, by one score."""

    metric: str
    variant: str
    baseline: str
    verdict: Verdict
    on_these_cases: Verdict | None = None  # set if there are repeats and `verdict` is about cases in general
    case_noun: str
    margin: float  # the smallest difference that matters; 0 for none
    weight: Weight  # whether every case or every group of cases weighs the same
    planned: int  # cases
    not_run: int = 0  # cases, not run or not finished
    waiting: int = 0  # complete cases that do not count yet because an earlier case is incomplete
    stopped_after: int | None = None  # cases, if the run was stopped early
    repeats: int  # planned trials of a variant in the compared cases
    comparisons: int  # decided together
    is_grouped: bool  # cases have groups
    scores: tuple[float, float] | None  # mean scores of baseline and variant on the compared cases
    bounds: tuple[float, float] | None  # the difference with lost pairs counted at their worst and at their best
    changed: tuple[CaseDifference, ...]  # cases with a difference, the largest first, at most `CHANGED`
    censoring: tuple[Censoring, ...]  # limits that hit one side more often than the other
    pairs: Pairs = field(repr=False)
    looks: tuple[Look, ...] = field(default=(), repr=False)  # interim looks, as the number of cases grew
    calibration: Calibration | None = None  # agreement of a judge with people; None for other scorers
    is_repeatable: bool = False  # whether the run can have more repeats: it is one run, and of our own

    @property
    def cases(self) -> int:
        return len(self.pairs.cases)

    @property
    def differences(self) -> tuple[CaseDifference, ...]:
        """The cases that differ most."""
        return self.changed[:LARGEST]

    @property
    def planned_repeats(self) -> int:
        return int(self.pairs.repeats.baseline.shape[1])

    @property
    def missing(self) -> MissingEvidence | None:
        """Evidence that an inconclusive comparison lacks to detect its effect; None if unknown, or if it has enough."""
        result = self.verdict
        if result.word != "inconclusive" or result.needed is None or result.demoted:
            return None
        is_fixed = result.population == THESE_CASES
        count = result.needed - (self.planned_repeats if is_fixed else self.cases)
        if count <= 0:
            return None
        repeats = count * (self.cases if is_fixed else self.planned_repeats)
        usd = self.pairs.usd_per_repeat
        return MissingEvidence(count, "repeat" if is_fixed else self.case_noun, None if usd is None else usd * repeats)

    @property
    def these_cases(self) -> str:
        """`these 3 prompts`, `this prompt`."""
        return f"this {self.case_noun}" if self.cases == 1 else f"these {self.cases:,} {self.case_noun}s"

    @property
    def reason(self) -> str:
        """The reason why there is no verdict, with the experiment's own word for a case."""
        return re.sub(r"\bcase(?=s?\b)", lambda _: self.case_noun, self.verdict.reason)


@dataclass(frozen=True, slots=True)
class Analysis:
    run: dict[str, Any]
    rows: Rows = field(repr=False)
    margin: float
    stored: int
    variants: tuple[VariantSummary, ...]
    comparisons: tuple[Comparison, ...]  # comparisons by the primary score
    further: tuple[Comparison, ...]  # comparisons by the other scores
    segments: tuple[Segment, ...]
    ranking: Ranking | None = None  # ranking of all variants, with `all_pairs`

    @property
    def score_name(self) -> str | None:
        return self.rows.primary

    @property
    def planned(self) -> int:
        return self.rows.planned

    @property
    def simulated(self) -> bool:
        return bool(self.run["simulated"])

    @property
    def is_without_answer(self) -> bool:
        return bool(self.stored) and all(summary.ok == 0 for summary in self.variants)

    @property
    def is_without_score(self) -> bool:
        """Whether there are answers and a scorer, but no score."""
        unscored = all(summary.unscored == summary.ok for summary in self.variants)
        return self.score_name is not None and unscored and any(summary.ok for summary in self.variants)

    @property
    def is_unlabelled(self) -> bool:
        """Whether people give the score, and have not labelled enough answers for any comparison."""
        awaits = self.score_name == HUMAN and any(summary.unscored for summary in self.variants)
        return awaits and (self.is_without_score or self.is_without_comparison)

    @property
    def is_without_comparison(self) -> bool:
        return bool(self.comparisons) and all(item.verdict.word == "no comparison" for item in self.comparisons)

    @property
    def retried_failures(self) -> bool:
        """Whether the variants' own failures were retried (`--retry-failed`)."""
        return bool(self.rows.spec["options"].get("retry_failed"))


def analyse(store: Store, run: str, all_pairs: bool = False, margin: float | None = None) -> Analysis:
    """Read the rows of a run and compare its variants with the baseline; with `all_pairs`, also with each other."""
    rows = Rows(store, run)
    names, base = rows.variants, rows.variants.index(rows.meta["baseline"])
    others = [index for index in range(len(names)) if index != base]
    questions = [(base, index) for index in others]
    if all_pairs:
        questions += list(combinations(others, 2))
    accepted = float(rows.spec.get("margin") or 0.0) if margin is None else margin
    comparisons: tuple[Comparison, ...] = ()
    if rows.primary:
        comparisons = compared(rows, rows.primary, rows.score, questions, accepted)
    further: list[Comparison] = []
    for name, score in rows.scores.items():
        if name != rows.primary:
            further += compared(rows, name, score, questions, accepted)
    in_tables = compared_trials(rows, base)
    tagged = comparisons if comparisons and rows.tagged else ()
    return Analysis(
        run=rows.meta,
        rows=rows,
        margin=accepted,
        stored=int(rows.present.sum()),
        variants=tuple(summarise(rows, index, in_tables) for index in range(len(names))),
        comparisons=comparisons,
        further=tuple(further),
        segments=adjusted([segment for item in tagged for segment in segments_of(item, rows)]),
        ranking=_ranking(rows, comparisons) if all_pairs and len(names) > 2 else None,
    )


def compared(
    rows: Rows, metric: str, score: Floats, questions: Sequence[Question], margin: float
) -> tuple[Comparison, ...]:
    """Compare variants of one run; a question is the indexes of (baseline, variant).

    Together the verdicts have an error rate of at most 5 %.
    """
    sides = {index: trial_grid(rows, index, score) for index in {index for question in questions for index in question}}
    counted, planned = rows.counted, rows.planned_cases
    groups = rows.groups(counted)
    paired = {question: pair(sides[question[0]], sides[question[1]], counted, groups) for question in questions}
    rule = DecisionRule(margin, rows.weight, rows.largest_group, rows.final_spent, rows.population)
    reasons = {question: why_incomparable(*((rows, index) for index in question)) for question in paired}
    impossible = {question: no_comparison(reason, planned) for question, reason in reasons.items() if reason}
    answered = {question: pairs for question, pairs in paired.items() if question not in impossible}
    is_order_known = rows.imported is None  # imported runs have no order of starts
    decider = Decider(dict.fromkeys(answered, planned), lambda _, cases: rows.groups(cases), rule, is_order_known)
    on_these_cases = decider.decide_on_these_cases(answered) if rows.repeats > 1 and not rows.chained else {}
    judged = decider.decide(answered) | {
        question: Decided(verdict, (), None, None) for question, verdict in impossible.items()
    }
    decided, calibrations = calibrate(rows, metric, score, paired, judged, margin)
    waiting = int(rows.complete.sum()) - len(counted)
    return tuple(
        Comparison(
            metric=metric,
            variant=rows.variants[question[1]],
            baseline=rows.variants[question[0]],
            verdict=decided[question].verdict,
            on_these_cases=on_these_cases.get(question),
            case_noun=rows.case_noun,
            margin=margin,
            weight=rows.weight,
            planned=planned,
            not_run=max(0, planned - len(counted) - waiting),
            waiting=waiting,
            stopped_after=rows.stopped_after,
            repeats=len(pairs.cases) * rows.repeats,
            comparisons=len(paired),
            is_grouped=groups is not None,
            scores=decided[question].scores,
            bounds=decided[question].bounds,
            changed=() if question in impossible else largest(pairs, lambda case: rows.cases[case].id),
            censoring=lopsided(*(error_counts(rows, index) for index in question)),
            pairs=pairs,
            looks=decided[question].looks,
            calibration=calibrations.get(question),
            is_repeatable=rows.imported is None,
        )
        for question, pairs in paired.items()
    )


def why_incomparable(*sides: tuple[Rows, int]) -> str:
    """Explain why these variants of runs cannot be compared; empty if they can."""
    reasons = (never_answered(rows, variant) or every_mcp_call_failed(rows, variant) for rows, variant in sides)
    return "; ".join(filter(None, reasons))


def no_comparison(reason: str, planned: int) -> Verdict:
    """The verdict `no comparison`, without interval and p value."""
    return Verdict("no comparison", None, wins=0, losses=0, ties=0, reason=reason, planned=planned)


def never_answered(rows: Rows, variant: int) -> str:
    """`b failed in 100 of 100 trials (crash: …)`; empty if a trial was answered, or none failed."""
    of_variant = rows.variant == variant
    failed = int((of_variant & rows.error).sum())
    if not failed or (of_variant & rows.ok).any():
        return ""
    kind, message, _ = rows.first_error(variant)
    trials = int((of_variant & rows.present).sum())
    return f"{rows.variants[variant]} failed in {failed:,} of {many(trials, 'trial')} ({kind}: {message})"


def largest_cases(pairs: Pairs) -> list[int]:
    return [int(pairs.cases[at]) for at in _largest(pairs, LARGEST)]


def _largest(pairs: Pairs, most: int) -> list[int]:
    differences = pairs.differences
    order = np.lexsort((pairs.cases, -np.abs(differences)))[:most]  # ties in the order of the plan
    return [int(at) for at in order if differences[at]]


def largest(pairs: Pairs, case_id: Callable[[int], str]) -> tuple[CaseDifference, ...]:
    """The cases that differ, the largest differences first, with their scores."""
    return tuple(
        CaseDifference(case_id(int(pairs.cases[at])), float(pairs.baseline[at]), float(pairs.variant[at]))
        for at in _largest(pairs, CHANGED)
    )


def _ranking(rows: Rows, comparisons: Sequence[Comparison]) -> Ranking | None:
    """All variants ranked by wins over each other, ties counting half; None if one never won or is not compared."""
    names, wins = rows.variants, np.zeros((len(rows.variants), len(rows.variants)))
    if any(item.verdict.word == "no comparison" for item in comparisons):
        return None
    for item in comparisons:
        first, second = names.index(item.baseline), names.index(item.variant)
        groups = rows.groups(item.pairs.cases) if rows.weight == "group" else None
        weights = np.ones(item.cases) if groups is None else case_weights(groups, "group")
        differences = item.pairs.differences
        half_ties = float(weights[differences == 0].sum()) / 2
        wins[second, first] = float(weights[differences > 0].sum()) + half_ties
        wins[first, second] = float(weights[differences < 0].sum()) + half_ties
    try:
        return bradley_terry(wins)
    except ValueError:
        return None
