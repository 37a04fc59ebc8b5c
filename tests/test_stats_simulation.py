"""The statistics in thousands of simulated experiments: how often they are wrong, and what they can see.

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
PLANNED, EVERY = 500, 10


def wealth(counts: dict[float, Array], mean: float = 0.0) -> Array:
    """The logarithm of W⁺(mean) for every experiment and look, from how often each difference was seen."""
    total = np.full(next(iter(counts.values())).shape, -np.inf)
    for bet in BETS:
        made = sum(count * np.log1p(bet * (value - mean) / (1 + mean)) for value, count in counts.items())
        total = np.logaddexp(total, made)
    return total - np.log(len(BETS))


def mirrored(counts: dict[float, Array]) -> dict[float, Array]:
    return {-value: count for value, count in counts.items()}


def looks_at(outcomes: Array, every: int = 1) -> dict[float, Array]:
    """How often each difference was seen, at each look."""
    return {
        float(value): np.cumsum(outcomes == value, axis=1)[:, every - 1 :: every].astype(float)
        for value in np.unique(outcomes)
    }


@cache
def at_the_end(wins: int, losses: int, n: int) -> int:
    interval = final_interval([1.0] * wins + [0.0] * (n - wins - losses) + [-1.0] * losses, 0.97)
    return int(interval.low > 0) - int(interval.high < 0)


@dataclass
class Stopped:
    """Where experiments stopped, and what they said: 1 better, −1 worse, 0 nothing."""

    decisions: Array
    cases: Array

    @property
    def decided(self) -> float:
        return float((self.decisions != 0).mean())

    @property
    def saved(self) -> float:
        return float(1 - self.cases.mean() / PLANNED)


def stopped(outcomes: Array) -> Stopped:
    """A look every ten cases, a stop at the first that decides; what does not stop is decided at the end."""
    counts = {**{value: np.zeros(outcomes[:, EVERY - 1 :: EVERY].shape) for value in (1.0, -1.0)}}
    counts |= {value: count for value, count in looks_at(outcomes, EVERY).items() if value}
    rich, enough = np.log(2 / 0.02), counts[1.0] + counts[-1.0] >= 10
    better, worse = (wealth(counts) >= rich) & enough, (wealth(mirrored(counts)) >= rich) & enough
    stops = better | worse
    where = np.where(stops.any(axis=1), stops.argmax(axis=1), -1)
    said = [
        int(better[row, look]) - int(worse[row, look])
        if look >= 0
        else at_the_end(int(counts[1.0][row, -1]), int(counts[-1.0][row, -1]), outcomes.shape[1])
        for row, look in enumerate(where)
    ]
    return Stopped(np.array(said), np.where(where >= 0, (where + 1) * EVERY, outcomes.shape[1]))


def experiments(effect: float, number: int, seed: int) -> Array:
    """Experiments in which a quarter of the cases differ."""
    shares = [0.125 + effect / 2, 0.75, 0.125 - effect / 2]
    return np.random.default_rng(seed).choice([1.0, 0.0, -1.0], (number, PLANNED), p=shares)


def first_decision(outcomes: Array) -> tuple[int, int]:
    """One experiment as a run would do it: what it says, and after how many cases."""
    sequence = RunningSequence(alpha=0.02)
    for cases in range(EVERY, PLANNED + 1, EVERY):
        look = sequence.observe(outcomes[cases - EVERY : cases])
        result = verdict(outcomes[:cases], PLANNED, seen=look)
        if result.settled:
            break
    return {"better": 1, "worse": -1}.get(result.word, 0), cases


@pytest.mark.parametrize("effect", [0.0, 0.1])
def test_the_simulated_looks_are_those_of_the_product(effect: float) -> None:
    outcomes = experiments(effect, 20, 1)
    runs = stopped(outcomes)
    assert [first_decision(row) for row in outcomes] == list(
        zip(runs.decisions.tolist(), runs.cases.tolist(), strict=True)
    )


def test_with_looks_every_ten_cases_no_difference_is_called_one_in_less_than_one_of_twenty() -> None:
    outcomes = experiments(0.0, 4000, 7)
    runs = stopped(outcomes)
    assert 0.02 < runs.decided < 0.045, "3.5 % in the long run"
    counts = looks_at(outcomes, EVERY)
    wins, losses = counts[1.0], counts[-1.0]
    peeking = np.abs(wins - losses) / np.sqrt(np.maximum(wins + losses, 1)) > 1.96
    assert peeking.any(axis=1).mean() > 0.2, "what looking with p < 0.05 would do"


@pytest.mark.parametrize(
    ("effect", "power", "saved"), [(0.05, 0.54, 0.08), (0.1, 0.991, 0.47), (0.2, 1.0, 0.85)], ids=lambda v: str(v)
)
def test_what_early_stopping_sees_and_saves(effect: float, power: float, saved: float) -> None:
    runs = stopped(experiments(effect, 2000, 3))
    assert (runs.decisions == 1).mean() == pytest.approx(power, abs=0.03)
    assert runs.saved == pytest.approx(saved, abs=0.025)
    assert (runs.decisions == -1).mean() < 0.005


def test_the_estimate_at_a_stop_flatters_and_the_interval_does_not() -> None:
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
def test_the_sequence_holds_the_truth_at_every_number_of_cases_at_once(
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
    """The cases in the order in which they finished: trials are started in turn, a case is done with its last one."""
    free = [0.0] * workers
    ends = []
    for duration in durations.reshape(-1).tolist():
        start = free[0]
        heapq.heapreplace(free, start + duration)
        ends.append(start + duration)
    return np.argsort(np.array(ends).reshape(durations.shape).max(axis=1), kind="stable")


def test_the_prefix_of_the_started_order_is_fair_where_slow_failures_make_the_finished_order_biased() -> None:
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
