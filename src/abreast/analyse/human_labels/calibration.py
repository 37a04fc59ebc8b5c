"""Judged comparisons corrected by human labels on a random sample of the cases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from abreast.analyse.decision.verdicts import Decided, Question, stands
from abreast.analyse.human_labels.labels import (
    Labels,
    LabelSample,
    judge_of,
    random_order,
    read_labels,
    recorded_sample,
)
from abreast.analyse.paired import Pairs
from abreast.analyse.rows import Bools, Floats, Ints, Rows
from abreast.scorers.judge import Judge
from abreast.stats import Agreement, CorrectedEstimate, Interval, agreement, labels_needed, ppi
from abreast.stats.calibration import LEAST_GROUPS, LEAST_LABELS, case_weights, corrected_mean, level_so_far
from abreast.stats.verdict import word_of
from abreast.text import many

CONFIDENCE = 0.95  # confidence of all comparisons by one score together
MOST_GRADES = 21  # most grades of a scale in whole numbers; finer scales are compared in tenths


@dataclass(frozen=True, slots=True)
class Calibration:
    """The support or correction of a judged comparison by human labels."""

    run: str
    labels: int  # cases that are labelled on both sides
    skipped: int  # sampled cases that the labeller declined to label
    sample: int  # sampled cases
    enlarged: bool = False  # whether the sample was enlarged later
    estimate: CorrectedEstimate | None = None  # None: the verdict is not corrected, and `reason` says why
    reason: str = ""
    is_final: bool = False  # whether no further labels would change the reason
    scores: tuple[float, float] | None = None  # corrected, of baseline and variant; they differ by the estimate
    agreement: Agreement | None = None
    by_side: tuple[Agreement, Agreement] | None = None
    needed: int | None = None  # number of labels that would decide; None if labels alone cannot

    @property
    def pending(self) -> int:
        """Sampled cases that are neither labelled nor skipped yet."""
        return self.sample - self.labels - self.skipped


def calibrate(
    rows: Rows,
    metric: str,
    score: Floats,
    pairs: Mapping[Question, Pairs],
    decided: Mapping[Question, Decided],
    margin: float,
) -> tuple[dict[Question, Decided], dict[Question, Calibration]]:
    """The decisions, corrected where there are enough labels, and the calibration of each comparison.

    For other scores than a judge's, the decisions are unchanged and there are no calibrations.
    """
    judge = judge_of(rows.spec, metric)
    if judge is None:
        return dict(decided), {}
    calibrator = _Calibrator(rows, metric, score, judge, len(pairs))
    calibrations = {question: calibrator.calibration(question, pairs[question], margin) for question in pairs}
    corrected = {question: _corrected(decided[question], calibrations[question], margin) for question in pairs}
    return corrected, calibrations


def uncalibrated(rows: Rows, metric: str, reason: str) -> Calibration | None:
    """The calibration of a comparison that labels cannot correct; None if the score is not a judge's."""
    if not judge_of(rows.spec, metric):
        return None
    return Calibration(rows.meta["run"], 0, 0, 0, reason=reason, is_final=True)


def _corrected(decided: Decided, calibration: Calibration, margin: float) -> Decided:
    """The decision by the corrected interval, which holds for one look at the end of the run."""
    estimate, verdict = calibration.estimate, decided.verdict
    if estimate is None or verdict.interval is None:
        return decided
    interval = Interval(estimate.estimate, estimate.low, estimate.high, round(estimate.level, 12))
    word, demoted = word_of(interval, margin), None
    if decided.bounds is not None:  # lost pairs move the corrected interval as they would move the judge's
        low, high = (bound - verdict.interval.estimate for bound in decided.bounds)
        worst, best = (replace(interval, low=interval.low + by, high=interval.high + by) for by in (low, high))
        if not stands(word, word_of(worst, margin), word_of(best, margin)):
            word, demoted = "inconclusive", word
    corrected = replace(
        verdict,
        word=word,
        demoted=demoted,
        interval=interval,
        reason="",
        p=estimate.p,
        needed=None,
        look=None,
        final=estimate,
    )
    return replace(decided, verdict=corrected, looks=(), scores=calibration.scores)


