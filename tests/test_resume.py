"""Resume keeps a run's outcomes; a new run reuses what is still valid. Calls are counted by the target."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from typing import Any

import duckdb
import pytest

from conftest import Done, Folder

MODULE = """\
import os
from abreast.errors import Refused, Transient

def note(case, who):
    file = os.open("calls.txt", os.O_APPEND | os.O_CREAT | os.O_WRONLY)
    os.write(file, (case.id + " " + who + "\\n").encode())
    written = os.lseek(file, 0, os.SEEK_CUR)
    os.close(file)
    return written

def answer(case, who="", style="plain"):
    return {"prediction": "yes", "cost_usd": 0.5, "call": note(case, who)}

def fails(case, who=""):
    note(case, who)
    if case.id == "c0":
        raise Refused("I would rather not")
    if case.id == "c1" and not os.path.exists("mended"):
        raise Transient("the line is down")
    return "yes"
"""

CASES = [{"id": f"c{n}", "input": f"question {n}", "expected": "yes"} for n in range(4)]
VARIANTS = {"one": {"who": "one"}, "two": {"who": "two"}}


class Bench:
    """A folder with a spec that is rewritten before each run."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self.cases: list[dict[str, Any]] = [dict(case) for case in CASES]
        self.spec: dict[str, Any] = {
            "name": "bench",
            "target": "python:mine:answer",
            "cases": "cases.jsonl",
            "variants": dict(VARIANTS),
            "scorers": ["exact"],
            "store": "results.db",
            "limits": {"retries": 0},
        }
        self.module = MODULE

    def run(self, *words: str) -> Done:
        self.folder.write("mine.py", self.module)
        self.folder.write("cases.jsonl", "".join(json.dumps(case) + "\n" for case in self.cases))
        self.folder.write("spec.json", json.dumps(self.spec))
        return self.folder.rerun("run", "spec.json", "--yes", *words)

    def executed(self, *words: str, code: int = 0) -> list[str]:
        """The calls that another run makes."""
        before = len(self.calls)
        done = self.run(*words)
        assert done.code == code, done.err
        return sorted(self.calls[before:])

    @property
    def calls(self) -> list[str]:
        path = self.folder.path / "calls.txt"
        return path.read_text().splitlines() if path.exists() else []

    def rows(self, run: int = -1, columns: str = "*") -> list[dict[str, Any]]:
        """Predictions of the run at this index."""
        names = [row["run"] for row in self.folder.abreast("runs", "--json").json]
        query = f"select {columns} from predictions where run = '{names[run]}' order by case_id, variant, repeat"
        return self.folder.sql(query)

    def runs(self) -> list[dict[str, Any]]:
        return list(self.folder.abreast("runs", "--json").json)


@pytest.fixture
def bench(folder: Folder) -> Bench:
    return Bench(folder)


def calls_of_all_cases(*names: str, cases: int = 4) -> list[str]:
    return sorted(f"c{n} {name}" for n in range(cases) for name in names)


def test_running_a_complete_spec_again_executes_nothing_and_reports_it(bench: Bench) -> None:
    assert bench.executed() == calls_of_all_cases("one", "two")
    done = bench.run()
    assert len(bench.calls) == 8
    assert "reusing 8 answers from earlier runs, executing 0" in done.err
    first, second = bench.runs()
    assert (first["status"], second["status"], second["trials"]) == ("complete", "complete", 8)


def test_fresh_executes_everything(bench: Bench) -> None:
    bench.executed()
    assert bench.executed("--fresh") == calls_of_all_cases("one", "two")
    assert {row["reused_from"] for row in bench.rows()} == {None}


def test_a_changed_parameter_executes_only_that_variant(bench: Bench) -> None:
    bench.executed()
    bench.spec["variants"]["two"] = {"who": "two", "style": "ornate"}
    assert bench.executed() == calls_of_all_cases("two")


def test_a_changed_input_executes_only_that_case(bench: Bench) -> None:
    bench.executed()
    bench.cases[2]["input"] = "another question"
    assert bench.executed() == ["c2 one", "c2 two"]


def test_a_changed_function_executes_everything(bench: Bench) -> None:
    bench.executed()
    bench.module = MODULE.replace('"prediction": "yes"', '"prediction": "yes" + ""')
    assert bench.executed() == calls_of_all_cases("one", "two")


def test_more_repeats_execute_only_the_new_ones_and_fewer_execute_none(bench: Bench) -> None:
    bench.executed()
    bench.spec["repeats"] = 3
    assert bench.executed() == sorted(calls_of_all_cases("one", "two") * 2)
    bench.spec["repeats"] = 2
    assert bench.executed() == []


