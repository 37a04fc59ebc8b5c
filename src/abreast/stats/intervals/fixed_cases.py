"""The difference on these cases alone: the cases are fixed, and their repeats are the sample.

A few prompts with many runs each say little about other prompts, but can say which contender is better on these.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt

from abreast.stats.intervals.bounded import weighted_gaffke
from abreast.stats.intervals.proportions import Estimate
from abreast.stats.numerics.arrays import ROUNDING, UNIT, Floats, Numbers, Scale, integer, numbers, share, width
from abreast.stats.significance import PValue

DIGITS = 9  # digits to which sums of scores are rounded before they count as equal
MOST_SUMS = 2_000  # distinct sums up to which all rearrangements are counted
TIE = 1e-7  # rounded sums that differ by less are the same
DRAWS = 10_000
CHUNK = 1_000  # rearrangements drawn at once
ABOVE_ZERO = 1e-9  # the bound where the test excludes zero and the interval does not

Matrix = Sequence[Sequence[float]] | npt.NDArray[np.generic]


@dataclass(frozen=True)
class RepeatedScores:
    """Scores of baseline and variant: a row for each case, a column for each repeat.

    A repeat counts if both have a score; nan where one is missing. `weights` are those of the cases, equal by default.
    """

    baseline: Floats
    variant: Floats
    weights: Floats

    @classmethod
    def of(
        cls, baseline: Matrix, variant: Matrix, weights: Numbers | None = None, scale: Scale = UNIT
    ) -> RepeatedScores:
        """Validate and normalise scores.

        >>> scores = RepeatedScores.of([[0, 0], [0, 1]], [[1, 1], [1, 1]])
        >>> scores.estimate
        0.75
        """
        sides = [np.asarray(side, dtype=float) for side in (baseline, variant)]
        if sides[0].ndim != 2 or sides[0].shape != sides[1].shape or not sides[0].size:
            shapes = " and ".join(str(side.shape) for side in sides)
            raise ValueError(f"baseline and variant need a row of scores per case, of one shape; got {shapes}")
        first, second = ((side - scale[0]) / width(scale) for side in sides)
        usable = ~np.isnan(first) & ~np.isnan(second)
        if not usable.any(axis=1).all():
            raise ValueError("every case needs a repeat with a score of both")
        values = np.concatenate([first[usable], second[usable]])
        if (values < -ROUNDING).any() or (values > 1 + ROUNDING).any():
            raise ValueError(f"scores must lie in [{scale[0]:g}, {scale[1]:g}]")
        share_of_case = np.ones(len(first)) if weights is None else numbers(weights, "weights")
        if len(share_of_case) != len(first) or (share_of_case <= 0).any():
            raise ValueError("weights must be positive numbers, one for each case")
        first, second = (np.where(usable, np.clip(side, 0.0, 1.0), np.nan) for side in (first, second))
        return cls(first, second, share_of_case / share_of_case.sum())

    @cached_property
    def strata(self) -> list[tuple[Floats, Floats]]:
        """The scores of baseline and variant in each case, without those that are missing."""
        usable = ~np.isnan(self.variant)
        return [(self.baseline[case, row], self.variant[case, row]) for case, row in enumerate(usable)]

    @property
    def per_score(self) -> Floats:
        """The weight of one score of each case in the mean of its side."""
        return np.asarray(self.weights / np.array([len(baseline) for baseline, _ in self.strata]))

    @property
    def estimate(self) -> float:
        differences = [variant.mean() - baseline.mean() for baseline, variant in self.strata]
        estimate = float(self.weights @ np.array(differences))
        return 0.0 if abs(estimate) < ROUNDING else estimate

    @property
    def is_binary(self) -> bool:
        return all(bool(np.isin(side, (0.0, 1.0)).all()) for pair in self.strata for side in pair)

    def first(self, cases: int) -> RepeatedScores:
        weights = self.weights[:cases]
        return RepeatedScores(self.baseline[:cases], self.variant[:cases], weights / weights.sum())

    def repeats_needed(self, effect: float, deviates: float) -> int | None:
        """Repeats of each case to detect `effect` on these cases; None if scores never vary.

        `deviates` is the sum of the normal deviates of confidence and power.
        """
        spreads = [
            sum(float(side.var(ddof=1)) for side in pair) if len(pair[0]) > 1 else math.nan for pair in self.strata
        ]
        variance = float(self.weights**2 @ np.array(spreads))
        return None if not variance > 0 else math.ceil(deviates**2 * variance / effect**2)


def permutation_test(scores: RepeatedScores, draws: int = DRAWS, seed: int = 0) -> PValue:
    """The chance of a difference at least this large if the scores of a case were exchangeable between contenders.

    Scores are rearranged within each case. Counts all rearrangements if their sums are few, else `draws` of them, drawn
    with a fixed seed.

    >>> permutation_test(RepeatedScores.of([[0] * 4], [[1] * 4])).p
    0.02857142857142857
    """
    factors = 2 * scores.per_score
    observed = float(sum(factor * variant.sum() for factor, (_, variant) in zip(factors, scores.strata, strict=True)))
    sums = _all_sums(scores, factors)
    if sums is not None:
        total = sum(sums.values())
        at_least = sum(ways for value, ways in sums.items() if value >= observed - TIE)
        at_most = sum(ways for value, ways in sums.items() if value <= observed + TIE)
        return PValue(min(1.0, float(Fraction(2 * min(at_least, at_most), total))), "stratified permutation, exact")
    draws = 2 * (integer(draws, "draws", least=2) // 2)
    drawn = _drawn_sums(scores, factors, draws, seed)
    rarer = min(int((drawn >= observed - TIE).sum()), int((drawn <= observed + TIE).sum()))
    return PValue(min(1.0, 2 * (1 + rarer) / (1 + draws)), f"stratified permutation, {draws:,} draws")


def _all_sums(scores: RepeatedScores, factors: Floats) -> dict[float, int] | None:
    """The sum over the variant's scores in every rearrangement, with its number; None if there are too many sums."""
    sums = {0.0: 1}
    for factor, (baseline, variant) in zip(factors, scores.strata, strict=True):
        choices = _sums_of_choices(np.concatenate([baseline, variant]), len(variant))
        if choices is None or len(sums) * len(choices) > 20 * MOST_SUMS:
            return None
        combined: defaultdict[float, int] = defaultdict(int)
        for value, ways in sums.items():
            for choice, number in choices.items():
                combined[round(value + factor * choice, DIGITS)] += ways * number
        if len(combined) > MOST_SUMS:
            return None
        sums = combined
    return sums


