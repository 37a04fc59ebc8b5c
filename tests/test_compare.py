"""Comparing runs: which cases are paired, which are listed, and what counts as a regression."""

from __future__ import annotations

import json
from typing import Any
from xml.etree import ElementTree

import pytest

from abreast.stats import latency_ratio
from conftest import Done, Folder
from scripted import pairs, scripted


def names(folder: Folder, store: str = "results.db") -> list[str]:
    return [row["run"] for row in folder.abreast("runs", "--json", "--store", store).json]


def compared(done: Done) -> dict[str, Any]:
    (content,) = done.json
    (verdict,) = content["verdicts"]
    return dict(verdict)


def two_runs(folder: Folder, before: list[dict[str, Any]], after: list[dict[str, Any]]) -> list[str]:
    """Two runs of variant b, whose answers change in between as with a new model."""
    scripted(folder, before)
    scripted(folder, after, "--fresh")
    return names(folder)


def answers(*words: str) -> list[dict[str, Any]]:
    return [{"a": ["yes"], "b": [word]} for word in words]


@pytest.fixture
def regressed(folder: Folder) -> Folder:
    """Two runs of forty cases; in the second, b loses 14 answers and gains 2."""
    folder.write("answers.json", json.dumps({f"c{n}": "yes" if n < 30 else "no" for n in range(40)}))
    folder.write(
        "canned.py",
        "import json, pathlib\n"
        "def answer(case, side):\n"
        "    known = json.loads(pathlib.Path('answers.json').read_text())\n"
        "    return known[case.id] if side == 'b' else 'yes'\n",
    )
    folder.cases(40)
    folder.write(
        "spec.yaml",
        "name: canned\ncases: cases.jsonl\ntarget: python:canned:answer\n"
        "variants: {a: {side: a}, b: {side: b}}\nscorers: [exact]\n",
    )
    assert folder.rerun("run", "spec.yaml", "--quiet").code == 0
    changed = {f"c{n}": "no" if n < 14 or n >= 32 else "yes" for n in range(40)}
    folder.write("answers.json", json.dumps(changed))
    assert folder.rerun("run", "spec.yaml", "--quiet", "--fresh").code == 0
    return folder


def test_a_regression_is_reported_in_words_and_numbers(regressed: Folder) -> None:
    first, second = names(regressed)
    done = regressed.abreast("compare", first, second, "--variant", "b")
    assert done.code == 0
    assert f"regression: {second}:b is worse than {first}:b: −30.0 points (95 % interval" in done.out
    assert "2 wins, 14 losses, 24 ties in 40 cases" in done.out
    assert "the runs were not interleaved" in done.out
    verdict = compared(regressed.abreast("compare", first, second, "--variant", "b", "--json"))
    assert (verdict["regression"], verdict["verdict"], verdict["effect"]) == ("regression", "worse", -0.3)
    assert (verdict["wins"], verdict["losses"], verdict["ties"]) == (2, 14, 24)
    reverse = compared(regressed.abreast("compare", second, first, "--variant", "b", "--json"))
    assert (reverse["regression"], reverse["effect"]) == ("improvement", 0.3)
    verdicts = regressed.abreast("compare", first, second, "--json").json[0]["verdicts"]
    assert [(row["variant"], row["regression"]) for row in verdicts] == [("a", "not known"), ("b", "regression")]


def test_without_names_the_latest_run_is_compared_with_the_previous_one(regressed: Folder) -> None:
    first, second = names(regressed)
    assert regressed.abreast("compare").out == regressed.abreast("compare", first, second).out
    regressed.abreast("delete", first, "--yes")
    done = regressed.abreast("compare")
    assert done.code == 2
    assert "no previous run, there is only one" in done.err


