"""Two contenders on the same cases: the paired scores, and why some cases are left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

import numpy as np
import numpy.typing as npt

from abreast.analyse.rows import Bools, Floats, Ints, Rows
from abreast.stats import CostPerCorrect, LatencyRatio, cost_per_correct, latency_ratio
from abreast.stats.numerics.arrays import ROUNDING


@dataclass(frozen=True, slots=True)
class TrialGrid:
    """The trials of one contender: a row for each case, a column for each repeat; nan for missing values."""

    score: Floats
    present: Bools
    failed: Bools  # failed by infrastructure
    skipped: Bools
    service_s: Floats  # service time of new answers
    cost_usd: Floats  # cost of every answer, reused or not; a failure of unknown cost counts as an average answer

    def select(self, cases: Ints, repeats: int) -> TrialGrid:
        """These cases in this order, with their first repeats."""
        parts = (self.score, self.present, self.failed, self.skipped, self.service_s, self.cost_usd)
        return TrialGrid(*(part[cases, :repeats] for part in parts))  # type: ignore[arg-type]


def trial_grid(rows: Rows, variant: int, score: Floats) -> TrialGrid:
    """All planned cases of one contender of a run."""
    of_variant = rows.variant == variant

    def grid(values: npt.NDArray[Any], missing: float | bool) -> npt.NDArray[Any]:
        cells = np.full((rows.planned_cases, rows.repeats), missing)
        cells[rows.case[of_variant], rows.repeat[of_variant]] = values[of_variant]
        return cells

    timed = rows.ok & ~rows.reused & (rows.service_s > 0)
    return TrialGrid(
        score=grid(score, np.nan),
        present=grid(rows.present, False),
        failed=grid(rows.error & ~rows.own_failure, False),
        skipped=grid(rows.skipped, False),
        service_s=grid(np.where(timed, rows.service_s, np.nan), np.nan),
        cost_usd=grid(_costs(rows, of_variant), np.nan),
    )


def _costs(rows: Rows, of_variant: Bools) -> Floats:
    """Cost of each trial. A failure of unknown cost counts as an average answer, so that failing is not cheap."""
    answered = rows.cost_usd[of_variant & rows.ok]
    if not len(answered) or np.isnan(answered).any():
        return np.full(len(rows.position), np.nan)
    guessed = np.where(rows.own_failure & np.isnan(rows.cost_usd), answered.mean(), rows.cost_usd)
    return np.asarray(guessed, dtype=float)


@dataclass(frozen=True, slots=True)
class PairedScores:
    """Scores of both sides: a row for each compared case, a column for each repeat; nan where one side has none."""

    baseline: Floats
    variant: Floats

    @property
    def means(self) -> tuple[Floats, Floats]:
        return _mean(self.baseline), _mean(self.variant)

    @property
    def differences(self) -> Floats:
        """One for each case; rounding noise is set to 0."""
        baseline, variant = self.means
        differences = variant - baseline
        differences[np.abs(differences) < ROUNDING] = 0.0
        return differences


@dataclass(frozen=True, slots=True)
class Worst:
    """The cases including those with lost outcomes, with each lost one counted as bad or as good as possible.

    An outcome is lost if infrastructure failed or an answer has no score.
    """

    cases: Ints
    low: PairedScores
    high: PairedScores
    lost: int  # cases, or repeats of compared cases


@dataclass(frozen=True, slots=True)
class Pairs:
    """The cases that both sides have a score for, in the order of their starts, and how many are left out and why.

    A case is compared on the repeats that both sides have.
    """

    cases: Ints
    repeats: PairedScores
    baseline: Floats  # means over repeats
    variant: Floats
    failed: int  # left out because infrastructure failed on one side
    unscored: int  # left out because an answer has no score
    skipped: int
    repeats_left_out: int  # repeats of compared cases that are left out
    worst: Worst | None  # None if nothing is lost
    latency: LatencyRatio | None
    cost: CostPerCorrect | None
    usd_per_repeat: float | None  # mean cost of one repeat of a case, both sides together

    @property
    def differences(self) -> Floats:
        return self.repeats.differences

    @property
    def dropped(self) -> int:
        return self.failed + self.unscored + self.skipped


def pair(first: TrialGrid, second: TrialGrid, cases: Ints, groups: Sequence[str] | None = None) -> Pairs:
    """Pair two contenders case by case; `first` is the baseline, `groups` the group of each case, if any."""
    scores = first.score[cases], second.score[cases]
    both = ~np.isnan(scores[0]) & ~np.isnan(scores[1])
    compared = np.logical_or.reduce(both, axis=1)
    repeats = PairedScores(*(np.where(both, score, np.nan)[compared] for score in scores))

    skipped_cells = (first.skipped | second.skipped)[cases]
    skipped = np.logical_or.reduce(skipped_cells, axis=1)
    failed = np.logical_or.reduce((first.failed | second.failed)[cases], axis=1)
    baseline, variant = repeats.means
    return Pairs(
        cases=cases[compared],
        repeats=repeats,
        baseline=baseline,
        variant=variant,
        failed=int((failed & ~compared).sum()),
        unscored=int((~(compared | failed | skipped)).sum()),
        skipped=int((skipped & ~(compared | failed)).sum()),
        repeats_left_out=int(compared.sum()) * both.shape[1] - int(both.sum()),
        worst=_worst(cases, scores, both, ~both & ~skipped_cells),
        latency=_latency(first.service_s[cases], second.service_s[cases], groups),
        cost=_cost((first.cost_usd[cases], second.cost_usd[cases]), scores, groups),
        usd_per_repeat=_usd_per_repeat(first.cost_usd[cases], second.cost_usd[cases]),
    )


def _worst(cases: Ints, scores: tuple[Floats, Floats], both: Bools, lost: Bools) -> Worst | None:
    if not lost.any():
        return None
    included = (both | lost).any(axis=1)
    baseline, variant = (np.where(both | lost, score, np.nan)[included] for score in scores)
    holes = lost[included]

    def filled(missing_baseline: float, missing_variant: float) -> PairedScores:
        return PairedScores(
            np.where(holes & np.isnan(baseline), missing_baseline, baseline),
            np.where(holes & np.isnan(variant), missing_variant, variant),
        )

    compared = both[included].any(axis=1)
    return Worst(
        cases[included],
        filled(missing_baseline=1.0, missing_variant=0.0),
        filled(missing_baseline=0.0, missing_variant=1.0),
        int((~compared).sum()) + int(holes[compared].sum()),
    )


def _mean(values: Floats) -> Floats:
    """Mean over repeats; nan for a case without values."""
    has_value = ~np.isnan(values)
    count = has_value.sum(axis=1)
    return np.where(count > 0, np.where(has_value, values, 0.0).sum(axis=1) / np.maximum(count, 1), np.nan)


def _latency(first: Floats, second: Floats, groups: Sequence[str] | None) -> LatencyRatio | None:
    """Compare latency on the repeats that both answered: a failed one might have taken longest."""
    shared = ~np.isnan(first) & ~np.isnan(second)
    timed = np.logical_or.reduce(shared, axis=1)
    before, after = (_mean(np.where(shared, seconds, np.nan))[timed] for seconds in (first, second))
    return latency_ratio(before, after, groups=_chosen(groups, timed)) if timed.any() else None


def _cost(
    costs: tuple[Floats, Floats], scores: tuple[Floats, Floats], groups: Sequence[str] | None
) -> CostPerCorrect | None:
    """Compare cost per correct answer on the cases with trials of known cost and score on both sides."""
    usable = [~np.isnan(cost) & ~np.isnan(score) for cost, score in zip(costs, scores, strict=True)]
    paid = [_mean(np.where(both, cost, np.nan)) for both, cost in zip(usable, costs, strict=True)]
    corrects = [_mean(np.where(both, score, np.nan)) for both, score in zip(usable, scores, strict=True)]
    priced = np.logical_and.reduce(~np.isnan(np.array(paid)), axis=0)
    if not priced.any() or not any(cost[priced].any() for cost in paid):
        return None
    return cost_per_correct(
        paid[0][priced], corrects[0][priced], paid[1][priced], corrects[1][priced], groups=_chosen(groups, priced)
    )


def _usd_per_repeat(*costs: Floats) -> float | None:
    means = [float(cost[~np.isnan(cost)].mean()) for cost in costs if not np.isnan(cost).all()]
    return sum(means) if len(means) == len(costs) else None


def _chosen(groups: Sequence[str] | None, cases: Bools) -> list[str] | None:
    return None if groups is None else list(compress(groups, cases))
