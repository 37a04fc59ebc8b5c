"""Verdicts in edge cases, through the command line."""

from __future__ import annotations

from typing import Any

import pytest

from conftest import Folder
from scripted import pairs, scripted
from test_analysis import report


def effect_in_tables(content: dict[str, Any], variant: str = "b") -> float:
    """The difference of the two scores that the table shows."""
    scores = {name: row["scores"]["exact"]["mean"] for name, row in content["variants"].items()}
    return float(scores[variant] - scores["a"])


def unequal_groups() -> list[dict[str, Any]]:
    """Forty groups of one case, which b mostly wins, and two of sixty, which it mostly loses."""
    cases = [{**case, "group": f"single {n}"} for n, case in enumerate(pairs(25, 0, 15))]
    for group in ("x", "y"):
        cases += [{**case, "group": group} for case in pairs(0, 31, 29)]
    return cases


@pytest.mark.parametrize("words", [(), ("--until-decided",)], ids=["at the end", "until decided"])
def test_every_case_has_the_same_weight_unless_groups_are_weighted(folder: Folder, words: tuple[str, ...]) -> None:
    assert scripted(folder, unequal_groups(), *words).code == 0
    by_case = report(folder)
    (verdict,) = by_case["verdicts"]
    assert (verdict["weight"], verdict["verdict"]) == ("case", "inconclusive")
    assert effect_in_tables(by_case) == pytest.approx(verdict["effect"])
    if not words:
        assert verdict["effect"] == pytest.approx(-37 / 160)
    assert "every case weighs the same (weight: case)" in folder.abreast("report").out

    assert scripted(folder, unequal_groups(), *words, more="weight: group\n").code == 0
    by_group = report(folder)
    (verdict,) = by_group["verdicts"]
    assert verdict["verdict"] == "better"
    assert verdict["interval"][0] <= verdict["effect"] <= verdict["interval"][1]
    assert effect_in_tables(by_group) == pytest.approx(verdict["effect"])
    if not words:
        assert verdict["effect"] == pytest.approx((25 - 31 / 60 * 2) / 42)
    assert "every group weighs the same (weight: group)" in folder.abreast("report").out


def test_a_run_cannot_be_continued_with_another_weight(folder: Folder) -> None:
    cases = [*pairs(4, 2, 4), *[{"a": ["network"], "b": ["yes"]}]]
    assert scripted(folder, cases).code == 3
    refused = scripted(folder, cases, more="weight: group\n")
    assert refused.code == 4
    assert "was started with weight: case and is not finished" in refused.err
    assert scripted(folder, cases, more="weight: document\n").code == 2


def test_a_verdict_that_lost_pairs_could_change_is_weakened_everywhere(folder: Folder) -> None:
    assert scripted(folder, [*pairs(14, 2, 20), *[{"a": ["yes"], "b": ["network"]}] * 6]).code == 3
    (verdict,) = report(folder)["verdicts"]
    assert (verdict["verdict"], verdict["demoted_from"]) == ("inconclusive", "better")
    assert verdict["caution"] == "better, unless the 6 lost cases were its failures"
    done = folder.abreast("report", "--fail-if", "not better", "--fail-if", "inconclusive")
    assert "b is better than a, unless the 6 lost cases were its failures: +" in done.out
    assert done.code == 1
    assert done.err.count("requirement not met") == 2
    findings = folder.abreast("validate", "--json").json
    assert "b would be better, but the lost trials could change that" in [item["message"] for item in findings]


def test_a_clear_difference_survives_a_few_lost_pairs(folder: Folder) -> None:
    assert scripted(folder, [*pairs(40, 2, 20), {"a": ["yes"], "b": ["network"]}]).code == 3
    (verdict,) = report(folder)["verdicts"]
    assert (verdict["verdict"], verdict["demoted_from"]) == ("better", None)


def test_lost_repeats_count_as_their_worst_case_too(folder: Folder) -> None:
    """b loses the repeats it would have failed; on the others it looks better."""
    assert scripted(folder, [{"a": ["yes", "no"], "b": ["yes", "network"]}] * 30, repeats=2).code == 3
    (verdict,) = report(folder)["verdicts"]
    assert verdict["verdict"] == "inconclusive"
    assert verdict["bounds"] == pytest.approx([0.0, 0.5])


def test_timeouts_on_one_side_are_reported_beside_the_verdict(folder: Folder) -> None:
    folder.cases(20)
    folder.write(
        "spec.yaml",
        "cases: cases.jsonl\ntarget: simulated\nscorers: [exact]\nlimits: {retries: 0}\n"
        "variants: {a: {accuracy: 1}, b: {accuracy: 1, errors: {timeout: 0.6}}}\n",
    )
    folder.abreast("run", "spec.yaml", "--quiet", "--allow-failing")
    (verdict,) = report(folder)["verdicts"]
    count = verdict["censoring"]["timeout"]["variant"]
    assert verdict["censoring"] == {"timeout": {"baseline": 0, "variant": count}}
    assert f"timeouts: {count} of b, 0 of a" in folder.abreast("report").out
    assert "censoring" in [item["check"] for item in folder.abreast("validate", "--json").json]