def test_requirements_fail_a_build(regressed: Folder) -> None:
    first, second = names(regressed)
    done = regressed.abreast("compare", first, second, "--fail-if", "worse")
    assert done.code == 1
    assert f"requirement not met: {second}:b is worse than {first}:b" in done.err
    assert regressed.abreast("compare", second, first, "--fail-if", "worse").code == 0
    done = regressed.abreast("compare", first, second, "--variant", "b", "--fail-if", "score < -10%")
    assert done.code == 1
    assert "-40.0% against" in done.err
    assert regressed.abreast("compare", first, second, "--fail-if", "nonsense").code == 2


def test_junit_fails_on_a_regression(regressed: Folder) -> None:
    first, second = names(regressed)
    root = ElementTree.fromstring(regressed.abreast("compare", first, second, "--format", "junit").out)
    assert (root.get("tests"), root.get("failures")) == ("2", "1")
    (failed,) = [test for test in root.iter("testcase") if test.find("failure") is not None]
    assert failed.get("name") == f"{second}:b against {first}:b"


def test_markdown_lists_the_cases_that_changed(regressed: Folder) -> None:
    first, second = names(regressed)
    output = regressed.abreast("compare", first, second, "--variant", "b", "--format", "markdown").out
    assert f"| case | {first}:b | {second}:b |" in output
    assert "| c0 | 1 | 0 |" in output


@pytest.mark.parametrize("form", ["terminal", "markdown", "json", "junit"])
def test_a_comparison_can_be_written_to_a_file(regressed: Folder, form: str) -> None:
    report = regressed.abreast("compare", "previous", "latest", "--format", form)
    done = regressed.abreast("compare", "previous", "latest", "--format", form, "--output", "comparison.txt")
    assert (done.code, done.out) == (report.code, "comparison.txt\n")
    assert (regressed.path / "comparison.txt").read_text(encoding="utf-8") == report.out
    refused = regressed.abreast("compare", "previous", "latest", "--output", "nowhere/comparison.txt")
    assert refused.code == 2
    assert "nowhere/comparison.txt: cannot write the comparison" in refused.err


def test_cases_that_cannot_be_paired_are_listed(folder: Folder) -> None:
    before = pairs(12, 3, 5)
    after = [{**case, "id": f"c{number}"} for number, case in enumerate(pairs(3, 12, 5))]
    after[0] = {"a": ["no", "new"], "b": ["yes"], "id": "c0"}
    after[1]["id"] = "other"
    first, second = two_runs(folder, before, after)
    done = folder.abreast("compare", first, second, "--variant", "b")
    assert "(1 case)" in done.out
    assert f"not paired, only in {first}: c1 (1 case)" in done.out
    assert f"not paired, only in {second}: other (1 case)" in done.out
    assert "not paired, same id, different input: c0" in done.out
    verdict = compared(folder.abreast("compare", first, second, "--variant", "b", "--json"))
    assert verdict["unmatched"] == {first: ["c1"], second: ["other"]}
    assert "c0" in verdict["changed_inputs"]


def test_cases_with_another_expected_answer_are_listed_and_not_compared(folder: Folder) -> None:
    scripted(folder, pairs(12, 3, 15))
    cases = (folder.path / "cases.jsonl").read_text()
    folder.write("cases.jsonl", cases.replace('"expected": "yes"', '"expected": "no"', 4))
    folder.abreast("run", "spec.yaml", "--quiet", "--fresh")
    verdict = compared(folder.abreast("compare", "--variant", "b", "--json"))
    assert (verdict["regression"], verdict["cases"], verdict["losses"]) == ("not known", 26, 0)
    assert verdict["changed_expected"] == ["c0", "c1", "c2", "c3"]
    output = folder.abreast("compare", "--variant", "b").out
    assert "not paired, same input, different expected answer: c0, c1, c2, c3 (4 cases)" in output


def test_latest_refers_to_one_store(folder: Folder) -> None:
    for name in ("one.db", "two.db"):
        scripted(folder, pairs(5, 2, 5), "--store", name)
    done = folder.abreast("compare", "latest", "previous", "--store", "one.db", "--store", "two.db")
    assert done.code == 2
    assert '"latest" is ambiguous with several stores' in done.err


