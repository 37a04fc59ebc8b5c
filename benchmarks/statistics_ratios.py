"""How often the intervals of latency and cost contain the truth, in simulated experiments with fixed seeds.

`python -m benchmarks.statistics_ratios [N]` prints a table from N experiments per scenario (2,000 unless given).
"Before" are the formulas without groups and without Wilson's bounds; "group means" is t on the group means of the
linearised ratio, which answers another question where large groups differ from small ones.
"""

from __future__ import annotations

import math
import sys
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from abreast.stats import CostPerCorrect, Interval, cost_per_correct, latency_ratio, paired_t, sign_flip
from abreast.stats.numerics.student import quantile_t
from benchmarks import measure

Array = npt.NDArray[Any]
Random = np.random.Generator

TEN_OF_TEN = (10,) * 10
UNEQUAL = (29, 4, 4, 4, 3, 3, 2, 1)
TWO_LARGE = (60, 40, *(2,) * 38)

# What an answer costs: the spread of its logarithm, and how many times as much it costs if it is wrong.
COSTS = {
    "constant": (0.0, 1.0),
    "lognormal, sd 0.3": (0.3, 1.0),
    "lognormal, sd 1": (1.0, 1.0),
    "wrong answers cost 3×": (0.3, 3.0),
    "wrong answers cost ⅓": (0.3, 1 / 3),
}


class Trials(NamedTuple):
    """What one variant's trials cost, and whether they were correct."""

    cost: Array
    correct: Array


@dataclass(frozen=True)
class PriceScenario:
    """Two variants with these accuracies on groups of these sizes."""

    name: str
    sizes: tuple[int, ...]
    accuracies: tuple[float, float]
    costs: str
    correlation: float = 0.0  # of the difficulty of the cases of a group
    group_sd: float = 0.0  # of the log costs between groups
    shortfall: str = ""  # why 95 % cannot be reached

    def draw(self, random: Random) -> tuple[Trials, Trials, Array]:
        """The trials of A and B and the group of each case."""
        groups = np.repeat(np.arange(len(self.sizes)), self.sizes)
        a, b = (self._arm(random, groups, accuracy) for accuracy in self.accuracies)
        return a, b, groups

    def _arm(self, random: Random, groups: Array, accuracy: float) -> Trials:
        sd, wrong = COSTS[self.costs]
        shared, expensive = random.normal(size=(2, len(self.sizes)))[:, groups]
        own, spread = random.normal(size=(2, len(groups)))
        difficulty = math.sqrt(self.correlation) * shared + math.sqrt(1 - self.correlation) * own
        correct = difficulty < (math.inf if accuracy == 1 else NormalDist().inv_cdf(accuracy))
        cost = np.exp(sd * spread + self.group_sd * expensive) * np.where(correct, 1.0, wrong)
        return Trials(cost, correct.astype(float))

    def prices(self) -> tuple[float, float]:
        """The true prices of a correct answer with A and B."""
        sd, wrong = COSTS[self.costs]
        mean = math.exp((sd**2 + self.group_sd**2) / 2)
        a, b = (mean * (accuracy + wrong * (1 - accuracy)) / accuracy for accuracy in self.accuracies)
        return a, b


@dataclass(frozen=True)
class SizeMatters(PriceScenario):
    """Groups have 2 cases, or 12 (a third of them); B is correct in half of the cases of large groups."""

    def draw(self, random: Random) -> tuple[Trials, Trials, Array]:
        sizes = np.where(random.random(len(self.sizes)) < 1 / 3, 12, 2)
        groups = np.repeat(np.arange(len(sizes)), sizes)
        chances = self.accuracies[0], np.where(sizes == 12, 0.5, self.accuracies[1])[groups]
        sd, _ = COSTS[self.costs]
        a, b = (
            Trials(np.exp(random.normal(0, sd, len(groups))), (random.random(len(groups)) < chance).astype(float))
            for chance in chances
        )
        return a, b, groups

    def prices(self) -> tuple[float, float]:
        mean = math.exp(COSTS[self.costs][0] ** 2 / 2)
        a, b = self.accuracies
        return mean / a, mean / ((12 * 0.5 + 2 * 2 * b) / (12 + 2 * 2))


# -- rates -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rate:
    """The share of experiments whose interval contains the truth."""

    hits: int
    experiments: int

    @property
    def share(self) -> float:
        return self.hits / self.experiments

    @property
    def error(self) -> float:
        return math.sqrt(0.95 * 0.05 / self.experiments)

    @property
    def is_enough(self) -> bool:
        return self.share >= 0.95 - 2 * self.error

    def __str__(self) -> str:
        return f"{100 * self.share:5.1f}"


