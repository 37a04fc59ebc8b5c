"""What is looked at before every run, and what a person is asked."""

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
    """The same in a repository, with one run of it."""
    shapes.write(".gitignore", "results.db*\nruns/\n__pycache__/\n")
    git(shapes, "init", "-q")
    git(shapes, "add", ".")
    git(shapes, "commit", "-qm", "one")
    assert run(shapes).code == 0
    return shapes


def run(folder: Folder, *words: str) -> Done:
    """Modules change between runs."""
    return folder.anew("run", "spec.yaml", *words)


def check(folder: Folder, *words: str) -> dict[str, dict[str, Any]]:
    done = folder.anew("check", "spec.yaml", "--json", *words)
    assert done.code == 0, done.err
    return {row["check"]: row for row in done.json}


def last_run(folder: Folder, **options: Any) -> dict[str, Any]:
    found: dict[str, Any] = folder.abreast("runs", "--json", *options.get("words", ())).json[-1]
    return found


def provenance(folder: Folder) -> dict[str, Any]:
    ((text,),) = [tuple(row.values()) for row in folder.sql("select provenance from runs order by run_id desc limit 1")]
    found: dict[str, Any] = json.loads(text)
    return found


# -- the first time ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("in_git", [False, True])
def test_a_first_run_is_warned_of_nothing_but_few_cases(shapes: Folder, in_git: bool) -> None:
    if in_git:
        git(shapes, "init", "-q")
        shapes.write("other.txt", "x")
        git(shapes, "add", "other.txt")
        git(shapes, "commit", "-qm", "one")
    found = check(shapes)
    assert [name for name, row in found.items() if row["level"] in ("warn", "fail")] == ["power"]
    assert found["code"]["message"] == "first run of this experiment in this store"
    assert found["data"]["message"] == "12 cases in cases.jsonl"
    done = run(shapes)
    assert [line.split()[1] for line in done.err.splitlines() if line[2:3] in "✓·!✗" and line.startswith("  ")] == [
        "limits:",
        "code:",
        "power:",
        "estimate:",
    ]


def test_nothing_changed_is_said_once_before_a_run_and_in_full_by_check(shapes: Folder) -> None:
    run(shapes)
    again = run(shapes, "--fresh").err
    name = shapes.abreast("runs", "--json").json[0]["run"]
    assert f"✓ code: nothing changed since {name}" in again
    assert "schema" not in again
    done = shapes.anew("check", "spec.yaml")
    lines = [line for line in done.err.splitlines() if line.startswith(("  ✓", "  ·", "  !"))]
    checks = [line.split()[1].rstrip(":") for line in lines]
    for wanted in ("limits", "code", "schema", "data", "duplicates", "environment", "git", "design", "power"):
        assert wanted in checks
    assert len({len(line) - len(line[4:].split(None, 1)[1]) for line in lines}) == 1, "one below the other"
    assert "cases.jsonl" not in done.err
    assert "cases.jsonl" in shapes.anew("check", "spec.yaml", "--verbose").err


# -- code ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "text", "level", "said"),
    [
        ("predict.py", PREDICT.replace("return ", "return '' + "), "warn", "the function predict itself changed since"),
        ("helper.py", HELPER.replace("upper", "lower"), "warn", "helper.py (used by predict) changed"),
        ("predict.py", PREDICT + "\n# a word\n", "pass", "nothing changed since"),
        ("spec.yaml", SPEC.replace("loud", "quiet"), "note", "b changed its parameters: style since"),
        ("spec.yaml", SPEC.replace("b:", "c:").replace("loud", "quiet"), "note", "new since"),
        ("other.py", "x = 1\n", "pass", "nothing changed since"),
    ],
    ids=["function", "helper", "comment", "parameter", "variant", "other"],
)
def test_what_changed_is_said_and_only_code_that_is_measured_warned_of(
    shapes: Folder, file: str, text: str, level: str, said: str
) -> None:
    run(shapes)
    shapes.write(file, text)
    found = check(shapes)["code"]
    assert (found["level"], said in found["message"]) == (level, True), found
    assert ("a and b will answer anew" in found["message"]) == (level == "warn")
    begins = "series 2 begins" in shapes.anew("check", "spec.yaml").err
    assert begins == (level == "warn")