SHARING = "name: s\ncases: cases.jsonl\ntarget: simulated\nvariants: {a: {accuracy: 0.5}}\nscorers: [exact]\n"


def test_runs_that_share_all_answers_allow_no_comparison(folder: Folder) -> None:
    folder.cases(30)
    folder.write("spec.yaml", SHARING)
    folder.abreast("run", "spec.yaml")
    folder.cases(50)
    folder.abreast("run", "spec.yaml")
    first, second = names(folder)
    done = folder.abreast("compare", first, second)
    assert done.code == 1
    assert f"no comparison: {second}:a vs {first}:a: all 30 answers are shared by both runs (reused)" in done.out
    assert "run it again with --fresh" in done.out
    assert "SIMULATED" in done.out
    comparison = folder.abreast("compare", first, second, "--json")
    assert comparison.code == 1
    verdict = compared(comparison)
    assert (verdict["verdict"], verdict["regression"], verdict["effect"]) == ("no comparison", "no comparison", None)
    assert verdict["reason"] == "all 30 answers are shared by both runs (reused)"
    assert (verdict["shared_answers"], len(verdict["shared_cases"])) == (30, 30)
    folder.write("spec.yaml", SHARING + "seed: 7\n")
    folder.abreast("run", "spec.yaml", "--fresh")
    third = names(folder)[2]
    fresh = compared(folder.abreast("compare", second, third, "--json"))
    assert (fresh["cases"], fresh["shared_answers"], fresh["shared_cases"]) == (50, 0, [])


@pytest.mark.parametrize("requirement", ["worse", "not better", "inconclusive"])
def test_a_requirement_on_runs_that_share_all_answers_is_not_met(folder: Folder, requirement: str) -> None:
    folder.cases(10)
    folder.write("spec.yaml", SHARING)
    for _ in range(2):
        folder.abreast("run", "spec.yaml", "--quiet")
    first, second = names(folder)
    done = folder.abreast("compare", "--fail-if", requirement)
    assert done.code == 1
    why = f"no comparison of {second}:a with {first}:a: all 10 answers are shared by both runs (reused)"
    assert f'requirement not met: "{requirement}" cannot be decided: {why}' in done.err
    root = ElementTree.fromstring(folder.abreast("compare", "--fail-if", requirement, "--format", "junit").out)
    assert (root.get("errors"), root.get("failures")) == ("1", "1")


def test_a_run_compared_with_itself_says_so_and_meets_no_requirement(regressed: Folder) -> None:
    _, second = names(regressed)
    regressed.abreast("tag", second, "candidate")
    for name in (second, "latest", "candidate"):
        done = regressed.abreast("compare", second, name, "--variant", "b", "--fail-if", "worse")
        assert done.code == 1
        assert f"no comparison: {second}:b vs {second}:b: a run cannot be compared with itself\n" in done.out
        assert '"worse" cannot be decided: ' in done.err
        assert "set aside" not in done.out


def test_partly_shared_answers_are_listed_and_the_rest_is_compared(folder: Folder) -> None:
    """In the second run b changes for some cases only: its other answers are reused."""
    folder.write("mine.py", "def answer(case, side):\n    return 'yes'\n")
    folder.cases(40)
    spec = "name: s\ncases: cases.jsonl\ntarget: python:mine:answer\nvariants: {a: {side: a}, b: {side: b}}\n"
    folder.write("spec.yaml", spec + "scorers: [exact]\n")
    folder.abreast("run", "spec.yaml", "--quiet", "--limit", "15")
    folder.abreast("run", "spec.yaml", "--quiet", "--fresh")
    folder.abreast("run", "spec.yaml", "--quiet", "--variant", "b", "--fresh", "--limit", "15")
    folder.abreast("run", "spec.yaml", "--quiet")
    _, second, third, fourth = names(folder)
    done = folder.abreast("compare", second, fourth)
    assert done.code == 0, "b is compared"
    assert f"no comparison: {fourth}:a vs {second}:a: all 40 answers are shared by both runs" in done.out
    assert "0 wins, 0 losses, 15 ties in 15 cases" in done.out
    assert "not compared, because one run reused them: 25 answers of b, in " in done.out
    assert "(25 cases)" in done.out
    first_verdict, other = folder.abreast("compare", second, fourth, "--json").json[0]["verdicts"]
    assert (first_verdict["verdict"], other["verdict"], other["cases"]) == ("no comparison", "inconclusive", 15)
    shared_cases = set(folder.abreast("compare", third, fourth, "--json").json[0]["verdicts"][0]["shared_cases"])
    assert set(other["shared_cases"]) == {f"c{n}" for n in range(40)} - shared_cases
    assert folder.abreast("compare", second, fourth, "--fail-if", "worse").code == 0, "b is not worse, a is the same"
    alone = folder.abreast("compare", second, fourth, "--fail-if", "worse", "--variant", "a")
    assert alone.code == 1, "nothing is compared"