def test_without_a_comparison_there_is_no_verdict(folder: Folder) -> None:
    cases = [{"a": ["yes"], "b": ["crash"]}] * 8
    done = scripted(folder, cases, "--fail-if", "worse")
    assert done.code == 1
    assert "no comparison: b failed in 8 of 8 trials (crash: ValueError: broken)" in done.out
    assert "this run allows no comparison" in done.err
    assert '"worse" cannot be decided' in done.err
    (verdict,) = report(folder)["verdicts"]
    assert (verdict["verdict"], verdict["effect"], verdict["interval"]) == ("no comparison", None, None)


def test_one_silent_variant_does_not_spoil_the_comparison_of_the_others(folder: Folder) -> None:
    cases = [{"a": ["no"], "b": ["yes"], "c": ["crash"]}] * 9
    assert scripted(folder, cases, variants=("a", "b", "c")).code == 0
    words = {row["variant"]: row["verdict"] for row in report(folder)["verdicts"]}
    assert words == {"b": "better", "c": "no comparison"}


def test_scores_behind_an_effect_are_named_where_variants_lost_different_cases(folder: Folder) -> None:
    cases = [{"a": ["no"], "b": ["yes"], "c": ["yes"]}] * 12
    cases += [{"a": ["yes"], "b": ["network"], "c": ["yes"]}, {"a": ["no"], "b": ["no"], "c": ["network"]}]
    scripted(folder, cases, variants=("a", "b", "c"))
    content = report(folder)
    for verdict in content["verdicts"]:
        assert verdict["scores"]["variant"] - verdict["scores"]["baseline"] == pytest.approx(verdict["effect"])
    assert "on the 13 cases that both answered: a 0.0%, b 92.3%" in folder.abreast("report").out


def test_few_cases_can_decide_if_they_agree(folder: Folder) -> None:
    scripted(folder, pairs(9, 0, 31))
    (verdict,) = report(folder)["verdicts"]
    assert (verdict["verdict"], verdict["p"]) == ("better", pytest.approx(2 / 2**9, abs=1e-7))
    assert 0 < verdict["interval"][0] < verdict["effect"] < verdict["interval"][1]
    scripted(folder, pairs(0, 0, 400), more="margin: 0.05\n")
    (verdict,) = report(folder)["verdicts"]
    assert verdict["verdict"] == "equivalent"


@pytest.mark.parametrize("change", ["repeats", "weight", "groups"])
def test_another_look_at_the_same_cases_has_no_final_interval_left(folder: Folder, change: str) -> None:
    cases = [{**case, "group": f"g{n // 4}"} for n, case in enumerate(pairs(20, 10, 50))]
    assert scripted(folder, cases).code == 0
    assert report(folder)["verdicts"][0]["level"] == 0.95
    if change == "repeats":
        scripted(folder, cases, repeats=2)
    elif change == "weight":
        scripted(folder, cases, more="weight: group\n")
    else:
        scripted(folder, [{**case, "group": f"h{n // 2}"} for n, case in enumerate(cases)])
    assert report(folder)["verdicts"][0]["level"] == 0.98
    assert "the final interval is spent, so only the confidence sequence decides" in folder.abreast("report").out


def test_runs_of_different_weight_are_not_compared(folder: Folder) -> None:
    scripted(folder, unequal_groups())
    scripted(folder, unequal_groups(), more="weight: group\n")
    done = folder.abreast("compare")
    assert (done.code, "has weight: case" in done.err) == (2, True)


def test_an_incomplete_run_is_compared_by_the_sequence_alone(folder: Folder) -> None:
    scripted(folder, pairs(30, 10, 60))
    scripted(folder, [*pairs(10, 30, 60), {"a": ["network"], "b": ["yes"]}], "--fresh")
    by_variant = {row["variant"]: row for row in folder.abreast("compare", "--json").json[0]["verdicts"]}
    assert by_variant["b"]["level"] == pytest.approx(0.975), "a share of 5 %, of which the sequence has two fifths"
    assert by_variant["b"]["p"] > 1e-6


def test_a_variant_that_never_answered_has_no_figures_and_no_rank(folder: Folder) -> None:
    cases = [{"a": ["no"], "b": ["yes"], "c": ["crash"]}] * 9
    scripted(folder, cases, variants=("a", "b", "c"))
    content = report(folder, "--all-pairs")
    silent = next(row for row in content["verdicts"] if row["variant"] == "c")
    assert (silent["p"], silent["p_adjusted"], silent["wins"], silent["losses"]) == (None, None, 0, 0)
    assert silent["scores"] is None
    assert "ranking" not in content
    better = next(row for row in content["verdicts"] if row["variant"] == "b")
    assert better["p_adjusted"] == better["p"], "the only comparison"


def test_the_ranking_uses_the_weights_of_the_verdict(folder: Folder) -> None:
    cases = [{**case, "c": ["no" if n % 2 else "yes"]} for n, case in enumerate(unequal_groups())]
    scripted(folder, cases, more="weight: group\n", variants=("a", "b", "c"))
    ranking = [row["variant"] for row in report(folder, "--all-pairs")["ranking"]]
    assert ranking.index("b") < ranking.index("a")
