"""Latency and cost in simulated experiments: how often their intervals contain the truth.

`python -m benchmarks.statistics_ratios` has all scenarios, with more experiments each.
"""

from __future__ import annotations

import pytest
from benchmarks.statistics_ratios import (
    TEN_OF_TEN,
    UNEQUAL,
    PriceScenario,
    SizeMatters,
    latency_rates,
    price_rates,
)

EXPERIMENTS = 300  # a standard error of 1.3 %


@pytest.mark.parametrize("sizes", [TEN_OF_TEN, UNEQUAL], ids=["10 of 10", "unequal"])
def test_the_interval_of_the_latency_ratio_covers_dependent_cases(sizes: tuple[int, ...]) -> None:
    rates = latency_rates(sizes, EXPERIMENTS)
    assert rates["latency before"].share < 0.65
    assert rates["latency"].is_enough


@pytest.mark.parametrize(("sizes", "accuracy"), [(TEN_OF_TEN, 0.5), (UNEQUAL, 0.9)], ids=["10 of 10", "unequal"])
def test_the_interval_of_the_cost_covers_dependent_cases(sizes: tuple[int, ...], accuracy: float) -> None:
    scenario = PriceScenario("", sizes, (accuracy, accuracy), "lognormal, sd 0.3", correlation=0.3, group_sd=0.4)
    rates = price_rates(scenario, EXPERIMENTS)
    assert max(rates["price before"].share, rates["ratio before"].share) < 0.75
    assert rates["price"].is_enough
    assert rates["ratio"].is_enough


def test_the_price_is_that_of_all_cases_even_if_large_groups_differ_from_small_ones() -> None:
    scenario = SizeMatters("", (1,) * 24, (0.7, 0.95), "lognormal, sd 0.3")
    rates = price_rates(scenario, EXPERIMENTS)
    assert rates["ratio by group means"].share < 0.6
    assert rates["price"].is_enough
    assert rates["ratio"].is_enough


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("costs", "accuracies", "n"),
    [
        ("constant", (0.95, 0.95), 20),
        ("constant", (1.0, 0.9), 10),
        ("constant", (1.0, 0.99), 100),
        ("lognormal, sd 1", (0.9, 0.95), 40),
        ("wrong answers cost 3×", (0.9, 0.9), 100),
    ],
)
def test_a_high_accuracy_or_a_skewed_cost_still_has_an_honest_interval(
    costs: str, accuracies: tuple[float, float], n: int
) -> None:
    rates = price_rates(PriceScenario("", (1,) * n, accuracies, costs), EXPERIMENTS)
    assert rates["price before"].share < rates["price"].share
    assert rates["price"].is_enough
    assert rates["ratio"].is_enough