def test_different_variants_do_not_share_answers_after_the_cache_is_cleared(folder: Folder) -> None:
    scripted(folder, pairs(14, 2, 4))
    (run,) = names(folder)
    assert folder.abreast("cache", "clear", "--yes").code == 0
    verdict = compared(folder.abreast("compare", f"{run}:a", f"{run}:b", "--json"))
    assert (verdict["shared_answers"], verdict["wins"]) == (0, 14)
    assert "cannot be compared with itself" in folder.abreast("compare", f"{run}:a", f"{run}:a").out


def test_runs_of_two_stores_can_be_compared(folder: Folder) -> None:
    scripted(folder, pairs(5, 2, 5), "--store", "one.db")
    scripted(folder, pairs(5, 2, 5), "--store", "two.db", "--fresh")
    (first,), (second,) = names(folder, "one.db"), names(folder, "two.db")
    words = ["compare", first, second, "--variant", "b", "--json"]
    assert compared(folder.abreast(*words, "--store", "one.db", "--store", "two.db"))["ties"] == 12
    done = folder.abreast(*words, "--store", "one.db")
    assert done.code == 2
    assert f'no run "{second}"' in done.err


def test_a_run_that_stopped_early_gives_a_caution(folder: Folder) -> None:
    folder.cases(120)
    folder.write(
        "spec.yaml",
        "cases: cases.jsonl\ntarget: simulated\nvariants: {a: {accuracy: 0.2}, b: {accuracy: 0.9}}\nscorers: [exact]\n",
    )
    folder.abreast("run", "spec.yaml", "--quiet", "--until-decided")
    folder.abreast("run", "spec.yaml", "--quiet", "--fresh", "--seed", "9")
    first, _ = names(folder)
    assert f"{first} stopped early: its scores favour the variant that was leading" in folder.abreast("compare").out


def test_contenders_of_any_name_can_be_compared(folder: Folder) -> None:
    scripted(folder, pairs(14, 2, 4))
    (run,) = names(folder)
    verdict = compared(folder.abreast("compare", f"{run}:a", f"{run}:b", "--json"))
    assert (verdict["variant"], verdict["baseline"], verdict["verdict"], verdict["wins"]) == ("b", "a", "better", 14)
    output = folder.abreast("compare", f"{run}:a", f"{run}:b").out
    assert "not interleaved" not in output
    assert "changed: side: a → b" in output


def test_invalid_comparisons_are_refused_with_the_reason(folder: Folder) -> None:
    scripted(folder, pairs(5, 5, 2), "--variant", "a")
    scripted(folder, pairs(5, 5, 2), "--variant", "b")
    first, second = names(folder)
    assert "compare needs two runs" in folder.abreast("compare", first).err
    assert f"{second}:b vs {first}:a" in folder.abreast("compare", first, second).out, "the only ones there are"
    scripted(folder, [{"a": ["yes"], "b": ["no"], "c": ["no"]}] * 12, variants=("c", "a"))
    third = names(folder)[2]
    done = folder.abreast("compare", second, third)
    assert done.code == 2
    assert f"{second} and {third} have no variant in common" in done.err
    assert f"abreast compare {second}:b {third}:c" in done.err
    assert f"{first}: no variant x" in folder.abreast("compare", f"{first}:x", second).err
    assert "--margin 7: must be from 0 to 1" in folder.abreast("compare", first, second, "--margin", "7").err


