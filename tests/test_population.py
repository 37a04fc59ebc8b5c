"""The population of a verdict: cases in general, or only these cases if few cases have many repeats."""

from __future__ import annotations

import json
import math
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abreast.stats import RepeatedScores, fixed_cases_interval, permutation_test, population_of, verdict
from conftest import Folder
from scripted import scripted
from test_analysis import report

ALWAYS, NEVER = ["yes"], ["no"]


def three_prompts(folder: Folder, runs: int) -> Path:
    """The settings file of a coding-agent benchmark: one agent always writes the file, the other never does."""
    for number in (1, 2, 3):
        folder.write(f"prompt{number}.md", f"Write answer.txt, please ({number}).")
    settings_file = {
        "num_prompts": 3,
        "prompts": ["prompt1.md", "prompt2.md", "prompt3.md"],
        "assistants": ["Writer", "Idler"],
        "runs_per_prompt": runs,
        "parallel_runs": 4,
        "agent_config": {
            "Writer": {"commandTemplate": "echo yes > answer.txt"},
            "Idler": {"commandTemplate": "true"},
        },
        "check": "test -s answer.txt",
    }
    return folder.write("settings.json", json.dumps(settings_file))


def test_three_prompts_with_ten_runs_decide_about_these_prompts(folder: Folder) -> None:
    three_prompts(folder, runs=10)
    checked = folder.abreast("check", "settings.json")
    assert "can decide about these 3 prompts alone" in checked.out + checked.err
    assert "use at least 6 prompts to decide about prompts in general" in checked.out + checked.err
    done = folder.abreast("run", "settings.json", "--yes")
    assert done.code == 0, done.err
    out = " ".join(done.out.split())
    assert "Idler is worse than Writer on these 3 prompts: −100.0 points" in out
    assert "this says nothing about prompts in general" in out
    assert "3 prompts × 10 repeats" in out
    (row,) = (row for row in report(folder)["verdicts"] if row["primary"])
    assert (row["verdict"], row["population"], row["on_these_cases"]) == ("worse", "these cases", None)
    assert row["interval"][0] <= row["effect"] <= row["interval"][1] < 0
    gate = folder.abreast("report", "--fail-if", "worse")
    assert gate.code == 1
    assert "requirement not met: Idler is worse than Writer on these 3 prompts" in gate.err


def test_three_prompts_with_one_run_cannot_decide_and_check_suggests_a_remedy(folder: Folder) -> None:
    three_prompts(folder, runs=1)
    checked = folder.abreast("check", "settings.json")
    output = checked.out + checked.err
    assert "3 prompts × 1 repeat cannot decide anything, and --fail-if worse always passes" in output
    assert "use --repeats 2 to decide about these 3 prompts" in output
    done = folder.abreast("run", "settings.json", "--yes")
    assert "inconclusive" in done.out
    assert "3 prompts cannot decide: at least 6 are needed" in done.out
    assert "2 repeats of each prompt can decide about these 3 prompts alone (--repeats 2)" in " ".join(done.out.split())


def test_one_case_with_four_repeats_decides_about_this_case(folder: Folder) -> None:
    assert scripted(folder, [{"a": NEVER, "b": ALWAYS}], repeats=4).code == 0
    assert "b is better than a on this case" in folder.abreast("report").out
    (row,) = report(folder)["verdicts"]
    assert row["p"] == pytest.approx(2 / math.comb(8, 4))


def test_many_cases_decide_about_cases_in_general_and_repeats_about_these_cases(folder: Folder) -> None:
    """Four of eight cases are won in every repeat and two lost in every repeat: clear here, open in general."""
    won, lost, tied = {"a": NEVER, "b": ALWAYS}, {"a": ALWAYS, "b": NEVER}, {"a": ALWAYS, "b": ALWAYS}
    assert scripted(folder, [*[won] * 4, *[lost] * 2, *[tied] * 2], repeats=5).code == 0
    (row,) = report(folder)["verdicts"]
    assert (row["verdict"], row["population"]) == ("inconclusive", "cases in general")
    alone = row["on_these_cases"]
    assert alone["verdict"] == "better"
    assert alone["effect"] == pytest.approx(row["effect"]) == pytest.approx(0.25)
    out = " ".join(folder.abreast("report").out.split())
    assert "on these 8 cases alone, b is better than a: +25.0 points" in out
    assert folder.abreast("report", "--fail-if", "not better").code == 1, "gates use cases in general"


def test_seven_wins_and_no_loss_are_never_called_equivalent(folder: Folder) -> None:
    cases = [{side: (ALWAYS if side == "d" else NEVER) for side in "abcd"}] * 5
    assert scripted(folder, cases, variants="abcd").code == 0
    assert "told apart" not in folder.abreast("report").out


def test_lost_repeats_can_withdraw_the_verdict(folder: Folder) -> None:
    answers: list[dict[str, Any]] = [{"a": NEVER, "b": [*["yes"] * 4, *["network"] * 4]}]
    assert scripted(folder, answers, repeats=8).code == 3
    (row,) = report(folder)["verdicts"]
    assert (row["verdict"], row["demoted_from"], row["population"]) == ("inconclusive", "better", "these cases")