@pytest.mark.parametrize("transform", ["python:shape:shape", "{from: python:shape:shape, times: 2}"])
def test_a_transform_is_code_that_is_measured(folder: Folder, transform: str) -> None:
    folder.cases(12)
    folder.write("shape.py", "def shape(value, times=1):\n    return value\n")
    folder.write("spec.yaml", f"cases: cases.jsonl\nvariants: {{a: {{target: simulated, transform: {transform}}}}}\n")
    assert run(folder).code == 0
    assert check(folder)["code"]["level"] == "pass"
    folder.write("shape.py", "def shape(value, times=1):\n    return value * 2\n")
    assert "the function shape itself changed" in check(folder)["code"]["message"]


def test_other_arguments_of_a_transform_are_other_parameters(folder: Folder) -> None:
    folder.cases(12)
    folder.write("shape.py", "def shape(value, times):\n    return value\n")
    for times in (1, 2):
        transform = f"{{from: python:shape:shape, times: {times}}}"
        folder.write(
            "spec.yaml", f"cases: cases.jsonl\nvariants: {{a: {{target: simulated, transform: {transform}}}}}\n"
        )
        if times == 1:
            assert run(folder).code == 0
    assert "a changed its parameters: transform since" in check(folder)["code"]["message"]


def test_commits_and_what_git_says_changed_between_them(committed: Folder) -> None:
    first = git(committed, "rev-parse", "--short=7", "HEAD")
    committed.write("notes.txt", "one\ntwo\n")
    git(committed, "add", ".")
    git(committed, "commit", "-qm", "two")
    second = git(committed, "rev-parse", "--short=7", "HEAD")
    found = check(committed)["code"]
    assert found["level"] == "note"
    assert f"other files did (commit {first} → {second}: 1 file, +2 −0)" in found["message"]
    assert found["details"] == ["notes.txt  +2 −0"]
    committed.write("helper.py", HELPER.replace("upper", "lower"))
    git(committed, "commit", "-qam", "three")
    found = check(committed)["code"]
    assert found["level"] == "warn"
    assert ": 2 files, +3 −1)" in found["message"]
    shown = subprocess.run(
        ["bash", "-c", found["fix"].removeprefix("see it: ")], cwd=committed.path, capture_output=True, text=True
    )
    assert "-    return text.upper()" in shown.stdout, "the fix can be pasted"


def test_a_commit_that_is_gone_is_said(committed: Folder) -> None:
    committed.anew(
        "sql", "--write", "results.db", f"update runs set provenance = json_set(provenance, '$.commit', '{'a' * 40}')"
    )
    assert "git does not know the old one any more" in check(committed)["code"]["message"]


# -- data ----------------------------------------------------------------------------------------------------------


def test_cases_that_were_added_removed_or_changed(shapes: Folder) -> None:
    run(shapes)
    lines = (shapes.path / "cases.jsonl").read_text().splitlines()
    assert provenance(shapes)["case_files"] == {
        "cases.jsonl": hashlib.md5((shapes.path / "cases.jsonl").read_bytes()).hexdigest()
    }
    shapes.write("cases.jsonl", "\n".join([*lines, '{"id": "more", "input": "x", "expected": "y"}']) + "\n")
    found = check(shapes)["data"]
    assert (found["level"], "1 added (more)" in found["message"]) == ("note", True)
    shapes.write("cases.jsonl", "\n".join([lines[0].replace("question", "riddle"), *lines[2:]]) + "\n")
    found = check(shapes)["data"]
    assert found["level"] == "warn"
    assert "1 changed (c0), 1 removed (c1);" in found["message"]
    assert "series 2 begins: cases: 1 changed (c0), 1 removed (c1)" in run(shapes).err
    assert last_run(shapes)["series"] == 2