class _Calibrator:
    def __init__(self, rows: Rows, metric: str, score: Floats, judge: Judge, comparisons: int) -> None:
        self._rows, self._score, self._judge = rows, score, judge
        self._level = 1 - (1 - CONFIDENCE) / max(1, comparisons)
        self._sample = recorded_sample(rows) or LabelSample(0, ())
        self._labels: Labels | None = read_labels(rows, metric) if self._sample.size else None
        self._sampled = np.zeros(rows.planned_cases, dtype=bool)
        if self._labels is not None:
            self._sampled[random_order(rows, self._sample.seed, score)[: self._sample.size]] = True

    def calibration(self, question: Question, pairs: Pairs, margin: float) -> Calibration:
        if self._labels is None or not len(pairs.cases):
            return Calibration(self._rows.meta["run"], 0, 0, 0)
        sides = [_LabelledSide(self._rows, variant, self._score, self._labels) for variant in question]
        compared = ~np.isnan(sides[0].judge) & ~np.isnan(sides[1].judge)  # repeats that count in the judge's difference
        labelled = _complete(compared, *(~np.isnan(side.human) for side in sides))[pairs.cases]
        answered = _complete(compared, *(side.is_answered for side in sides))[pairs.cases]
        sampled = self._sampled[pairs.cases]
        counts = Calibration(
            run=self._rows.meta["run"],
            labels=int((labelled & sampled).sum()),
            skipped=int((answered & sampled & ~labelled).sum()),
            sample=int(sampled.sum()),
            enlarged=len(self._sample.sizes) > 1,
        )
        if not counts.labels:
            return counts
        cases = np.flatnonzero(labelled & sampled)
        answers = compared & np.isin(np.arange(len(compared)), pairs.cases[cases])[:, None]
        grades = _grades(self._judge)
        first, second = (_agreement([side], answers, grades) for side in sides)
        counts = replace(counts, agreement=_agreement(sides, answers, grades), by_side=(first, second))
        reason = self._why_not(counts, pairs, cases)
        if reason:
            return replace(counts, reason=reason)
        return self._estimated(counts, pairs, cases, sides, compared, margin)

    def _why_not(self, counts: Calibration, pairs: Pairs, cases: Ints) -> str:
        """Explain why labels cannot correct the verdict yet; empty if they can."""
        if counts.labels < LEAST_LABELS:
            missing = LEAST_LABELS - counts.labels
            labelled = f"{many(counts.labels, 'case')} {'is' if counts.labels == 1 else 'are'} labelled"
            return f"{labelled}, {missing} more {'is' if missing == 1 else 'are'} needed to correct the verdict"
        groups = self._rows.groups(pairs.cases[cases])
        if groups is not None and len(set(groups)) < LEAST_GROUPS:
            return f"the labels are in {len(set(groups))} groups; at least {LEAST_GROUPS} are needed"
        if len(self._rows.counted) < self._rows.planned_cases:
            return "labels correct the verdict once the run is complete"
        if self._rows.final_spent:
            return "labels correct only the first complete run; this run extends it"
        return ""

    def _estimated(
        self, counts: Calibration, pairs: Pairs, cases: Ints, sides: list[_LabelledSide], compared: Bools, margin: float
    ) -> Calibration:
        scores = [side.mean(compared)[pairs.cases[cases]] for side in sides]
        human, groups = scores[1] - scores[0], self._rows.groups(pairs.cases)
        weight = self._rows.weight
        level = level_so_far(self._level, counts.labels + counts.skipped, counts.sample)
        estimate = ppi(pairs.differences, human, cases, level, groups, weight)
        weights = None if groups is None else case_weights(groups, weight)
        corrected = [
            corrected_mean(judged, labelled, cases, estimate.tuning, weights)
            for judged, labelled in ((pairs.baseline, scores[0]), (pairs.variant, scores[1]))
        ]
        return replace(
            counts,
            estimate=estimate,
            scores=(corrected[0], corrected[1]),
            needed=labels_needed(estimate, pairs.differences, human, margin),
        )


class _LabelledSide:
    """Judge scores and human labels of one contender, by case and repeat."""

    def __init__(self, rows: Rows, variant: int, score: Floats, labels: Labels) -> None:
        mine = rows.variant == variant
        where = rows.case[mine], rows.repeat[mine]
        self.judge, self.human = (np.full((rows.planned_cases, rows.repeats), np.nan) for _ in range(2))
        self.is_answered: Bools = np.zeros((rows.planned_cases, rows.repeats), dtype=bool)
        self.judge[where], self.human[where] = score[mine], labels.value[mine]
        self.is_answered[where] = labels.is_answered[mine]

    def mean(self, compared: Bools) -> Floats:
        """The mean label of each case over the compared repeats."""
        count = np.maximum(1, compared.sum(axis=1))
        return np.asarray(np.where(compared, self.human, 0.0).sum(axis=1) / count)


def _complete(compared: Bools, first: Bools, second: Bools) -> Bools:
    """The cases whose compared repeats are all marked on both sides."""
    return np.asarray(compared.any(axis=1) & ((first & second) | ~compared).all(axis=1))


def _grades(judge: Judge) -> int:
    """Number of grades in which judge and human are compared."""
    if judge.pairwise:
        return 3
    low, high = judge.scale
    is_integer = float(low).is_integer() and float(high).is_integer() and high - low < MOST_GRADES
    return int(high - low) + 1 if is_integer else 11


def _agreement(sides: Sequence[_LabelledSide], answers: Bools, grades: int) -> Agreement:
    judge = np.concatenate([side.judge[answers] for side in sides])
    return agreement(judge, np.concatenate([side.human[answers] for side in sides]), grades)
