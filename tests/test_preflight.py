"""Checks before every run, and the questions they ask."""

from __future__ import annotations

import hashlib
import json
import os
import pty
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from abreast import Experiment
from conftest import ABREAST, Done, Folder

PREDICT = """\
from helper import shaped

def predict(case, style):
    return shaped(case.input, style)
"""
HELPER = "def shaped(text, style):\n    return text.upper() if style == 'loud' else text\n"
SPEC = """\
name: shapes
cases: cases.jsonl
target: python:predict:predict
variants: {a: {style: plain}, b: {style: loud}}
scorers: [exact]
"""


@pytest.fixture
def shapes(folder: Folder) -> Folder:
    """An experiment with a function in two modules."""
    folder.write("predict.py", PREDICT)
    folder.write("helper.py", HELPER)
    folder.write("spec.yaml", SPEC)
    folder.cases(12)
    return folder


def git(folder: Folder, *words: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.invalid", "-c", "init.defaultBranch=main"]
    done = subprocess.run(["git", *identity, *words], cwd=folder.path, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def committed(shapes: Folder) -> Folder:
    """The experiment `shapes` in a repository, with one run."""
    shapes.write(".gitignore", "results.db*\nruns/\n__pycache__/\n")
    git(shapes, "init", "-q")
    git(shapes, "add", ".")
    git(shapes, "commit", "-qm", "one")
    assert run(shapes).code == 0
    return shapes


def run(folder: Folder, *words: str) -> Done:
    """Run the command in a new process, because modules change between runs."""
    return folder.rerun("run", "spec.yaml", *words)


def check(folder: Folder, *words: str) -> dict[str, dict[str, Any]]:
    done = folder.rerun("check", "spec.yaml", "--json", *words)
    assert done.code == 0, done.err
    return {row["check"]: row for row in done.json}


def last_run(folder: Folder, **options: Any) -> dict[str, Any]:
    row: dict[str, Any] = folder.abreast("runs", "--json", *options.get("words", ())).json[-1]
    return row


def provenance(folder: Folder) -> dict[str, Any]:
    ((text,),) = [tuple(row.values()) for row in folder.sql("select provenance from runs order by run_id desc limit 1")]
    values: dict[str, Any] = json.loads(text)
    return values


# -- the first time ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("in_git", [False, True])
def test_a_first_run_warns_only_about_few_cases(shapes: Folder, in_git: bool) -> None:
    if in_git:
        git(shapes, "init", "-q")
        shapes.write("other.txt", "x")
        git(shapes, "add", "other.txt")
        git(shapes, "commit", "-qm", "one")
    findings = check(shapes)
    assert [name for name, row in findings.items() if row["level"] in ("warn", "fail")] == ["power"]
    assert findings["code"]["message"] == "first run of this experiment in this store"
    assert findings["data"]["message"] == "12 cases in cases.jsonl"
    done = run(shapes)
    assert [line.split()[1] for line in done.err.splitlines() if line[2:3] in "✓·!✗" and line.startswith("  ")] == [
        "limits:",
        "code:",
        "power:",
        "estimate:",
    ]


def test_an_unchanged_experiment_has_one_line_before_a_run_and_details_in_check(shapes: Folder) -> None:
    run(shapes)
    second = run(shapes, "--fresh").err
    name = shapes.abreast("runs", "--json").json[0]["run"]
    assert f"✓ code: nothing changed since {name}" in second
    assert "schema" not in second
    done = shapes.rerun("check", "spec.yaml")
    lines = [line for line in done.err.splitlines() if line.startswith(("  ✓", "  ·", "  !"))]
    checks = [line.split()[1].rstrip(":") for line in lines]
    for check_name in ("limits", "code", "schema", "data", "duplicates", "environment", "git", "design", "power"):
        assert check_name in checks
    assert len({len(line) - len(line[4:].split(None, 1)[1]) for line in lines}) == 1, "one below the other"
    assert "cases.jsonl" not in done.err
    assert "cases.jsonl" in shapes.rerun("check", "spec.yaml", "--verbose").err


# -- code ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "text", "level", "message"),
    [
        ("predict.py", PREDICT.replace("return ", "return '' + "), "warn", "function predict changed since"),
        ("helper.py", HELPER.replace("upper", "lower"), "warn", "helper.py (used by predict) changed"),
        ("predict.py", PREDICT + "\n# a word\n", "pass", "nothing changed since"),
        ("spec.yaml", SPEC.replace("loud", "quiet"), "note", "b: parameter style changed since"),
        ("spec.yaml", SPEC.replace("b:", "c:").replace("loud", "quiet"), "note", "new since"),
        ("other.py", "x = 1\n", "pass", "nothing changed since"),
    ],
    ids=["function", "helper", "comment", "parameter", "variant", "other"],
)
def test_changes_are_reported_and_only_measured_code_is_a_warning(
    shapes: Folder, file: str, text: str, level: str, message: str
) -> None:
    run(shapes)
    shapes.write(file, text)
    finding = check(shapes)["code"]
    assert (finding["level"], message in finding["message"]) == (level, True), finding
    assert ("a and b will run again" in finding["message"]) == (level == "warn")
    begins = "series 2 begins" in shapes.rerun("check", "spec.yaml").err
    assert begins == (level == "warn")


@pytest.mark.parametrize("transform", ["python:shape:shape", "{from: python:shape:shape, times: 2}"])
def test_a_transform_is_measured_code(folder: Folder, transform: str) -> None:
    folder.cases(12)
    folder.write("shape.py", "def shape(value, times=1):\n    return value\n")
    folder.write("spec.yaml", f"cases: cases.jsonl\nvariants: {{a: {{target: simulated, transform: {transform}}}}}\n")
    assert run(folder).code == 0
    assert check(folder)["code"]["level"] == "pass"
    folder.write("shape.py", "def shape(value, times=1):\n    return value * 2\n")
    assert "function shape changed" in check(folder)["code"]["message"]


def test_changed_arguments_of_a_transform_are_changed_parameters(folder: Folder) -> None:
    folder.cases(12)
    folder.write("shape.py", "def shape(value, times):\n    return value\n")
    for times in (1, 2):
        transform = f"{{from: python:shape:shape, times: {times}}}"
        folder.write(
            "spec.yaml", f"cases: cases.jsonl\nvariants: {{a: {{target: simulated, transform: {transform}}}}}\n"
        )
        if times == 1:
            assert run(folder).code == 0
    assert "a: parameter transform changed since" in check(folder)["code"]["message"]


def test_changes_between_commits_are_reported(committed: Folder) -> None:
    first = git(committed, "rev-parse", "--short=7", "HEAD")
    committed.write("notes.txt", "one\ntwo\n")
    git(committed, "add", ".")
    git(committed, "commit", "-qm", "two")
    second = git(committed, "rev-parse", "--short=7", "HEAD")
    finding = check(committed)["code"]
    assert finding["level"] == "note"
    assert f"other files did (commit {first} → {second}: 1 file, +2 −0)" in finding["message"]
    assert finding["details"] == ["notes.txt  +2 −0"]
    committed.write("helper.py", HELPER.replace("upper", "lower"))
    git(committed, "commit", "-qam", "three")
    finding = check(committed)["code"]
    assert finding["level"] == "warn"
    assert ": 2 files, +3 −1)" in finding["message"]
    result = subprocess.run(
        ["bash", "-c", finding["fix"].split("`")[1]], cwd=committed.path, capture_output=True, text=True
    )
    assert "-    return text.upper()" in result.stdout, "the fix can be pasted"


def test_a_missing_commit_is_reported(committed: Folder) -> None:
    committed.rerun(
        "sql", "--write", "results.db", f"update runs set provenance = json_set(provenance, '$.commit', '{'a' * 40}')"
    )
    assert "git no longer knows the old commit" in check(committed)["code"]["message"]


# -- data ----------------------------------------------------------------------------------------------------------


def test_cases_that_were_added_removed_or_changed(shapes: Folder) -> None:
    run(shapes)
    lines = (shapes.path / "cases.jsonl").read_text().splitlines()
    assert provenance(shapes)["case_files"] == {
        "cases.jsonl": hashlib.md5((shapes.path / "cases.jsonl").read_bytes()).hexdigest()
    }
    shapes.write("cases.jsonl", "\n".join([*lines, '{"id": "more", "input": "x", "expected": "y"}']) + "\n")
    finding = check(shapes)["data"]
    assert (finding["level"], "1 added (more)" in finding["message"]) == ("note", True)
    shapes.write("cases.jsonl", "\n".join([lines[0].replace("question", "riddle"), *lines[2:]]) + "\n")
    finding = check(shapes)["data"]
    assert finding["level"] == "warn"
    assert "1 changed (c0), 1 removed (c1);" in finding["message"]
    assert "series 2 begins: cases: 1 changed (c0), 1 removed (c1)" in run(shapes).err
    assert last_run(shapes)["series"] == 2


def test_deselected_cases_do_not_count_as_removed(shapes: Folder) -> None:
    run(shapes)
    first = last_run(shapes)["run"]
    for words in (["--limit", "3"], ["--debug", "3"], ["--case", "c1"]):
        finding = check(shapes, *words)["data"]
        assert (finding["level"], finding["message"]) == ("note", f"part of the cases of {first}")
        assert "series 2" not in run(shapes, *words).err
    findings = check(shapes)
    assert findings["code"]["message"].startswith("nothing changed")
    assert findings["data"]["message"] == f"the same 12 cases as in {first}", "the last run with all of them"
    shapes.cases(13)
    assert f"cases since {first}: 1 added (c12)" in check(shapes)["data"]["message"]


@pytest.mark.parametrize(
    ("tags", "level", "message"),
    [
        (({}, {}), "warn", "1 duplicate input (one and two)"),
        (({"split": "train"}, {"split": "test"}), "warn", "1 input in both training and test data (one and two)"),
        (({"set": "dev"}, {"set": "Train"}), "warn", "1 input in both training and test data"),
        (({"language": "en"}, {"language": "de"}), "note", "have different tags"),
    ],
)
def test_duplicate_inputs(shapes: Folder, tags: Any, level: str, message: str) -> None:
    lines = [
        {"id": name, "input": "q", "expected": "a", "tags": tag} for name, tag in zip(("one", "two"), tags, strict=True)
    ]
    shapes.write("cases.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    finding = check(shapes)["duplicates"]
    assert (finding["level"], message in finding["message"]) == (level, True), finding


def test_duplicates_within_a_group_are_not_a_warning(shapes: Folder) -> None:
    line = {"input": "q", "expected": "a", "group": "g"}
    shapes.write("cases.jsonl", "".join(json.dumps({"id": name, **line}) + "\n" for name in "ab"))
    assert check(shapes)["duplicates"]["level"] == "note"


def test_a_file_that_differs_from_what_dvc_tracks(shapes: Folder) -> None:
    assert "dvc" not in check(shapes)
    content = (shapes.path / "cases.jsonl").read_bytes()
    md5 = hashlib.md5(content).hexdigest()
    shapes.write("cases.jsonl.dvc", f"outs:\n- md5: {md5}\n  size: {len(content)}\n  hash: md5\n  path: cases.jsonl\n")
    assert check(shapes)["dvc"]["level"] == "pass"
    run(shapes)
    assert provenance(shapes)["dvc"] == {"cases.jsonl": md5}
    assert shapes.sql("select distinct data_commit from metrics order by 1 desc")[0] == {"data_commit": md5}
    shapes.cases(13)
    finding = check(shapes)["dvc"]
    assert finding["level"] == "warn"
    assert finding["message"] == "cases.jsonl differs from what DVC tracks"
    assert finding["fix"].startswith("run `dvc add cases.jsonl`")
    dos = (shapes.path / "cases.jsonl").read_bytes().replace(b"\n", b"\r\n")
    shapes.write("cases.jsonl.dvc", f"outs:\n- md5: {hashlib.md5(dos).hexdigest()}\n")
    assert check(shapes)["dvc"]["level"] == "warn"
    shapes.write(
        "cases.jsonl.dvc", f"outs:\n- md5: {hashlib.md5((shapes.path / 'cases.jsonl').read_bytes()).hexdigest()}\n"
    )
    shapes.write("cases.jsonl", dos)
    assert check(shapes)["dvc"]["level"] == "pass", "before version 3 the ends of lines did not count"
    shapes.write("cases.jsonl.dvc", "outs: [\n")
    assert "dvc" not in check(shapes)


# -- names ---------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["results.db", "results.duckdb"])
def renamed(folder: Folder, request: pytest.FixtureRequest) -> Folder:
    """A parameter and a returned field renamed since the first run."""
    folder.cases(12)
    folder.write("fit.py", "def fit(case, lr):\n    return {'prediction': 'yes', 'conf': lr}\n")
    spec = f"cases: cases.jsonl\ntarget: python:fit:fit\nstore: {request.param}\nscorers: [exact]\n"
    folder.write("spec.yaml", spec + "variants: {a: {lr: 0.1}, b: {lr: 0.2}}\n")
    assert run(folder).code == 0
    folder.write(
        "fit.py", "def fit(case, learning_rate):\n    return {'prediction': 'yes', 'confidence': learning_rate}\n"
    )
    folder.write("spec.yaml", spec + "variants: {a: {learning_rate: 0.1}, b: {learning_rate: 0.2}}\n")
    return folder


def test_a_rename_is_detected_and_its_fix_works(renamed: Folder) -> None:
    store = next(name for name in ("results.db", "results.duckdb") if (renamed.path / name).exists())
    finding = check(renamed)["schema"]
    assert finding["level"] == "warn"
    assert "params_lr is now params_learning_rate; conf is now confidence" in finding["message"]
    assert finding["fix"] == (
        f"run `abreast rename {store} params_lr params_learning_rate && abreast rename {store} conf confidence`"
    )
    for command in finding["fix"].split("`")[1].split(" && "):
        done = renamed.rerun(*command.split()[1:], "--yes")
        assert done.code == 0, done.err
        assert done.out.endswith(" in 1 run, 24 rows\n")
    assert run(renamed).code == 0
    rows = renamed.sql(
        "select variant, params_learning_rate l, confidence c, count(*) n from predictions group by 1, 2, 3", store
    )
    assert sorted((row["variant"], row["l"], row["c"], row["n"]) for row in rows) == [
        ("a", 0.1, 0.1, 24),
        ("b", 0.2, 0.2, 24),
    ]
    names = renamed.sql("select * from predictions limit 1", store)[0].keys()
    assert not {"params_lr", "conf"} & set(names)
    assert check(renamed)["schema"]["level"] == "pass"


def test_renaming_a_parameter_does_not_make_answers_reusable(renamed: Folder) -> None:
    store = next(name for name in ("results.db", "results.duckdb") if (renamed.path / name).exists())
    renamed.rerun("rename", "--yes", store, "params_lr", "params_learning_rate")
    assert renamed.rerun("run", "spec.yaml", "--json", "--quiet").json[0]["executed"] == 24


def test_similar_names_are_reported_as_new_and_missing(folder: Folder) -> None:
    folder.cases(12)
    spec = "cases: cases.jsonl\nvariants: {{a: {{target: simulated, {}: 0.5}}}}\n"
    folder.write("fit.py", "def fit(case, **params):\n    return 'yes'\n")
    spec = "cases: cases.jsonl\ntarget: python:fit:fit\nvariants: {{a: {{{}: 5}}}}\n"
    folder.write("spec.yaml", spec.format("top_k"))
    run(folder)
    folder.write("spec.yaml", spec.format("top_p"))
    finding = check(folder)["schema"]
    assert finding["level"] == "note"
    assert finding["details"] == ["missing: params_top_k", "new: params_top_p"]


def test_a_missing_returned_field_is_noted_before_any_cost(folder: Folder) -> None:
    folder.cases(12)
    folder.write("spec.yaml", "cases: cases.jsonl\ntarget: python:fit:fit\nvariants: {a: {}}\nscorers: [exact]\n")
    folder.write("fit.py", "def fit(case):\n    return {'prediction': 'yes', 'confidence': 1, 'words': 3}\n")
    run(folder)
    folder.write("fit.py", "def fit(case):\n    return {'prediction': 'yes', 'confidence': 1}\n")
    assert "missing: words" in run(folder).err


def test_returned_fields_not_visible_in_the_code_are_compared_after_two_runs(folder: Folder) -> None:
    folder.cases(12)
    folder.write("spec.yaml", "cases: cases.jsonl\ntarget: python:fit:fit\nvariants: {a: {}}\nscorers: [exact]\n")
    for key in ("conf", "confidence"):
        folder.write("fit.py", f"def fit(case):\n    found = dict(prediction='yes', {key}=1)\n    return found\n")
        run(folder)
    assert "conf is now confidence" in check(folder)["schema"]["message"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["params_style", "how"], "params_style is a parameter, how is not"),
        (["params_stile", "params_how"], 'did you mean "params_style"?'),
        (["score_exact", "score_right"], "set `name:` of the scorer"),
        (["model", "who"], "is a standard column"),
        (["params_style"], "rename: wrong number of arguments"),
        (["params_style", "params_style"], "already has that name"),
        (["params_style", "params_how", "--experiment", "nobody"], 'no run of the experiment "nobody"'),
    ],
)
def test_invalid_renames_are_refused(shapes: Folder, words: list[str], message: str) -> None:
    run(shapes, "--quiet")
    done = shapes.rerun("rename", "--yes", *words)
    assert done.code == 2
    assert message in done.err
    assert shapes.sql("select distinct params_style s from predictions order by 1") == [{"s": "loud"}, {"s": "plain"}]


