"""The analysis of a run, checked against known answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from abreast.analyse.run import analyse
from abreast.stats import (
    benjamini_hochberg,
    bonett_price,
    cost_per_correct,
    final_interval,
    holm,
    latency_ratio,
    pass_at_k,
    pass_hat_k,
)
from abreast.store import open_store
from conftest import Folder
from scripted import pairs, scripted


def report(folder: Folder, *words: str) -> dict[str, Any]:
    done = folder.abreast("report", "--format", "json", *words)
    content: dict[str, Any] = done.json
    return content


def test_the_case_is_the_unit_and_repeats_are_averaged(folder: Folder) -> None:
    cases = [{"a": ["yes", "no"], "b": ["yes", "yes"]}] * 6 + [{"a": ["no", "no"], "b": ["yes", "no"]}] * 6
    scripted(folder, cases, repeats=2)
    (verdict,) = report(folder)["verdicts"]
    assert (verdict["cases"], verdict["wins"], verdict["effect"]) == (12, 12, 0.5)


def test_repeats_give_pass_at_k_and_pass_hat_k(folder: Folder) -> None:
    a = [["yes", "no", "no"], ["yes", "yes", "yes"], ["no", "no", "no"], ["yes", "yes", "no"]]
    scripted(folder, [{"a": row, "b": ["yes", "yes", "yes"]} for row in a], repeats=3)
    variants = report(folder)["variants"]
    right = [row.count("yes") for row in a]
    for k in (1, 2, 3):
        assert variants["a"]["pass_at_k"][str(k)] == pytest.approx(
            np.mean([pass_at_k(3, successes, k) for successes in right])
        )
        assert variants["a"]["pass_hat_k"][str(k)] == pytest.approx(
            np.mean([pass_hat_k(3, successes, k) for successes in right])
        )
    assert (variants["a"]["consistent"], variants["b"]["consistent"]) == (0.5, 1.0)
    assert "pass@3 75.0%, pass^3 25.0%, 50% consistent" in folder.abreast("report").out


def test_several_variants_are_adjusted_by_holms_method(folder: Folder) -> None:
    """b alone would be better at p = .0256; beside one that is not, its p counts twice and the interval is wider."""
    cases = [
        {
            "a": ["no"] if n < 15 else ["yes"],
            "b": ["no"] if 15 <= n < 20 else ["yes"],
            "c": ["no"] if n % 2 else ["yes"],
        }
        for n in range(50)
    ]
    scripted(folder, cases, variants=("a", "b", "c"))
    verdicts = {row["variant"]: row for row in report(folder)["verdicts"]}
    assert verdicts["b"]["p"] == pytest.approx(0.0256295, abs=1e-7)
    assert [verdicts[name]["p_adjusted"] for name in "bc"] == holm([verdicts[name]["p"] for name in "bc"])
    wide = bonett_price(15, 5, 50, level=0.975)
    assert verdicts["b"]["interval"] == pytest.approx([wide.low, wide.high])
    assert verdicts["b"]["verdict"] == "inconclusive"
    scripted(folder, cases, "--variant", "a", "--variant", "b", variants=("a", "b", "c"))
    (verdict,) = report(folder)["verdicts"]
    assert (verdict["verdict"], verdict["level"]) == ("better", 0.95)


def test_all_pairs_are_compared_on_request_and_ranked(folder: Folder) -> None:
    cases = [{"a": ["yes"], "b": ["no"] if n < 20 else ["yes"], "c": ["no"] if n < 35 else ["yes"]} for n in range(40)]
    cases += [{"a": ["no"], "b": ["yes"], "c": ["yes"]}] * 2
    scripted(folder, cases, variants=("a", "b", "c"))
    assert len(report(folder)["verdicts"]) == 2
    content = report(folder, "--all-pairs")
    assert [(row["variant"], row["baseline"]) for row in content["verdicts"]] == [("b", "a"), ("c", "a"), ("c", "b")]
    assert {row["verdict"] for row in content["verdicts"]} == {"worse"}
    assert [row["variant"] for row in content["ranking"]] == ["a", "b", "c"]
    assert "shares of total strength): a (" in folder.abreast("report", "--all-pairs").out


def test_segments_by_every_tag_are_exploratory_and_adjusted_together(folder: Folder) -> None:
    cases = pairs(14, 0, 6, tags={"kind": "easy", "size": "s"}) + pairs(3, 4, 13, tags={"kind": "hard", "size": "l"})
    cases += pairs(2, 0, 2, tags={"kind": "rare"}) + pairs(0, 0, 2)
    scripted(folder, cases)
    segments = report(folder)["segments"]
    assert [(row["tag"], row["value"]) for row in segments] == [
        ("kind", "easy"),
        ("kind", "hard"),
        ("size", "l"),
        ("size", "s"),
    ], "none of fewer than ten cases"
    easy = segments[0]
    assert (easy["wins"], easy["losses"], easy["ties"], easy["cases"]) == (14, 0, 6, 20)
    expected = final_interval([1] * 14 + [0] * 6, 0.95)
    assert easy["interval"] == pytest.approx([expected.low, expected.high])
    assert [row["q"] for row in segments] == pytest.approx(benjamini_hochberg([row["p"] for row in segments]))
    assert [row["verdict"] for row in segments] == ["better", "inconclusive", "inconclusive", "better"]
    assert all(row["exploratory"] for row in segments)
    output = folder.abreast("report").out
    assert "where    kind=easy +70.0 (n 20) · size=s +70.0 (n 20)" in output
    assert "(exploratory)" in output


def test_pairs_broken_by_infrastructure_are_dropped_on_both_sides_and_bounded(folder: Folder) -> None:
    cases = [*pairs(12, 2, 4), {"a": ["yes"], "b": ["network"]}, {"a": ["network"], "b": ["no"]}]
    cases += [{"a": ["skip"], "b": ["yes"]}, {"a": ["network"], "b": ["network"]}]
    assert scripted(folder, cases).code == 3
    (verdict,) = report(folder)["verdicts"]
    assert verdict["dropped"] == {"failed": 3, "unscored": 0, "skipped": 1}
    assert (verdict["cases"], verdict["dropped_cases"], verdict["planned_cases"]) == (18, 4, 22)
    assert verdict["bounds"] == pytest.approx([(10 - 1 - 1 - 1) / 21, (10 + 0 + 0 + 1) / 21])
    output = folder.abreast("report").out
    assert "4 of 22 cases are not compared: 3 failed by infrastructure, 1 skipped" in output
    assert "counting lost outcomes against the variant: +33.3 points; for it: +52.4" in output


def test_a_failure_of_the_variant_scores_0_and_does_not_count_as_a_cheap_answer(folder: Folder) -> None:
    cost = {"a": 0.02, "b": 0.01}
    cases = [{"a": ["yes"], "b": ["crash"], "cost": cost}] * 10 + [{"a": ["yes"], "b": ["yes"], "cost": cost}] * 10
    scripted(folder, cases)
    content = report(folder)
    assert content["variants"]["b"]["errors"] == {"crash": 10}
    assert content["variants"]["b"]["errors_by_blame"] == {"variant": 10}
    assert content["verdicts"][0]["effect"] == -0.5
    assert content["variants"]["a"]["cost_per_correct"] == pytest.approx(0.02)
    assert content["variants"]["b"]["cost_per_correct"] == pytest.approx(0.02), "twenty paid, ten correct"
    assert content["verdicts"][0]["cost_per_correct_ratio"]["estimate"] == pytest.approx(1.0)


def test_failures_are_reported_by_kind(folder: Folder) -> None:
    scripted(folder, [{"a": ["yes"], "b": ["crash"]}] * 4 + [{"a": ["yes"], "b": [word]} for word in ("no", "maybe")])
    variants = report(folder)["variants"]
    assert variants["a"]["failure_modes"] == []
    assert variants["b"]["failure_modes"] == [
        {"mode": "error: crash", "trials": 4},
        {"mode": "wrong: read …, expected …", "trials": 2},
    ]


def test_without_correct_answers_the_cost_per_correct_answer_is_infinite(folder: Folder) -> None:
    cases = [{"a": ["yes"], "b": ["no"], "cost": {"a": 0.02, "b": 0.01}}] * 12
    scripted(folder, cases)
    assert report(folder)["variants"]["b"]["cost_per_correct"] is None
    assert "∞" in folder.abreast("report").out


def test_tokens_are_reported_by_class_and_times_separately(folder: Folder) -> None:
    scripted(folder, pairs(5, 5, 2))
    variants = report(folder)["variants"]["b"]
    assert variants["tokens"] == {"input": 1200, "output": 120, "cache_read": 600, "cache_write": 60}
    for part in ("latency_s", "queue_s", "backoff_s"):
        assert list(variants[part]) == ["p50", "p90", "p95", "p99"]
        values = list(variants[part].values())
        assert values == sorted(values)
    rows = folder.sql("select service_s from predictions where variant = 'b' order by service_s")
    assert variants["latency_s"]["p90"] == rows[10]["service_s"], "the nearest rank"
    assert "1.2 k in / 600 cached / 60 written / 120 out" in folder.abreast("report").out


def test_latency_is_compared_case_by_case(folder: Folder) -> None:
    scripted(folder, pairs(5, 5, 2))
    (verdict,) = report(folder)["verdicts"]
    rows = folder.sql("select variant, service_s from predictions order by case_id, variant")
    first, second = ([row["service_s"] for row in rows if row["variant"] == name] for name in "ab")
    expected = latency_ratio(first, second)
    assert verdict["latency_ratio"]["estimate"] == pytest.approx(expected.estimate)
    assert verdict["latency_ratio"]["interval"] == pytest.approx([expected.low, expected.high])


def test_latency_and_cost_count_cases_of_one_group_as_dependent(folder: Folder) -> None:
    random = np.random.default_rng(1)
    cases = [
        {
            "a": [str(random.choice(["yes", "yes", "no"]))],
            "b": ["yes"],
            "cost": {"a": round(float(cost), 3), "b": 0.02},
            "group": f"g{number % 5}",
        }
        for number, cost in enumerate(random.uniform(0.01, 0.05, 20))
    ]
    scripted(folder, cases)
    rows = folder.sql("select case_id, variant, service_s, cost_usd, score from predictions order by case_id, variant")
    groups = [cases[int(row["case_id"][1:])]["group"] for row in rows if row["variant"] == "a"]

    def column(variant: str, name: str) -> list[float]:
        return [row[name] for row in rows if row["variant"] == variant]

    content = report(folder)
    latency = latency_ratio(column("a", "service_s"), column("b", "service_s"), groups=groups)
    price = cost_per_correct(*(column(side, name) for side in "ab" for name in ("cost_usd", "score")), groups=groups)
    (verdict,) = content["verdicts"]
    for name, interval in (("latency_ratio", latency), ("cost_per_correct_ratio", price.ratio)):
        assert interval is not None
        assert verdict[name]["estimate"] == pytest.approx(interval.estimate)
        assert verdict[name]["interval"] == pytest.approx([interval.low, interval.high])
    for name, interval in (("a", price.a), ("b", price.b)):
        assert content["variants"][name]["cost_per_correct_interval"] == pytest.approx([interval.low, interval.high])
    assert price.b.high > 0.02, "always correct, so far"


def test_reused_answers_add_no_latency_and_no_cost(folder: Folder) -> None:
    cases = [{"a": ["yes"], "b": ["yes"], "cost": {"a": 0.02, "b": 0.01}}] * 12
    scripted(folder, cases)
    assert folder.rerun("run", "spec.yaml", "--quiet").code == 0
    content = report(folder)
    assert content["reused_trials"] == 24
    assert content["variants"]["a"]["cost_usd"] is None
    assert content["variants"]["a"]["latency_s"] == {"p50": None, "p90": None, "p95": None, "p99": None}
    assert content["verdicts"][0]["latency_ratio"] is None
    assert content["variants"]["a"]["cost_per_correct"] == pytest.approx(0.02), (
        "the cost of an answer is known nevertheless"
    )


def test_every_score_has_its_own_verdict(folder: Folder) -> None:
    folder.write("more.py", "def brief(text): return len(text) < 3\n")
    scripted(folder, pairs(14, 2, 4))
    folder.abreast("rescore", "--scorer", "exact", "--scorer", "python:more:brief")
    content = report(folder)
    assert [(row["metric"], row["primary"]) for row in content["verdicts"]] == [("exact", True), ("brief", False)]
    assert content["verdicts"][1]["effect"] == -content["verdicts"][0]["effect"], "no is brief, yes is not"
    assert set(content["variants"]["a"]["scores"]) == {"exact", "brief"}


def test_a_score_on_another_declared_range_is_rescaled(folder: Folder) -> None:
    folder.write("stars.py", "def stars(text): return 5 if text == 'yes' else 2\n")
    scripted(folder, pairs(12, 0, 8))
    spec = (folder.path / "spec.yaml").read_text()
    folder.write("spec.yaml", spec.replace("[exact]", "[{'python:stars:stars': {range: [1, 5]}}]"))
    assert folder.abreast("run", "spec.yaml", "--quiet").code == 0
    content = report(folder)
    assert content["metric"] == "stars"
    assert content["variants"]["b"]["scores"]["stars"]["mean"] == 1.0
    assert content["verdicts"][0]["effect"] == pytest.approx(12 / 20 * 3 / 4)
    folder.write("spec.yaml", spec.replace("[exact]", "[{'python:stars:stars': {range: [5, 1]}}]"))
    assert "range must be two numbers, the lower first, got [5, 1]" in folder.abreast("run", "spec.yaml").err


def test_only_the_gapless_prefix_of_complete_cases_counts(folder: Folder) -> None:
    scripted(folder, pairs(40, 10, 30))
    store = folder.path / "results.db"
    with open_store(store) as opened:
        rows = analyse(opened, "latest").rows
        order = rows.counted.tolist()
    assert len(order) == 80
    missing = order[50] * 2 + 1
    folder.abreast("sql", "--write", "results.db", f"delete from trials where position = {missing}")
    folder.abreast("sql", "--write", "results.db", "update runs set status = 'incomplete', reason = 'killed'")
    content = report(folder)
    (verdict,) = content["verdicts"]
    assert (verdict["cases"], verdict["waiting_cases"], verdict["not_run_cases"]) == (50, 29, 1)
    assert content["status"] == "incomplete"
    output = folder.abreast("report").out
    assert "1 not run yet, 29 waiting for an earlier case" in output
    assert "1 of 160 trials was not run: killed" in output


def test_a_group_counts_as_one_piece_of_evidence(folder: Folder) -> None:
    cases = [{**case, "group": f"g{number // 8}"} for number, case in enumerate(pairs(40, 8, 16))]
    scripted(folder, cases)
    (grouped,) = report(folder)["verdicts"]
    scripted(folder, pairs(40, 8, 16))
    (ungrouped,) = report(folder)["verdicts"]
    assert ungrouped["verdict"] == "better"
    assert grouped["interval"][1] - grouped["interval"][0] > 1.3 * (ungrouped["interval"][1] - ungrouped["interval"][0])


def test_a_run_of_one_variant_or_without_a_scorer_has_a_report_without_verdict(folder: Folder) -> None:
    scripted(folder, pairs(5, 5), "--variant", "b")
    content = report(folder)
    assert (content["verdicts"], content["segments"]) == ([], [])
    assert content["variants"]["b"]["scores"]["exact"]["mean"] == 0.5
    spec = (folder.path / "spec.yaml").read_text()
    folder.write("spec.yaml", spec.replace("scorers: [exact]\n", ""))
    assert folder.abreast("run", "spec.yaml", "--quiet").code == 0
    content = report(folder)
    assert (content["verdicts"], content["metric"]) == ([], None)
    assert content["variants"]["b"]["scores"] == {}


def test_if_all_failed_there_is_no_score_and_no_price(folder: Folder) -> None:
    scripted(folder, [{"a": ["network"], "b": ["network"]}] * 3)
    content = report(folder)
    assert content["variants"]["a"]["scores"] == {}
    assert content["verdicts"][0]["verdict"] == "no comparison"
    assert (content["verdicts"][0]["effect"], content["verdicts"][0]["interval"]) == (None, None)
    reason = (
        "a failed in 2 of 2 trials (network: the line is down); b failed in 1 of 1 trial (network: the line is down)"
    )
    assert f"no comparison: {reason}" in folder.abreast("report").out


def test_scores_of_trials_stored_during_the_analysis_are_ignored(folder: Folder) -> None:
    """An active run may store more trials and scores between two queries."""
    scripted(folder, pairs(6, 2, 4), "--parallel", "4")
    before = report(folder)["trials"]
    missing = [3, 10, 23]
    for position in missing:
        folder.abreast("sql", "--write", "results.db", f"delete from trials where position = {position}")
    assert report(folder)["trials"] == [row for at, row in enumerate(before) if at not in missing]
    folder.abreast("sql", "--write", "results.db", "delete from trials")
    assert report(folder)["verdicts"][0]["not_run_cases"] == 12


def test_rows_of_older_versions_without_start_times_are_counted_group_by_group(folder: Folder) -> None:
    scripted(folder, [{**case, "group": f"g{number % 7}"} for number, case in enumerate(pairs(40, 8, 16))])
    (before,) = report(folder)["verdicts"]
    folder.abreast("sql", "--write", "results.db", "update trials set block = null")
    (after,) = report(folder)["verdicts"]
    assert (after["cases"], after["effect"], after["p"]) == (64, before["effect"], pytest.approx(before["p"]))


def test_a_value_that_is_not_a_score_is_not_compared(folder: Folder) -> None:
    scripted(folder, pairs(12, 3, 5))
    folder.abreast("sql", "--write", "results.db", "update scores set value = 7 where position = 1")
    content = report(folder)
    assert content["verdicts"][0]["dropped"] == {"failed": 0, "unscored": 1, "skipped": 0}
    assert content["variants"]["b"]["unscored"] == 1


def test_a_failure_of_unknown_blame_is_reported_as_such(folder: Folder) -> None:
    scripted(folder, [{"a": ["yes"], "b": ["network"]}] * 3)
    folder.abreast("sql", "--write", "results.db", "update trials set error_blame = null")
    assert "3 network (unknown cause)" in folder.abreast("report").out


def test_outcomes_of_variants_count_executed_trials_only(folder: Folder) -> None:
    scripted(folder, [*pairs(6, 2, 4), {"a": ["crash"], "b": ["skip"]}])
    cancelled = "update trials set status = 'cancelled', error_kind = 'cancelled', error_blame = 'unknown'"
    folder.abreast("sql", "--write", "results.db", f"{cancelled} where position in (0, 1, 7)")
    content = report(folder)
    assert content["executed_trials"] == 23
    assert [row["trials"] for row in content["variants"].values()] == [12, 11]


def test_bounds_take_every_repeat_that_is_lost(folder: Folder) -> None:
    cases = [{"a": ["yes", "yes"], "b": ["yes", "yes"]}] * 9 + [{"a": ["yes", "network"], "b": ["network", "no"]}]
    assert scripted(folder, cases, repeats=2).code == 3
    (verdict,) = report(folder)["verdicts"]
    assert verdict["dropped"]["failed"] == 1
    assert verdict["bounds"] == pytest.approx([-1.0 / 10, 0.0 / 10])


def test_a_large_difference_is_not_called_likely_smaller(folder: Folder) -> None:
    """Five groups that agree have no spread, but are still few."""
    scripted(folder, [{**case, "group": f"g{number % 5}"} for number, case in enumerate(pairs(35, 0))])
    output = folder.abreast("report").out
    assert "inconclusive: b vs a: +100.0 points" in output
    assert "likely smaller" not in output


def test_a_partly_known_cost_is_reported_as_such_and_meets_no_requirement(folder: Folder) -> None:
    cases = [{"a": ["yes"], "b": ["yes"], "cost": {"a": 0.5, "b": 0.5} if n % 2 else {"a": 0.5}} for n in range(10)]
    scripted(folder, cases)
    variant = report(folder)["variants"]["b"]
    assert (variant["cost_usd"], variant["unpriced"], variant["cost_per_correct"]) == (2.5, 5, None)
    done = folder.abreast("report", "--fail-if", "cost_usd > 3")
    assert "$2.50 (5 unknown)" in done.out
    assert (done.code, "cost_usd of b is unknown" in done.err) == (1, True)