def contains(interval: Interval | None, truth: float) -> bool:
    return interval is not None and interval.low <= truth * (1 + 1e-9) and truth * (1 - 1e-9) <= interval.high


def seeded(name: str) -> Random:
    return np.random.default_rng(zlib.crc32(name.encode()))


def price_rates(scenario: PriceScenario, experiments: int) -> dict[str, Rate]:
    """Coverage of B's price and of the ratio of prices, by each formula."""
    random, hits = seeded(str(scenario)), dict.fromkeys(("price before", "price"), 0)
    hits |= dict.fromkeys(("ratio before", "ratio by group means", "ratio"), 0)
    other, price = scenario.prices()
    for _ in range(experiments):
        a, b, groups = scenario.draw(random)
        now = cost_per_correct(*a, *b, groups=groups.tolist())
        before = cost_per_correct_before(a, b)
        hits["price before"] += contains(before.b, price)
        hits["price"] += contains(now.b, price)
        hits["ratio before"] += contains(before.ratio, price / other)
        hits["ratio by group means"] += contains(ratio_by_group_means(a, b, groups), price / other)
        hits["ratio"] += contains(now.ratio, price / other)
    return {name: Rate(number, experiments) for name, number in hits.items()}


def latency_rates(sizes: tuple[int, ...], experiments: int) -> dict[str, Rate]:
    """Coverage of a latency ratio of 0.8 where the cases of a group are similar: correlation 0.64 of log ratios."""
    random, groups = seeded(f"latency {sizes}"), np.repeat(np.arange(len(sizes)), sizes)
    hits = {"latency before": 0, "latency": 0}
    for _ in range(experiments):
        baseline = np.exp(random.normal(0, 0.5, len(groups)))
        spread = random.normal(0, 0.4, len(sizes))[groups] + random.normal(0, 0.3, len(groups))
        other = baseline * 0.8 * np.exp(spread)
        hits["latency before"] += contains(latency_ratio(baseline, other), 0.8)
        hits["latency"] += contains(latency_ratio(baseline, other, groups=groups.tolist()), 0.8)
    return {name: Rate(number, experiments) for name, number in hits.items()}


# -- other formulas, to compare with -----------------------------------------------------------------------------------


def cost_per_correct_before(a: Trials, b: Trials) -> CostPerCorrect:
    """Fieller and the linearised logarithm with t, as if all cases were independent."""
    pulls, ratio = _pulls(a, b)
    n = len(pulls)
    reach = np.exp(quantile_t(0.975, n - 1) * pulls.std(ddof=1) / math.sqrt(n)) if ratio else math.inf
    return CostPerCorrect(_fieller(a), _fieller(b), Interval(ratio, ratio / reach, ratio * reach))


def ratio_by_group_means(a: Trials, b: Trials, groups: Array) -> Interval:
    pulls, ratio = _pulls(a, b)
    if not ratio:
        return Interval(0.0, 0.0, math.inf)
    log = paired_t(np.bincount(groups, weights=pulls) / np.bincount(groups))
    return Interval(ratio, ratio * math.exp(log.low), ratio * math.exp(log.high))


def _pulls(a: Trials, b: Trials) -> tuple[Array, float]:
    """How each case moves the logarithm of the ratio, and the ratio; 0 if a variant is never correct."""
    if not (a.correct.any() and b.correct.any()):
        return np.zeros(len(a.cost)), 0.0
    relative = [column / column.mean() for column in (b.cost, b.correct, a.cost, a.correct)]
    ratio = b.cost.mean() / b.correct.mean() / (a.cost.mean() / a.correct.mean())
    return relative[0] - relative[1] - relative[2] + relative[3], float(ratio)


def _fieller(arm: Trials) -> Interval:
    n, cost, correct = len(arm.cost), arm.cost.mean(), arm.correct.mean()
    if not correct:
        return Interval(math.inf, 0.0, math.inf)
    square = quantile_t(0.975, n - 1) ** 2 / n
    ((cc, ck), (_, kk)) = np.cov(arm.cost, arm.correct)
    a, b, c = correct**2 - square * kk, cost * correct - square * ck, cost**2 - square * cc
    root = math.sqrt(max(0.0, b * b - a * c))
    if a > 0:
        return Interval(cost / correct, (b - root) / a, (b + root) / a)
    return Interval(cost / correct, (b - root) / a if a < 0 and c > 0 else 0.0, math.inf)