def test_a_run_that_has_both_names_is_not_renamed(folder: Folder) -> None:
    folder.cases(12)
    folder.write("fit.py", "def fit(case, **params):\n    return 'yes'\n")
    folder.write("spec.yaml", "cases: cases.jsonl\ntarget: python:fit:fit\nvariants: {a: {lr: 1}, b: {rate: 2}}\n")
    run(folder, "--quiet")
    done = folder.rerun("rename", "--yes", "params_lr", "params_rate")
    assert done.code == 2
    assert "has both lr and rate" in done.err


def test_only_the_runs_of_one_experiment_are_renamed(shapes: Folder) -> None:
    run(shapes, "--quiet")
    shapes.write("other.yaml", SPEC.replace("name: shapes", "name: other"))
    assert shapes.rerun("run", "other.yaml", "--quiet").code == 0
    done = shapes.rerun("rename", "--yes", "params_style", "params_how", "--experiment", "other")
    assert done.out.endswith("1 run, 24 rows\n")
    rows = shapes.sql("select params_style s, params_how h, count(*) n from predictions group by 1, 2 order by 1, 2")
    assert [(row["s"], row["h"], row["n"]) for row in rows] == [
        (None, "loud", 12),
        (None, "plain", 12),
        ("loud", None, 12),
        ("plain", None, 12),
    ]


