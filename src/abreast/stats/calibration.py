"""Judge scores corrected by human labels: prediction-powered inference (PPI++) on paired differences."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from abreast.stats.intervals.proportions import Estimate
from abreast.stats.intervals.units import Weight
from abreast.stats.numerics.arrays import Floats, Numbers, group_index, numbers, share
from abreast.stats.numerics.student import NORMAL, quantile_t, two_sided_t

LEAST_LABELS = 20  # labelled cases; with fewer, the coverage of the interval is unproven
LEAST_GROUPS = 5  # groups with a labelled case
CLEAR_DIFFERENCE = 0.1  # smallest clear difference by humans; smaller ones say nothing about rare large ones
LEAST_CLEAR = 10  # with fewer clear differences one win and one loss are added to the labels


@dataclass(frozen=True, slots=True)
class CorrectedEstimate(Estimate):
    """A mean difference by a judge, corrected by human labels.

    `tuning` is λ: how much the judge counts, from 0 (labels alone) to 1.
    """

    tuning: float = 0.0
    labels: int = 0


@dataclass(frozen=True, slots=True)
class Agreement:
    """Agreement of a judge and a human on grades; `kappa` is None if both always give the same single grade."""

    rate: float
    kappa: float | None
    answers: int


@dataclass(frozen=True, slots=True)
class _LabelledDifferences:
    """Differences of all cases by the judge and of the labelled ones by a human, with the weight of each case."""

    judge: Floats
    human: Floats
    labelled: npt.NDArray[np.int64]
    weights: Floats

    @property
    def judge_labelled(self) -> Floats:
        return self.judge[self.labelled]

    @property
    def label_weights(self) -> Floats:
        return self.weights[self.labelled]


def ppi(
    judge: Numbers,
    human: Numbers,
    labelled: Sequence[int] | npt.NDArray[np.integer],
    level: float = 0.95,
    groups: Sequence[Hashable] | None = None,
    weight: Weight = "case",
) -> CorrectedEstimate:
    """Correct the judge's mean difference by human labels on a random sample of the cases.

    `judge` has a difference per case, in [−1, 1]; `labelled` are the indexes of the labelled cases and `human` their
    differences by human labels. The estimate is λ·mean(judge, all) + mean(human − λ·judge, labelled) with
    λ = Cov(human, judge) / ((1 + n/N) Var(judge)) in [0, 1]. It is right on average whatever the judge does, for
    either arm; a good judge makes the interval narrower. With `groups` the error is clustered (CR2, Bell–McCaffrey
    degrees of freedom).

    >>> judge = [1, 0, 0, 1, -1, 0, 0, 1] * 50
    >>> human = [1, 0, 0, 0, -1, 0, 0, 1, 0, 0] * 6
    >>> estimate = ppi(judge, human, labelled=range(60))
    >>> estimate.labels, estimate.low < estimate.estimate < estimate.high
    (60, True)
    """
    data = _checked(judge, human, labelled, groups, weight)
    tuning = _tuning(data)
    estimate = corrected_mean(data.judge, data.human, data.labelled, tuning, data.weights)
    variance, degrees = _variance(data, tuning) if groups is None else _clustered_variance(data, tuning, groups)
    if np.count_nonzero(np.abs(data.human) >= CLEAR_DIFFERENCE) < LEAST_CLEAR:
        units = len(data.labelled) if groups is None else len({groups[index] for index in data.labelled})
        variance += 2 / units**2
    error = math.sqrt(variance)
    half = quantile_t(0.5 + share(level, "level") / 2, degrees) * error
    p = 1.0 if estimate == 0 else 0.0 if error == 0 else two_sided_t(estimate / error, degrees)
    low, high = max(-1.0, estimate - half), min(1.0, estimate + half)
    return CorrectedEstimate(
        estimate=min(1.0, max(-1.0, estimate)),
        low=low,
        high=high,
        level=level,
        p=p,
        method="PPI++",
        tuning=tuning,
        labels=len(data.labelled),
    )


def corrected_mean(
    judge: Floats, human: Floats, labelled: npt.NDArray[np.int64], tuning: float, weights: Floats | None = None
) -> float:
    """The mean of a judge's values (differences, or scores of one arm), corrected by human ones at this λ."""
    weights = np.ones(len(judge)) if weights is None else weights
    correction = human - tuning * judge[labelled]
    return float(tuning * np.average(judge, weights=weights) + np.average(correction, weights=weights[labelled]))