# -- scenarios ---------------------------------------------------------------------------------------------------------


def grouped_scenarios() -> Iterator[PriceScenario]:
    sizes = {"10 groups of 10": TEN_OF_TEN, "8 unequal groups": UNEQUAL, "40 groups, two large": TWO_LARGE}
    dominant = "two groups hold 57 % of the cases, and costs vary between groups more than within"
    for (name, groups), accuracy in product(sizes.items(), (0.5, 0.9, 0.99)):
        shortfall = dominant if groups == TWO_LARGE else ""
        yield PriceScenario(name, groups, (accuracy, accuracy), "lognormal, sd 0.3", 0.3, 0.4, shortfall)
        yield PriceScenario(name, groups, (accuracy, accuracy), "constant", 0.3)
    yield PriceScenario("10 groups of 10", TEN_OF_TEN, (1.0, 0.95), "constant", 0.3)
    yield SizeMatters("24 groups, the large ones harder", (1,) * 24, (0.7, 0.95), "lognormal, sd 0.3")


def single_scenarios() -> Iterator[PriceScenario]:
    """Accuracy by number of cases by costs; the ratio is of two variants alike, or of one that is always correct."""
    for costs, accuracy, n in product(COSTS, (0.5, 0.9, 0.95, 0.99, 1.0), (10, 20, 40, 100)):
        yield PriceScenario(
            f"{n} cases", (1,) * n, (accuracy, accuracy), costs, shortfall=_shortfall(costs, accuracy, n)
        )
    for costs, accuracy, n in product(COSTS, (0.9, 0.99), (10, 20, 40, 100)):
        reason = _shortfall(costs, accuracy, n)
        yield PriceScenario(f"{n} cases, A always correct", (1,) * n, (1.0, accuracy), costs, shortfall=reason)


def _shortfall(costs: str, accuracy: float, n: int) -> str:
    unseen = accuracy**n
    if COSTS[costs][1] > 1 and accuracy < 1 and 0.05 < unseen < 0.3:
        return f"{unseen:.0%} of the experiments see no wrong answer and cannot know that it costs more"
    return "few cases, very skewed costs" if costs == "lognormal, sd 1" and n <= 20 else ""


# -- the table ---------------------------------------------------------------------------------------------------------


def table(experiments: int) -> int:
    """Print all rates; return how many fall short without a known reason."""
    error = Rate(0, experiments).error
    print(f"coverage in % of {experiments:,} experiments per scenario, nominal 95; standard error {100 * error:.1f}")
    missed = 0
    for name, sizes in (("10 groups of 10", TEN_OF_TEN), ("8 unequal groups", UNEQUAL), ("40 groups", TWO_LARGE)):
        rates = latency_rates(sizes, experiments)
        print(f"latency, {name:<25} before {rates['latency before']}  now {rates['latency']}", flush=True)
        missed += not rates["latency"].is_enough
    print(f"{'':<75} price           ratio")
    print(f"{'scenario':<35}{'costs':<24}{'A / B correct':<16} before   now    before  group means   now")
    for scenario in (*grouped_scenarios(), *single_scenarios()):
        missed += _row(scenario, price_rates(scenario, experiments))
    return missed


def _row(scenario: PriceScenario, rates: dict[str, Rate]) -> bool:
    accuracies = " / ".join(f"{accuracy:g}" for accuracy in scenario.accuracies)
    is_enough = rates["price"].is_enough and rates["ratio"].is_enough
    reason = "" if is_enough else f"  {scenario.shortfall or 'TOO LOW'}"
    print(
        f"{scenario.name:<35}{scenario.costs:<24}{accuracies:<16} {rates['price before']}  {rates['price']}   "
        f"{rates['ratio before']}    {rates['ratio by group means']}    {rates['ratio']}{reason}",
        flush=True,
    )
    return not is_enough and not scenario.shortfall


def sign_flip_of_many() -> bool:
    differences = np.random.default_rng(1).normal(0.004, 1, 100_000)
    began = time.process_time()
    sign_flip(differences)
    seconds = time.process_time() - began
    return measure.line(
        "sign_flip of 100,000 differences", f"{seconds:.1f} s of CPU (17 s before)", "< 2 s", seconds < 2
    )


ALL = [sign_flip_of_many]


def main(arguments: list[str]) -> int:
    missed = table(int(arguments[0]) if arguments else 2_000)
    print(f"{missed} scenarios cover less than 95 % − 2 standard errors without a known reason")
    sign_flip_of_many()
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