# -- surroundings --------------------------------------------------------------------------------------------------


def test_changed_versions_of_python_and_packages_are_noted(shapes: Folder) -> None:
    run(shapes)
    assert check(shapes)["environment"]["level"] == "pass"
    change = "update runs set provenance = json_set(provenance, '$.python', '3.9.1', '$.packages.numpy', '1.0')"
    shapes.rerun("sql", "--write", "results.db", change)
    finding = check(shapes)["environment"]
    assert finding["level"] == "note"
    assert "Python 3.9.1 → 3." in finding["message"]
    assert "numpy 1.0 → " in finding["message"]


def test_a_name_that_means_another_model_is_a_warning(folder: Folder) -> None:
    folder.cases(12)
    folder.write(
        "spec.yaml", "cases: cases.jsonl\ntarget: python:ask:ask\nvariants: {a: {model: haiku}}\nscorers: [exact]\n"
    )
    for version in (1, 2):
        folder.write(
            "ask.py", f"def ask(case, model):\n    return {{'prediction': 'yes', 'model': f'{{model}}-{version}'}}\n"
        )
        run(folder)
    first, second = (row["run"] for row in folder.abreast("runs", "--json").json)
    finding = check(folder)["models"]
    assert finding["level"] == "warn"
    assert finding["message"] == f"haiku answered as haiku-2 in {second}, as haiku-1 in {first}"
    run(folder, "--fresh")
    assert check(folder)["models"]["level"] == "pass", "said once"