def _sums_of_choices(values: Floats, count: int) -> dict[float, int] | None:
    """The sums of all choices of `count` of these values, with their numbers; None if there are too many."""
    distinct, multiplicities = np.unique(values, return_counts=True)
    chosen = {(0, 0.0): 1}
    for value, multiplicity in zip(distinct.tolist(), multiplicities.tolist(), strict=True):
        grown: defaultdict[tuple[int, float], int] = defaultdict(int)
        for (size, total), ways in chosen.items():
            for more in range(min(multiplicity, count - size) + 1):
                grown[size + more, round(total + more * value, DIGITS)] += ways * math.comb(multiplicity, more)
        if len(grown) > MOST_SUMS:
            return None
        chosen = grown
    return {total: ways for (size, total), ways in chosen.items() if size == count}


def _drawn_sums(scores: RepeatedScores, factors: Floats, draws: int, seed: int) -> Floats:
    """Sums of random rearrangements. Each counts in both directions, so that swapping the sides changes nothing."""
    random, first, second = np.random.default_rng(seed), np.zeros(draws // 2), np.zeros(draws // 2)
    for factor, (baseline, variant) in zip(factors, scores.strata, strict=True):
        values = np.sort(np.concatenate([baseline, variant]))
        for start in range(0, len(first), CHUNK):
            chunk = slice(start, min(start + CHUNK, len(first)))
            halves = random.permuted(np.tile(values, (chunk.stop - start, 1)), axis=1)
            first[chunk] += factor * halves[:, : len(variant)].sum(axis=1)
            second[chunk] += factor * halves[:, len(variant) :].sum(axis=1)
    return np.concatenate([first, second])


def fixed_cases_interval(scores: RepeatedScores, level: float = 0.95) -> Estimate:
    """The interval of the mean difference on these cases.

    Its ends are Gaffke's, of all scores of the variant and all scores of the baseline with opposite sign. The
    permutation test decides whether it excludes zero; with graded scores both must, because rearranging scores of
    unequal spread is wrong too often.

    >>> interval = fixed_cases_interval(RepeatedScores.of([[0] * 10] * 3, [[1] * 10] * 3))
    >>> interval.estimate, round(interval.low, 3), interval.high, interval.p < 0.001
    (1.0, 0.881, 1.0, True)
    """
    estimate, test = scores.estimate, permutation_test(scores)
    pooled, shapes = _pooled(scores)
    ends = weighted_gaffke(pooled, shapes, share(level, "level"))
    p = test.p if scores.is_binary else max(test.p, ends.p)
    low, high = min(ends.low, estimate), max(ends.high, estimate)
    if p > 1 - level + 1e-12:
        low, high = min(low, 0.0), max(high, 0.0)
    elif estimate > 0:
        low = max(low, ABOVE_ZERO)
    else:
        high = min(high, -ABOVE_ZERO)
    return Estimate(estimate=estimate, low=low, high=high, level=level, p=p, method=test.method)


def _pooled(scores: RepeatedScores) -> tuple[Floats, Floats]:
    """All scores as values in [−1, 1] whose weighted mean is the difference; the heaviest have a weight of 1."""
    values, shapes, weights = [], [], scores.per_score / scores.per_score.max()
    for weight, (baseline, variant) in zip(weights, scores.strata, strict=True):
        values += [2 * variant - 1, 1 - 2 * baseline]
        shapes += [np.full(2 * len(variant), weight)]
    return np.concatenate(values), np.concatenate(shapes)