def test_cases_left_out_on_purpose_were_not_removed(shapes: Folder) -> None:
    run(shapes)
    first = last_run(shapes)["run"]
    for words in (["--limit", "3"], ["--debug", "3"], ["--case", "c1"]):
        found = check(shapes, *words)["data"]
        assert (found["level"], found["message"]) == ("note", f"a part of the cases of {first}")
        assert "series 2" not in run(shapes, *words).err
    found = check(shapes)
    assert found["code"]["message"].startswith("nothing changed")
    assert found["data"]["message"] == f"the same 12 cases as in {first}", "the last run with all of them"
    shapes.cases(13)
    assert f"cases since {first}: 1 added (c12)" in check(shapes)["data"]["message"]


@pytest.mark.parametrize(
    ("tags", "level", "said"),
    [
        (({}, {}), "warn", "1 input there more than once (one and two)"),
        (({"split": "train"}, {"split": "test"}), "warn", "1 input in training and in test data (one and two)"),
        (({"set": "dev"}, {"set": "Train"}), "warn", "1 input in training and in test data"),
        (({"language": "en"}, {"language": "de"}), "note", "told apart by their tags"),
    ],
)
def test_an_input_that_is_there_twice(shapes: Folder, tags: Any, level: str, said: str) -> None:
    lines = [
        {"id": name, "input": "q", "expected": "a", "tags": tag} for name, tag in zip(("one", "two"), tags, strict=True)
    ]
    shapes.write("cases.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    found = check(shapes)["duplicates"]
    assert (found["level"], said in found["message"]) == (level, True), found


def test_copies_of_one_group_are_no_warning(shapes: Folder) -> None:
    line = {"input": "q", "expected": "a", "group": "g"}
    shapes.write("cases.jsonl", "".join(json.dumps({"id": name, **line}) + "\n" for name in "ab"))
    assert check(shapes)["duplicates"]["level"] == "note"


def test_a_file_that_is_not_what_dvc_tracks(shapes: Folder) -> None:
    assert "dvc" not in check(shapes)
    content = (shapes.path / "cases.jsonl").read_bytes()
    md5 = hashlib.md5(content).hexdigest()
    shapes.write("cases.jsonl.dvc", f"outs:\n- md5: {md5}\n  size: {len(content)}\n  hash: md5\n  path: cases.jsonl\n")
    assert check(shapes)["dvc"]["level"] == "pass"
    run(shapes)
    assert provenance(shapes)["dvc"] == {"cases.jsonl": md5}
    assert shapes.sql("select distinct data_commit from metrics order by 1 desc")[0] == {"data_commit": md5}
    shapes.cases(13)
    found = check(shapes)["dvc"]
    assert found["level"] == "warn"
    assert found["message"] == "cases.jsonl differs from what DVC tracks"
    assert found["fix"].startswith("dvc add cases.jsonl")
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
    """A parameter and a returned field that have other names than in the first run."""
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


def test_a_rename_is_seen_and_the_command_that_mends_it_works(renamed: Folder) -> None:
    store = next(name for name in ("results.db", "results.duckdb") if (renamed.path / name).exists())
    found = check(renamed)["schema"]
    assert found["level"] == "warn"
    assert "params_lr is now params_learning_rate; conf is now confidence" in found["message"]
    assert found["fix"] == (
        f"abreast rename {store} params_lr params_learning_rate && abreast rename {store} conf confidence"
    )
    for command in found["fix"].split(" && "):
        done = renamed.anew(*command.split()[1:], "--yes")
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


def test_renaming_a_parameter_lets_nothing_more_be_reused(renamed: Folder) -> None:
    store = next(name for name in ("results.db", "results.duckdb") if (renamed.path / name).exists())
    renamed.anew("rename", "--yes", store, "params_lr", "params_learning_rate")
    assert renamed.anew("run", "spec.yaml", "--json", "--quiet").json[0]["executed"] == 24


def test_names_that_look_alike_are_new_and_missing(folder: Folder) -> None:
    folder.cases(12)
    spec = "cases: cases.jsonl\nvariants: {{a: {{target: simulated, {}: 0.5}}}}\n"
    folder.write("fit.py", "def fit(case, **params):\n    return 'yes'\n")
    spec = "cases: cases.jsonl\ntarget: python:fit:fit\nvariants: {{a: {{{}: 5}}}}\n"
    folder.write("spec.yaml", spec.format("top_k"))
    run(folder)
    folder.write("spec.yaml", spec.format("top_p"))
    found = check(folder)["schema"]
    assert found["level"] == "note"
    assert found["details"] == ["missing: params_top_k", "new: params_top_p"]


def test_a_returned_field_that_is_gone_is_noted_before_anything_is_paid(folder: Folder) -> None:
    folder.cases(12)
    folder.write("spec.yaml", "cases: cases.jsonl\ntarget: python:fit:fit\nvariants: {a: {}}\nscorers: [exact]\n")
    folder.write("fit.py", "def fit(case):\n    return {'prediction': 'yes', 'confidence': 1, 'words': 3}\n")
    run(folder)
    folder.write("fit.py", "def fit(case):\n    return {'prediction': 'yes', 'confidence': 1}\n")
    assert "no longer there: words" in run(folder).err


def test_returned_fields_that_are_not_written_out_are_seen_a_run_later(folder: Folder) -> None:
    folder.cases(12)
    folder.write("spec.yaml", "cases: cases.jsonl\ntarget: python:fit:fit\nvariants: {a: {}}\nscorers: [exact]\n")
    for key in ("conf", "confidence"):
        folder.write("fit.py", f"def fit(case):\n    found = dict(prediction='yes', {key}=1)\n    return found\n")
        run(folder)
    assert "conf is now confidence" in check(folder)["schema"]["message"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["params_style", "how"], "is a parameter and stays one"),
        (["params_stile", "params_how"], 'did you mean "params_style"?'),
        (["score_exact", "score_right"], "a score has the name of its scorer"),
        (["model", "who"], "keeps its name"),
        (["params_style"], "rename: wrong number of arguments"),
        (["params_style", "params_style"], "has that name already"),
        (["params_style", "params_how", "--experiment", "nobody"], 'no run of the experiment "nobody"'),
    ],
)
def test_what_cannot_be_renamed_is_refused(shapes: Folder, words: list[str], said: str) -> None:
    run(shapes, "--quiet")
    done = shapes.anew("rename", "--yes", *words)
    assert done.code == 2
    assert said in done.err
    assert shapes.sql("select distinct params_style s from predictions order by 1") == [{"s": "loud"}, {"s": "plain"}]