def test_uncommitted_files_of_the_experiment_are_a_warning_and_others_a_note(committed: Folder) -> None:
    assert check(committed)["git"]["message"].endswith(" on main, everything committed")
    committed.write("README.md", "x")
    git(committed, "add", "README.md")
    finding = check(committed)["git"]
    assert (finding["level"], "1 other file not committed: README.md" in finding["message"]) == ("note", True)
    assert "git:" not in run(committed, "--fresh").err, "a note of git's is not said before each run"
    committed.write("helper.py", HELPER + "\nx = 1\n")
    finding = check(committed)["git"]
    assert (finding["level"], finding["message"].startswith("helper.py is not committed")) == ("warn", True)
    assert finding["fix"] == "run `git add helper.py && git commit`"
    assert "! git: helper.py is not committed" in run(committed).err
    assert check(committed, "--debug", "3")["git"]["level"] == "note", "who tries things out is left alone"


def test_untracked_files_count_as_uncommitted_and_ignored_ones_do_not(committed: Folder) -> None:
    committed.cases(5, "more.jsonl")
    committed.write("spec.yaml", SPEC.replace("cases.jsonl", "more.jsonl"))
    git(committed, "commit", "-qam", "two")
    assert "more.jsonl is not committed" in check(committed)["git"]["message"]
    committed.write(".gitignore", "results.db*\nruns/\n__pycache__/\nmore.jsonl\n")
    git(committed, "commit", "-qam", "three")
    assert check(committed)["git"]["level"] == "pass"