def test_more_repeats_of_the_same_cases_are_not_a_second_chance(folder: Folder) -> None:
    cases = [{"a": ["yes", "no", "no"], "b": ["no", "yes", "yes"]}] * 2
    assert scripted(folder, cases, repeats=3).code == 0
    assert report(folder)["verdicts"][0]["verdict"] == "inconclusive"
    assert scripted(folder, cases, repeats=30).code == 0
    (row,) = report(folder)["verdicts"]
    assert (row["verdict"], row["population"]) == ("inconclusive", "these cases")
    assert "--fresh" in row["reason"]
    assert scripted(folder, cases, "--fresh", repeats=30).code == 0
    assert report(folder)["verdicts"][0]["verdict"] == "better"


SCORES = st.one_of(st.sampled_from([0.0, 1.0]), st.sampled_from([0.0, 0.25, 0.5, 1.0]))


@st.composite
def repeated_scores(draw: st.DrawFn) -> tuple[list[list[float]], list[list[float]]]:
    cases, repeats = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    side = st.lists(st.lists(SCORES, min_size=repeats, max_size=repeats), min_size=cases, max_size=cases)
    return draw(side), draw(side)


@settings(deadline=None, max_examples=60)
@given(repeated_scores())
def test_the_permutation_test_counts_every_rearrangement(scores: tuple[list[list[float]], list[list[float]]]) -> None:
    baseline, variant = scores
    sums = [0.0]
    for first, second in zip(baseline, variant, strict=True):
        choices = [sum(chosen) for chosen in combinations([*first, *second], len(second))]
        sums = [total + choice for total in sums for choice in choices]
    observed = sum(map(sum, variant))
    above = sum(total >= observed - 1e-9 for total in sums)
    below = sum(total <= observed + 1e-9 for total in sums)
    p = permutation_test(RepeatedScores.of(baseline, variant)).p
    assert p == pytest.approx(min(1.0, 2 * min(above, below) / len(sums)))


@settings(deadline=None, max_examples=60)
@given(repeated_scores(), st.sampled_from([0.9, 0.95, 0.99]))
def test_the_interval_holds_the_estimate_and_excludes_zero_only_if_the_test_does(
    scores: tuple[list[list[float]], list[list[float]]], level: float
) -> None:
    sides = RepeatedScores.of(*scores)
    interval = fixed_cases_interval(sides, level)
    assert -1 <= interval.low <= interval.estimate <= interval.high <= 1
    excludes_zero = interval.low > 0 or interval.high < 0
    assert excludes_zero == (interval.p <= 1 - level + 1e-12)
    assert interval.p >= permutation_test(sides).p
    swapped = fixed_cases_interval(RepeatedScores.of(scores[1], scores[0]), level)
    assert (swapped.low, swapped.high) == (pytest.approx(-interval.high), pytest.approx(-interval.low))
    assert swapped.p == pytest.approx(interval.p)


def test_drawn_rearrangements_agree_with_counted_ones_whichever_side_is_the_baseline() -> None:
    first = [[0.11, 0.52, 0.33, 0.74, 0.25, 0.46, 0.17, 0.38]] * 3
    second = [[0.81, 0.62, 0.43, 0.94, 0.55, 0.36, 0.77, 0.58]] * 3
    drawn = permutation_test(RepeatedScores.of(first, second))
    assert "draws" in drawn.method
    assert drawn.p == permutation_test(RepeatedScores.of(second, first)).p
    assert drawn.p < 0.01


@pytest.mark.parametrize(
    ("cases", "repeats", "comparisons", "groups", "expected"),
    [
        (3, 10, 1, None, "these cases"),
        (3, 1, 1, None, "cases in general"),
        (6, 10, 1, None, "cases in general"),
        (6, 10, 3, None, "these cases"),
        (100, 1, 1, 4, "these cases"),
        (100, 3, 1, 8, "cases in general"),
    ],
)
def test_the_population_follows_from_the_plan(
    cases: int, repeats: int, comparisons: int, groups: int | None, expected: str
) -> None:
    assert population_of(cases, repeats, comparisons, groups) == expected


def test_bad_scores_are_refused_in_plain_words() -> None:
    for baseline, variant, message in (
        ([[0, 1]], [[1]], "of one shape"),
        ([[0.5]], [[1.5]], "must lie in"),
        ([[math.nan]], [[1.0]], "every case needs a repeat"),
    ):
        with pytest.raises(ValueError, match=message):
            RepeatedScores.of(baseline, variant)
    with pytest.raises(ValueError, match="weights"):
        RepeatedScores.of([[0.0]], [[1.0]], weights=[0.0])
    ratings = RepeatedScores.of([[1] * 5] * 2, [[5] * 5] * 2, scale=(1, 5))
    assert verdict([4.0, 4.0], repeats=ratings, scale=(1, 5)).word == "better"