def test_added_cases_are_the_only_ones_executed(bench: Bench) -> None:
    bench.executed()
    bench.cases.insert(0, {"id": "new", "input": "a new question", "expected": "yes"})
    assert bench.executed() == ["new one", "new two"]


def test_new_names_of_variants_execute_nothing(bench: Bench) -> None:
    bench.executed()
    bench.spec["variants"] = {"uno": VARIANTS["one"], "due": VARIANTS["two"]}
    assert bench.executed() == []
    assert {row["variant"] for row in bench.rows()} == {"uno", "due"}


def test_a_corrected_expected_answer_only_rescores(bench: Bench) -> None:
    bench.executed()
    bench.cases[1]["expected"] = "no"
    assert bench.executed() == []
    assert {(row["case_id"], row["expected"], row["score_exact"]) for row in bench.rows()} == {
        ("c0", "yes", 1.0),
        ("c1", "no", 0.0),
        ("c2", "yes", 1.0),
        ("c3", "yes", 1.0),
    }
    assert {row["score_exact"] for row in bench.rows(run=0)} == {1.0}


def test_another_scorer_executes_nothing_and_scores_what_is_stored(bench: Bench) -> None:
    bench.executed()
    bench.spec["scorers"] = ["exact", {"contains": {"value": "yes"}}]
    assert bench.executed() == []
    assert {row["score_contains"] for row in bench.rows()} == {1.0}


def test_identical_variants_never_share_an_answer(bench: Bench) -> None:
    twin = {"who": "twin"}
    bench.spec["variants"] = {"one": twin, "again": twin}
    assert bench.executed() == sorted(calls_of_all_cases("twin") * 2)
    within = [row["call"] for row in bench.rows(columns="call")]
    assert len(set(within)) == 8
    bench.spec["variants"] = {"one": twin, "again": twin, "third": twin}
    assert bench.executed() == calls_of_all_cases("twin")
    across = [row["call"] for row in bench.rows(columns="call")]
    assert len(set(across)) == 12


def test_a_new_identical_variant_gets_no_answers_of_the_first(bench: Bench) -> None:
    bench.spec["variants"] = {"one": {"who": "x"}}
    bench.executed()
    bench.spec["variants"] = {"one": {"who": "x"}, "again": {"who": "x"}}
    assert bench.executed() == calls_of_all_cases("x")
    assert Counter((row["variant"], row["reused_from"] is not None) for row in bench.rows()) == {
        ("one", True): 4,
        ("again", False): 4,
    }


def test_cases_with_the_same_input_never_share_an_answer(bench: Bench) -> None:
    for case in bench.cases:
        case["input"] = "the same question"
    assert len(bench.executed()) == 8
    assert len({row["call"] for row in bench.rows()}) == 8
    assert bench.executed() == []
    assert len({row["call"] for row in bench.rows()}) == 8
    bench.cases.append({"id": "c4", "input": "the same question", "expected": "yes"})
    assert bench.executed() == ["c4 one", "c4 two"]
    assert len({row["call"] for row in bench.rows()}) == 10


def test_failures_of_a_variant_are_kept_and_infrastructure_errors_are_retried(bench: Bench) -> None:
    bench.spec["target"] = "python:mine:fails"
    assert bench.executed(code=3) == calls_of_all_cases("one", "two")
    assert bench.runs()[0]["status"] == "incomplete"
    (bench.folder.path / "mended").touch()
    before = len(bench.calls)
    assert bench.folder.abreast("resume").code == 0
    assert sorted(bench.calls[before:]) == ["c1 one", "c1 two"]
    assert bench.executed() == []
    (run, second) = bench.runs()
    assert (run["trials"], second["trials"]) == (8, 8)
    reused = bench.rows(run=-1)
    assert {(row["case_id"], row["status"], row["error_kind"], row["error_blame"]) for row in reused} == {
        ("c0", "error", "refused", "variant"),
        *((f"c{n}", "ok", None, None) for n in (1, 2, 3)),
    }
    assert {row["reused_from"] for row in reused} == {run["run"]}


def test_a_failure_of_the_infrastructure_is_never_reused(bench: Bench) -> None:
    bench.spec["target"] = "python:mine:fails"
    bench.executed(code=3)
    (bench.folder.path / "mended").touch()
    bench.cases.append({"id": "c4", "input": "one more", "expected": "yes"})  # another plan, so another run
    assert bench.executed() == ["c1 one", "c1 two", "c4 one", "c4 two"]


