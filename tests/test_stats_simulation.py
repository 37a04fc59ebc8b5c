"""The statistics in thousands of simulated experiments: their error rates and their power.

Looks at wins, ties and losses are computed for all experiments at once; samples of them are compared with the classes
and functions that users call.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from abreast.stats import RunningSequence, final_interval, futility, verdict

Array = npt.NDArray[Any]

BETS = (np.arange(64) + 0.5) / 64
PLANNED, LOOK_EVERY = 500, 10


def wealth(counts: dict[float, Array], mean: float = 0.0) -> Array:
    """The logarithm of W⁺(mean) for every experiment and look, from the counts of each difference."""
    total = np.full(next(iter(counts.values())).shape, -np.inf)
    for bet in BETS:
        bet_wealth = sum(count * np.log1p(bet * (value - mean) / (1 + mean)) for value, count in counts.items())
        total = np.logaddexp(total, bet_wealth)
    return total - np.log(len(BETS))


def mirrored(counts: dict[float, Array]) -> dict[float, Array]:
    return {-value: count for value, count in counts.items()}


def looks_at(outcomes: Array, step: int = 1) -> dict[float, Array]:
    """The count of each difference at each look."""
    return {
        float(value): np.cumsum(outcomes == value, axis=1)[:, step - 1 :: step].astype(float)
        for value in np.unique(outcomes)
    }


@cache
def at_the_end(wins: int, losses: int, n: int) -> int:
    interval = final_interval([1.0] * wins + [0.0] * (n - wins - losses) + [-1.0] * losses, 0.97)
    return int(interval.low > 0) - int(interval.high < 0)


@dataclass
class Stopped:
    """Where experiments stopped, and their decisions: 1 better, −1 worse, 0 none."""

    decisions: Array
    cases: Array

    @property
    def decided(self) -> float:
        return float((self.decisions != 0).mean())

    @property
    def saved(self) -> float:
        return float(1 - self.cases.mean() / PLANNED)


def stopped(outcomes: Array) -> Stopped:
    """Look every ten cases and stop at the first decision; experiments that never stop are decided at the end."""
    counts = {**{value: np.zeros(outcomes[:, LOOK_EVERY - 1 :: LOOK_EVERY].shape) for value in (1.0, -1.0)}}
    counts |= {value: count for value, count in looks_at(outcomes, LOOK_EVERY).items() if value}
    rich, enough = np.log(2 / 0.02), counts[1.0] + counts[-1.0] >= 10
    better, worse = (wealth(counts) >= rich) & enough, (wealth(mirrored(counts)) >= rich) & enough
    stops = better | worse
    stop_look = np.where(stops.any(axis=1), stops.argmax(axis=1), -1)
    decisions = [
        int(better[row, look]) - int(worse[row, look])
        if look >= 0
        else at_the_end(int(counts[1.0][row, -1]), int(counts[-1.0][row, -1]), outcomes.shape[1])
        for row, look in enumerate(stop_look)
    ]
    return Stopped(np.array(decisions), np.where(stop_look >= 0, (stop_look + 1) * LOOK_EVERY, outcomes.shape[1]))


def experiments(effect: float, number: int, seed: int) -> Array:
    """Experiments in which a quarter of the cases differ."""
    shares = [0.125 + effect / 2, 0.75, 0.125 - effect / 2]
    return np.random.default_rng(seed).choice([1.0, 0.0, -1.0], (number, PLANNED), p=shares)


def first_decision(outcomes: Array) -> tuple[int, int]:
    """The decision of one experiment evaluated like a run, and the number of cases it took."""
    sequence = RunningSequence(alpha=0.02)
    for cases in range(LOOK_EVERY, PLANNED + 1, LOOK_EVERY):
        look = sequence.observe(outcomes[cases - LOOK_EVERY : cases])
        result = verdict(outcomes[:cases], PLANNED, seen=look)
        if result.settled:
            break
    return {"better": 1, "worse": -1}.get(result.word, 0), cases


@pytest.mark.parametrize("effect", [0.0, 0.1])
def test_simulated_looks_match_those_of_the_product(effect: float) -> None:
    outcomes = experiments(effect, 20, 1)
    runs = stopped(outcomes)
    assert [first_decision(row) for row in outcomes] == list(
        zip(runs.decisions.tolist(), runs.cases.tolist(), strict=True)
    )


def test_with_looks_every_ten_cases_fewer_than_one_in_twenty_null_experiments_find_a_difference() -> None:
    outcomes = experiments(0.0, 4000, 7)
    runs = stopped(outcomes)
    assert 0.02 < runs.decided < 0.045, "3.5 % in the long run"
    counts = looks_at(outcomes, LOOK_EVERY)
    wins, losses = counts[1.0], counts[-1.0]
    peeking = np.abs(wins - losses) / np.sqrt(np.maximum(wins + losses, 1)) > 1.96
    assert peeking.any(axis=1).mean() > 0.2, "what looking with p < 0.05 would do"


@pytest.mark.parametrize(
    ("effect", "power", "saved"), [(0.05, 0.54, 0.08), (0.1, 0.991, 0.47), (0.2, 1.0, 0.85)], ids=lambda v: str(v)
)
def test_early_stopping_has_power_and_saves_cases(effect: float, power: float, saved: float) -> None:
    runs = stopped(experiments(effect, 2000, 3))
    assert (runs.decisions == 1).mean() == pytest.approx(power, abs=0.03)
    assert runs.saved == pytest.approx(saved, abs=0.025)
    assert (runs.decisions == -1).mean() < 0.005


def test_the_estimate_at_a_stop_is_biased_but_its_interval_is_valid() -> None:
    outcomes = experiments(0.1, 300, 5)
    runs = stopped(outcomes)
    early = [row[:cases].mean() for row, cases in zip(outcomes, runs.cases, strict=True) if cases < PLANNED]
    assert np.mean(early) == pytest.approx(0.13, abs=0.01)
    intervals = [verdict(row[:cases], PLANNED).interval for row, cases in zip(outcomes[:150], runs.cases, strict=False)]
    assert np.mean([runs.low <= 0.1 <= runs.high for runs in intervals if runs]) >= 0.95


@pytest.mark.parametrize(
    ("values", "shares"),
    [
        ([1.0, 0.0, -1.0], [0.3, 0.5, 0.2]),
        ([1.0, 0.0, -1.0], [0.02, 0.97, 0.01]),
        ([1.0, 0.5, 0.0, -0.5, -1.0], [0.1, 0.05, 0.05, 0.7, 0.1]),
        ([1.0, -0.1], [0.05, 0.95]),
    ],
    ids=["plain", "few differ", "five values", "rare and large"],
)
def test_the_sequence_covers_the_truth_at_every_number_of_cases_at_once(
    values: list[float], shares: list[float]
) -> None:
    outcomes = np.random.default_rng(13).choice(values, (1000, 300), p=shares)
    mean = float(np.dot(values, shares))
    rich = np.log(2 / 0.05)
    counts = looks_at(outcomes)
    ever = (wealth(counts, mean) >= rich) | (wealth(mirrored(counts), -mean) >= rich)
    assert ever.any(axis=1).mean() <= 0.05
    for row, outside in zip(outcomes[:5], ever[:5], strict=True):
        sequence = RunningSequence(alpha=0.05)
        for cases in range(30, 301, 30):
            look = sequence.observe(row[cases - 30 : cases])
            assert (look.low <= mean <= look.high) == (not outside[29:cases:30].any())


def finished_order(durations: Array, workers: int = 16) -> Array:
    """The cases in the order in which they finish: trials start in turn, and a case finishes with its last one."""
    free = [0.0] * workers
    ends = []
    for duration in durations.reshape(-1).tolist():
        start = free[0]
        heapq.heapreplace(free, start + duration)
        ends.append(start + duration)
    return np.argsort(np.array(ends).reshape(durations.shape).max(axis=1), kind="stable")


def test_slow_failures_bias_the_finished_order_but_not_the_prefix_of_the_started_order() -> None:
    random = np.random.default_rng(17)
    number = 1000
    first, second = random.random((2, number, PLANNED)) < 0.5
    outcomes = second.astype(float) - first.astype(float)
    durations = np.ones((number, PLANNED, 2)) * random.uniform(0.8, 1.2, (number, PLANNED, 2))
    durations[..., 1] *= np.where(second, 1.0, 10.0)  # B is ten times slower when it fails
    finished = np.array([row[finished_order(took)] for row, took in zip(outcomes, durations, strict=True)])
    by_start, by_finish = stopped(outcomes), stopped(finished)
    assert by_start.decided <= 0.05
    assert by_finish.decided > by_start.decided + 0.03
    assert abs(outcomes[:, :100].mean()) < 0.01
    assert finished[:, :100].mean() > 0.04, "as if B were better"


def test_futility_saves_cases_where_there_is_no_difference_and_costs_little_where_there_is_one() -> None:
    def gives_up(row: Array) -> int:
        return next((n for n in range(100, PLANNED, 50) if futility(row[:n], PLANNED).stop), PLANNED)

    none = [gives_up(row) for row in experiments(0.0, 200, 19)]
    assert 1 - np.mean(none) / PLANNED > 0.25
    assert np.mean([gives_up(row) < PLANNED for row in experiments(0.1, 200, 23)]) < 0.02
