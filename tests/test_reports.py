"""The report in every format: its contents, its location, and that any text is safe in it."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from abreast import Experiment, Tracker
from abreast.errors import BadInput
from conftest import Folder
from scripted import pairs, scripted

VISIBLE = "a|b <script>alert(1)</script> *c* ]]> &amp; `x` "
HOSTILE = f"{VISIBLE}\x1b[31m \u202e \x00 \ufffe"

TOP = {
    "schema": str,
    "run": str,
    "experiment": str,
    "simulated": bool,
    "status": str,
    "planned_trials": int,
    "executed_trials": int,
    "verdicts": list,
    "variants": dict,
    "segments": list,
    "provenance": dict,
    "config": dict,
    "trials": list,
}
VERDICT = ["metric", "variant", "baseline", "verdict", "effect", "interval", "level", "p", "wins", "losses", "ties"]
VERDICT += ["cases", "dropped_cases", "cases_needed"]
VARIANT = ["trials", "ok", "errors", "scores", "cost_usd", "tokens", "latency_s", "cost_per_correct"]
PROVENANCE = ["commit", "dirty", "data_hash", "seed", "python", "packages", "host", "models", "cli_versions"]
PROVENANCE += ["created_at"]


def strictly(text: str) -> Any:
    """Parse JSON strictly: no NaN, no Infinity."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


def test_the_json_report_has_the_documented_form(folder: Folder) -> None:
    scripted(folder, pairs(12, 3, 5, tags={"kind": "easy"}) + pairs(3, 4, 13, tags={"kind": "hard"}))
    content = strictly(folder.abreast("report", "--format", "json").out)
    assert {key: type(content[key]) for key in TOP} == TOP
    assert content["schema"] == "abreast.report/1"
    assert content["status"] == "complete"
    assert (content["planned_trials"], content["executed_trials"]) == (80, 80)
    assert all(key in content["verdicts"][0] for key in VERDICT)
    assert all(key in content["segments"][0] for key in ("tag", "value", *VERDICT))
    assert list(content["variants"]) == ["a", "b"]
    assert all(key in content["variants"]["a"] for key in VARIANT)
    assert set(content["variants"]["a"]["scores"]["exact"]) == {"mean", "interval"}
    assert all(key in content["provenance"] for key in PROVENANCE)
    assert content["config"]["variants"]["b"]["side"] == "b"


def test_trials_in_json_are_in_plan_order_and_optional(folder: Folder) -> None:
    scripted(folder, [*pairs(2, 1), {"a": ["crash"], "b": ["yes"]}], "--parallel", "4", repeats=2)
    trials = strictly(folder.abreast("report", "--format", "json").out)["trials"]
    assert [(row["case_id"], row["repeat"], row["variant"]) for row in trials] == [
        (f"c{case}", repeat, side) for case in range(4) for repeat in range(2) for side in "ab"
    ]
    assert trials[0] == {
        "case_id": "c0",
        "variant": "a",
        "repeat": 0,
        "status": "ok",
        "error_kind": None,
        "scores": {"exact": 0.0},
    }
    assert (trials[12]["status"], trials[12]["error_kind"], trials[12]["scores"]) == ("error", "crash", {"exact": 0.0})
    assert "trials" not in strictly(folder.abreast("report", "--format", "json", "--no-trials").out)


def test_the_numbers_are_the_same_in_every_format(folder: Folder) -> None:
    scripted(folder, pairs(12, 3, 5))
    content = strictly(folder.abreast("report", "--format", "json").out)
    (verdict,) = content["verdicts"]
    sentence = f"b is better than a: +{verdict['effect'] * 100:.1f} points"
    for form in ("terminal", "markdown", "junit", "html"):
        done = folder.abreast("report", "--format", form)
        text = (folder.path / done.out.strip()).read_text() if form == "html" else done.out
        assert sentence in text, form
        assert "12 wins, 3 losses, 5 ties in 20 cases" in text, form


def test_csv_has_a_row_for_each_trial(folder: Folder) -> None:
    scripted(folder, pairs(2, 1, 1))
    rows = list(csv.DictReader(io.StringIO(folder.abreast("report", "--format", "csv").out)))
    assert [(row["case_id"], row["variant"], row["score"]) for row in rows[:2]] == [
        ("c0", "a", "0.0"),
        ("c0", "b", "1.0"),
    ]
    assert len(rows) == 8


