"""Verdicts on simulated experiments whose true effects are known, and on complete runs of such experiments.

The scenarios are those of `benchmarks/statistics`, which repeats them more often and writes the table in the docs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.statistics import draws
from benchmarks.statistics.experiment import Scores
from benchmarks.statistics.scenarios import SCENARIOS
from benchmarks.statistics.simulation import simulate
from benchmarks.statistics.table import COLUMNS, PAGE, rows, title

from abreast import Experiment

BY_TITLE = {title(scenario): scenario for scenario in SCENARIOS}

EXPERIMENTS = {
    "right or wrong: 40 cases, 50% differ": 400,
    "right or wrong: 100 cases, 25% differ": 300,
    "graded scores: 100 cases": 200,
    "3 repeats, averaged: 100 cases": 200,
    "groups, ICC 0.3: 8 groups of 29, 4, 4, 4, 3, 3, 2, 1; weight: case": 400,
    "groups, ICC 0.3: 8 groups of 29, 4, 4, 4, 3, 3, 2, 1; weight: group": 800,
    "groups, ICC 0.3: 5 groups of 30, 10, 5, 3, 2; weight: case": 400,
    "groups, ICC 0.3: 40 groups, two of 60 and 40, others of 2; weight: case": 200,
    "groups, stopped when decided: 40 single cases and two groups of 60; weight: case": 100,
    "groups, stopped when decided: the same, better in the single cases and worse in the large groups; "
    "weight: case": 100,
    "skewed scores: beta distributions of the same mean, 20 cases": 300,
    "skewed scores: beta distributions of the same mean, 80 cases": 150,
    "skewed scores: 1 in 5% of 40 cases, otherwise nearly 0": 300,
    "skewed scores: 1 in 3% of 60 cases, otherwise nearly 0": 200,
    "few cases differ: 100 cases, 5% differ": 300,
    "few cases differ: 40 cases, 15% wins and no losses": 500,
    "few cases differ: 1,000 ties, margin 0.05: equivalent": 3,
    "few cases differ: 500 cases, 25% differ, effect = margin = 0.1: not equivalent": 100,
    "4 variants, Holm: 120 cases, none better": 150,
    "4 variants, Holm: 120 cases, one better by 20 points": 150,
    "extended by new runs: 100 → 200 → 400 cases, 50% differ": 100,
    "extended by new runs: 40 → 80 → 160 cases, 50% differ": 300,
    "lost answers: 200 cases, 5% lost at random": 150,
    "on these 3 cases: 5 repeats, opposite effects that cancel": 400,
    "on these 3 cases: 10 repeats, effect +50 points": 400,
    "on these 3 cases: 5 repeats, graded scores, no difference": 60,
}


@pytest.mark.parametrize(
    ("name", "experiments"),
    [
        pytest.param(name, experiments, marks=[pytest.mark.heavy] if number % 4 else [])
        for number, (name, experiments) in enumerate(EXPERIMENTS.items())
    ],
)
def test_at_most_one_verdict_in_twenty_is_wrong_and_nineteen_intervals_hold(name: str, experiments: int) -> None:
    """Within two standard errors; verdict, estimate, interval and scores agree in every experiment."""
    summary = simulate(BY_TITLE[name], experiments)
    assert summary.holds, (summary.claims, summary)


def test_a_variant_that_loses_its_wrong_answers_is_not_called_better() -> None:
    summary = simulate(BY_TITLE["lost answers: 300 cases, half of one variant's wrong answers lost"], 150)
    assert summary.holds, (summary.claims, summary)
    assert summary.demoted.share > 0.5, "what they would be called if the lost answers were ignored"


def test_runs_that_may_stop_early_are_as_accurate_as_others_and_save_cases() -> None:
    summary = simulate(BY_TITLE["stopped when decided: 500 cases, 25% differ"], 100)
    assert summary.holds, (summary.claims, summary)
    assert summary.saved > 0.25


def test_the_table_in_the_docs_has_a_row_for_every_scenario() -> None:
    header, _, *cells = rows(PAGE.read_text(encoding="utf-8"))
    assert header == list(COLUMNS)
    assert [row[0] for row in cells] == list(BY_TITLE)
    for row in cells:
        assert len(row) == len(COLUMNS)
        assert int(row[1].replace(",", "")) >= 100
        share, error = map(float, row[2].split(" ± "))
        assert 0 <= share <= 100
        assert error < 2


# -- complete runs -----------------------------------------------------------------------------------------------------

RUNS = 100


def answer(case: Any, side: str) -> str:
    return str(case.input[side])


def grade(answer: Any, expected: Any) -> float:
    return float(answer.text)


def complete_run(store: Path, number: int, scores: Scores, **settings: Any) -> dict[str, Any]:
    """The JSON report of a run whose two variants get these scores."""
    first, second = (values[:, 0].tolist() for values in scores.variants)
    groups = scores.groups or [None] * scores.cases
    cases = [
        {"id": f"c{n}", "input": {"a": repr(a), "b": repr(b), "n": f"{number}.{n}"}, "expected": "", "group": group}
        for n, (a, b, group) in enumerate(zip(first, second, groups, strict=True))
    ]
    experiment = Experiment(
        name=f"run {number}",
        cases=cases,
        variants={"a": {"side": "a"}, "b": {"side": "b"}},
        target=answer,
        scorers=[grade],
        limits={"parallel": 32},
        store=store,
        seed=number,
        **settings,
    )
    report: dict[str, Any] = json.loads(experiment.run().report("json"))
    return report


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("draw", "settings"),
    [
        (partial(draws.grouped, sizes=(29, 4, 4, 4, 3, 3, 2, 1)), {}),
        (partial(draws.rare, cases=20), {}),
        (partial(draws.binary, cases=60, differing=0.5), {"until_decided": True}),
    ],
    ids=["unequal groups", "skewed scores", "stopped when decided"],
)
def test_at_most_5_of_100_complete_runs_without_a_difference_are_wrong(
    tmp_path: Path, draw: Callable[[np.random.Generator], Scores], settings: dict[str, Any]
) -> None:
    """Within two standard errors; every report is consistent."""
    wrong = covered = 0
    for number in range(RUNS):
        report = complete_run(tmp_path / "results.db", number, draw(np.random.default_rng([18, number])), **settings)
        (verdict,) = report["verdicts"]
        word, effect, (low, high) = verdict["verdict"], verdict["effect"], verdict["interval"]
        means = [report["variants"][name]["scores"]["grade"]["mean"] for name in "ab"]
        assert means[1] - means[0] == pytest.approx(effect, abs=1e-9)
        assert low <= effect <= high
        assert word == ("better" if low > 0 else "worse" if high < 0 else "inconclusive")
        wrong += word != "inconclusive"
        covered += low <= 0 <= high
    allowed = RUNS * 0.05 + 2 * math.sqrt(RUNS * 0.05 * 0.95)
    assert wrong <= allowed
    assert RUNS - covered <= allowed