def case_weights(groups: Sequence[Hashable], weight: Weight = "case") -> Floats:
    """The weight of each case: the same for every case, or for every group."""
    index, _ = group_index(groups, len(groups))
    return 1 / np.bincount(index)[index] if weight == "group" else np.ones(len(groups))


def labels_needed(estimate: CorrectedEstimate, judge: Numbers, human: Numbers, margin: float = 0.0) -> int | None:
    """Number of labelled cases that would decide an effect as large as the observed one, or equivalence in `margin`.

    None if not even labels on every case would decide. Groups count through the width of the observed interval.
    """
    values, labels = numbers(judge, "judge", least=2), numbers(human, "human", least=2)
    total, half = len(values), (estimate.high - estimate.low) / 2
    target = max(abs(estimate.estimate), margin - abs(estimate.estimate))
    covariance = estimate.tuning * (1 + estimate.labels / total) * float(values.var(ddof=1))

    def variance(count: int) -> float:
        tuning = estimate.tuning * (1 + estimate.labels / total) / (1 + count / total)
        gain = 2 * tuning * covariance - tuning**2 * float(values.var(ddof=1))
        return max(0.0, float(labels.var(ddof=1)) / count - (1 / count - 1 / total) * gain)

    now = variance(estimate.labels)
    if half < target:
        return estimate.labels
    if now == 0 or half * math.sqrt(variance(total) / now) >= target:
        return None
    few, enough = estimate.labels, total
    while enough - few > 1:
        middle = (few + enough) // 2
        few, enough = (few, middle) if half * math.sqrt(variance(middle) / now) < target else (middle, enough)
    return enough


def level_so_far(level: float, labelled: int, sample: int) -> float:
    """The level of an interval before the whole sample is labelled, by O'Brien and Fleming's spending of early looks.

    >>> [round(level_so_far(0.95, seen, 60), 4) for seen in (20, 40, 60)]
    [0.9993, 0.9836, 0.95]
    """
    if labelled >= sample:
        return level
    return 2 * NORMAL.cdf(NORMAL.inv_cdf(0.5 + share(level, "level") / 2) * math.sqrt(sample / labelled)) - 1


def agreement(judge: Numbers, human: Numbers, grades: int = 2) -> Agreement:
    """The share of equal grades, of `grades` equally spaced ones in [0, 1], and Cohen's kappa.

    >>> agreement([1, 1, 0, 0], [1, 1, 0, 1])
    Agreement(rate=0.75, kappa=0.5, answers=4)
    """
    first, second = (
        np.rint(numbers(values, name) * (grades - 1)).astype(int)
        for values, name in ((judge, "judge"), (human, "human"))
    )
    if len(first) != len(second):
        raise ValueError(f"as many judge as human scores are needed, got {len(first)} and {len(second)}")
    rate = float((first == second).mean())
    shares = [np.bincount(values, minlength=grades) / len(values) for values in (first, second)]
    by_chance = float((shares[0] * shares[1]).sum())
    kappa = None if by_chance > 1 - 1e-12 else (rate - by_chance) / (1 - by_chance)
    return Agreement(rate, kappa, len(first))


def _checked(
    judge: Numbers,
    human: Numbers,
    labelled: Sequence[int] | npt.NDArray[np.integer],
    groups: Sequence[Hashable] | None,
    weight: Weight,
) -> _LabelledDifferences:
    values, labels = numbers(judge, "judge", least=2), numbers(human, "human", least=3)
    indexes = np.asarray(labelled, dtype=np.int64)
    if len(indexes) != len(labels):
        raise ValueError(f"as many human differences as labelled cases are needed, got {len(labels)}, {len(indexes)}")
    if len(set(indexes.tolist())) < len(indexes) or indexes.min() < 0 or indexes.max() >= len(values):
        raise ValueError(f"labelled must be different indexes below {len(values)}")
    for name, differences in (("judge", values), ("human", labels)):
        largest = differences[np.abs(differences).argmax()]
        if abs(largest) > 1 + 1e-9:
            raise ValueError(f"{name}: differences of scores in [0, 1] lie within ±1, got {largest:g}")
    if groups is not None and len(groups) != len(values):
        raise ValueError(f"as many groups as cases are needed, got {len(groups)} and {len(values)}")
    if groups is not None and len({groups[index] for index in indexes.tolist()}) < LEAST_GROUPS:
        raise ValueError(f"labels in at least {LEAST_GROUPS} groups are needed")
    return _LabelledDifferences(
        values, labels, indexes, np.ones(len(values)) if groups is None else case_weights(groups, weight)
    )