def test_a_reused_answer_is_marked_and_costs_nothing(bench: Bench) -> None:
    bench.executed()
    bench.cases.append({"id": "c4", "input": "one more", "expected": "yes"})
    bench.executed()
    first, second = (run["run"] for run in bench.runs())
    rows = bench.rows()
    assert Counter(row["reused_from"] for row in rows) == {first: 8, None: 2}
    costs = {
        (row["run"], row["variant"]): row["cost_usd"]
        for row in bench.folder.sql("select run, variant, cost_usd from metrics")
    }
    assert costs[first, "one"] == 2.0
    assert costs[second, "one"] == 0.5


def test_a_complete_run_cannot_be_resumed(bench: Bench) -> None:
    bench.executed()
    done = bench.folder.abreast("resume")
    assert done.code == 2
    assert "complete" in done.err
    assert bench.folder.abreast("resume", bench.runs()[0]["run"]).code == 2


def test_a_run_whose_cases_changed_cannot_be_resumed(bench: Bench) -> None:
    bench.spec["target"] = "python:mine:fails"
    bench.executed(code=3)
    bench.cases[0]["input"] = "something else"
    bench.folder.write("cases.jsonl", "".join(json.dumps(case) + "\n" for case in bench.cases))
    done = bench.folder.abreast("resume")
    assert done.code == 4
    assert "its cases changed" in done.err


def test_the_cache_can_be_shown_and_cleared_without_losing_rows(bench: Bench) -> None:
    bench.executed()
    stats = bench.folder.abreast("cache", "stats", "--json").json
    assert [(row["variant"], row["answers"], row["cost_usd"]) for row in stats] == [("one", 4, 2.0), ("two", 4, 2.0)]
    cleared = bench.folder.abreast("cache", "clear", "--yes")
    assert "8 answers" in cleared.out
    assert bench.folder.abreast("cache", "stats", "--json").json == []
    assert len(bench.rows()) == 8
    assert bench.executed() == calls_of_all_cases("one", "two")


def test_clearing_the_cache_of_one_experiment_keeps_that_of_another(bench: Bench) -> None:
    bench.executed()
    bench.spec["name"], bench.spec["variants"] = "other", {"mine": {"who": "mine"}}
    bench.executed()
    assert "8 answers" in bench.folder.abreast("cache", "clear", "--yes", "--experiment", "bench").out
    assert bench.executed() == []
    bench.spec["name"], bench.spec["variants"] = "bench", dict(VARIANTS)
    assert bench.executed() == calls_of_all_cases("one", "two")


def test_deleting_the_source_of_reused_answers_leaves_them_readable_and_reusable(bench: Bench) -> None:
    bench.executed()
    bench.executed()
    first, second = (run["run"] for run in bench.runs())
    assert bench.folder.abreast("delete", first, "--yes").code == 0
    rows = bench.rows()
    assert [run["run"] for run in bench.runs()] == [second]
    assert {(row["answer"], row["score"], row["reused_from"]) for row in rows} == {("yes", 1.0, first)}
    assert bench.executed() == []


@pytest.mark.parametrize("store", ["results.db", "results.duckdb"])
def test_a_deleted_run_leaves_nothing_in_any_table(bench: Bench, store: str) -> None:
    bench.spec["store"] = store
    bench.spec["target"] = "python:mine:fails"
    bench.spec["limits"] = {"retries": 1}
    bench.spec["scorers"] = [{"contains": {"value": "yes"}}]
    bench.executed(code=3)
    bench.spec["scorers"] = [{"contains": {"value": "no"}}]
    bench.folder.write("spec.json", json.dumps(bench.spec))
    assert bench.folder.abreast("rescore").code == 0
    for table in ("attempts", "old_scores", "scores"):
        assert bench.folder.sql(f"select * from {table}", store), table
    (run,) = bench.runs()
    assert bench.folder.abreast("delete", "--store", store, run["run"], "--yes").code == 0
    for table in ("runs", "variants", "cases", "trials", "payloads", "attempts", "scores", "old_scores", "events"):
        assert bench.folder.sql(f"select * from {table}", store) == [], table
    for view in ("predictions", "metrics"):
        assert bench.folder.sql(f"select * from {view}", store) == []


