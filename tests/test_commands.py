"""The commands, run as users run them."""

from __future__ import annotations

import contextlib
import csv
import html
import io
import json
import os
import pty
import re
import shlex
import subprocess
import sys
from typing import Any

import duckdb
import pytest

import abreast
from abreast import Experiment, Reader, Tracker
from abreast.cli import GROUPS
from conftest import ABREAST, SIMULATED, Folder

SAME = "case_id, variant, repeat, status, error_kind, error_blame, error, score, score_exact, answer, prompt, attempts"


def outcome_rows(folder: Folder) -> list[dict[str, Any]]:
    """The columns that must not depend on how a run was executed."""
    return folder.sql(
        f"select {SAME} from predictions where run = (select run from runs order by run_id desc limit 1) "
        "order by case_id, variant, repeat"
    )


WAYS = (
    ["--parallel"],
    ["--parallel", "1"],
    ["--parallel", "7"],
    ["--parallel", "10000"],
    ["--parallel", "auto"],
    ["--trial-parallelism", "3"],
    ["--parallel", "--trial-parallelism", "4"],
    ["--parallel", "3", "--trial-parallelism", "9"],
)


def test_results_are_identical_for_any_parallelism(simulated: Folder) -> None:
    spec = (simulated.path / "experiment.yaml").read_text()
    noisy = spec.replace(
        "accuracy: 0.9", "accuracy: 0.9, errors: {network: 0.1, crash: 0.1}, latency: {low: 0, high: 0.003}"
    )
    simulated.write("experiment.yaml", noisy.replace("plain", "'plain'"))
    once = simulated.abreast("run", "experiment.yaml", "--repeats", "2", "--fresh")
    single = outcome_rows(simulated)
    assert len(single) == 160
    for flags in WAYS:
        done = simulated.abreast("run", "experiment.yaml", "--repeats", "2", "--fresh", *flags)
        assert done.code in (0, 3), done.err
        assert outcome_rows(simulated) == single, flags
        assert verdict_of(done.out) == verdict_of(once.out), flags


def verdict_of(text: str) -> str:
    match = re.search(r"^  .* (?:is better|is worse|vs) .*$", text, re.M)
    assert match, text
    return match[0]


def test_parallel_does_not_swallow_the_spec(simulated: Folder) -> None:
    done = simulated.abreast("run", "--parallel", "experiment.yaml")
    assert done.code == 0
    assert "1 block at once, all variants of each together" in done.err
    done = simulated.abreast("run", "--parallel", "4", "experiment.yaml")
    assert "at most 4 trials in flight" in done.err


@pytest.mark.parametrize("word", ["0", "-3"])
def test_parallel_0_means_1_with_a_note(simulated: Folder, word: str) -> None:
    done = simulated.abreast("run", "experiment.yaml", "--parallel", word)
    assert done.code == 0
    assert f"parallel {word} means 1" in done.err
    assert simulated.sql("select max(in_flight) m from predictions")[0]["m"] == 1


def test_a_wrong_value_of_parallel_is_bad_input(simulated: Folder) -> None:
    done = simulated.abreast("run", "experiment.yaml", "--parallel=many")
    assert done.code == 2
    assert "whole number or auto" in done.err


def test_the_verdict_comes_first_and_the_report_is_where_it_says(simulated: Folder) -> None:
    done = simulated.abreast("run", "experiment.yaml")
    lines = [line.strip() for line in done.out.splitlines() if line.strip()]
    assert lines[0] == "SIMULATED · no model was called"
    assert re.match(
        r"better is better than plain: \+\d+\.\d points \(95 % interval .*\); \d+ wins?, \d+ loss(es)?", lines[1]
    )
    report = re.search(r"report +(\S+)", done.out)
    assert report
    page = (simulated.path / report[1]).read_text(encoding="utf-8")
    assert "better is better than plain" in page
    assert "<script" not in page
    assert "http" not in page.replace("http-equiv", "")


def test_no_file_is_ever_overwritten_by_a_report(simulated: Folder) -> None:
    simulated.abreast("run", "experiment.yaml", "--output", "out")
    report = simulated.path / "out" / "report.html"
    assert simulated.abreast("report", "--format", "html", "--output", "out").out.strip() == "out/report.html"
    simulated.abreast("run", "experiment.yaml", "--fresh", "--output", "out")
    assert simulated.abreast("report", "--format", "html", "--output", "out").out.strip() == "out/report-2.html"
    report.write_text(report.read_text() + "my notes")
    (simulated.path / "out" / "report-2.html").write_text("mine")
    assert simulated.abreast("report", "--format", "html", "--output", "out").out.strip() == "out/report-3.html"
    assert report.read_text().endswith("my notes")
    assert sorted(path.name for path in report.parent.iterdir()) == ["report-2.html", "report-3.html", "report.html"]


def test_delete_removes_the_report_of_a_run_and_keeps_foreign_files_beside_it(simulated: Folder) -> None:
    simulated.abreast("run", "experiment.yaml")
    simulated.abreast("run", "experiment.yaml", "--fresh")
    first, second = [run["run"] for run in simulated.abreast("runs", "--json").json]
    notes = simulated.write(f"runs/{second}/notes.txt", "mine")
    assert f"removed runs/{first} with its report" in simulated.abreast("delete", first, "--yes").out
    assert not (simulated.path / "runs" / first).exists()
    done = simulated.abreast("delete", second, "--yes")
    assert f"kept runs/{second}: notes.txt was not written by abreast" in done.out
    assert notes.read_text() == "mine"
    assert (notes.parent / "report.html").exists()