def test_identical_contenders_do_not_share_their_answers(folder: Folder) -> None:
    folder.cases(40)
    variants = "{a: {accuracy: 0.6}, again: {accuracy: 0.6}}"
    folder.write("spec.yaml", f"cases: cases.jsonl\ntarget: simulated\nvariants: {variants}\nscorers: [exact]\n")
    for _ in range(2):
        folder.abreast("run", "spec.yaml", "--quiet")
    first, second = names(folder)
    (verdict,) = folder.abreast("report", "--format", "json").json["verdicts"]
    for first_verdict, other in ((first, first), (first, second), (second, second)):
        comparison = compared(folder.abreast("compare", f"{first_verdict}:a", f"{other}:again", "--json"))
        assert (comparison["shared_answers"], comparison["cases"], comparison["effect"]) == (0, 40, verdict["effect"])
        same = compared(folder.abreast("compare", f"{first_verdict}:again", f"{other}:again", "--json"))
        assert (same["shared_answers"], same["cases"]) == (40, 0)


def test_an_answer_reused_twice_is_still_the_same_answer(folder: Folder) -> None:
    folder.cases(20)
    folder.write(
        "spec.yaml", "cases: cases.jsonl\ntarget: simulated\nvariants: {a: {accuracy: 0.6}}\nscorers: [exact]\n"
    )
    for _ in range(2):
        folder.abreast("run", "spec.yaml", "--quiet")
    folder.abreast("delete", names(folder)[0], "--yes")
    folder.abreast("run", "spec.yaml", "--quiet")
    second, third = names(folder)
    assert compared(folder.abreast("compare", second, third, "--json"))["shared_answers"] == 20


def test_a_requirement_can_name_a_contender(regressed: Folder) -> None:
    first, second = names(regressed)
    for name in ("b", f"{second}:b"):
        done = regressed.abreast("compare", first, second, "--fail-if", f"score[{name}] < 0.6")
        assert (done.code, f"score of {second}:b is 0.45" in done.err) == (1, True)
    assert regressed.abreast("compare", first, second, "--fail-if", f"score[{first}:b] < 0.6").code == 0
    assert regressed.abreast("compare", first, second, "--fail-if", "score[a] < 0.6").code == 0
    done = regressed.abreast("compare", first, second, "--fail-if", "score[c] < 0.6")
    assert (done.code, "no variant c" in done.err) == (2, True)


def test_junit_names_what_fails_a_build(regressed: Folder) -> None:
    first, second = names(regressed)
    words = ["--fail-if", "worse", "--fail-if", "score[b] < 0.6", "--format", "junit"]
    root = ElementTree.fromstring(regressed.abreast("compare", first, second, *words).out)
    cases = [test.get("name") for test in root.iter("testcase")][2:]
    assert cases == [f"{second}:b is worse than {first}:b", "score[b] < 0.6"]


def test_p_values_of_several_contenders_are_adjusted(regressed: Folder) -> None:
    first, second = names(regressed)
    first_verdict, other = regressed.abreast("compare", first, second, "--json").json[0]["verdicts"]
    assert (first_verdict["p_adjusted"], other["p_adjusted"]) == (first_verdict["p"], 2 * other["p"])