def test_no_branch_and_no_repository_are_notes(committed: Folder) -> None:
    git(committed, "checkout", "-q", "--detach")
    finding = check(committed)["git"]
    assert (finding["level"], "on no branch" in finding["message"]) == ("note", True)


# -- design --------------------------------------------------------------------------------------------------------


def test_the_design_lists_stored_constant_and_missing_columns(folder: Folder) -> None:
    folder.cases(30)
    folder.write("ask.py", ASK)
    folder.write("spec.yaml", MODEL_SPEC)
    assert check(folder)["design"]["message"] == (
        "stores 2 parameters, 1 score, 0 tags, 1 returned field; the same in all variants: model; "
        "not kept: raw_response, cost, confidence and tags of cases (segments)"
    )
    run(folder)
    finding = check(folder)["design"]
    assert finding["message"].endswith("; not in metrics: words")
    assert any("p95_latency" in line for line in finding["details"])
    assert finding["level"] == "note"


def test_a_plain_function_lacks_nothing(shapes: Folder) -> None:
    run(shapes)
    finding = check(shapes)["design"]
    assert finding["level"] == "pass"
    assert any(line.startswith("predict returns only its answer; return a dict") for line in finding["details"])


# -- questions -----------------------------------------------------------------------------------------------------

ASK = """\
def ask(case, model, style):
    return {"prediction": "yes", "input_tokens": 3, "model": model, "words": 2}
"""
MODEL_SPEC = """\
name: asked
cases: cases.jsonl
target: python:ask:ask
variants: {a: {model: m, style: 1}, b: {model: m, style: 2}}
scorers: [exact]
"""