def test_progress_goes_to_stderr_and_only_json_to_stdout(simulated: Folder) -> None:
    done = simulated.command("run", "experiment.yaml", "--json")
    assert done.code == 0
    (summary,) = json.loads(done.out)
    assert summary["status"] == "complete"
    assert summary["executed"] == 80
    assert "80/80" in done.err


def check_summary(summary: dict[str, Any]) -> None:
    (verdict,) = summary["verdicts"]
    match = re.search(r"better is better than plain: \+(\S+) points", summary["summary"][1])
    assert match
    assert (verdict["verdict"], verdict["metric"], verdict["primary"]) == ("better", "exact", True)
    assert verdict["effect"] == pytest.approx(float(match[1]) / 100, abs=5e-4)
    low, high = verdict["interval"]
    assert 0 < low < verdict["effect"] < high < 1
    assert verdict["wins"] + verdict["ties"] + verdict["losses"] == verdict["cases"] == 40
    assert (verdict["dropped_cases"], verdict["not_run_cases"], verdict["waiting_cases"]) == (0, 0, 0)
    plain, better = summary["variants"]["plain"], summary["variants"]["better"]
    assert summary["baseline"] == "plain"
    means = [side["scores"]["exact"]["mean"] for side in (plain, better)]
    assert means[1] - means[0] == pytest.approx(verdict["effect"])
    assert plain["scores"]["exact"]["interval"][0] < means[0] < plain["scores"]["exact"]["interval"][1]
    assert (plain["errors"], plain["cost_usd"]) == ({}, None)


def test_with_json_nothing_that_the_users_code_prints_reaches_stdout(folder: Folder) -> None:
    folder.write(
        "chatty.py",
        """
import os

print("hello from the module")


def cases():
    print("hello from the cases")
    return [{"id": f"c{n}", "input": "2 + 2", "expected": "4"} for n in range(6)]


def predict(case):
    print("hello from the target")
    os.system("echo hello from a child")
    return "4"


def score(case, answer):
    print("hello from the scorer")
    return 1.0
""",
    )
    folder.write(
        "spec.yaml",
        "cases: python:chatty:cases\nvariants: {a: {target: python:chatty:predict}, b: {target: python:chatty:predict, "
        "executor: process}}\nscorers: [python:chatty:score]\n",
    )
    for words in ("run spec.yaml", "aa spec.yaml", "check spec.yaml", "cases list spec.yaml", "rescore"):
        done = folder.command(*words.split(), "--json")
        assert done.code == 0, done.err
        assert isinstance(done.json, list)
        assert "hello from the module" in done.err
    assert "hello from a child" in folder.command("run", "spec.yaml", "--fresh", "--quiet").out


def test_run_report_and_rescore_print_the_verdict_as_json(simulated: Folder) -> None:
    for words in (["run", "experiment.yaml"], ["report"], ["rescore"]):
        (summary,) = simulated.abreast(*words, "--json").json
        check_summary(summary)
    assert summary["scored"] == 0, "nothing had to be scored again"


def test_too_few_cases_are_inconclusive_with_a_wide_interval(folder: Folder) -> None:
    folder.cases(3)
    folder.write("spec.yaml", "cases: cases.jsonl\ntarget: simulated\nvariants: {a: {}, b: {}}\nscorers: [exact]\n")
    (summary,) = folder.abreast("run", "spec.yaml", "--json").json
    (verdict,) = summary["verdicts"]
    assert verdict["verdict"] == "inconclusive"
    assert "differ" in verdict["reason"]
    low, high = verdict["interval"]
    assert low < -0.5 < 0.5 < high


def test_quiet_prints_only_the_verdict(simulated: Folder) -> None:
    done = simulated.abreast("run", "experiment.yaml", "--quiet")
    assert done.err == ""
    assert "better is better than plain" in done.out


def test_verbose_explains_what_the_scheduler_does(simulated: Folder) -> None:
    done = simulated.abreast("run", "experiment.yaml", "--verbose", "--parallel", "3")
    assert re.search(r"^event  run_started: run \S+, planned \d+, to_execute \d+$", done.err, re.M)
    assert re.search(r"^event  in_flight: asked 3, mean [\d.]+, most \d$", done.err, re.M)


def test_verbose_prints_one_line_per_start_and_end_of_a_trial(simulated: Folder) -> None:
    done = simulated.command("run", "experiment.yaml", "--verbose", "--parallel", "16", "--repeats", "2")
    lines = [line for line in done.err.splitlines() if line.startswith(("start", "end"))]
    assert len(lines) == 320
    assert all(
        re.fullmatch(
            r"start  c\d+ (plain|better)( repeat 1)?|end    c\d+ (plain|better)( repeat 1)?: ok \(\d+\.\d\d s\)", line
        )
        for line in lines
    )


def test_events_are_json_lines_of_everything(simulated: Folder) -> None:
    simulated.abreast("run", "experiment.yaml", "--events", "events.jsonl")
    events = [json.loads(line) for line in (simulated.path / "events.jsonl").read_text().splitlines()]
    kinds = [event["kind"] for event in events]
    assert kinds[0] == "run_started"
    assert kinds[-1] == "run_finished"
    for kind in ("trial_started", "trial_finished", "trial_stored"):
        assert kinds.count(kind) == 80
    assert {"case_id", "variant", "repeat", "at"} <= set(events[1])


def test_a_dry_run_shows_one_request_per_variant_and_writes_nothing(simulated: Folder) -> None:
    done = simulated.abreast("run", "experiment.yaml", "--dry-run")
    assert done.code == 0
    assert done.out.count("--- plain") == 1
    assert done.out.count("--- better") == 1
    assert "80 trials would be executed; nothing was sent" in done.out
    assert sorted(path.name for path in simulated.path.iterdir()) == ["cases.jsonl", "experiment.yaml"]