def test_a_run_that_has_both_names_is_left_alone(folder: Folder) -> None:
    folder.cases(12)
    folder.write("fit.py", "def fit(case, **params):\n    return 'yes'\n")
    folder.write("spec.yaml", "cases: cases.jsonl\ntarget: python:fit:fit\nvariants: {a: {lr: 1}, b: {rate: 2}}\n")
    run(folder, "--quiet")
    done = folder.anew("rename", "--yes", "params_lr", "params_rate")
    assert done.code == 2
    assert "has lr and rate: what one of them holds would be lost" in done.err


def test_only_the_runs_of_one_experiment_are_renamed(shapes: Folder) -> None:
    run(shapes, "--quiet")
    shapes.write("other.yaml", SPEC.replace("name: shapes", "name: other"))
    assert shapes.anew("run", "other.yaml", "--quiet").code == 0
    done = shapes.anew("rename", "--yes", "params_style", "params_how", "--experiment", "other")
    assert done.out.endswith("1 run, 24 rows\n")
    rows = shapes.sql("select params_style s, params_how h, count(*) n from predictions group by 1, 2 order by 1, 2")
    assert [(row["s"], row["h"], row["n"]) for row in rows] == [
        (None, "loud", 12),
        (None, "plain", 12),
        ("loud", None, 12),
        ("plain", None, 12),
    ]