def on_terminal(folder: Folder, typed: str, *words: str) -> Done:
    """The command on a terminal, with typed answers."""
    ours, theirs = pty.openpty()
    try:
        os.write(ours, typed.encode() + b"\x04" * 9)  # any further read gets end of file
        with open(theirs, closefd=False) as keyboard, pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "stdin", keyboard)
            return folder.rerun(*words)
    finally:
        os.close(ours)
        os.close(theirs)


def command_on_terminal(folder: Folder, typed: str, *words: str) -> Done:
    """The command on a terminal, in a separate process."""
    ours, theirs = pty.openpty()
    try:
        os.write(ours, typed.encode())
        return folder.command(*words, stdin=theirs)
    finally:
        os.close(ours)
        os.close(theirs)


CODE = "continue with code changes? [y/N]"
FIELDS = "add fields before this experiment (not kept: raw_response, cost and confidence)? [y/N]"
SUMS = "add aggregations (not in metrics: words)? [y/N]"


@pytest.fixture
def model_run(folder: Folder) -> Folder:
    """An experiment with a function that seems to call a model and has run once."""
    folder.cases(12)
    folder.write("ask.py", ASK)
    folder.write("spec.yaml", MODEL_SPEC)
    first = on_terminal(folder, "\n\n\n", "run", "spec.yaml")
    assert first.code == 0, first.err
    assert "[y/N]" not in first.err, "nothing is asked before a first run"
    return folder