def test_check_executes_nothing(simulated: Folder) -> None:
    done = simulated.abreast("check", "experiment.yaml")
    assert done.code == 0
    assert "80 trials to execute" in done.err
    assert not (simulated.path / "results.db").exists()
    findings = simulated.abreast("check", "experiment.yaml", "--json").json
    assert {"check", "level", "message", "fix", "details"} == set(findings[0])


def test_strict_makes_warnings_failures(simulated: Folder) -> None:
    simulated.cases(3)
    done = simulated.abreast("run", "experiment.yaml", "--strict")
    assert done.code == 4
    assert "power" in done.err
    assert not (simulated.path / "results.db").exists()
    assert simulated.abreast("run", "experiment.yaml", "--strict", "--force").code == 0


def test_debug_runs_a_few_cases_marks_the_run_and_delete_removes_it(simulated: Folder) -> None:
    assert simulated.abreast("run", "experiment.yaml", "--debug").code == 0
    assert simulated.abreast("run", "experiment.yaml", "--debug", "3").code == 0
    simulated.abreast("run", "experiment.yaml")
    runs = simulated.abreast("runs", "--json").json
    assert [(run["debug"], run["trials"]) for run in runs] == [(True, 20), (True, 6), (False, 80)]
    refused = simulated.command("delete", "--debug", stdin=subprocess.DEVNULL)
    assert refused.code == 2
    assert "--yes" in refused.err
    done = simulated.abreast("delete", "--debug", "--yes")
    assert "26 trials" in done.out
    assert [run["debug"] for run in simulated.abreast("runs", "--json").json] == [False]


def test_delete_removes_every_row_of_a_run_and_no_other(simulated: Folder) -> None:
    simulated.abreast("run", "experiment.yaml")
    simulated.abreast("run", "experiment.yaml", "--fresh")
    first, second = [run["run"] for run in simulated.abreast("runs", "--json").json]
    done = simulated.command("delete", "results.db", first, "--yes", stdin=subprocess.DEVNULL)
    assert done.code == 0, done.err
    for table in ("trials", "payloads", "scores", "variants", "attempts", "events"):
        assert (
            simulated.sql(f"select count(*) n from {table} where run_id not in (select run_id from runs)")[0]["n"] == 0
        )
    assert simulated.sql("select distinct run from predictions") == [{"run": second}]
    assert simulated.abreast("delete", "no-such-run", "--yes").code == 2


def test_listings_take_json(simulated: Folder) -> None:
    simulated.abreast("run", "experiment.yaml")
    for words in (["runs"], ["show"], ["show", "latest", "c1"], ["logs", "--limit", "2"], ["cache", "stats"]):
        rows = simulated.abreast(*words, "--json").json
        assert isinstance(rows, list)
        assert isinstance(rows[0], dict)


def test_show_and_logs_print_a_trial_in_full(simulated: Folder) -> None:
    simulated.abreast("run", "experiment.yaml")
    screen = simulated.abreast("show", "latest", "c7").out
    assert "question 7" in screen
    assert "--- plain" in screen
    logged = simulated.abreast("logs", "--case", "c7", "--variant", "plain")
    assert logged.out.count("===") == 1
    assert "score_exact" in logged.out
    assert simulated.abreast("show", "latest", "c700").code == 2
    assert 'did you mean "c' in simulated.abreast("show", "latest", "c700").err


MOODY = """\
import json
from abreast.errors import Refused, Skipped, Transient

def parsed(text):
    return json.loads(text)

def predict(case, moody=True):
    if moody and case.id == "c1":
        raise Refused("I would rather not")
    if moody and case.id == "c2":
        raise Transient("the line is down")
    if moody and case.id == "c3":
        return parsed("{")
    if moody and case.id == "c4":
        raise Skipped("does not apply")
    return "yes"

async def later(case, moody=True):
    return predict(case, moody)
"""

SPEC = """\
cases: cases.jsonl
target: python:moody:predict
variants: {calm: {moody: false}, moody: {moody: true}}
scorers: [exact]
limits: {retries: 0}
"""


@pytest.fixture
def moody(folder: Folder) -> Folder:
    """A folder with a run of twelve cases whose second variant fails in every way."""
    folder.cases(12)
    folder.write("moody.py", MOODY)
    folder.write("spec.yaml", SPEC)
    assert folder.abreast("run", "spec.yaml").code == 3
    return folder


def test_logs_show_the_kind_and_blame_of_an_error(moody: Folder) -> None:
    output = moody.abreast("logs", "--variant", "moody").out
    assert "error (refused, variant's fault): I would rather not" in output
    assert "error (network, infrastructure): the line is down" in output
    assert "error (crash, variant's fault): JSONDecodeError" in output
    assert "skipped: does not apply" in output
    assert "1 attempt," in output
    assert "error (refused, variant's fault)" in moody.abreast("show", "latest", "c1").out


def test_logs_of_an_unknown_case_or_variant_are_an_error(moody: Folder) -> None:
    done = moody.abreast("logs", "--case", "c33")
    assert (done.code, done.out) == (2, "")
    assert 'no stored trial of case "c33" (did you mean "c3"?)' in done.err
    done = moody.abreast("logs", "--variant", "modoy")
    assert done.code == 2
    assert 'no variant "modoy" (did you mean "moody"?)' in done.err
    moody.cases(500)
    moody.rerun("run", "spec.yaml")
    assert moody.abreast("logs", "--case", "zzz").err.endswith("and 480 more)\n"), "not five hundred names"