def test_csv_has_the_stored_values_of_a_run_whatever_a_tracker_wrote(folder: Folder) -> None:
    """A tracked column of the same name and another type changes nothing."""
    scripted(folder, pairs(2, 1, 1))
    before, after = [], []
    for rows in (before, after):
        rows += csv.DictReader(io.StringIO(folder.abreast("report", "--format", "csv").out))
        Tracker(str(folder.path / "results.db")).log({"score": True, "repeat": True})
    assert [{name: row[name] for name in before[0]} for row in after] == before


def test_junit_has_a_test_for_each_trial_and_each_comparison(folder: Folder) -> None:
    cases = [*pairs(0, 14, 4), {"a": ["yes"], "b": ["crash"]}, {"a": ["yes"], "b": ["skip"]}]
    scripted(folder, cases)
    done = folder.abreast("report", "--format", "junit", "--fail-if", "worse", "--fail-if", "errors > 2%")
    assert done.code == 1
    root = ElementTree.fromstring(done.out)
    counts = {suite.get("name"): dict(suite.attrib) for suite in root}
    assert set(counts) == {"verdict", "a", "b"}
    assert (counts["verdict"]["tests"], counts["verdict"]["failures"]) == ("3", "3"), "worse, and two requirements"
    assert (counts["a"]["tests"], counts["a"]["failures"]) == ("20", "0")
    assert [counts["b"][key] for key in ("tests", "failures", "errors", "skipped")] == ["20", "14", "1", "1"]
    assert root.get("tests") == "43"
    failed = next(test for test in root.iter("testcase") if test.get("classname") == "scripted.b")
    failure = failed.find("failure")
    assert failure is not None
    assert str(failure.get("message")).startswith("score 0: read 'no', expected 'yes'")


def test_several_formats_at_once_go_to_the_folder_of_the_run(folder: Folder) -> None:
    scripted(folder, pairs(12, 3, 5))
    done = folder.abreast("report", "--format", "json,markdown", "--format", "csv")
    (run,) = [row["run"] for row in folder.abreast("runs", "--json").json]
    assert done.out.split() == [f"runs/{run}/{name}" for name in ("report.json", "report.md", "trials.csv")]
    done = folder.abreast("report", "--format", "all")
    names = {Path(line).name for line in done.out.split()}
    assert {"report.json", "report.md", "report.html", "trials.csv", "junit.xml"} <= names


def test_a_run_writes_the_requested_formats(folder: Folder) -> None:
    scripted(folder, pairs(3, 3, 6), "--format", "json,junit", "--output", "out")
    assert sorted(path.name for path in (folder.path / "out").iterdir()) == ["junit.xml", "report.json"]
    done = folder.abreast("run", "spec.yaml", "--format", "jsn")
    assert done.code == 2
    assert '--format jsn: unknown format (did you mean "json"?)' in done.err
    assert len(folder.abreast("runs", "--json").json) == 1, "refused before anything is executed"


def test_reports_of_one_run_never_touch_each_other(folder: Folder) -> None:
    assert scripted(folder, [*pairs(12, 3, 5), {"a": ["network", "yes"], "b": ["yes"]}]).code == 3
    before = {path: path.read_bytes() for path in (folder.path / "runs").rglob("*.html")}
    assert folder.abreast("resume", "--quiet").code == 0
    after = {path: path.read_bytes() for path in (folder.path / "runs").rglob("*.html")}
    assert {path: after[path] for path in before} == before
    assert len(after) == 2, "the report of the finished run has its own name"
    folder.abreast("report", "--format", "html")
    assert len(list((folder.path / "runs").rglob("*.html"))) == 2, "nothing new, no new file"
    folder.abreast("run", "spec.yaml", "--quiet", "--fresh")
    assert {path: path.read_bytes() for path in after} == after


def test_results_and_experiments_in_python_return_their_report_as_text(folder: Folder) -> None:
    folder.cases(12)
    experiment = Experiment(
        cases="cases.jsonl",
        variants={"a": {"accuracy": 0.5}, "b": {"accuracy": 1.0}},
        target="simulated",
        scorers=["exact"],
        base=folder.path,
    )
    result = experiment.run()
    content = strictly(result.report("json"))
    assert (content["run"], len(content["trials"])) == (result.run, 24)
    assert strictly(experiment.report(format="json")) == content
    assert "b vs a" in result.report()
    with pytest.raises(BadInput, match='unknown format jsn \\(did you mean "json"'):
        result.report("jsn")