def test_each_question_is_asked_once(model_run: Folder) -> None:
    model_run.write("ask.py", ASK + "\nx = 1\n")
    done = on_terminal(model_run, "y\n\nn\n", "run", "spec.yaml")
    assert done.code == 0, done.err
    assert [done.err.count(question) for question in (CODE, FIELDS, SUMS)] == [1, 1, 1]
    answers = provenance(model_run)["answers"]
    assert {matter: answer["answer"] for matter, answer in answers.items()} == {
        "code": "yes",
        "fields": "no",
        "aggregations": "no",
    }
    for _ in range(2):
        second = on_terminal(model_run, "", "run", "spec.yaml", "--fresh")
        assert second.code == 0
        assert "[y/N]" not in second.err, "the same state is not asked about again"
    model_run.write("ask.py", ASK + "\nx = 2\n")
    done = command_on_terminal(model_run, "y\n", "run", "spec.yaml")
    assert [done.err.count(question) for question in (CODE, FIELDS, SUMS)] == [1, 0, 0]


@pytest.mark.parametrize("typed", ["\n", "n\n", "maybe\n"])
def test_declining_changed_code_executes_nothing(model_run: Folder, typed: str) -> None:
    model_run.write("ask.py", ASK + "\nx = 1\n")
    done = on_terminal(model_run, typed, "run", "spec.yaml")
    assert done.code == 4
    assert "nothing was executed or written" in done.err
    assert len(model_run.abreast("runs", "--json").json) == 1


def test_accepting_to_add_fields_prints_the_steps(model_run: Folder) -> None:
    done = on_terminal(model_run, "y\n", "run", "spec.yaml", "--fresh")
    assert done.code == 4
    assert '1. also return them from ask (ask.py): {"prediction": ..., "raw_response": ..., "cost_usd": ...' in done.err
    assert "abreast run SPEC --debug 5" in done.err
    model_run.write(
        "ask.py", ASK.replace('"words"', '"raw_response": "r", "cost_usd": 0.0, "confidence": 0.5, "words"')
    )
    done = on_terminal(model_run, "y\nn\n", "run", "spec.yaml")
    assert done.code == 0
    assert "add fields" not in done.err, "they are there"


def test_accepting_to_add_aggregations_prints_the_steps(model_run: Folder) -> None:
    done = on_terminal(model_run, "n\ny\n", "run", "spec.yaml", "--fresh")
    assert done.code == 4
    command = next(line[line.index("abreast sql") :] for line in done.err.splitlines() if "abreast sql" in line)
    result = subprocess.run(
        ["bash", "-c", command.replace("abreast", " ".join(ABREAST), 1)],
        cwd=model_run.path,
        capture_output=True,
        text=True,
    )
    assert "avg(words)" in result.stdout, "the command can be pasted"


