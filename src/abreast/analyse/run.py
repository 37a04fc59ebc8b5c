"""The analysis of one run: always from its rows, the case as the unit, repeats averaged, pairs kept together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np

from abreast.analyse.calibration import Calibration, calibrate
from abreast.analyse.paired import Pairs, pair, side_of
from abreast.analyse.rows import Floats, Rows
from abreast.analyse.segments import Segment, adjusted, segments_of
from abreast.analyse.variants import VariantSummary, summarise
from abreast.stats import Look, Ranking, Verdict, alphas, bradley_terry, verdicts, watched
from abreast.store import Store

SHOWN = 10  # cases that differ most
DRAWN = 0.05  # the chance of error of a sequence that is only drawn, where too few cases are planned to use it


@dataclass(frozen=True, slots=True)
class CaseDifference:
    """What one case says: the mean scores of both sides."""

    case_id: str
    baseline: float
    variant: float

    @property
    def difference(self) -> float:
        return self.variant - self.baseline


@dataclass(frozen=True, slots=True)
class Comparison:
    """One contender against the baseline, by one score."""

    metric: str
    variant: str
    baseline: str
    verdict: Verdict
    margin: float  # the smallest difference that matters; 0 if none was given
    planned: int  # cases
    not_run: int  # cases, not run or not finished
    waiting: int  # cases that are complete and come after one that is not, so that they do not count yet
    stopped_after: int | None  # cases, if the run was stopped early; those that were not run are not needed
    repeats: int  # of the compared cases, planned
    differences: tuple[CaseDifference, ...]  # the largest first
    pairs: Pairs = field(repr=False)
    looks: tuple[Look, ...] = field(repr=False)  # how the interval closed in over the cases
    calibration: Calibration | None = None  # of a judge's score; None for other scorers

    @property
    def cases(self) -> int:
        return len(self.pairs.cases)


@dataclass(frozen=True, slots=True)
class Analysis:
    """Everything the reports say about a run."""

    run: dict[str, Any]
    rows: Rows = field(repr=False)
    margin: float
    stored: int
    variants: tuple[VariantSummary, ...]
    comparisons: tuple[Comparison, ...]  # by the primary score
    further: tuple[Comparison, ...]  # by the other scores
    segments: tuple[Segment, ...]
    ranking: Ranking | None = None  # of all variants, if all pairs were asked for

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
    def retried_failures(self) -> bool:
        """Whether the variants' own failures were rolled again on purpose."""
        return bool(self.rows.spec["options"].get("retry_failed"))


def analyse(store: Store, run: str, all_pairs: bool = False, margin: float | None = None) -> Analysis:
    """Read the rows of a run and compare its variants with the baseline, or each with each."""
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
    further = [
        comparison
        for name, score in rows.scores.items()
        if name != rows.primary
        for comparison in compared(rows, name, score, questions, accepted)
    ]
    return Analysis(
        rows.meta,
        rows,
        accepted,
        int(rows.present.sum()),
        tuple(summarise(rows, index) for index in range(len(names))),
        comparisons,
        tuple(further),
        _segments(rows, comparisons),
        _ranking(names, comparisons) if all_pairs and len(names) > 2 else None,
    )