# -- surroundings --------------------------------------------------------------------------------------------------


def test_another_python_or_package_is_noted(shapes: Folder) -> None:
    run(shapes)
    assert check(shapes)["environment"]["level"] == "pass"
    change = "update runs set provenance = json_set(provenance, '$.python', '3.9.1', '$.packages.numpy', '1.0')"
    shapes.anew("sql", "--write", "results.db", change)
    found = check(shapes)["environment"]
    assert found["level"] == "note"
    assert "Python 3.9.1 → 3." in found["message"]
    assert "numpy 1.0 → " in found["message"]


def test_a_name_that_stands_for_another_model_is_warned_of(folder: Folder) -> None:
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
    found = check(folder)["models"]
    assert found["level"] == "warn"
    assert found["message"] == f"haiku answered as haiku-2 in {second}, as haiku-1 in {first}"
    run(folder, "--fresh")
    assert check(folder)["models"]["level"] == "pass", "said once"


def test_files_of_the_experiment_that_are_not_committed_are_warned_of_and_others_noted(committed: Folder) -> None:
    assert check(committed)["git"]["message"].endswith(" on main, all of it committed")
    committed.write("README.md", "x")
    git(committed, "add", "README.md")
    found = check(committed)["git"]
    assert (found["level"], "1 other file not committed: README.md" in found["message"]) == ("note", True)
    assert "git:" not in run(committed, "--fresh").err, "a note of git's is not said before each run"
    committed.write("helper.py", HELPER + "\nx = 1\n")
    found = check(committed)["git"]
    assert (found["level"], found["message"].startswith("helper.py is not committed")) == ("warn", True)
    assert found["fix"] == "git add helper.py && git commit"
    assert "! git: helper.py is not committed" in run(committed).err
    assert check(committed, "--debug", "3")["git"]["level"] == "note", "who tries things out is left alone"


def test_a_file_that_was_never_added_is_not_committed_and_an_ignored_one_is_meant(committed: Folder) -> None:
    committed.cases(5, "more.jsonl")
    committed.write("spec.yaml", SPEC.replace("cases.jsonl", "more.jsonl"))
    git(committed, "commit", "-qam", "two")
    assert "more.jsonl is not committed" in check(committed)["git"]["message"]
    committed.write(".gitignore", "results.db*\nruns/\n__pycache__/\nmore.jsonl\n")
    git(committed, "commit", "-qam", "three")
    assert check(committed)["git"]["level"] == "pass"


def test_no_branch_and_no_repository_are_notes(committed: Folder) -> None:
    git(committed, "checkout", "-q", "--detach")
    found = check(committed)["git"]
    assert (found["level"], "with no branch checked out" in found["message"]) == ("note", True)


# -- design --------------------------------------------------------------------------------------------------------


def test_the_design_says_what_is_kept_constant_and_missing(folder: Folder) -> None:
    folder.cases(30)
    folder.write("ask.py", ASK)
    folder.write("spec.yaml", ASKED)
    assert check(folder)["design"]["message"] == (
        "keeps 2 parameters, 1 score, 0 tags, 1 returned field; the same in all variants: model; "
        "not kept: raw_response, cost, confidence and tags of cases (segments)"
    )
    run(folder)
    found = check(folder)["design"]
    assert found["message"].endswith("; not in metrics: words")
    assert any("p95_latency" in line for line in found["details"])
    assert found["level"] == "note"


def test_a_plain_function_lacks_nothing(shapes: Folder) -> None:
    run(shapes)
    found = check(shapes)["design"]
    assert found["level"] == "pass"
    assert any(line.startswith("predict returns its answer only; a dict") for line in found["details"])


# -- questions -----------------------------------------------------------------------------------------------------