def test_groups_known_to_either_run_count(folder: Folder) -> None:
    plain = pairs(12, 3, 5)
    scripted(folder, plain)
    scripted(folder, [{**case, "group": f"g{number // 2}"} for number, case in enumerate(plain)], "--fresh")
    first, second = names(folder)
    reverse = compared(folder.abreast("compare", f"{first}:a", f"{second}:b", "--json"))
    back = compared(folder.abreast("compare", f"{second}:b", f"{first}:a", "--json"))
    assert back["interval"] == pytest.approx([-end for end in reversed(reverse["interval"])])
    (done,) = folder.abreast("report", first, "--format", "json").json["verdicts"]
    assert reverse["p"] != done["p"], "by the clustered error"
    latencies = reverse["latency_ratio"], back["latency_ratio"]
    assert latencies[0]["estimate"] == pytest.approx(1 / latencies[1]["estimate"])
    rows = folder.sql("select run, variant, service_s from predictions order by run, variant, case_id")
    times = [
        [row["service_s"] for row in rows if row["variant"] == side and row["run"] == run]
        for side, run in (("a", first), ("b", second))
    ]
    ids = sorted(range(20), key=lambda number: f"c{number}")
    expected = latency_ratio(*times, groups=[number // 2 for number in ids])
    assert latencies[0]["interval"] == pytest.approx([expected.low, expected.high])


def test_failed_cases_are_reported_beside_shared_ones(folder: Folder) -> None:
    cases = [{"a": ["yes"], "b": ["yes"]}] * 5 + [{"a": ["yes"], "b": ["network"]}] * 2
    for _ in range(2):
        scripted(folder, cases, "--fresh")
    first, second = names(folder)
    for number in range(5):
        where = f"run_id = 2 and position in ({2 * number}, {2 * number + 1})"
        folder.abreast("sql", "--write", "results.db", f"update trials set reused_from = '{first}' where {where}")
    folder.abreast("sql", "--write", "results.db", "update variants set digest = 'same'")
    output = folder.abreast("compare", first, second, "--variant", "b").out
    assert "2 of 2 cases are not compared: 2 failed by infrastructure" in output
    assert "no comparison: " in output
    assert "not compared, because one run reused them: 5 answers of b, in c0, c1, c2, c3, c4 (5 cases)" in output


def test_cases_that_a_run_has_not_begun_are_not_reported_as_missing(folder: Folder) -> None:
    first, second = two_runs(folder, pairs(5, 5, 5), pairs(5, 5, 5))
    folder.abreast("sql", "--write", "results.db", "delete from trials where run_id = 2 and block >= 14")
    done = folder.abreast("compare", first, second, "--variant", "b")
    assert f"not paired, only in {first}, or among the 1 case that {second} has not started: c" in done.out
    verdict = compared(folder.abreast("compare", first, second, "--variant", "b", "--json"))
    assert (verdict["not_begun"], len(verdict["unmatched"][first])) == ({first: 0, second: 1}, 1)


def test_runs_without_a_case_in_common_say_so_and_list_all(folder: Folder) -> None:
    scripted(folder, [{**case, "id": f"one{n}"} for n, case in enumerate(pairs(2, 1, 1))])
    scripted(folder, [{**case, "id": f"two{n}"} for n, case in enumerate(pairs(2, 1, 1))])
    verdict = compared(folder.abreast("compare", "--variant", "b", "--json"))
    assert (verdict["cases"], verdict["verdict"]) == (0, "no comparison")
    assert [len(ids) for ids in verdict["unmatched"].values()] == [4, 4]
    done = folder.abreast("compare", "--variant", "b")
    assert (done.code, "no case can be paired" in done.out) == (1, True)


def test_a_run_without_new_answers_can_be_allowed(regressed: Folder) -> None:
    spec = next(regressed.path.glob("*.yaml")).name
    assert regressed.abreast("run", spec, "--quiet").code == 0
    assert regressed.abreast("compare", "--fail-if", "worse").code == 1
    words = ["compare", "--fail-if", "worse", "--allow-unchanged"]
    assert regressed.abreast(*words).code == 0
    root = ElementTree.fromstring(regressed.abreast(*words, "--format", "junit").out)
    assert (root.get("errors"), root.get("failures"), root.get("skipped")) == ("0", "0", "2")
    assert regressed.abreast(*words, "--fail-if", "score < 0.99").code == 1, "bounds hold for reused answers, too"