def test_logs_that_stop_early_say_so(moody: Folder) -> None:
    done = moody.abreast("logs", "--limit", "3")
    assert done.out.count("===") == 3
    assert "only the first 3 trials; --limit N shows more" in done.err
    assert moody.abreast("logs", "--limit", "24").err == ""


@pytest.mark.parametrize("function", ["predict", "later"])
def test_logs_show_where_in_the_users_code_a_crash_happened(folder: Folder, function: str) -> None:
    folder.cases(12)
    folder.write("moody.py", MOODY)
    folder.write("spec.yaml", SPEC.replace("moody:predict", f"moody:{function}"))
    folder.rerun("run", "spec.yaml")
    output = folder.abreast("logs", "--case", "c3", "--variant", "moody").out
    assert 'moody.py:13 in predict: return parsed("{")' in output
    assert "moody.py:5 in parsed: return json.loads(text)" in output
    assert re.search(r"^    json/decoder.py:\d+ in raw_decode", output, re.M), "and where it was raised"
    assert "abreast" not in output, "our own frames are not shown"
    (row,) = folder.abreast("logs", "--case", "c3", "--variant", "moody", "--json").json
    assert row["error_detail"].startswith("moody.py:")
    assert folder.sql("select count(error_detail) n from trials where error_kind <> 'crash'") == [{"n": 0}]


def test_cases_without_a_comparison_are_counted_beside_the_verdict(moody: Folder) -> None:
    output = moody.abreast("report").out
    assert "2 of 12 cases are not compared: 1 failed by infrastructure, 1 skipped" in output
    (report,) = moody.abreast("report", "--json").json
    assert report["verdicts"][0]["dropped"] == {"failed": 1, "unscored": 0, "skipped": 1}
    page = next(moody.path.glob("runs/*/report.html")).read_text()
    assert "2 of 12 cases are not compared" in page


def test_repeats_that_are_left_out_of_compared_cases_are_counted(folder: Folder) -> None:
    folder.cases(12)
    folder.write(
        "moody.py", MOODY.replace('case.id == "c2"', 'case.id == "c2" and not seen.append(1) and len(seen) == 1')
    )
    (folder.path / "moody.py").write_text("seen = []\n" + (folder.path / "moody.py").read_text())
    folder.write("spec.yaml", SPEC + "repeats: 3\n")
    output = folder.rerun("run", "spec.yaml").out
    assert "1 of 12 cases is not compared: 1 skipped" in output
    assert "1 of 33 repeats of the compared cases is left out: one side has no score there" in output


def test_counts_of_one_are_singular(folder: Folder) -> None:
    folder.cases(1)
    folder.write("moody.py", MOODY)
    folder.write("spec.yaml", SPEC)
    output = folder.rerun("run", "spec.yaml").output
    output += folder.abreast("show").out + folder.abreast("logs").out + folder.abreast("rescore").out
    assert "0 wins, 0 losses, 1 tie in 1 case" in output
    output += folder.abreast("export", "--format", "jsonl").err + folder.abreast("run", "spec.yaml", "--dry-run").out
    assert not re.search(r"\b1 (\w+ )?(cases|trials|wins|ties|losses|attempts|answers|rows)\b", output), output


def test_a_run_can_be_named_by_a_prefix(simulated: Folder) -> None:
    simulated.abreast("run", "experiment.yaml")
    name = simulated.abreast("runs", "--json").json[0]["run"]
    assert simulated.abreast("show", name[:-2], "--json").json[0]["run"] == name
    assert simulated.abreast("show", "zebra").code == 2


def test_runs_lists_only_columns_with_content(simulated: Folder) -> None:
    simulated.abreast("run", "experiment.yaml")
    titles = simulated.abreast("runs").out.splitlines()[0].split()
    assert titles == ["run", "experiment", "status", "trials", "planned", "simulated", "started"]
    simulated.abreast("run", "experiment.yaml", "--debug", "3", "--label", "first")
    output = simulated.abreast("runs").out
    assert {"debug", "label"} <= set(output.splitlines()[0].split())
    assert "first" in output
    assert set(simulated.abreast("runs", "--json").json[0]) >= {"debug", "simulated", "label", "reason"}


def test_a_store_without_runs_and_a_missing_query_are_reported(simulated: Folder) -> None:
    simulated.abreast("run", "experiment.yaml")
    run = simulated.abreast("runs", "--json").json[0]["run"]
    assert run in simulated.abreast("report").out
    assert "the query is missing" in simulated.abreast("sql", "results.db").err
    assert "already has these scores" in simulated.abreast("rescore").out
    simulated.abreast("delete", run, "--yes")
    for words in (["show"], ["logs"], ["report"], ["rescore"]):
        done = simulated.abreast(*words)
        assert done.code == 2
        assert ": no runs" in done.err


def test_sql_is_read_only_unless_told_otherwise(simulated: Folder) -> None:
    simulated.abreast("run", "experiment.yaml")
    done = simulated.abreast("sql", "results.db", "update runs set label = 'x'")
    assert done.code == 2
    assert "--write" in done.err
    assert simulated.abreast("sql", "--write", "results.db", "update runs set label = 'x'").code == 0
    assert simulated.sql("select label from runs") == [{"label": "x"}]
    assert simulated.abreast("sql", "results.db", "select nonsense").code == 2