ASK = """\
def ask(case, model, style):
    return {"prediction": "yes", "input_tokens": 3, "model": model, "words": 2}
"""
ASKED = """\
name: asked
cases: cases.jsonl
target: python:ask:ask
variants: {a: {model: m, style: 1}, b: {model: m, style: 2}}
scorers: [exact]
"""


def on_terminal(folder: Folder, said: str, *words: str) -> Done:
    """The command with a person at the keyboard."""
    ours, theirs = pty.openpty()
    try:
        os.write(ours, said.encode() + b"\x04" * 9)  # and whoever asks for more is told that there is no more
        with open(theirs, closefd=False) as keyboard, pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "stdin", keyboard)
            return folder.anew(*words)
    finally:
        os.close(ours)
        os.close(theirs)


def command_on_terminal(folder: Folder, said: str, *words: str) -> Done:
    """The same in a process of its own."""
    ours, theirs = pty.openpty()
    try:
        os.write(ours, said.encode())
        return folder.command(*words, stdin=theirs)
    finally:
        os.close(ours)
        os.close(theirs)


CODE = "continue with code changes? [y/N]"
FIELDS = "add fields before this experiment (not kept: raw_response, cost and confidence)? [y/N]"
SUMS = "add aggregations (not in metrics: words)? [y/N]"


@pytest.fixture
def asked(folder: Folder) -> Folder:
    """A function that calls a model, for all one can see, and has run once."""
    folder.cases(12)
    folder.write("ask.py", ASK)
    folder.write("spec.yaml", ASKED)
    first = on_terminal(folder, "\n\n\n", "run", "spec.yaml")
    assert first.code == 0, first.err
    assert "[y/N]" not in first.err, "nothing is asked before a first run"
    return folder


def test_a_person_is_asked_once_for_each_matter(asked: Folder) -> None:
    asked.write("ask.py", ASK + "\nx = 1\n")
    done = on_terminal(asked, "y\n\nn\n", "run", "spec.yaml")
    assert done.code == 0, done.err
    assert [done.err.count(question) for question in (CODE, FIELDS, SUMS)] == [1, 1, 1]
    answers = provenance(asked)["answers"]
    assert {matter: told["answer"] for matter, told in answers.items()} == {
        "code": "yes",
        "fields": "no",
        "aggregations": "no",
    }
    for _ in range(2):
        again = on_terminal(asked, "", "run", "spec.yaml", "--fresh")
        assert again.code == 0
        assert "[y/N]" not in again.err, "the same state is not asked about again"
    asked.write("ask.py", ASK + "\nx = 2\n")
    done = command_on_terminal(asked, "y\n", "run", "spec.yaml")
    assert [done.err.count(question) for question in (CODE, FIELDS, SUMS)] == [1, 0, 0]


@pytest.mark.parametrize("said", ["\n", "n\n", "maybe\n"])
def test_who_does_not_want_changed_code_executes_nothing(asked: Folder, said: str) -> None:
    asked.write("ask.py", ASK + "\nx = 1\n")
    done = on_terminal(asked, said, "run", "spec.yaml")
    assert done.code == 4
    assert "nothing was executed or written" in done.err
    assert len(asked.abreast("runs", "--json").json) == 1


def test_who_wants_to_add_fields_gets_the_steps(asked: Folder) -> None:
    done = on_terminal(asked, "y\n", "run", "spec.yaml", "--fresh")
    assert done.code == 4
    assert '1. let ask (ask.py) return them too: {"prediction": ..., "raw_response": ..., "cost_usd": ...' in done.err
    assert "abreast run SPEC --debug 5" in done.err
    asked.write("ask.py", ASK.replace('"words"', '"raw_response": "r", "cost_usd": 0.0, "confidence": 0.5, "words"'))
    done = on_terminal(asked, "y\nn\n", "run", "spec.yaml")
    assert done.code == 0
    assert "add fields" not in done.err, "they are there"