def test_rescoring_makes_a_new_page(folder: Folder) -> None:
    folder.write("always.py", "def always(text): return 1\n")
    scripted(folder, pairs(12, 3, 5))
    (page,) = (folder.path / "runs").rglob("*.html")
    before = page.read_bytes()
    spec = (folder.path / "spec.yaml").read_text()
    folder.write("new.yaml", spec.replace("[exact]", "['python:always:always']"))
    output = folder.abreast("rescore", "--spec", "new.yaml").out
    assert f"report   {page.relative_to(folder.path).with_name('report-2.html')}" in output
    assert page.read_bytes() == before


def test_delete_removes_every_format_with_the_run(folder: Folder) -> None:
    scripted(folder, pairs(3, 3, 6))
    folder.abreast("report", "--format", "all")
    (run,) = [row["run"] for row in folder.abreast("runs", "--json").json]
    folder.abreast("delete", run, "--yes")
    assert not (folder.path / "runs").exists()


@pytest.mark.parametrize("form", ["terminal", "markdown", "json", "csv", "junit", "html"])
def test_hostile_names_and_answers_are_escaped_in_every_format(folder: Folder, form: str) -> None:
    cases = [
        {"a": [HOSTILE], "b": ["yes"], "id": f"{VISIBLE}{number}", "tags": {VISIBLE: VISIBLE}} for number in range(12)
    ]
    assert scripted(folder, cases).code == 0
    done = folder.abreast("report", "--format", form)
    text = done.out
    assert done.code == 0
    if form == "html":
        text = (folder.path / done.out.strip()).read_text()
        assert "<script" not in text
    elif form == "junit":
        assert len(list(ElementTree.fromstring(text).iter("testcase"))) == 25
    elif form == "json":
        assert len(strictly(text)["trials"]) == 24
    elif form == "csv":
        assert len(list(csv.DictReader(io.StringIO(text)))) == 24
    elif form == "markdown":
        assert "<script>" not in text
        table = [line for line in text.splitlines() if line.startswith("| ")]
        assert all(len(re.findall(r"(?<!\\)\|", line)) == len(re.findall(r"(?<!\\)\|", table[0])) for line in table[:4])
    else:
        assert "\x1b[31m" not in text


def test_markdown_begins_with_the_verdict(folder: Folder) -> None:
    scripted(folder, pairs(14, 2, 4))
    output = folder.abreast("report", "--format", "markdown").out
    lines = [line for line in output.splitlines() if line]
    assert lines[0].startswith("## scripted · ")
    assert lines[1].startswith("**b is better than a: +60.0 points")
    assert "| variant | score | ok |" in output
    assert "| c0 | 0 | 1 |" in output
    assert "- seed: " in output


def test_simulated_runs_are_marked_in_every_format(simulated: Folder) -> None:
    simulated.abreast("run", "experiment.yaml", "--quiet")
    for form in ("terminal", "markdown", "junit"):
        assert "SIMULATED · no model was called" in simulated.abreast("report", "--format", form).out, form
    assert strictly(simulated.abreast("report", "--format", "json").out)["simulated"] is True


def test_a_folder_that_cannot_be_written_is_reported(folder: Folder) -> None:
    scripted(folder, pairs(3, 3, 6))
    folder.write("taken", "a file")
    done = folder.abreast("report", "--format", "html", "--output", "taken")
    assert done.code == 2
    assert "taken: cannot write the report" in done.err


def test_infinite_figures_are_null_in_json(folder: Folder) -> None:
    scripted(folder, [{"a": ["yes"], "b": ["no"], "cost": {"a": 0.1, "b": 0.1}}] * 3)
    content = strictly(folder.abreast("report", "--format", "json").out)
    assert content["variants"]["b"]["cost_per_correct"] is None
    assert not any(isinstance(value, float) and not math.isfinite(value) for value in content["verdicts"][0].values())


def test_scores_of_scorers_that_a_run_does_not_have_are_ignored(folder: Folder) -> None:
    scripted(folder, pairs(5, 3, 4))
    spec = (folder.path / "spec.yaml").read_text()
    folder.write("spec.yaml", spec.replace("[exact]", "[contains]"))
    assert folder.rerun("run", "spec.yaml", "--quiet").code == 0
    content = strictly(folder.abreast("report", "--format", "json").out)
    assert content["reused_trials"] == 24
    assert set(content["variants"]["a"]["scores"]) == {"contains"}
