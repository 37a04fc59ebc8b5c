"""A judge corrected by human labels: the coverage of the interval and how it is computed."""

from __future__ import annotations

import math

import numpy as np
import pytest
from benchmarks.statistics_judges import SCENARIOS, biased_judge, simulate
from hypothesis import given, settings
from hypothesis import strategies as st

from abreast.stats import CorrectedEstimate, agreement, labels_needed, paired_t, ppi

EXPERIMENTS = 1_000
ERROR = math.sqrt(0.95 * 0.05 / EXPERIMENTS)  # the Monte Carlo error of a coverage: 0.7 points


def test_a_judge_that_favours_one_arm_is_wrong_in_a_third_of_the_experiments_and_labels_correct_it() -> None:
    result = simulate(biased_judge, 0.0, labels=60, experiments=EXPERIMENTS)
    assert 0.58 < result["judge"].covered < 0.69
    assert result["corrected"].covered >= 0.95 - 2 * ERROR
    assert result["corrected"].width < 0.88 * result["labels"].width


@pytest.mark.parametrize("labels", [20, 40, 60])
@pytest.mark.parametrize("name", SCENARIOS)
def test_corrected_intervals_hold_the_truth(name: str, labels: int) -> None:
    generate, truth = SCENARIOS[name]
    result = simulate(generate, truth, labels, EXPERIMENTS, seed=labels)
    assert result["corrected"].covered >= 0.95 - 2 * ERROR


@pytest.mark.parametrize("weight", ["case", "group"])
def test_groups_are_taken_into_account(weight: str) -> None:
    random, experiments = np.random.default_rng(3), 1_000
    sizes = [20, 12, 8, *[4] * 30]
    groups = np.repeat(np.arange(len(sizes)), sizes)
    covered, ignored = 0, 0
    for _ in range(experiments):
        human = np.clip(random.normal(0, 0.2, len(sizes))[groups] + random.normal(0, 0.25, len(groups)), -1, 1)
        judge = np.clip(
            human + random.normal(0.05, 0.1, len(sizes))[groups] + random.normal(0, 0.2, len(groups)), -1, 1
        )
        labelled = random.choice(len(groups), 60, replace=False)
        estimate = ppi(judge, human[labelled], labelled, groups=groups.tolist(), weight=weight)  # type: ignore[arg-type]
        covered += estimate.low <= 0 <= estimate.high
        labels_only = ppi(judge, human[labelled], labelled)
        ignored += labels_only.low <= 0 <= labels_only.high
    error = math.sqrt(0.95 * 0.05 / experiments)
    assert covered / experiments >= 0.95 - 2 * error
    assert ignored / experiments < 0.9


def test_the_estimate_is_the_judges_mean_plus_the_mean_correction() -> None:
    judge = np.array([1.0, 0.0, 0.5, -1.0, 0.0, 1.0, 0.5, 0.0, -0.5, 0.25] * 8)
    labelled = np.arange(0, 80, 3)
    human = np.round(judge[labelled] * 0.5 + np.sin(labelled) * 0.2, 3)
    estimate = ppi(judge, human, labelled)
    n, total = len(labelled), len(judge)
    tuning = np.cov(human, judge[labelled])[0, 1] / ((1 + n / total) * judge.var(ddof=1))
    assert estimate.tuning == pytest.approx(tuning)
    assert estimate.estimate == pytest.approx(tuning * judge.mean() + (human - tuning * judge[labelled]).mean())
    assert estimate.labels == n


def test_a_constant_judge_leaves_only_the_labels() -> None:
    human = [1.0, 0.0, -1.0, 1.0, 1.0, 0.0] * 5
    estimate = ppi([0.5] * 200, human, range(30))
    assert estimate.tuning == 0
    assert estimate.estimate == pytest.approx(np.mean(human))
    assert estimate.high - estimate.low == pytest.approx(paired_t(human).high - paired_t(human).low, rel=0.03)


def test_a_judge_that_contradicts_people_does_not_count() -> None:
    human = np.array([1.0, -1.0, 0.0] * 10)
    assert ppi(np.tile(-human, 5), human, range(30)).tuning == 0


def test_with_labels_on_every_case_only_they_count() -> None:
    judge, human = biased_judge(np.random.default_rng(1), 80)
    assert ppi(judge, human, range(80)).estimate == pytest.approx(human.mean())


def test_unanimous_labels_are_not_certainty() -> None:
    estimate = ppi([0.0] * 100, [0.0] * 20, range(20))
    assert estimate.low < -0.1
    assert estimate.high > 0.1


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.25, 1.0]), min_size=30, max_size=60),
    st.lists(st.sampled_from([-1.0, 0.0, 0.1, 1.0]), min_size=20, max_size=30),
)
def test_the_estimate_lies_in_its_interval(judge: list[float], human: list[float]) -> None:
    groups = [index % 9 for index in range(len(judge))]
    for estimate in (ppi(judge, human, range(len(human))), ppi(judge, human, range(len(human)), groups=groups)):
        assert -1 <= estimate.low <= estimate.estimate <= estimate.high <= 1
        assert 0 <= estimate.p <= 1


def test_smaller_effects_need_more_labels_and_too_few_cases_cannot_be_helped() -> None:
    judge, human = biased_judge(np.random.default_rng(5), 2_000)
    labels = human[:60]
    width = ppi(judge, labels, range(60))

    def needed(effect: float) -> int | None:
        half = (width.high - width.low) / 2
        estimate = CorrectedEstimate(effect, effect - half, effect + half, 0.95, 1.0, "PPI++", width.tuning, 60)
        return labels_needed(estimate, judge, labels)

    large, small = needed(0.08), needed(0.05)
    assert large is not None
    assert small is not None
    assert 60 < large < small <= 2_000
    assert needed(0.5) == 60
    assert needed(0.001) is None


def test_agreement_beyond_chance() -> None:
    assert agreement([1, 1, 0, 0], [1, 1, 0, 0]).kappa == 1
    assert agreement([1, 0, 1, 0], [1, 1, 0, 0]).kappa == 0
    assert agreement([1, 1], [1, 1]).kappa is None
    assert agreement([0.0, 0.25, 1.0], [0.05, 0.3, 0.5], grades=5).rate == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.1] * 30, [0.1] * 5, range(4)), "as many human differences"),
        (([0.1] * 30, [0.1] * 5, [0, 1, 2, 3, 3]), "different indexes"),
        (([0.1] * 30, [0.1] * 5, [0, 1, 2, 3, 30]), "different indexes"),
        (([2.0] * 30, [0.1] * 5, range(5)), "within ±1"),
        (([0.1] * 30, [math.nan] * 5, range(5)), "finite"),
        (([0.1] * 30, [0.1] * 5, range(5), 0.95, [1] * 29), "as many groups"),
        (([0.1] * 30, [0.1] * 5, range(5), 0.95, [1] * 30), "at least 5 groups"),
    ],
)
def test_bad_arguments_are_refused(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ppi(*arguments)  # type: ignore[arg-type]
