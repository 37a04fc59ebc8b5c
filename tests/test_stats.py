"""The statistics, against reference values, scipy, literal formulas and properties that must hold for any data."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import optimize, special
from scipy import stats as scipy_stats

from abreast import stats
from abreast.stats import (
    RunningSequence,
    alphas,
    bonett_price,
    bradley_terry,
    cases_needed,
    confidence_sequence,
    cost_per_correct,
    final_interval,
    futility,
    gaffke,
    holm,
    latency_ratio,
    mcnemar,
    paired_t,
    pass_at_k,
    pass_hat_k,
    sign_flip,
    smallest_detectable,
    verdict,
    verdicts,
    watched,
    wilson,
)
from abreast.stats.numerics.student import MANY_DEGREES, find_root, quantile_t, two_sided_t

quick = settings(max_examples=60, deadline=None, derandomize=True)
scores = st.lists(st.floats(-1, 1).map(lambda value: round(value, 3)), min_size=2, max_size=80)
counts = st.tuples(st.integers(0, 60), st.integers(0, 200), st.integers(0, 60)).filter(any)


def pairs(wins: int, ties: int, losses: int) -> list[float]:
    return [1.0] * wins + [0.0] * ties + [-1.0] * losses


def close(*expected: float, to: float = 5e-7) -> Any:
    return pytest.approx(expected, abs=to)


# Reference values


def test_one_proportion_has_wilsons_interval() -> None:
    interval = wilson(27, 30)
    assert (interval.low, interval.high) == close(0.743789, 0.965400)
    interval = wilson(3, 17, 0.9)
    assert (interval.low, interval.high) == close(0.072814467, 0.368966978), "statsmodels 0.15: proportion_confint"


def test_mcnemar_matches_the_reference() -> None:
    assert (mcnemar(15, 5, exact=True).p, mcnemar(15, 5).p) == close(0.0413895, 0.0266037, to=5e-8)


@pytest.mark.parametrize(("wins", "losses"), [(0, 0), (1, 0), (3, 9), (40, 61), (7, 7), (1000, 900), (60_000, 59_500)])
def test_mcnemar_is_the_mid_p_binomial_test(wins: int, losses: int) -> None:
    n, fewer = wins + losses, min(wins, losses)
    exact = scipy_stats.binomtest(wins, n).pvalue if n else 1.0
    assert mcnemar(wins, losses, exact=True).p == pytest.approx(exact, rel=1e-7)
    observed_p = scipy_stats.binom.pmf(fewer, n, 0.5)
    assert mcnemar(wins, losses).p == pytest.approx(1.0 if wins == losses else exact - observed_p, rel=1e-7)


def test_the_difference_of_paired_proportions_matches_bonett_and_price() -> None:
    interval = bonett_price(15, 5, 50)
    assert (interval.estimate, interval.low, interval.high) == close(0.2, 0.023422, 0.361194)


@pytest.mark.parametrize(
    ("differences", "low", "high"),
    [(pairs(30, 58, 12), -0.018120, 0.376391), (pairs(0, 40, 0), -0.124636, 0.124636)],
)
def test_the_sequence_matches_the_reference(differences: list[float], low: float, high: float) -> None:
    interval = confidence_sequence(differences, 0.05)
    assert (interval.low, interval.high) == close(low, high)


def test_the_latency_ratio_matches_the_reference() -> None:
    ratio = latency_ratio([1.2, 0.8, 3.4, 2.2, 10.5, 0.9, 1.7, 4.1], [1.0, 0.9, 2.1, 1.6, 6.3, 0.7, 1.5, 4.6])
    assert (ratio.estimate, ratio.low, ratio.high) == close(0.821027, 0.660578, 0.996317)
    assert (ratio.median_a, ratio.median_b, ratio.p95_a, ratio.p95_b) == close(1.95, 1.55, 10.5, 6.3)


def test_adjusted_p_values_match_the_reference() -> None:
    assert holm([0.001, 0.011, 0.02, 0.04, 0.3]) == close(0.005, 0.044, 0.06, 0.08, 0.3)
    unordered = [0.04, 0.001, 0.3, 0.011, 0.02, 0.02]
    assert holm(unordered) == close(0.08, 0.006, 0.3, 0.055, 0.08, 0.08), "statsmodels 0.15: multipletests"
    assert stats.benjamini_hochberg(unordered) == close(0.048, 0.006, 0.3, 0.03, 0.03, 0.03)
    assert stats.benjamini_hochberg(unordered) == pytest.approx(scipy_stats.false_discovery_control(unordered))


def test_pass_at_k_and_pass_hat_k_match_the_reference() -> None:
    assert pass_at_k(10, 3, 5) == pytest.approx(0.916667, abs=5e-7)
    assert pass_hat_k(10, 8, 3) == pytest.approx(8 * 7 * 6 / (10 * 9 * 8))
    assert (pass_at_k(5, 0, 2), pass_at_k(5, 5, 2), pass_at_k(5, 4, 2)) == (0, 1, 1)
    assert (pass_hat_k(5, 1, 2), pass_hat_k(5, 5, 5)) == (0, 1)
    assert pass_at_k(1000, 400, 1) == pass_hat_k(1000, 400, 1) == 0.4


def test_the_error_of_groups_matches_bell_and_mccaffrey() -> None:
    """The matrices of the definition: CR2 and its degrees of freedom, for a mean over cases in groups."""
    random = np.random.default_rng(5)
    for sizes in ([3, 2, 2, 3, 1, 1], [29, 4, 4, 4, 3, 3, 2, 1], [5, 5, 5, 5]):
        groups = np.repeat(np.arange(len(sizes)), sizes)
        values = random.uniform(-1, 1, len(groups))
        n, ones = len(values), np.ones((len(values), 1))
        annihilator = np.eye(n) - ones @ ones.T / n
        adjusted = np.zeros((n, len(sizes)))
        square = 0.0
        for group in range(len(sizes)):
            mine = groups == group
            block = annihilator[np.ix_(mine, mine)]
            values_of_block, vectors = np.linalg.eigh(block)
            power = np.where(values_of_block > 1e-10, values_of_block, np.inf) ** -0.5
            weight = vectors @ np.diag(power) @ vectors.T @ ones[mine] / n
            square += ((values - values.mean())[mine] @ weight).item() ** 2
            adjusted[:, group] = annihilator[:, mine] @ weight[:, 0]
        gram = adjusted.T @ adjusted
        interval = paired_t(values, groups=groups.tolist())
        half = scipy_stats.t.ppf(0.975, np.trace(gram) ** 2 / (gram**2).sum()) * math.sqrt(square)
        assert (interval.low, interval.high) == close(values.mean() - half, values.mean() + half)


def test_groups_of_equal_weight_get_the_t_interval_of_their_means() -> None:
    values, groups = [1.0, 0.0, 1.0, -1.0, 0.0, 1.0, 1.0], ["a", "a", "b", "c", "c", "d", "d"]
    by_group = paired_t(values, groups=groups, weight="group")
    means = paired_t([0.5, 1.0, -0.5, 1.0])
    assert (by_group.estimate, by_group.low, by_group.high) == (means.estimate, means.low, means.high)


# Against scipy and literal formulas


@pytest.mark.parametrize("degrees", [1, 2, 9, 50, 199, MANY_DEGREES, 500, 10_000, 10**6])
@pytest.mark.parametrize("probability", [0.5, 0.8, 0.975, 0.985, 0.99, 0.9999])
def test_the_t_distribution_matches_scipy(degrees: int, probability: float) -> None:
    quantile = scipy_stats.t.ppf(probability, degrees)
    assert quantile_t(probability, degrees) == pytest.approx(quantile, rel=1e-8, abs=1e-12)
    assert two_sided_t(quantile, degrees) == pytest.approx(2 * (1 - probability), rel=1e-7)


@quick
@given(scores)
def test_the_paired_interval_matches_a_t_test(differences: list[float]) -> None:
    interval = paired_t(differences)
    if np.std(differences) < 1e-12:
        assert interval.high - interval.low < 1e-9
        return
    expected = scipy_stats.ttest_1samp(differences, 0)
    low, high = expected.confidence_interval(0.95)
    assert (interval.low, interval.high, interval.p) == pytest.approx((low, high, expected.pvalue), rel=1e-6, abs=1e-9)


def literal_bound(differences: list[float], alpha: float) -> float:
    """The lower bound computed literally from the formula: products, 64 bets, 40 bisections."""
    low, high, bets = -1.0, 1.0, (np.arange(1, 65) - 0.5) / 64
    for _ in range(40):
        m = (low + high) / 2
        logs = np.log1p(np.multiply.outer(bets, (np.array(differences) - m) / (1 + m))).sum(axis=1)
        rich = np.logaddexp.reduce(logs) - math.log(64) >= math.log(2 / alpha)
        low, high = (m, high) if rich else (low, m)
    return low


@quick
@given(scores, st.sampled_from([0.001, 0.02, 0.05, 0.5]))
def test_the_sequence_matches_its_formula(differences: list[float], alpha: float) -> None:
    interval = confidence_sequence(differences, alpha)
    mirrored = [-difference for difference in differences]
    expected = literal_bound(differences, alpha), -literal_bound(mirrored, alpha)
    assert (interval.low, interval.high) == pytest.approx(expected, abs=1e-9)


def test_very_many_distinct_differences_move_a_bound_negligibly() -> None:
    differences = np.random.default_rng(2).uniform(-1, 1, 6000).tolist()
    assert confidence_sequence(differences, 0.02).low == pytest.approx(literal_bound(differences, 0.02), abs=1e-7)


@quick
@given(st.lists(st.integers(-20, 20), min_size=1, max_size=9))
def test_the_sign_flip_test_counts_all_patterns_of_signs(differences: list[int]) -> None:
    patterns = list(itertools.product((-1, 1), repeat=len(differences)))
    sums = [sum(sign * size for sign, size in zip(pattern, differences, strict=True)) for pattern in patterns]
    expected = sum(abs(total) >= abs(sum(differences)) for total in sums) / len(patterns)
    assert sign_flip([difference / 20 for difference in differences]).p == pytest.approx(expected)


def test_many_sign_flips_agree_with_the_normal_distribution() -> None:
    differences = np.random.default_rng(6).normal(0.015, 1, 20_001)
    exact = 2 * scipy_stats.norm.sf(abs(differences.sum()) / math.sqrt(float((differences**2).sum())))
    error = math.sqrt(exact * (1 - exact) / 10_000)
    assert sign_flip(differences).p == pytest.approx(exact, abs=3 * error)
    assert sign_flip(differences, flips=500) == sign_flip(differences, flips=500)


def test_sampled_sign_flips_approximate_all_of_them_and_are_repeatable() -> None:
    differences = np.random.default_rng(5).normal(0.1, 0.3, 40)
    result = sign_flip(differences)
    assert result.p == pytest.approx(paired_t(differences).p, abs=0.01)
    assert result == sign_flip(differences) != sign_flip(differences, seed=1)
    assert sign_flip(pairs(15, 30, 5)).p == pytest.approx(mcnemar(15, 5, exact=True).p)


@pytest.mark.parametrize("n", [6, 9, 20, 60, 101, 400])
def test_the_latency_interval_ends_where_wilcoxons_test_rejects(n: int) -> None:
    random = np.random.default_rng(n)
    first, second = np.exp(random.normal(0, 1, n)), np.exp(random.normal(-0.2, 1, n))
    interval = latency_ratio(first, second)
    logs = np.log(second / first)
    method = "exact" if n <= 60 else "asymptotic"

    def p(ratio: float) -> float:
        return float(scipy_stats.wilcoxon(logs - math.log(ratio), method=method, correction=True).pvalue)

    for bound, outward in ((interval.low, 1 - 1e-9), (interval.high, 1 + 1e-9)):
        assert p(bound * outward) <= 0.0501 <= p(bound / outward**2) + 0.02
    averages = (logs[:, None] + logs)[np.triu_indices(n)] / 2
    assert math.log(interval.estimate) == pytest.approx(np.median(averages))


def test_the_latency_ratio_of_many_cases_needs_no_list_of_all_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(8)
    first, second = np.exp(random.normal(0, 1, 700)), np.exp(random.normal(0.1, 1, 700))
    listed = latency_ratio(first, second)
    monkeypatch.setattr("abreast.stats.latency.ALL_PAIRS", 1)
    counted = latency_ratio(first, second)
    assert (counted.estimate, counted.low, counted.high) == pytest.approx((listed.estimate, listed.low, listed.high))


def test_the_cost_of_a_correct_answer_has_fiellers_interval_and_its_ratio_the_linear_one() -> None:
    random = np.random.default_rng(4)
    costs, others = random.gamma(2, 0.01, (2, 80))
    right, more = (random.random(80) < 0.6).astype(float), (random.random(80) < 0.8).astype(float)
    price = cost_per_correct(costs, right, others, more)
    assert price.a.estimate == pytest.approx(costs.sum() / right.sum())
    for bound in (price.a.low, price.a.high):  # where cost − ratio × correct is just significant
        assert scipy_stats.ttest_1samp(costs - bound * right, 0).pvalue == pytest.approx(0.05)
    assert price.ratio is not None

    def log_ratio(weights: Any) -> float:
        return math.log((others @ weights) / (more @ weights) / ((costs @ weights) / (right @ weights)))

    pulls = [(log_ratio(np.ones(80) + 1e-6 * (np.arange(80) == i)) - log_ratio(np.ones(80))) * 80e6 for i in range(80)]
    expected = scipy_stats.ttest_1samp(np.array(pulls) + log_ratio(np.ones(80)), 0).confidence_interval()
    assert (price.ratio.low, price.ratio.high) == pytest.approx(np.exp(expected), rel=1e-4)


def test_bradley_and_terrys_strengths_explain_the_wins() -> None:
    wins = np.array([[0, 8, 9, 2.5], [2, 0, 6, 3], [1, 4, 0, 1], [1.5, 3, 2, 0]])
    ranking = bradley_terry(wins)
    assert sum(ranking.strengths) == pytest.approx(1)
    assert [ranking.strengths[index] for index in ranking.order] == sorted(ranking.strengths, reverse=True)
    for first in range(4):  # at the maximum of the likelihood everybody wins as often as foreseen
        foreseen = sum(
            (wins + wins.T)[first, second] * ranking.chance(first, second) for second in range(4) if second != first
        )
        assert foreseen == pytest.approx(wins[first].sum())
    assert bradley_terry([[0, 3], [1, 0]]).chance(0, 1) == pytest.approx(0.75)
    assert bradley_terry([[0, 1e6, 0], [1, 0, 1e6], [1, 1, 0]]).order == (0, 1, 2)


# What must hold for any data


def ends(interval: Any) -> tuple[float, float]:
    return interval.low, interval.high


@quick
@given(scores)
def test_swapping_the_arms_mirrors_everything(differences: list[float]) -> None:
    mirrored = [-difference for difference in differences]
    for method in (confidence_sequence, final_interval, paired_t):
        low, high = ends(method(differences))
        assert ends(method(mirrored)) == pytest.approx((-high, -low), abs=1e-9)
    opposite = {"better": "worse", "worse": "better"}
    first, second = verdict(differences), verdict(mirrored)
    assert second.word == opposite.get(first.word, first.word)
    assert second.p == pytest.approx(first.p, abs=1e-9)
    assert sign_flip(differences[:12]).p == pytest.approx(sign_flip(mirrored[:12]).p)


@quick
@given(st.lists(st.tuples(st.floats(0.01, 100), st.floats(0.01, 100)), min_size=1, max_size=40))
def test_swapping_the_arms_inverts_ratios(cases: list[tuple[float, float]]) -> None:
    first, second = zip(*cases, strict=True)
    forth, back = latency_ratio(first, second), latency_ratio(second, first)
    assert back.estimate == pytest.approx(1 / forth.estimate)
    assert back.high == pytest.approx(1 / forth.low if forth.low else math.inf)
    right = [index % 2 for index in range(len(cases))]
    forward, backward = cost_per_correct(first, right, second, right), cost_per_correct(second, right, first, right)
    if forward.ratio is None or backward.ratio is None:
        assert forward.ratio is backward.ratio is None
    else:
        assert backward.ratio.estimate == pytest.approx(1 / forward.ratio.estimate)


@quick
@given(scores, st.randoms())
def test_one_look_does_not_depend_on_the_order(differences: list[float], random: Any) -> None:
    shuffled = random.sample(differences, len(differences))
    assert ends(confidence_sequence(shuffled)) == pytest.approx(ends(confidence_sequence(differences)), abs=1e-9)
    assert ends(final_interval(shuffled)) == pytest.approx(ends(final_interval(differences)), abs=1e-9)


@quick
@given(counts)
def test_intervals_of_a_higher_level_contain_those_of_a_lower_one(counts: tuple[int, int, int]) -> None:
    wins, _, losses = counts
    n = sum(counts)
    methods: list[Callable[[float], Any]] = [
        lambda level: confidence_sequence(pairs(*counts), 1 - level),
        lambda level: bonett_price(wins, losses, n, level),
        lambda level: wilson(wins, n, level),
    ]
    for method in methods:
        narrow, middle, wide = (method(level) for level in (0.5, 0.95, 0.999))
        assert wide.low <= middle.low <= narrow.low
        assert narrow.high <= middle.high <= wide.high


@quick
@given(counts)
def test_one_more_win_instead_of_a_tie_never_looks_worse(counts: tuple[int, int, int]) -> None:
    wins, ties, losses = counts
    before, after = pairs(wins, ties + 1, losses), pairs(wins + 1, ties, losses)
    assert confidence_sequence(after).low >= confidence_sequence(before).low
    assert confidence_sequence(after).high >= confidence_sequence(before).high - 1e-12
    assert wilson(wins + 1, sum(counts) + 1).low >= wilson(wins, sum(counts) + 1).low
    if wins >= losses:
        assert mcnemar(wins + 1, losses).p <= mcnemar(wins, losses).p


@quick
@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_adjusted_p_values_are_larger_and_keep_their_order(ps: list[float]) -> None:
    for adjust in (holm, stats.benjamini_hochberg):
        adjusted = adjust(ps)
        assert all(p - 1e-15 <= adjusted_p <= 1 for p, adjusted_p in zip(ps, adjusted, strict=True))
        order = np.argsort(ps, kind="stable")
        assert (np.diff(np.array(adjusted)[order]) >= -1e-15).all()
    assert all(bh <= h + 1e-15 for bh, h in zip(stats.benjamini_hochberg(ps), holm(ps), strict=True))


@quick
@given(scores, st.sampled_from([(0.0, 5.0), (1.0, 10.0), (-2.0, -1.5)]))
def test_rescaling_scores_rescales_their_interval(differences: list[float], scale: tuple[float, float]) -> None:
    width = scale[1] - scale[0]
    stretched = [difference * width for difference in differences]
    first, second = verdict(differences, margin=0.05), verdict(stretched, margin=0.05 * width, scale=scale)
    assert (second.word, second.reason, second.needed) == (first.word, first.reason, first.needed)
    assert first.interval is not None
    assert second.interval is not None
    assert ends(second.interval) == pytest.approx([end * width for end in ends(first.interval)], abs=1e-9)
    look, wide = confidence_sequence(differences), confidence_sequence(stretched, scale=scale)
    assert ends(wide) == pytest.approx([end * width for end in ends(look)], abs=1e-9)


@quick
@given(scores, st.integers(1, 15))
def test_a_running_sequence_keeps_the_narrowest_bounds_of_all_looks(differences: list[float], batch_size: int) -> None:
    sequence, low, high, p = RunningSequence(alpha=0.05), -1.0, 1.0, 1.0
    for start in range(0, len(differences), batch_size):
        running = sequence.observe(differences[start : start + batch_size])
        look = confidence_sequence(differences[: start + batch_size])
        low, high, p = max(low, look.low), min(high, look.high), min(p, look.p)
        assert (*ends(running), running.p) == pytest.approx((low, high, p), abs=1e-9)
        assert running.n == look.n
        assert running.estimate == pytest.approx(look.estimate)


@quick
@given(scores, st.lists(st.integers(1, 6), min_size=80, max_size=80), st.integers(1, 7))
def test_a_running_sequence_counts_whole_groups_however_batches_cut_them(
    differences: list[float], sizes: list[int], batch_size: int
) -> None:
    groups = np.repeat(np.arange(len(sizes)), sizes)[: len(differences)].tolist()
    sequence = RunningSequence(alpha=0.05)
    for start in range(0, len(differences), batch_size):
        sequence.observe(differences[start : start + batch_size], groups[start : start + batch_size])
    last = sequence.finish()
    assert last.n == len(set(groups))
    single_look = confidence_sequence(differences, groups=groups)
    assert last.low >= single_look.low - 1e-9
    assert last.high <= single_look.high + 1e-9


def test_a_group_that_reappears_is_refused() -> None:
    sequence = RunningSequence()
    sequence.observe([0, 0, 1], ["a", "b", "b"])
    with pytest.raises(ValueError, match="'a' came back"):
        sequence.observe([1], ["a"])
    with pytest.raises(ValueError, match="with every batch, or with none"):
        sequence.observe([1])


# The verdict


def test_a_verdict_has_five_words() -> None:
    assert verdict(pairs(40, 140, 20)).word == "better"
    assert verdict(pairs(20, 140, 40)).word == "worse"
    assert verdict(pairs(20, 960, 20), margin=0.03).word == "equivalent"
    assert verdict(pairs(25, 155, 20), margin=0.05).word == "not worse"
    assert verdict(pairs(25, 155, 20)).word == "inconclusive"
    assert [verdict(pairs(*counts), margin=0.03).settled for counts in ((40, 140, 20), (20, 960, 20))] == [True, True]
    assert not verdict(pairs(25, 155, 20), margin=0.05).settled, "it may yet turn out better"


def test_at_the_planned_number_of_cases_both_intervals_count() -> None:
    differences = pairs(40, 140, 20)
    result = verdict(differences, planned=200)
    look, final = confidence_sequence(differences, 0.02), final_interval(differences, 0.97)
    assert result.interval == stats.Interval(0.1, max(look.low, final.low), min(look.high, final.high), 0.95)
    assert result.p == final.p == bonett_price(40, 20, 200).p
    before = verdict(differences, planned=201)
    assert (before.word, before.final, before.p) == ("inconclusive", None, look.p)
    assert before.interval == stats.Interval(0.1, look.low, look.high, 0.95)


def test_with_fewer_than_sixty_planned_cases_the_verdict_comes_at_the_end() -> None:
    differences = pairs(30, 25, 4)
    result = verdict(differences, planned=59)
    assert (result.word, alphas(59)) == ("better", (0.0, 0.05))
    assert result.interval == stats.Interval(26 / 59, *ends(bonett_price(30, 4, 59)), 0.95)
    early = verdict(differences[:40], planned=59)
    assert (early.word, early.settled) == ("inconclusive", False)
    assert early.reason.startswith("40 of 59 planned cases are complete")
    assert early.interval == stats.Interval(early.interval.estimate if early.interval else 0, -1, 1, 1)
    assert verdict(differences[:40], planned=60).word == "better"


def test_cases_beyond_the_planned_ones_feed_the_sequence_alone() -> None:
    first, further = pairs(20, 70, 10), pairs(25, 70, 5)
    result = verdict(first + further, planned=100)
    assert result.final == final_interval(first, 0.97)
    assert (result.word, result.cases) == ("better", 200)
    assert result.interval is not None
    assert result.interval.low <= result.interval.estimate <= result.interval.high


def test_where_the_final_interval_is_spent_the_sequence_decides_alone() -> None:
    differences = pairs(40, 140, 20)
    assert verdict(differences).word == "better"
    later = verdict(differences, only_sequence=True)
    look = confidence_sequence(differences, 0.02)
    assert (later.word, later.final, later.p) == ("inconclusive", None, look.p)
    assert later.interval == stats.Interval(0.1, look.low, look.high, 0.98)
    assert verdict(pairs(30, 5, 5), only_sequence=True).word == "better", "also below 60 cases"


def test_bounds_from_earlier_looks_count_while_they_contain_the_estimate() -> None:
    sequence = RunningSequence(alpha=0.02)
    assert sequence.observe(pairs(30, 30, 5)).low > 0
    after = sequence.observe(pairs(0, 0, 8))
    differences = pairs(30, 30, 5) + pairs(0, 0, 8)
    assert verdict(differences, planned=300).word == "inconclusive"
    assert verdict(differences, planned=300, seen=after).word == "better"
    with pytest.raises(ValueError, match=r"observed at level 0\.98, this verdict needs 0\.99"):
        verdict(differences, planned=300, seen=after, comparisons=2)
    last_look = sequence.observe(pairs(0, 0, 40))
    everything = differences + pairs(0, 0, 40)
    assert last_look == replace(confidence_sequence(everything, 0.02), equivalent=None), "one look, for all are needed"
    assert verdict(everything, planned=300, seen=last_look).word == "inconclusive"


def test_intervals_that_exclude_each_other_decide_nothing() -> None:
    differences = pairs(60, 40, 0) + pairs(0, 40, 60)
    look = replace(confidence_sequence(differences, 0.02), low=-0.001, high=0.001)
    result = verdict(differences[:100], planned=100, seen=look)
    assert result.word in ("better", "inconclusive"), "the look misses the estimate, so that of all cases counts"
    without_look = verdict(pairs(40, 60, 0) + pairs(0, 20, 80), planned=100, seen=None)
    assert without_look.interval is not None
    assert without_look.interval.low <= without_look.interval.estimate <= without_look.interval.high


@quick
@given(
    st.lists(st.sampled_from([-1.0, -0.5, -0.25, 0.0, 0.0, 0.5, 1.0]), min_size=1, max_size=150),
    st.lists(st.integers(0, 12), min_size=150, max_size=150),
    st.integers(1, 200),
    st.sampled_from([0.0, 0.1]),
    st.sampled_from(["case", "group"]),
    st.sampled_from(["binary", "any"]),
    st.booleans(),
)
def test_the_verdict_agrees_with_the_estimate_and_the_interval_contains_it(
    differences: list[float],
    labels: list[int],
    planned: int,
    margin: float,
    weight: Any,
    kind: str,
    only_sequence: bool,
) -> None:
    values = [float(np.sign(value)) for value in differences] if kind == "binary" else differences
    groups = sorted(labels[: len(values)])
    looks_on_the_way = watched(values, 0.02, margin or None, groups, weight=weight)
    result = verdict(
        values,
        planned,
        margin,
        groups,
        weight=weight,
        seen=looks_on_the_way[-1] if planned >= 60 or only_sequence else None,
        only_sequence=only_sequence,
    )
    assert result.interval is not None
    estimate, low, high = result.interval.estimate, result.interval.low, result.interval.high
    assert low - 1e-12 <= estimate <= high + 1e-12
    assert (result.word == "better") == (low > 0)
    assert (result.word == "worse") == (high < 0)
    assert result.word != "better" or estimate > 0
    assert result.word != "worse" or estimate < 0
    by_hand = [np.mean([v for v, g in zip(values, groups, strict=True) if g == group]) for group in set(groups)]
    assert estimate == pytest.approx(np.mean(values) if weight == "case" else np.mean(by_hand))


def test_two_large_groups_cannot_turn_the_verdict_against_the_estimate() -> None:
    values = [1.0] * 25 + [0.0] * 15 + [-1.0] * 61 + [0.0] * 59
    groups: list[Any] = [*range(40), *["x"] * 60, *["y"] * 60]
    by_case, by_group = (verdict(values, groups=groups, weight=weight) for weight in ("case", "group"))
    assert by_case.interval is not None
    assert by_group.interval is not None
    assert (by_case.word, by_case.interval.estimate) == ("inconclusive", pytest.approx(-0.225))
    assert (by_group.word, by_group.interval.estimate) == ("better", pytest.approx(24 / 42, abs=0.01))


def test_below_ten_cases_that_differ_the_exact_test_gives_the_direction() -> None:
    result = verdict(pairs(9, 31, 0))
    assert (result.word, result.p) == ("better", pytest.approx(2 * 0.5**9, abs=1e-7))
    assert verdict(pairs(0, 31, 9)).word == "worse"
    assert verdict(pairs(5, 35, 0)).word == "inconclusive"
    assert "only 5 of 40 cases differ" in verdict(pairs(5, 35, 0)).reason
    assert verdict(pairs(7, 93, 0)).word == "better", "p = .016, below the .03 of a plan of 60 cases or more"
    assert verdict(pairs(6, 94, 0)).word == "inconclusive", "p = .031"
    assert verdict([0.01] * 8 + [-0.9] + [0.0] * 31).word == "inconclusive", "no direction of unequal differences"
    assert verdict([0.25] * 20).word == "better"


@quick
@given(st.integers(0, 9), st.integers(0, 60), st.integers(0, 9))
def test_gaffkes_interval_inverts_the_exact_sign_test(wins: int, ties: int, losses: int) -> None:
    if wins + ties + losses:
        assert gaffke(pairs(wins, ties, losses)).p == pytest.approx(mcnemar(wins, losses, exact=True).p, abs=1e-6)


def test_gaffkes_interval_of_ten_times_the_ties_is_ten_times_as_narrow() -> None:
    """Far from the mean, the integrand oscillates faster than the grid can follow."""
    few, many, most = (gaffke(pairs(5, ties, 2), 0.97) for ties in (993, 9_993, 99_993))
    assert (10 * many.low, 10 * many.high) == pytest.approx((few.low, few.high), rel=0.01)
    assert (100 * most.low, 100 * most.high) == pytest.approx((few.low, few.high), rel=0.01)
    assert gaffke([0.3] * 5000).p < 1e-6


def test_gaffkes_bounds_are_quantiles_of_means_with_random_weights() -> None:
    random = np.random.default_rng(3)
    for values in (random.normal(0.1, 0.3, 40).clip(-1, 1), np.array([0.9, -0.1, -0.1, 0.2]), np.full(20, 0.25)):
        weights = random.dirichlet(np.ones(len(values) + 1), 200_000)
        low = np.quantile(weights @ np.append(values, -1), 0.025)
        high = np.quantile(weights @ np.append(values, 1), 0.975)
        assert (gaffke(values).low, gaffke(values).high) == close(low, high, to=4e-3)


def test_variants_that_never_differ_are_equivalent() -> None:
    assert verdict([0.0] * 1000, margin=0.05).word == "equivalent"
    assert verdict([0.0] * 1000).word == "inconclusive"
    assert verdict(pairs(1, 398, 1), margin=0.05).word == "equivalent"


@quick
@given(counts, st.sampled_from([0.95, 0.97, 0.985]))
def test_the_p_value_and_the_final_interval_never_disagree(numbers: tuple[int, int, int], level: float) -> None:
    interval = final_interval(pairs(*numbers), level)
    assert (interval.p <= 1 - level) == (interval.low > 0 or interval.high < 0)


def test_few_groups_decide_nothing() -> None:
    differences = ([1.0] * 6 + [-1.0] * 4) * 2
    result = verdict(differences, groups=[index // 10 for index in range(20)])
    assert result.word == "inconclusive"
    assert "only 2 groups" in result.reason


def test_a_few_large_scores_get_no_t_interval() -> None:
    rare = [0.95] * 2 + [-0.05] * 78
    assert paired_t(rare).high < 0.1
    assert final_interval(rare).method == "Gaffke"
    assert final_interval([0.4, -0.3, 0.1, 0.2] * 20).method == "paired t"


def test_groups_of_one_change_nothing_and_groups_of_alike_cases_widen_the_interval() -> None:
    values = np.repeat(np.random.default_rng(3).uniform(-0.7, 1, 40), 5)
    alone = paired_t(values, groups=list(range(len(values))))
    assert alone.low == pytest.approx(paired_t(values).low)
    of_five = [index // 5 for index in range(len(values))]
    grouped = paired_t(values, groups=of_five)
    assert grouped.high - grouped.low > 1.8 * (alone.high - alone.low)
    result, single = verdict(values, groups=of_five), verdict(values)
    assert result.look is not None
    assert ends(result.look) == pytest.approx(ends(confidence_sequence(values[::5], 0.02)))
    assert result.look.n == 40
    assert result.final == final_interval(values, 0.97, of_five)
    assert result.needed is not None
    assert single.needed is not None
    assert result.needed > 3 * single.needed


def test_several_variants_share_the_chance_of_error_in_holms_order() -> None:
    strong, fair, none = pairs(30, 166, 4), pairs(24, 166, 10), pairs(10, 181, 9)
    results = verdicts({"none": none, "strong": strong, "fair": fair})
    assert {name: result.word for name, result in results.items()} == {
        "none": "inconclusive",
        "strong": "better",
        "fair": "inconclusive",
    }
    looks, finals = {0.02 / 3}, {"strong": 0.03 / 3, "fair": 0.03 / 2, "none": 0.03 / 2}
    for name, result in results.items():
        assert result.look is not None
        assert result.final is not None
        assert {round(1 - result.look.level, 12)} == {round(look, 12) for look in looks}
        assert 1 - result.final.level == pytest.approx(finals[name])
    assert verdicts({"fair": fair})["fair"] == verdict(fair)
    assert verdict(fair).word == "better", "alone it would have been"
    assert verdicts({"fair": fair, "copy": fair}, planned={"fair": 300, "copy": 200})["fair"].final is None


def test_a_verdict_says_how_many_cases_are_still_needed() -> None:
    differences = pairs(20, 70, 14)
    result = verdict(differences, planned=104)
    spread = float(np.std(differences, ddof=1))
    assert (result.effect, result.needed) == (0.1, cases_needed(spread, 0.1))
    assert result.still_needed == cases_needed(spread, 0.1) - 104
    assert verdict(differences, margin=0.05).needed == cases_needed(spread, 0.05)
    assert verdict(differences, effect=0.5).still_needed == 0
    assert verdict(pairs(2, 48, 0)).needed == 250, "until ten of them can be expected to differ"
    assert verdict([0.0] * 50).needed is None


# Edges


def test_all_ties() -> None:
    ties = [0.0] * 30
    look = confidence_sequence(ties)
    assert look.low == -look.high
    assert (look.p, mcnemar(0, 0).p, sign_flip(ties).p, paired_t(ties).p) == (1, 1, 1, 1)
    assert ends(paired_t(ties)) == (0, 0)
    assert final_interval(ties).method == "Gaffke"
    assert bonett_price(0, 0, 30).low == -bonett_price(0, 0, 30).high < 0
    assert verdict(ties).word == "inconclusive"


def test_all_wins() -> None:
    look = confidence_sequence([1.0] * 50)
    assert (look.high, look.estimate) == (1, 1)
    assert look.low > 0.79
    assert mcnemar(50, 0).p == pytest.approx(0.5**50)
    assert bonett_price(50, 0, 50).high == 1
    assert ends(wilson(50, 50))[1] == 1
    assert wilson(0, 50).low == 0
    assert verdict([1.0] * 50).word == "better"
    assert confidence_sequence([-1.0] * 50).low == -1


def test_one_case() -> None:
    assert -1 < confidence_sequence([1.0]).low < -0.9
    assert final_interval([0.5]).method == "Gaffke"
    result = verdict([1.0])
    assert (result.word, result.needed, result.cases) == ("inconclusive", None, 1)
    assert ends(latency_ratio([1.0], [2.0])) == (0, math.inf)
    alone = cost_per_correct([1.0], [1.0], [2.0], [1.0])
    assert alone.ratio == stats.Interval(2.0, 0.0, math.inf)
    assert (sign_flip([0.3]).p, mcnemar(1, 0).p) == (1, 0.5)


def test_without_cases_there_is_no_verdict() -> None:
    result = verdict([], planned=100)
    assert (result.word, result.interval, result.reason) == ("no comparison", None, "no case is compared")


def test_identical_differences_are_not_certainty() -> None:
    interval = final_interval([0.2] * 40)
    assert interval.method == "Gaffke"
    assert interval.low < 0.15
    assert verdict([0.2] * 40).word == "better"
    assert verdict([0.02] * 40).word == "inconclusive"


def test_without_correct_answers_the_cost_of_one_is_infinite() -> None:
    no_correct, some_correct = (
        cost_per_correct([1, 1], [0, 0], [1, 1], [1, 0]),
        cost_per_correct([1, 1], [1, 0], [1, 1], [0, 0]),
    )
    assert (no_correct.a.estimate, no_correct.ratio) == (math.inf, stats.Interval(0.0, 0.0, math.inf))
    assert (some_correct.b.estimate, some_correct.ratio) == (math.inf, stats.Interval(math.inf, 0.0, math.inf))
    assert cost_per_correct([1], [0], [1], [0]).ratio is None
    assert cost_per_correct([0, 0], [1, 1], [0, 0], [1, 1]).ratio is None, "free against free"
    rare = cost_per_correct([1.0] * 30, [1.0] + [0.0] * 29, [1.0] * 30, [1.0] * 30)
    assert rare.a.high == math.inf, "with one of thirty it may be that none is correct"
    assert 0 < rare.a.low < 30


def test_always_correct_at_a_constant_cost_is_not_certainty() -> None:
    always = [1.0] * 20
    price = cost_per_correct([2.0] * 20, always, [3.0] * 20, always)
    assert ends(price.a) == pytest.approx((2, 2 / wilson(20, 20).low))
    assert price.ratio is not None
    assert price.ratio.low < 1.4 < price.ratio.estimate < 1.6 < price.ratio.high
    grouped = cost_per_correct([2.0] * 20, always, [3.0] * 20, always, groups=[index // 4 for index in range(20)])
    assert grouped.a.high == pytest.approx(2 / wilson(5, 5).low), "five documents may have been five lucky ones"


def test_dependent_cases_count_as_their_group_in_ratios_of_latency_and_cost() -> None:
    random = np.random.default_rng(3)
    first, second = np.exp(random.normal(0, 1, (2, 30)))
    groups = [f"document {index % 10}" for index in range(30)]
    logs = np.log(second / first).reshape(3, 10).mean(axis=0)
    expected = scipy_stats.ttest_1samp(logs, 0).confidence_interval()
    ratio = latency_ratio(first, second, groups=groups)
    assert ends(ratio) == pytest.approx((math.exp(expected.low), math.exp(expected.high)))
    assert ratio.estimate == pytest.approx(math.exp(logs.mean()))
    assert latency_ratio(first, second, groups=range(30)) == latency_ratio(first, second), "groups of one case"

    right, more = random.random((2, 30)) < 0.5
    alone = cost_per_correct(first, right, second, more)
    assert alone.ratio is not None
    ungrouped = cost_per_correct(first, right, second, more, groups=[f"case {index}" for index in range(30)])
    assert ungrouped.ratio is not None
    assert (*ends(ungrouped.a), *ends(ungrouped.ratio)) == pytest.approx((*ends(alone.a), *ends(alone.ratio)))
    copies = cost_per_correct(
        *(np.tile(values, 20) for values in (first, right, second, more)), groups=[*range(30)] * 20
    )
    assert copies.ratio is not None
    assert ends(copies.ratio) == pytest.approx(ends(alone.ratio), rel=0.02), "twenty copies say no more than one"


def test_the_price_of_groups_of_any_size_is_clustered_by_the_small_sample_formula() -> None:
    random = np.random.default_rng(12)
    sizes = [4, 2] * 100
    groups = np.repeat(np.arange(200), sizes)
    cases = len(groups)
    costs, right = random.uniform(1, 3, cases), (random.random(cases) < 0.5).astype(float)
    price = cost_per_correct(costs, right, costs, right, groups=groups.tolist()).a
    residuals = costs - price.estimate * right
    totals = np.bincount(groups, weights=residuals) / np.sqrt(1 - np.array(sizes) / cases)
    error = math.sqrt(float((totals**2).sum())) / right.sum()
    assert (price.high - price.low) / 2 == pytest.approx(1.97 * error, rel=0.02), "CR2"
    assert price.low < price.estimate < price.high


def test_one_group_has_no_interval() -> None:
    ratio = latency_ratio([1.0, 2.0], [2.0, 8.0], groups=["x", "x"])
    assert (ratio.estimate, *ends(ratio)) == (pytest.approx(math.sqrt(8)), 0, math.inf)
    price = cost_per_correct([1.0, 2.0], [1, 1], [2.0, 2.0], [1, 1], groups=["x", "x"])
    assert (ends(price.a), price.ratio) == ((0, math.inf), stats.Interval(4 / 3, 0.0, math.inf))


@quick
@given(
    st.lists(
        st.tuples(
            st.floats(0, 100),
            st.sampled_from([0, 0.5, 1, 1, 1]),
            st.sampled_from([0, 0.01, 2.0, 2.0]),
            st.sampled_from([0, 1, 1]),
            st.integers(0, 6),
        ),
        min_size=1,
        max_size=30,
    )
)
def test_a_price_lies_in_its_interval(cases: list[tuple[float, float, float, float, int]]) -> None:
    *arms, groups = zip(*cases, strict=True)
    for price in (cost_per_correct(*arms), cost_per_correct(*arms, groups=groups)):
        for interval in (price.a, price.b, price.ratio):
            if interval is not None:
                assert 0 <= interval.low <= interval.estimate * (1 + 1e-12)
                assert interval.estimate <= interval.high * (1 + 1e-12)
    ratio = latency_ratio(*([0.1 + cost for cost in arm] for arm in (arms[0], arms[2])), groups=groups)
    assert ratio.low <= ratio.estimate * (1 + 1e-12)
    assert ratio.estimate <= ratio.high * (1 + 1e-12)


def test_a_contender_that_never_lost_has_no_strength() -> None:
    with pytest.raises(ValueError, match="contender 1 never won against 0"):
        bradley_terry([[0, 3], [0, 0]])
    assert bradley_terry([[0, 3.5], [0.5, 0]]).chance(0, 1) == pytest.approx(0.875)


def test_needed_cases_and_the_smallest_effect_are_inverse() -> None:
    needed = cases_needed(0.5, 0.1)
    assert smallest_detectable(0.5, needed) <= 0.1 < smallest_detectable(0.5, needed - 2)
    deviates = scipy_stats.norm.ppf(0.985) + scipy_stats.norm.ppf(0.8)
    assert needed == math.ceil((deviates * 0.5 / 0.1) ** 2) == 227
    assert cases_needed(0.0, 0.1) == 2


def test_futility_is_the_chance_that_the_rest_decides() -> None:
    differences, planned = pairs(14, 72, 14), 500
    spread, rest, n = float(np.std(differences, ddof=1)), 400, 100
    foreseen = scipy_stats.norm(0, spread * math.sqrt(rest + rest**2 / n))
    expected = 2 * foreseen.sf(scipy_stats.norm.ppf(0.985) * spread * math.sqrt(planned))
    assert futility(differences, planned).chance == pytest.approx(expected)
    assert not futility(differences, planned).stop
    assert futility(pairs(50, 300, 50), planned).stop
    assert not futility(pairs(50, 300, 50), planned, margin=0.1).stop, "it may come out as not worse"
    assert not futility(pairs(5, 15, 5), 30).stop, "too early to say"
    assert not futility([0.0] * 60, 300).stop
    assert futility([0.0] * 250, 300).stop
    assert futility([0.2] * 60, 300).chance == 1


BAD: list[tuple[Callable[[], Any], str]] = [
    (lambda: wilson(-1, 3), "successes must lie between 0 and n, got -1 of 3"),
    (lambda: wilson(4, 3), "got 4 of 3"),
    (lambda: wilson(0, 0), "n must be a whole number of at least 1, got 0"),
    (lambda: wilson(1, 2, level=1.0), "level must lie between 0 and 1, got 1.0"),
    (lambda: mcnemar(-1, 3), "wins must be a whole number of at least 0, got -1"),
    (lambda: mcnemar(1, 0.5), "losses must be a whole number"),  # type: ignore[arg-type]
    (lambda: mcnemar("1", 2), "wins must be a whole number of at least 0, got '1'"),  # type: ignore[arg-type]
    (lambda: bonett_price(3, 3, 5), r"3 \+ 3 of 5"),
    (lambda: paired_t([]), "differences: at least 2 needed, got none"),
    (lambda: paired_t([1.0, math.nan]), "finite numbers, got nan at index 1"),
    (lambda: paired_t([1.0, 0.5], groups=[1]), "as many groups as differences are needed, got 1 and 2"),
    (lambda: paired_t([1.0, 0.5], groups=[1, 1]), "at least two groups are needed, got 1"),
    (lambda: paired_t([1.0, 0.5], level=95), "level must lie between 0 and 1, got 95"),
    (lambda: sign_flip([]), "at least 1 needed, got none"),
    (lambda: confidence_sequence([]), "at least 1 needed, got none"),
    (lambda: confidence_sequence(["a"]), "must be numbers"),  # type: ignore[list-item]
    (lambda: confidence_sequence([[0.1]]), "flat list"),  # type: ignore[list-item]
    (lambda: confidence_sequence([0.5, 3.0]), r"lie within ±1, got 3 at index 1; .* scale=\(low, high\)"),
    (lambda: confidence_sequence([0.5], scale=(1, 1)), "low < high"),
    (lambda: confidence_sequence([0.5], alpha=1.0), "alpha must be"),
    (lambda: confidence_sequence([0.5], margin=-0.1), "margin must be"),
    (lambda: final_interval([2.0]), "lie within"),
    (lambda: verdict([2.0]), "lie within"),
    (lambda: verdict([0.5], planned=0), "planned must be a whole number of at least 1, got 0"),
    (lambda: verdict([0.5], 0.95), "planned must be a whole number"),  # type: ignore[arg-type]
    (lambda: verdict([0.5], margin=1.5), "margin must be at least 0 and less than 1, got 1.5"),
    (lambda: verdict([0.5], groups=["a", "b"]), "as many groups"),
    (lambda: verdicts({}), "at least one variant"),
    (lambda: futility([0.5, 0.1], planned=-3), "planned"),
    (lambda: holm([0.5, 1.5]), "between 0 and 1"),
    (lambda: stats.benjamini_hochberg([]), "at least 1 needed"),
    (lambda: pass_at_k(3, 4, 1), "cannot be more than n"),
    (lambda: pass_hat_k(3, 2, 0), "k must be a whole number of at least 1"),
    (lambda: latency_ratio([1.0], [1.0, 2.0]), "same cases, got 1 and 2"),
    (lambda: latency_ratio([0.0], [1.0]), "above 0, got 0.0"),
    (lambda: cost_per_correct([1], [1], [1, 2], [1, 0]), "same cases, got 1 and 2"),
    (lambda: cost_per_correct([1], [1, 0], [1], [1]), "a cost and a score for each case, got 1 and 2"),
    (lambda: cost_per_correct([-1], [1], [1], [1]), "at least 0, got -1"),
    (lambda: cost_per_correct([1], [2], [1], [1]), r"in \[0, 1\]"),
    (lambda: cost_per_correct([1], [1], [1], [1], groups=["x", "y"]), "got 2 groups and 1 cases"),
    (lambda: cases_needed(0.5, 0.0), "effect must be above 0, got 0.0"),
    (lambda: cases_needed(-0.5, 0.1), "sd must be at least 0"),
    (lambda: smallest_detectable(0.5, 0), "n must be a whole number"),
    (lambda: bradley_terry([[0, 1]]), "square table"),
    (lambda: bradley_terry([[1, 1], [1, 0]]), "diagonal"),
    (lambda: bradley_terry([[0, -1], [1, 0]]), "at least 0"),
    (lambda: RunningSequence(alpha=-0.1), "alpha must be"),
    (lambda: alphas(0), "planned"),
]


@pytest.mark.parametrize(("call", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_input_is_refused_in_plain_words(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_lists_tuples_and_arrays_are_accepted() -> None:
    differences = pairs(20, 30, 5)
    for given_as in (differences, tuple(differences), np.array(differences), np.array(differences, dtype=np.int8)):
        assert verdict(given_as) == verdict(differences)


@pytest.mark.parametrize("width", [np.int8, np.uint8, np.int16, np.int32, np.uint64])
def test_counts_may_be_numpy_integers_of_any_width(width: Callable[[int], Any]) -> None:
    calls: list[tuple[Callable[..., Any], tuple[int, ...]]] = [
        (wilson, (100, 120)),
        (bonett_price, (70, 40, 120)),
        (mcnemar, (70, 40)),
        (pass_at_k, (120, 30, 50)),
        (stats.pass_hat_k, (120, 100, 50)),
        (cases_needed, (100, 50)),
        (smallest_detectable, (100, 120)),
        (alphas, (120, 3)),
    ]
    for function, counted in calls:
        assert function(*map(width, counted)) == function(*counted)


def test_a_look_at_a_hundred_thousand_cases_takes_milliseconds() -> None:
    differences = np.random.default_rng(1).choice([-1.0, 0.0, 1.0], 100_000)
    confidence_sequence(differences[:10])
    began = time.process_time()
    confidence_sequence(differences, 0.02)
    assert time.process_time() - began < 0.1, "3 ms, on a machine that does nothing else"


def test_the_common_path_does_not_load_scipy() -> None:
    code = (
        "import sys; from abreast import stats; "
        "stats.verdict([1, 0, 0, -1, 1] * 20, groups=None); stats.verdict([0.5, 0.2, -0.1] * 100); "
        "stats.RunningSequence().observe([0.1]); stats.wilson(3, 4); stats.latency_ratio([1] * 9, [2] * 9); "
        "sys.exit('scipy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@given(st.floats(0.5, 199), st.floats(1e-9, 1 - 1e-9))
def test_quantiles_of_students_t_agree_with_scipy(degrees: float, probability: float) -> None:
    expected = float(special.stdtrit(degrees, probability))
    assert quantile_t(probability, degrees) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@given(st.floats(0.5, 199), st.floats(-1e3, 1e3))
def test_tails_of_students_t_agree_with_scipy(degrees: float, statistic: float) -> None:
    expected = 2 * float(special.stdtr(degrees, -abs(statistic)))
    assert two_sided_t(statistic, degrees) == pytest.approx(expected, rel=1e-8)


@given(st.floats(0.1, 3), st.floats(-5, 5))
@example(slope=1.0, root=5e-324)
def test_roots_agree_with_scipy(slope: float, root: float) -> None:
    def function(x: float) -> float:
        return math.tanh(slope * (x - root)) + 0.1 * (x - root) ** 3

    expected = optimize.brentq(function, -10, 10, xtol=1e-10)
    assert find_root(function, -10, 10, tolerance=1e-10) == pytest.approx(expected, abs=1e-9)


def test_a_root_needs_a_change_of_sign() -> None:
    with pytest.raises(ValueError, match="same sign at 1 and 2"):
        find_root(lambda x: x, 1, 2, tolerance=1e-10)
