"""The statistics, against scipy and reference values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from abreast.stats import cases_needed, paired_t, smallest_detectable, verdict, wilson
from abreast.stats.intervals import MANY_DEGREES, quantile_t


@pytest.mark.parametrize("degrees", [1, 2, 9, 50, 199, MANY_DEGREES, 500, 10_000, 10**6])
@pytest.mark.parametrize("probability", [0.5, 0.8, 0.975, 0.985, 0.99, 0.9999])
def test_the_t_quantile_is_scipys(degrees: int, probability: float) -> None:
    assert quantile_t(probability, degrees) == pytest.approx(
        scipy_stats.t.ppf(probability, degrees), rel=1e-8, abs=1e-12
    )


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.lists(st.floats(-1, 1), min_size=3, max_size=300))
def test_the_paired_interval_is_that_of_a_t_test(differences: list[float]) -> None:
    values = np.array(differences)
    interval = paired_t(differences)
    if values.std(ddof=1) < 1e-12:
        return
    low, high = scipy_stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert (interval.low, interval.high) == (pytest.approx(low), pytest.approx(high))


def test_groups_of_one_change_nothing_and_groups_of_alike_cases_widen_the_interval() -> None:
    random = np.random.default_rng(3)
    values = np.repeat(random.normal(0.1, 0.4, 40), 5)
    alone = paired_t(values, groups=list(range(len(values))))
    assert alone.low == pytest.approx(paired_t(values).low)
    grouped = paired_t(values, groups=[index // 5 for index in range(len(values))])
    assert grouped.high - grouped.low > 1.8 * (alone.high - alone.low)


def test_wilson_is_the_reference() -> None:
    interval = wilson(27, 30)
    assert (interval.low, interval.high) == (pytest.approx(0.743789, abs=1e-6), pytest.approx(0.965400, abs=1e-6))
    for bad in ((-1, 3), (4, 3), (0, 0)):
        with pytest.raises(ValueError, match="got"):
            wilson(*bad)


def test_a_verdict_needs_ten_cases_that_differ() -> None:
    assert verdict([1.0] * 9 + [0.0] * 100).word == "inconclusive"
    assert "too few informative cases: 9 of 109" in verdict([1.0] * 9 + [0.0] * 100).reason
    assert verdict([1.0] * 10 + [0.0] * 100).word == "better"
    assert verdict([-1.0] * 10 + [0.0] * 100).word == "worse"
    assert verdict([]).word == "inconclusive"


def test_verdicts_on_no_difference_are_wrong_in_about_one_of_twenty_at_most() -> None:
    random = np.random.default_rng(11)
    wrong = sum(
        verdict(random.choice([-1.0, 0.0, 1.0], 100, p=[0.2, 0.6, 0.2])).word != "inconclusive" for _ in range(2000)
    )
    assert wrong / 2000 < 0.065


def test_few_groups_decide_nothing() -> None:
    differences = ([1.0] * 6 + [-1.0] * 4) * 2
    found = verdict(differences, groups=[index // 10 for index in range(20)])
    assert found.word == "inconclusive"
    assert "too few groups: 2" in found.reason


def test_needed_cases_and_the_smallest_effect_are_inverse() -> None:
    needed = cases_needed(0.5, 0.1)
    assert smallest_detectable(0.5, needed) <= 0.1 < smallest_detectable(0.5, needed - 2)