def compared(
    rows: Rows, metric: str, score: Floats, questions: Sequence[tuple[int, int]], margin: float
) -> tuple[Comparison, ...]:
    """Contenders of one run, each (baseline, variant) by their indexes; together they are wrong in one of twenty."""
    sides = {index: side_of(rows, index, score) for index in {index for question in questions for index in question}}
    counted, planned = rows.counted, rows.planned_cases
    paired = {question: pair(sides[question[0]], sides[question[1]], counted) for question in questions}
    alpha, _ = alphas(max(1, planned), max(1, len(questions)))
    ended = len(counted) == planned
    looks, groups = {}, {}
    for question, pairs in paired.items():
        found = rows.groups(pairs.cases)
        looks[question] = watched(pairs.differences, alpha or DRAWN, margin or None, found, ended=ended)
        if found is not None:
            groups[question] = found
    words = verdicts_of(paired, looks if alpha else {}, groups, dict.fromkeys(paired, planned), margin)
    words, calibrations = calibrate(rows, metric, score, paired, words, margin)
    corrected = {question for question, calibration in calibrations.items() if calibration.estimate is not None}
    waiting = int(rows.complete.sum()) - len(counted)
    return tuple(
        Comparison(
            metric=metric,
            variant=rows.variants[question[1]],
            baseline=rows.variants[question[0]],
            verdict=words[question],
            margin=margin,
            planned=planned,
            not_run=max(0, planned - len(counted) - waiting),
            waiting=waiting,
            stopped_after=rows.stopped_after,
            repeats=len(pairs.cases) * rows.repeats,
            differences=largest(pairs, [rows.cases[case].id for case in largest_cases(pairs)]),
            pairs=pairs,
            looks=() if question in corrected else tuple(looks[question]),
            calibration=calibrations.get(question),
        )
        for question, pairs in paired.items()
    )


def verdicts_of(
    paired: Mapping[tuple[int, int], Pairs],
    looks: Mapping[tuple[int, int], Sequence[Look]],
    groups: Mapping[tuple[int, int], Sequence[str]],
    planned: Mapping[tuple[int, int], int],
    margin: float,
) -> dict[tuple[int, int], Verdict]:
    """The verdict on each question, in Holm's order."""
    if not paired:
        return {}
    found = verdicts(
        {_key(question): pairs.differences for question, pairs in paired.items()},
        {_key(question): max(1, number) for question, number in planned.items()},
        margin,
        {_key(question): found for question, found in groups.items()},
        seen={_key(question): seen[-1] for question, seen in looks.items() if seen},
        dropped={_key(question): pairs.dropped for question, pairs in paired.items()},
    )
    return {question: _clipped(found[_key(question)]) for question in paired}


def _key(question: tuple[int, int]) -> str:
    return f"{question[0]}:{question[1]}"


def largest_cases(pairs: Pairs) -> list[int]:
    """The cases that differ most."""
    return [int(pairs.cases[at]) for at in _largest(pairs)]


def _largest(pairs: Pairs) -> list[int]:
    differences = pairs.differences
    order = np.lexsort((pairs.cases, -np.abs(differences)))[:SHOWN]  # of equal ones, as they were written
    return [int(at) for at in order if differences[at]]


def largest(pairs: Pairs, ids: Sequence[str]) -> tuple[CaseDifference, ...]:
    """The cases that differ most; `ids` are theirs, in that order."""
    return tuple(
        CaseDifference(case_id, float(pairs.baseline[at]), float(pairs.variant[at]))
        for case_id, at in zip(ids, _largest(pairs), strict=True)
    )


def _clipped(result: Verdict) -> Verdict:
    """Scores lie in [0, 1], so no difference is larger than 1, whatever the formula says."""
    interval = result.interval
    if interval is None:
        return result
    inside = replace(interval, low=max(-1.0, interval.low), high=min(1.0, interval.high))
    return replace(result, interval=inside)


def _segments(rows: Rows, comparisons: Sequence[Comparison]) -> tuple[Segment, ...]:
    found: list[Segment] = []
    if comparisons and rows.tagged:
        for item in comparisons:
            groups = rows.groups(item.pairs.cases)
            found += segments_of(item.metric, item.variant, item.baseline, item.pairs, groups, rows.cases, rows.counted)
    return adjusted(found)


def _ranking(names: Sequence[str], comparisons: Sequence[Comparison]) -> Ranking | None:
    """All variants by their wins over each other, a tie being half a win; None if one never won, or nothing ran."""
    wins = np.zeros((len(names), len(names)))
    for item in comparisons:
        one, other, found = names.index(item.baseline), names.index(item.variant), item.verdict
        wins[other, one] = found.wins + found.ties / 2
        wins[one, other] = found.losses + found.ties / 2
    try:
        return bradley_terry(wins)
    except ValueError:
        return None