@pytest.mark.parametrize("words", [["--yes"], ["--debug", "3"], ["--quiet"], ["--json"]])
def test_options_answer_the_questions(model_run: Folder, words: list[str]) -> None:
    model_run.write("ask.py", ASK + "\nx = 1\n")
    done = on_terminal(model_run, "", "run", "spec.yaml", *words)
    assert done.code == 0, done.err
    assert "[y/N]" not in done.err
    if words == ["--yes"]:
        assert provenance(model_run)["answers"]["code"]["answer"] == "yes"
        assert provenance(model_run)["answers"]["fields"]["answer"] == "no"


def test_without_a_terminal_a_run_continues_and_strict_refuses(model_run: Folder) -> None:
    model_run.write("ask.py", ASK + "\nx = 1\n")
    strict = run(model_run, "--strict")
    assert strict.code == 4
    assert "code: ask.py (module of ask) changed since" in strict.err
    done = run(model_run)
    assert done.code == 0
    assert "[y/N]" not in done.err


# -- series --------------------------------------------------------------------------------------------------------


def test_a_new_series_begins_where_results_are_not_comparable(shapes: Folder) -> None:
    run(shapes, "--label", "e1")
    shapes.write("helper.py", HELPER.replace("upper", "lower"))
    first = last_run(shapes)["run"]
    done = run(shapes, "--label", "e2")
    change = "helper.py (used by predict) changed"
    assert f"series 2 begins: {change}; do not compare its scores with those of {first}" in done.err
    assert "series" not in run(shapes, "--label", "e3", "--fresh").err
    assert [row["series"] for row in shapes.abreast("runs", "--json").json] == [1, 2, 2]
    rows = shapes.abreast("history", "--json", "--variant", "a").json
    assert [(row["series"], row["series_why"]) for row in rows] == [(1, None), (2, change), (2, change)]
    assert rows[1]["verdict"] is not None, "the verdict is given, and marked"
    assert f"2 begins: {change}" in shapes.abreast("history").out


def test_a_changed_scorer_begins_a_series_until_the_old_answers_are_rescored(folder: Folder) -> None:
    folder.cases(12, expected=5)
    spec = "name: s\ncases: cases.jsonl\nvariants: {{a: {{target: simulated}}}}\nscorers: [{{number: {}}}]\n"
    folder.write("spec.yaml", spec.format("{rel: 0.1}"))
    run(folder)
    folder.write("spec.yaml", spec.format("{rel: 0.2}"))
    stderr = folder.rerun("check", "spec.yaml").err
    assert "series 2 begins: the scorer of score_number changed" in stderr
    folder.rerun("rescore", "--spec", "spec.yaml")
    assert "series 2" not in folder.rerun("check", "spec.yaml").err


# -- the price -----------------------------------------------------------------------------------------------------


def test_checks_of_ten_thousand_cases_and_three_hundred_modules_are_fast(folder: Folder) -> None:
    folder.cases(10_000)
    for number in range(300):
        folder.write(f"parts/m{number}.py", "\n".join(f"def f{n}(x):\n    return x + {n}" for n in range(30)) + "\n")
    imports = "\n".join(f"from parts import m{number}" for number in range(300))
    folder.write("predict.py", f"{imports}\ndef predict(case, style):\n    return m1.f1(style)\n")
    folder.write("spec.yaml", SPEC.replace("{style: plain}", "{style: 1}").replace("{style: loud}", "{style: 2}"))
    folder._monkeypatch.chdir(folder.path)
    experiment = Experiment.load("spec.yaml")
    experiment.check()
    began = time.perf_counter()
    planned = experiment.check()
    assert planned[0].level == "pass"
    assert time.perf_counter() - began < 5


def test_python_never_asks(model_run: Folder) -> None:
    model_run.write("ask.py", ASK + "\nx = 1\n")
    code = "from abreast import Experiment; print(Experiment.load('spec.yaml').run().status)"
    ours, theirs = pty.openpty()
    try:
        done = subprocess.run(
            [ABREAST[0], "-c", code], cwd=model_run.path, stdin=theirs, capture_output=True, text=True, timeout=60
        )
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.stdout == "complete\n", done.stderr
    assert Path(model_run.path, "results.db").exists()
