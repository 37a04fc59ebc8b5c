"""Judges with and without human labels, in simulated experiments: `python -m benchmarks.statistics_judges`.

The scenario of the page on statistics: 400 cases, both variants right in 83 % of them, a judge that is 85 % right and
favours B by 5 points; a human is right. There is no difference.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from abreast.stats import paired_t, ppi

Floats = npt.NDArray[np.float64]
Generator = Callable[[np.random.Generator, int], tuple[Floats, Floats]]

RIGHT = 0.83
ACCURACY = 0.85
FAVOUR = 0.05


@dataclass(frozen=True)
class Coverage:
    """How often intervals hold the truth, and how wide they are on average."""

    covered: float
    width: float
    experiments: int

    @property
    def error(self) -> float:
        """The Monte Carlo error of `covered` at 95 %."""
        return math.sqrt(0.95 * 0.05 / self.experiments)

    def __str__(self) -> str:
        return f"covers {self.covered:.1%} (± {2 * self.error:.1%}), width {self.width:.3f}"


def biased_judge(random: np.random.Generator, cases: int) -> tuple[Floats, Floats]:
    """Differences by the judge and by a human, right or wrong."""
    arms = random.random((2, cases)) < RIGHT
    judged = np.where(random.random((2, cases)) < ACCURACY, arms, ~arms)
    wrong = 1 - (RIGHT * ACCURACY + (1 - RIGHT) * (1 - ACCURACY))
    judged[1] |= random.random(cases) < FAVOUR / wrong
    human, judge = arms.astype(float), judged.astype(float)
    return judge[1] - judge[0], human[1] - human[0]


def graded_judge(random: np.random.Generator, cases: int) -> tuple[Floats, Floats]:
    """The same on a scale from 1 to 5."""
    ability = random.normal(3, 1, cases)
    human = np.clip(np.rint(ability + random.normal(0, 0.8, (2, cases))), 1, 5)
    judge = np.clip(np.rint(human + random.normal(0, 0.8, (2, cases)) + np.array([[0.0], [0.3]])), 1, 5)
    return (judge[1] - judge[0]) / 4, (human[1] - human[0]) / 4


def rare_wins(random: np.random.Generator, cases: int) -> tuple[Floats, Floats]:
    """B wins in 5 % of the cases and never loses: few labels see it."""
    human = (random.random(cases) < 0.05).astype(float)
    noise = random.random((2, cases)) < 0.1
    return np.where(noise[0], 1 - human, human) - noise[1], human


SCENARIOS: dict[str, tuple[Generator, float]] = {
    "right or wrong": (biased_judge, 0.0),
    "scale from 1 to 5": (graded_judge, 0.0),
    "rare wins": (rare_wins, 0.05),
}


def simulate(
    generate: Generator, truth: float, labels: int, experiments: int, cases: int = 400, seed: int = 1
) -> dict[str, Coverage]:
    """The judge alone, the labels alone, and the judge corrected by the labels."""
    random = np.random.default_rng(seed)
    ends: dict[str, list[tuple[float, float]]] = {"judge": [], "labels": [], "corrected": []}
    for _ in range(experiments):
        judge, human = generate(random, cases)
        labelled = random.choice(cases, labels, replace=False)
        naive, alone = paired_t(judge), paired_t(human[labelled])
        corrected = ppi(judge, human[labelled], labelled)
        for name, interval in (("judge", naive), ("labels", alone), ("corrected", corrected)):
            ends[name].append((interval.low, interval.high))
    return {name: _coverage(np.array(interval), truth) for name, interval in ends.items()}


def _coverage(ends: Floats, truth: float) -> Coverage:
    covered = (ends[:, 0] <= truth + 1e-12) & (truth - 1e-12 <= ends[:, 1])
    return Coverage(float(covered.mean()), float((ends[:, 1] - ends[:, 0]).mean()), len(ends))


def main(experiments: int) -> int:
    reached = True
    for name, (generate, truth) in SCENARIOS.items():
        for labels in (20, 40, 60, 100):
            coverages = simulate(generate, truth, labels, experiments)
            print(f"{name}, {labels} labels of 400 cases, {experiments:,} experiments")
            for method, coverage in coverages.items():
                print(f"  {method:<10} {coverage}")
            reached &= coverages["corrected"].covered >= 0.95 - 2 * coverages["corrected"].error
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000))