def _tuning(data: _LabelledDifferences) -> float:
    """λ that makes the interval narrowest, in [0, 1]; the judge's spread is known from all cases."""
    spread = float(data.judge.var(ddof=1))
    if spread < 1e-12:
        return 0.0
    covariance = float(np.cov(data.human, data.judge_labelled)[0, 1])
    return min(1.0, max(0.0, covariance / ((1 + len(data.labelled) / len(data.judge)) * spread)))


def _variance(data: _LabelledDifferences, tuning: float) -> tuple[float, float]:
    """Variance of the estimate and its degrees of freedom (Welch), from independent parts.

    The labelled cases are among all cases, so the estimate is mean(human − κ·judge, labelled) + κ·mean(judge, others)
    with κ = λ(1 − n/N). Estimating λ costs the labelled part one further degree of freedom.
    """
    total, count = len(data.judge), len(data.labelled)
    share_of_judge = tuning * (1 - count / total)
    residuals = data.human - share_of_judge * data.judge_labelled
    by_labels = float(((residuals - residuals.mean()) ** 2).sum()) / (count - 2) / count
    by_judge = share_of_judge**2 * float(data.judge.var(ddof=1)) / (total - count) if total > count else 0.0
    variance = by_labels + by_judge
    if variance == 0:
        return 0.0, count - 2
    return variance, variance**2 / (by_labels**2 / (count - 2) + by_judge**2 / (total - 1))


def _clustered_variance(data: _LabelledDifferences, tuning: float, groups: Sequence[Hashable]) -> tuple[float, float]:
    """Variance and degrees of freedom where the cases of a group are dependent: CR2, Bell–McCaffrey.

    Each group contributes the sum of its deviations in both means, divided by √(1 − its share of the weight), so that
    the variance is unbiased under independence; the degrees of freedom are those of the contributions under it.
    """
    index, count = group_index(groups, len(data.judge))
    all_cases = _GroupedMean(data.judge, data.weights, index, count)
    corrections = data.human - tuning * data.judge_labelled
    sample = _GroupedMean(corrections, data.label_weights, index[data.labelled], count)
    contributions = tuning * all_cases.contributions + sample.contributions
    trace, squared = _working_traces(all_cases, sample, tuning, all_cases.deviations[data.labelled])
    sampled = len(set(index[data.labelled].tolist()))
    variance = float((contributions**2).sum()) * (sampled - 1) / (sampled - 2)
    return variance, max(1.0, min(sampled - 1.0, trace**2 / squared if squared > 0 else 1.0))


def _working_traces(all_cases: _GroupedMean, sample: _GroupedMean, tuning: float, judge: Floats) -> tuple[float, float]:
    """Trace and squared norm of the covariance of the groups' contributions if cases were independent.

    It is diagonal but for a few products of vectors, and is never written out: there may be thousands of groups.
    """
    shared = tuning * float((judge * sample.deviations).mean())
    parts = [
        (tuning**2 * float((all_cases.deviations**2).mean()), all_cases, all_cases, all_cases.squares),
        (float((sample.deviations**2).mean()), sample, sample, sample.squares),
        (shared, all_cases, sample, sample.squares),
        (shared, sample, all_cases, sample.squares),
    ]
    diagonal, lows, highs = np.zeros(len(sample.squares)), [], []
    for factor, first, second, squares in parts:
        diagonal += factor * first.scale * second.scale * squares
        own, other = first.scale * first.shares, second.scale * second.shares
        lows += [-factor * own, -factor * first.scale * squares, factor * squares.sum() * own]
        highs += [second.scale * squares, other, other]
    low, high = np.stack(lows, axis=1), np.stack(highs, axis=1)
    crossed = (low * high).sum(axis=1)
    squared = float((diagonal**2).sum() + 2 * (diagonal * crossed).sum() + ((low.T @ low) * (high.T @ high)).sum())
    return float((diagonal + crossed).sum()), squared


class _GroupedMean:
    """A weighted mean of cases in groups, and the contribution of each group to its error."""

    def __init__(self, values: Floats, weights: Floats, index: npt.NDArray[np.int64], groups: int) -> None:
        self.deviations = values - np.average(values, weights=weights)
        self.squares: Floats = np.asarray(np.bincount(index, weights=weights**2, minlength=groups), dtype=float)
        self.total = float(weights.sum())
        self.shares = np.bincount(index, weights=weights, minlength=groups) / self.total
        self.scale = 1 / (self.total * np.sqrt(1 - self.shares))
        self.contributions = self.scale * np.bincount(index, weights=weights * self.deviations, minlength=groups)
