"""Scores of simulated experiments whose true effects are known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.statistics.experiment import Floats, Scores

Random = np.random.Generator


def _pair_of(differences: Floats, random: Random) -> tuple[Floats, Floats]:
    """Right and wrong answers of baseline and variant with these differences; of a tie, both right or both wrong."""
    tied = random.integers(0, 2, len(differences)).astype(float)
    baseline = np.where(differences == 0, tied, (differences < 0).astype(float))
    return baseline[:, None], (baseline + differences)[:, None]


def binary(random: Random, cases: int, differing: float, effect: float = 0.0) -> Scores:
    """Right or wrong; `differing` is the share of cases with a winner."""
    shares = [(differing + effect) / 2, 1 - differing, (differing - effect) / 2]
    return Scores(_pair_of(random.choice([1.0, 0.0, -1.0], cases, p=shares), random))


def variants(random: Random, cases: int, right: Sequence[float]) -> Scores:
    """Right or wrong, the baseline first: half of each variant's answers are those of a common coin per case."""
    shared, common = random.random(cases), random.random((len(right), cases)) < 0.5
    own = random.random((len(right), cases))
    return Scores(
        tuple(
            (np.where(common[index], shared, own[index]) < share).astype(float)[:, None]
            for index, share in enumerate(right)
        )
    )


def continuous(random: Random, cases: int, effect: float = 0.0) -> Scores:
    """Graded scores: the difficulty of the case, and noise of each variant."""
    difficulty, first, second = random.uniform(-0.2, 0.2, (3, cases))
    return Scores(((0.5 + difficulty + first)[:, None], (0.5 + effect + difficulty + second)[:, None]))


def repeated(random: Random, cases: int, repeats: int, effect: float = 0.0) -> Scores:
    """Right or wrong in each repeat, with a chance that differs between cases."""
    chance = random.uniform(0.1, 0.9 - effect, (cases, 1))
    first, second = random.random((2, cases, repeats))
    return Scores(((first < chance).astype(float), (second < chance + effect).astype(float)))


def fixed(
    random: Random, baseline: Sequence[float], variant: Sequence[float], repeats: int, graded: str = ""
) -> Scores:
    """The same cases in every experiment, with these mean scores of both; right or wrong, or graded.

    `graded`: the variant's scores vary "equally", or "less" than the baseline's.
    """
    sides = []
    for means, strength in ((baseline, 2.0), (variant, 40.0 if graded == "less" else 2.0)):
        mean = np.repeat(np.asarray(means)[:, None], repeats, axis=1)
        if graded:
            inner = np.clip(mean, 0.01, 0.99)
            sides.append(random.beta(inner * strength, (1 - inner) * strength))
        else:
            sides.append((random.random(mean.shape) < mean).astype(float))
    return Scores((sides[0], sides[1]))


def grouped(random: Random, sizes: Sequence[int], effect: float | Sequence[float] = 0.0, icc: float = 0.3) -> Scores:
    """Right or wrong, in groups: each variant has its own accuracy in each group, around 0.5 and 0.5 + `effect`.

    With an effect of 0, `icc` is the correlation of two differences within a group. Large groups come first.
    """
    strength = 1 / icc - 1
    variants = []
    for mean in (np.full(len(sizes), 0.5), 0.5 + np.broadcast_to(effect, len(sizes))):
        accuracy = np.repeat(random.beta(mean * strength, (1 - mean) * strength), sizes)
        variants.append((random.random((len(accuracy), 1)) < accuracy[:, None]).astype(float))
    return Scores(tuple(variants), _labels(sizes))


def _labels(sizes: Sequence[int]) -> tuple[str, ...]:
    return tuple(np.repeat([f"g{index}" for index in range(len(sizes))], sizes).tolist())


def beta(random: Random, cases: int) -> Scores:
    """Graded scores of the same mean: one variant is steady, the other is mostly near 0 and sometimes near 1."""
    return Scores((random.beta(10, 90, (cases, 1)), random.beta(0.1, 0.9, (cases, 1))))


def rare(random: Random, cases: int, share: float = 0.05) -> Scores:
    """A variant that scores 1 in this share of cases and nearly 0 otherwise, against a constant of the same mean."""
    variant = np.where(random.random(cases) < share, 1.0, random.uniform(0, 0.01, cases))
    return Scores((np.full((cases, 1), share + (1 - share) * 0.005), variant[:, None]))


def lost_at_random(random: Random, cases: int, effect: float = 0.0, share: float = 0.05) -> Scores:
    """Right or wrong, a quarter of the cases differ; this share of all answers is lost."""
    scores = binary(random, cases, 0.25, effect)
    return Scores(tuple(np.where(random.random((cases, 1)) < share, np.nan, values) for values in scores.variants))


def gamed(random: Random, cases: int, right: float = 0.7) -> Scores:
    """Two variants that are equally often right; half of the wrong answers of one are lost."""
    first, second = (random.random((2, cases, 1)) < right).astype(float)
    return Scores((first, np.where((second == 0) & (random.random((cases, 1)) < 0.5), np.nan, second)))