def test_the_store_is_found_by_name_environment_or_being_the_only_one(
    simulated: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "no store in this folder" in simulated.abreast("runs").err
    simulated.abreast("run", "experiment.yaml")
    assert simulated.abreast("runs").code == 0
    simulated.abreast("run", "experiment.yaml", "--store", "other.db")
    assert "several stores" in simulated.abreast("runs").err
    monkeypatch.setenv("ABREAST_STORE", "other.db")
    assert len(simulated.abreast("runs", "--json").json) == 1
    assert simulated.abreast("runs", "--store", "missing.db").code == 2


@pytest.mark.parametrize(
    ("words", "of_spec", "store"),
    [
        (["--store", "flag.db"], "spec.db", "flag.db"),
        ([], "spec.db", "spec.db"),
        ([], None, "environment.db"),
    ],
    ids=["a flag", "the spec", "the environment"],
)
def test_run_check_and_resume_use_the_store_of_the_flag_the_spec_or_the_environment(
    simulated: Folder, monkeypatch: pytest.MonkeyPatch, words: list[str], of_spec: str | None, store: str
) -> None:
    monkeypatch.setenv("ABREAST_STORE", "environment.db")
    if of_spec:
        simulated.write("experiment.yaml", f"{SIMULATED}store: {of_spec}\n")
    assert simulated.abreast("check", "experiment.yaml", *words).code == 0
    done = simulated.abreast("run", "experiment.yaml", *words)
    assert (done.code, [path.name for path in simulated.path.glob("*.db")]) == (0, [store])
    simulated.abreast("sql", "--write", store, "update runs set status = 'incomplete'")
    assert simulated.abreast("resume", "experiment.yaml", *words).code == 0
    assert simulated.abreast("runs", "--store", store, "--json").json[0]["status"] == "complete"
    command = re.search(r"abreast show (.*)", done.out)
    assert command is not None
    assert simulated.abreast("show", *shlex.split(command[1])).code == 0, "a printed command finds the store"


def test_experiments_and_trackers_use_the_store_of_the_environment(
    simulated: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(simulated.path)
    monkeypatch.setenv("ABREAST_STORE", "environment.duckdb")
    cases, variants = [{"id": "a", "input": "?", "expected": "yes"}], {"one": {"target": "simulated"}}
    result = Experiment(cases=cases, variants=variants, scorers=["exact"]).run()
    with Tracker() as tracker:
        tracker.log({"x": 1})
    assert {result.store, tracker.db, Reader().db} == {simulated.path / "environment.duckdb"}
    own = Experiment(cases=cases, variants=variants, scorers=["exact"], store="own.db").run()
    assert {own.store, Tracker("own.db").db, Reader("own.db").db} == {simulated.path / "own.db"}
    assert not (simulated.path / "results.db").exists()


@pytest.mark.parametrize("words", [["resume"], ["head"], ["cache", "ls"], ["run", "experiment.yaml", "--output"]])
def test_a_name_that_is_too_long_for_a_file_gives_one_line(simulated: Folder, words: list[str]) -> None:
    simulated.abreast("run", "experiment.yaml", "--quiet")
    done = simulated.abreast(*words, "a" * 5_000)
    assert (done.code, done.err.startswith("error: File name too long: aaa")) == (2, True)
    assert len(done.err) < 400


def test_an_empty_store_name_is_refused_not_guessed(simulated: Folder) -> None:
    simulated.abreast("run", "experiment.yaml")
    for words in (["runs"], ["delete", "x"], ["run", "experiment.yaml"]):
        done = simulated.abreast(*words, "--store", "")
        assert (done.code, "not a file name" in done.err) == (2, True)


def test_export_gives_the_same_rows_in_every_format(simulated: Folder) -> None:
    simulated.abreast("run", "experiment.yaml")
    rows = list(csv.DictReader(io.StringIO(simulated.abreast("export").out)))
    lines = [json.loads(line) for line in simulated.abreast("export", "--format", "jsonl").out.splitlines()]
    done = simulated.command("export", "--format", "parquet", "--output", "rows.parquet")
    assert (done.code, done.err.count("\n")) == (0, 1), done.err  # how many rows, and nothing from DuckDB
    with duckdb.connect() as connection:
        frame = connection.read_parquet(str(simulated.path / "rows.parquet"))
        columns, count = frame.columns, len(frame.fetchall())
    assert len(rows) == len(lines) == count == 80
    assert set(rows[0]) == set(lines[0]) == set(columns)
    assert {"params_accuracy", "score_exact"} <= set(columns)
    assert simulated.abreast("export", "--format", "parquet").code == 2


def test_rescore_scores_stored_answers_and_runs_nothing(simulated: Folder) -> None:
    simulated.abreast("run", "experiment.yaml")
    start_sum = simulated.sql("select sum(started_at) s from trials")
    done = simulated.abreast("rescore", "--scorer", "contains")
    assert "scored 80 answers; nothing was run again" in done.out
    assert simulated.sql("select count(score_contains) n, count(score_exact) m from predictions") == [
        {"n": 80, "m": 80}
    ]
    spec = (simulated.path / "experiment.yaml").read_text()
    simulated.write("experiment.yaml", spec.replace("[exact]", "[{regex: {pattern: '.'}}]"))
    simulated.abreast("rescore")
    assert simulated.sql("select avg(score) s from predictions") == [{"s": 1.0}]
    simulated.write("experiment.yaml", spec.replace("[exact]", "[{regex: {pattern: 'never ever'}}]"))
    simulated.abreast("rescore")
    assert simulated.sql("select avg(score) s from predictions") == [{"s": 0.0}]
    assert simulated.sql("select count(*) n from old_scores where name = 'regex' and value = 1.0") == [{"n": 80}]
    assert simulated.sql("select sum(started_at) s from trials") == start_sum


def test_a_crashing_scorer_keeps_answers_intact_and_can_be_fixed(folder: Folder) -> None:
    folder.cases(12)
    folder.write("judge.py", "def grade(case, answer):\n    raise ValueError('oops')\n")
    folder.write(
        "spec.yaml",
        "cases: cases.jsonl\ntarget: simulated\nvariants: {a: {}, b: {}}\nscorers: ['python:judge:grade']\n",
    )
    done = folder.rerun("run", "spec.yaml")
    assert done.code == 1
    assert "no answer could be scored: " in done.err
    assert "oops" in done.err
    assert "--fresh" not in done.err, "rescore is enough"
    assert "unscored" in done.out
    assert folder.sql("select count(*) n, count(answer) a, count(score) s from predictions") == [
        {"n": 24, "a": 24, "s": 0}
    ]
    folder.write("judge.py", "def grade(case, answer):\n    return answer.text == case.expected\n")
    assert folder.rerun("rescore").code == 0
    assert folder.sql("select count(score) s, avg(score) m from predictions") == [{"s": 24, "m": 1.0}]


def test_scoring_that_outlasts_the_trials_is_announced(folder: Folder) -> None:
    folder.cases(2)
    folder.write(
        "slow.py",
        """
import pathlib, time

def score(case, answer):
    while not pathlib.Path("go").exists():
        time.sleep(0.01)
    return 1.0
""",
    )
    folder.write("spec.yaml", "cases: cases.jsonl\nvariants: {a: {target: simulated}}\nscorers: [python:slow:score]\n")
    run = folder.start("run", "spec.yaml")
    assert run.stderr is not None
    assert any("all trials are done; their answers are being scored" in line for line in run.stderr)
    folder.write("go", "")
    run.communicate()
    assert run.returncode == 0


def test_the_baseline_against_itself_finds_nothing(simulated: Folder) -> None:
    done = simulated.abreast("aa", "experiment.yaml")
    assert done.code == 0
    assert "as expected, no difference" in done.err
    rows = simulated.sql(
        "select variant, group_concat(answer, '|') a from (select * from predictions order by case_id) group by variant"
    )
    assert len(rows) == 2
    assert rows[0]["a"] != rows[1]["a"], "the twins answer for themselves"


def test_the_self_test_detects_a_set_up_that_favours_one_side(folder: Folder) -> None:
    folder.cases(40)
    folder.write(
        "sticky.py",
        """
        seen = {}
        def predict(case):  # remembers the first answer, which favours the second caller
            seen[case.id] = seen.get(case.id, 0) + 1
            return "yes" if seen[case.id] > 1 else "no"
        """,
    )
    folder.write("spec.yaml", "cases: cases.jsonl\nvariants: {a: {target: python:sticky:predict}}\nscorers: [exact]\n")
    spec = folder.path / "spec.yaml"
    assert folder.rerun("aa", str(spec)).code == 0, "in random order neither side profits"


def test_a_run_in_which_every_trial_fails_is_not_a_success(folder: Folder) -> None:
    folder.cases(12)
    folder.write("broken.py", "def predict(case):\n    return undefined\n")
    folder.write("spec.yaml", "cases: cases.jsonl\nvariants: {a: {target: python:broken:predict}}\nscorers: [exact]\n")
    done = folder.rerun("run", "spec.yaml", "--allow-failing")
    assert done.code == 1
    assert "no trial gave an answer" in done.err
    assert "NameError" in folder.abreast("logs").out


def test_infrastructure_failures_leave_the_run_incomplete_and_resume_executes_only_them(folder: Folder) -> None:
    folder.cases(12)
    folder.write(
        "flaky.py",
        """
        import pathlib
        from abreast.errors import Transient
        def predict(case):
            with open("calls.txt", "a") as file:
                file.write(case.id + "\\n")
            if case.id in ("c3", "c5") and not pathlib.Path("mended").exists():
                raise Transient("gone")
            return "yes"
        """,
    )
    folder.write(
        "spec.yaml",
        "cases: cases.jsonl\nvariants: {a: {target: python:flaky:predict}}\nscorers: [exact]\nlimits: {retries: 0}\n",
    )
    done = folder.rerun("run", "spec.yaml")
    assert done.code == 3
    assert "2 trials failed by infrastructure" in done.err
    assert "help: run `abreast logs " in done.err
    assert "abreast resume" in done.err
    (folder.path / "mended").touch()
    assert folder.rerun("resume").code == 0
    calls = (folder.path / "calls.txt").read_text().split()
    assert sorted(calls) == sorted([f"c{n}" for n in range(12)] + ["c3", "c5"])
    assert folder.sql("select status, count(*) n from predictions group by status") == [{"status": "ok", "n": 12}]
    assert folder.rerun("resume").code == 2, "there is nothing to resume"


def test_failures_of_a_variant_are_repeated_only_on_request_and_the_report_says_so(folder: Folder) -> None:
    folder.cases(12)
    folder.write(
        "moody.py",
        """
        import pathlib
        def predict(case):
            if case.id == "c3" and not pathlib.Path("mended").exists():
                raise ValueError("not today")
            return "yes"
        """,
    )
    folder.write("spec.yaml", "cases: cases.jsonl\nvariants: {a: {target: python:moody:predict}}\nscorers: [exact]\n")
    assert folder.rerun("run", "spec.yaml").code == 0
    (folder.path / "mended").touch()
    second = folder.rerun("run", "spec.yaml")
    assert "executing 0" in second.err
    assert "1 crash (variant's fault)" in second.out
    done = folder.rerun("run", "spec.yaml", "--retry-failed")
    assert "reusing 11 answers" in done.err
    assert "retried (--retry-failed)" in done.out
    assert folder.sql(
        "select status, count(*) n from predictions where run = (select max(run) from runs "
        "where run_id = (select max(run_id) from runs)) group by status"
    ) == [{"status": "ok", "n": 12}]


def test_a_closed_output_pipe_does_not_end_a_run(simulated: Folder) -> None:
    script = " ".join([*ABREAST, "run", "experiment.yaml", "2>&1", ">/dev/null", "|", "head", "-n", "1"])
    subprocess.run(["bash", "-c", script], cwd=simulated.path, capture_output=True, text=True, check=True)
    assert simulated.sql("select count(*) n from predictions") == [{"n": 80}]


def test_init_writes_an_experiment_that_runs(folder: Folder) -> None:
    done = folder.abreast("init", "function")
    assert "next: abreast run experiment.yaml" in done.out
    assert folder.abreast("run", "experiment.yaml").code == 0
    second = folder.abreast("init", "function")
    assert second.code == 2
    assert "already exists" in second.err


def test_the_demo_needs_nothing(folder: Folder) -> None:
    done = folder.rerun("demo", "--folder", "here")
    assert done.code == 0, done.err
    assert "with_units is better than plain" in done.out
    assert "SIMULATED" in done.out
    assert done.out.endswith("  page     abreast view here/results.db\n")
    assert folder.sql("select count(*) n from predictions", "here/results.db") == [{"n": 320}]


def test_help_groups_the_commands_by_purpose_the_most_used_first(folder: Folder) -> None:
    first, *groups = folder.abreast("--help").out.split("\n\n")[2:-1]
    assert first.startswith("Run experiments:\n  run  ")
    assert [group.split("\n")[0] for group in groups] == [f"{title}:" for title in [*GROUPS][1:]]


def test_an_error_is_followed_by_a_help_line(folder: Folder) -> None:
    refused = folder.abreast("delete", "--store", "missing.db")
    assert refused.code == 2
    assert refused.err == (
        "error: missing.db: no such store\nhelp: run `abreast run SPEC` to create it, or name another with --store\n"
    )


@pytest.mark.parametrize(
    ("words", "suggestion"),
    [
        (["run", "experiment.yaml", "--paralel", "4"], "--parallel"),
        (["run", "experiment.yaml", "--quite"], "--quiet"),
        (["report", "--formt=json"], "--format"),
    ],
)
def test_a_misspelt_flag_gets_a_suggestion(simulated: Folder, words: list[str], suggestion: str) -> None:
    refused = simulated.abreast(*words)
    assert refused.code == 2
    assert (
        f'unrecognized arguments: {" ".join(words[1 + (words[0] == "run") :])} (did you mean "{suggestion}"?)'
        in refused.err
    )
    assert f"help: run `abreast {words[0]} --help`" in refused.err


def test_the_advice_for_a_missing_folder_can_be_pasted(simulated: Folder) -> None:
    address = "my results/new.db"
    done = simulated.abreast("run", "experiment.yaml", "--store", address)
    assert done.code == 2
    advice = done.err.rpartition("help: run `")[2].partition("`")[0]
    subprocess.run(shlex.split(advice), check=True)
    assert simulated.abreast("run", "experiment.yaml", "--store", address).code == 0


def test_only_required_arguments_are_named_as_missing(folder: Folder) -> None:
    assert "arguments are required: RUN, ACTION\n" in folder.abreast("ctl").err


def test_frequent_flags_have_short_forms(simulated: Folder) -> None:
    quiet = simulated.abreast("run", "experiment.yaml", "-q", "-j", "4")
    assert (quiet.code, quiet.err) == (0, "")
    verbose = simulated.abreast("run", "experiment.yaml", "--fresh", "--limit", "1", "-v", "-j2")
    assert verbose.err.count("\nstart  ") == 2
    assert "at most 2 trials in flight" in verbose.err


def test_help_names_every_command_and_every_command_has_help(folder: Folder) -> None:
    overview = folder.abreast("--help").out
    for name in re.findall(r"^  ([a-z-]+)  ", overview, re.M):
        done = folder.abreast(name, "--help")
        assert done.code == 0
        assert f"usage: abreast {name}" in done.out
    assert folder.abreast().out == overview
    assert folder.abreast("rnu").code == 2
    assert 'did you mean "run"' in folder.abreast("rnu").err
    assert re.match(r"abreast \d", folder.abreast("--version").out)


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; from abreast.cli import main; main(['--help']); "
        "heavy = {'numpy', 'pydantic', 'rich', 'duckdb', 'apsw', 'asyncio', 'scipy'} & set(sys.modules); "
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_commands_and_flags(folder: Folder, shell: str) -> None:
    script = folder.abreast("completion", shell).out
    assert "rescore" in script
    assert "trial-parallelism" in script


def test_bash_accepts_the_completion_script(folder: Folder) -> None:
    script = folder.abreast("completion", "bash").out
    request = "COMP_WORDS=(abreast run --tri); COMP_CWORD=2; _abreast; echo ${COMPREPLY[@]}"
    done = subprocess.run(["bash", "-c", script + "\n" + request], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "--trial-parallelism"


def test_a_closed_pipe_is_no_traceback(simulated: Folder) -> None:
    simulated.abreast("run", "experiment.yaml", "--repeats", "20")
    script = " ".join([*ABREAST, "export", "--format", "jsonl", "|", "head", "-n", "1"])
    done = subprocess.run(["bash", "-c", script], cwd=simulated.path, capture_output=True, text=True, check=True)
    assert len(done.stdout.splitlines()) == 1
    assert "Traceback" not in done.stderr


def in_terminal(folder: Folder, width: int, *words: str) -> list[str]:
    """The lines that the real command writes to a terminal of this width, without colours."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder.path)
        os.execve(ABREAST[0], [*ABREAST, *words], {**os.environ, "TERM": "xterm", "COLUMNS": str(width)})
    output_bytes = b""
    with contextlib.suppress(OSError):  # end of output
        while chunk := os.read(terminal, 65536):
            output_bytes += chunk
    os.waitpid(pid, 0)
    os.close(terminal)
    return re.split(r"[\r\n]+", re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", output_bytes.decode()))


@pytest.mark.parametrize("width", [80, 60, 40])
def test_nothing_is_cut_or_wrapped_in_a_narrow_terminal(folder: Folder, width: int) -> None:
    lines = in_terminal(folder, width, "demo", "--folder", "here")
    live = [line for line in lines if re.search(r"\d/320 ", line)]
    assert live
    assert max(map(len, live)) < width
    table = lines[next(at for at, line in enumerate(lines) if line.strip().startswith("score")) :]
    table = table[: next(at for at, line in enumerate(table) if "look at" in line)]
    assert max(map(len, table)) <= width
    text = "\n".join(table)
    for piece in ("% … ", "with_units", "160", "$0.", " ms", "tokens", "2.8 k in / 346 out"):
        assert piece in text
    assert "…" not in text.replace("% … ", "")
    (command,) = [line.strip() for line in lines if "abreast show" in line]
    assert command.endswith(" --store here/results.db"), "it can be copied"


def test_model_output_cannot_control_the_terminal_or_the_page(folder: Folder) -> None:
    folder.cases(12)
    folder.write(
        "hostile.py",
        "def predict(case, evil):\n    return '\\x1b[31m<script>alert(1)</script>' if evil else 'yes'\n",
    )
    folder.write(
        "spec.yaml",
        """
        cases: cases.jsonl
        target: python:hostile:predict
        variants: {a: {evil: false}, b: {evil: true}}
        scorers: [exact]
        """,
    )
    done = folder.rerun("run", "spec.yaml")
    assert done.code == 0, done.err
    for words in (["logs"], ["show", "latest", "c1"], ["sql", "results.db", "select answer from predictions"]):
        assert "\x1b" not in folder.abreast(*words).out
    page = next(folder.path.glob("runs/*/report.html")).read_text()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page


GROUPED = """\
cases: cases.jsonl
target: python:grouped:predict
variants: {a: {flip: 0}, b: {flip: 1}}
scorers: [exact]
"""


def grouped(folder: Folder, groups: bool) -> dict[str, Any]:
    """A run of forty cases in eight documents; the cases of one document are all alike."""
    lines = [
        {"id": f"c{n}", "input": n // 5, "expected": "yes", **({"group": f"document {n // 5}"} if groups else {})}
        for n in range(40)
    ]
    folder.write("cases.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    folder.write(
        "grouped.py",
        """
        def predict(case, flip):
            return "yes" if case.input in ((0, 1, 2, 3, 4), (2, 3, 4, 5, 6, 7))[flip] else "no"
        """,
    )
    folder.write("spec.yaml", GROUPED)
    (summary,) = folder.abreast("run", "spec.yaml", "--fresh", "--json").json
    return dict(summary)


def test_grouped_cases_do_not_narrow_the_interval_and_need_more_cases(folder: Folder) -> None:
    ungrouped = grouped(folder, groups=False)
    grouped_run = grouped(folder, groups=True)
    for name in ungrouped["variants"]:
        separate, documents = (summary["variants"][name]["scores"]["exact"] for summary in (ungrouped, grouped_run))
        assert separate["mean"] == documents["mean"]
        assert width(documents) > 1.5 * width(separate)
    (separate,), (documents,) = ungrouped["verdicts"], grouped_run["verdicts"]
    assert width(documents) > 1.5 * width(separate)
    assert documents["cases_needed"] / separate["cases_needed"] == pytest.approx(((8 / 7) * 5) / (40 / 39), rel=0.01), (
        "five cases say what one does"
    )
    assert f"you need about {documents['cases_needed']:,} cases; this run compares 40" in "\n".join(
        grouped_run["summary"]
    )


def width(scores: dict[str, Any]) -> float:
    low, high = scores["interval"]
    return float(high - low)


def test_a_result_shows_itself_in_one_line(folder: Folder) -> None:
    folder.cases(12)
    variants = {"a": {"accuracy": 0.5}, "b": {"accuracy": 1.0}}
    result = Experiment(
        cases="cases.jsonl", variants=variants, target="simulated", scorers=["exact"], base=folder.path
    ).run()
    assert repr(result).startswith(f"Result({result.run}, complete: SIMULATED")
    assert "b vs a" in repr(result)
    assert "\n" not in repr(result)
    assert len(repr(result)) < 300


def test_the_package_lists_its_public_names() -> None:
    assert set(abreast.__all__) <= set(dir(abreast))


@pytest.mark.parametrize(
    ("name", "header", "message"),
    [
        ("cases.csv", "id;input;expected", "its fields are separated by semicolons, not commas"),
        ("cases.csv", "id\tinput\texpected", "its fields are separated by tabs, not commas"),
        ("cases.tsv", "id,input,expected", "its fields are separated by commas, not tabs"),
    ],
)
def test_a_table_with_another_separator_is_recognized(folder: Folder, name: str, header: str, message: str) -> None:
    folder.write(name, f"{header}\na;b;c, d, e\n")
    folder.write("spec.yaml", f"cases: {name}\ntarget: simulated\nvariants: {{a: {{}}}}\n")
    done = folder.abreast("run", "spec.yaml")
    assert done.code == 2
    assert f"{name}:1: one column" in done.err
    assert message in done.err


def test_the_page_shows_the_kind_and_blame_of_a_failure(moody: Folder) -> None:
    page = html.unescape(next(moody.path.glob("runs/*/report.html")).read_text())
    assert "error (crash, variant's fault): JSONDecodeError" in page
    assert "12 cases, hash" in page