def test_who_wants_to_add_aggregations_gets_the_steps(asked: Folder) -> None:
    done = on_terminal(asked, "n\ny\n", "run", "spec.yaml", "--fresh")
    assert done.code == 4
    command = next(line[line.index("abreast sql") :] for line in done.err.splitlines() if "abreast sql" in line)
    shown = subprocess.run(
        ["bash", "-c", command.replace("abreast", " ".join(ABREAST), 1)],
        cwd=asked.path,
        capture_output=True,
        text=True,
    )
    assert "avg(words)" in shown.stdout, "the command can be pasted"


@pytest.mark.parametrize("words", [["--yes"], ["--debug", "3"], ["--quiet"], ["--json"]])
def test_nobody_is_asked_who_said_so(asked: Folder, words: list[str]) -> None:
    asked.write("ask.py", ASK + "\nx = 1\n")
    done = on_terminal(asked, "", "run", "spec.yaml", *words)
    assert done.code == 0, done.err
    assert "[y/N]" not in done.err
    if words == ["--yes"]:
        assert provenance(asked)["answers"]["code"]["answer"] == "yes"
        assert provenance(asked)["answers"]["fields"]["answer"] == "no"


def test_without_a_terminal_a_run_goes_on_and_strict_refuses(asked: Folder) -> None:
    asked.write("ask.py", ASK + "\nx = 1\n")
    strict = run(asked, "--strict")
    assert strict.code == 4
    assert "code: ask.py (beside ask) changed since" in strict.err
    done = run(asked)
    assert done.code == 0
    assert "[y/N]" not in done.err


# -- series --------------------------------------------------------------------------------------------------------


def test_a_new_series_begins_where_results_do_not_continue(shapes: Folder) -> None:
    run(shapes, "--label", "e1")
    shapes.write("helper.py", HELPER.replace("upper", "lower"))
    first = last_run(shapes)["run"]
    done = run(shapes, "--label", "e2")
    told = "helper.py (used by predict) changed"
    assert f"series 2 begins: {told}; do not compare its scores with those of {first}" in done.err
    assert "series" not in run(shapes, "--label", "e3", "--fresh").err
    assert [row["series"] for row in shapes.abreast("runs", "--json").json] == [1, 2, 2]
    rows = shapes.abreast("history", "--json", "--variant", "a").json
    assert [(row["series"], row["series_why"]) for row in rows] == [(1, None), (2, told), (2, told)]
    assert rows[1]["verdict"] is not None, "the verdict is given, and marked"
    assert f"2 begins: {told}" in shapes.abreast("history").out


def test_another_version_of_a_scorer_begins_a_series_until_the_old_answers_are_scored_anew(folder: Folder) -> None:
    folder.cases(12, expected=5)
    spec = "name: s\ncases: cases.jsonl\nvariants: {{a: {{target: simulated}}}}\nscorers: [{{number: {}}}]\n"
    folder.write("spec.yaml", spec.format("{rel: 0.1}"))
    run(folder)
    folder.write("spec.yaml", spec.format("{rel: 0.2}"))
    told = folder.anew("check", "spec.yaml").err
    assert "series 2 begins: score_number is given otherwise" in told
    folder.anew("rescore", "--spec", "spec.yaml")
    assert "series 2" not in folder.anew("check", "spec.yaml").err


# -- the price -----------------------------------------------------------------------------------------------------


def test_ten_thousand_cases_and_three_hundred_modules_are_looked_at_in_no_time(folder: Folder) -> None:
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


def test_python_never_asks(asked: Folder) -> None:
    asked.write("ask.py", ASK + "\nx = 1\n")
    code = "from abreast import Experiment; print(Experiment.load('spec.yaml').run().status)"
    ours, theirs = pty.openpty()
    try:
        done = subprocess.run(
            [ABREAST[0], "-c", code], cwd=asked.path, stdin=theirs, capture_output=True, text=True, timeout=60
        )
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.stdout == "complete\n", done.stderr
    assert Path(asked.path, "results.db").exists()