@pytest.mark.parametrize("store", ["results.db", "results.duckdb"])
def test_deleting_one_run_keeps_the_rows_of_another_with_the_same_cases(bench: Bench, store: str) -> None:
    """Also in a DuckDB file that had not seen the second run when the first was deleted."""
    bench.spec["store"] = store
    bench.executed()
    assert len(bench.folder.sql("select * from predictions", store)) == 8
    first = bench.runs()[0]["run"]
    bench.executed("--fresh")
    if store.endswith("duckdb"):  # as if the second run could not have been written to the file yet
        with duckdb.connect(str(bench.folder.path / store)) as file:
            file.execute("delete from trials where run_id = 2; update watermarks set seq = 8 where name = 'trials'")
    assert bench.folder.abreast("delete", "--store", store, first, "--yes").code == 0
    rows = bench.folder.sql("select case_id, variant, answer, score from predictions", store)
    assert len(rows) == 8
    assert {(row["answer"], row["score"]) for row in rows} == {("yes", 1.0)}


def test_a_debug_run_neither_continues_nor_is_continued_by_a_real_one(bench: Bench) -> None:
    bench.spec["target"] = "python:mine:fails"
    bench.executed("--debug", "4", code=3)
    assert len(bench.executed(code=3)) == 2  # a separate run, which reuses final answers
    assert [run["debug"] for run in bench.runs()] == [True, False]


def test_attempts_are_numbered_on_after_a_stop_and_none_is_lost(bench: Bench) -> None:
    bench.spec["target"], bench.spec["limits"] = "python:mine:fails", {"retries": 1}
    bench.spec["variants"] = {"one": {"who": "one"}}
    assert bench.run().code == 3
    assert bench.folder.abreast("resume").code == 3
    (bench.folder.path / "mended").touch()
    assert bench.folder.abreast("resume").code == 0
    attempts = bench.folder.sql("select attempt, error_kind from attempts order by attempt")
    assert attempts == [{"attempt": number, "error_kind": "network"} for number in (1, 2, 3, 4)]
    assert [row["attempts"] for row in bench.rows(columns="attempts")] == [1, 5, 1, 1]
    logs = bench.folder.abreast("logs", "--case", "c1").out
    assert "5 attempts" in logs
    assert "attempt 4: network: the line is down" in logs


def test_resume_reports_that_it_ignores_an_edited_spec(bench: Bench) -> None:
    bench.spec["target"] = "python:mine:fails"
    bench.run()
    assert "was edited" not in bench.folder.abreast("resume").err
    bench.folder.write("spec.json", json.dumps({**bench.spec, "variants": {"three": {"who": "three"}}}))
    for _ in range(2):
        done = bench.folder.abreast("resume")
        name = bench.runs()[0]["run"]
        assert f"note: spec.json was edited; {name} continues with the spec it was started with" in done.err
        assert "help: run `abreast run spec.json` to execute the edited spec" in done.err
    assert "was edited" not in bench.folder.abreast("resume", "--quiet").err
    assert not any("three" in call for call in bench.calls)


def test_a_resumed_run_has_a_full_report_beside_the_earlier_one(bench: Bench) -> None:
    bench.spec["target"] = "python:mine:fails"
    bench.run()
    (report,) = bench.folder.path.glob("runs/*/*.html")
    before = report.read_text()
    assert "1 of 4 cases is not compared: 1 failed by infrastructure" in before
    (bench.folder.path / "mended").touch()
    done = bench.folder.abreast("resume")
    assert done.code == 0
    assert report.read_text() == before
    full_report = report.with_name("report-2.html")
    assert str(full_report.relative_to(bench.folder.path)) in done.out
    assert "not compared" not in full_report.read_text()


def test_a_run_is_resumed_by_the_name_of_its_spec_file(bench: Bench) -> None:
    bench.spec["target"] = "python:mine:fails"
    bench.run()
    first = bench.runs()[0]["run"]
    other = {**bench.spec, "name": "other", "store": "other.db"}
    bench.folder.write("other.json", json.dumps(other))
    assert bench.folder.abreast("run", "other.json").code == 3
    (bench.folder.path / "mended").touch()
    done = bench.folder.abreast("resume", "spec.json")
    assert done.code == 0, done.err
    assert first in done.err + done.out
    assert "is complete" in bench.folder.abreast("resume", "spec.json").err
    complete = bench.folder.abreast("resume", first, "--store", "results.db").err
    advice = complete.partition("run `abreast ")[2].partition("`")[0]
    assert bench.folder.abreast(*shlex.split(advice)).code == 0, "the folder has several stores"
    assert bench.folder.abreast("resume", "other.json").code == 0
    assert bench.folder.abreast("resume", "none.json", "--store", "other.db").code == 2
