"""References to runs by name, label, `latest`, `previous` or a prefix; and what `delete` accepts."""

from __future__ import annotations

import json
import os
import pty
import subprocess

import pytest

from abreast import Reader
from conftest import ABREAST, Folder


def run_names(folder: Folder, store: str = "results.db") -> list[str]:
    return [row["run"] for row in folder.abreast("runs", "--json", "--store", store).json]


def rename_runs(folder: Folder, *names: str, store: str = "results.db") -> None:
    """Give the runs of a store fixed names."""
    for old, new in zip(run_names(folder, store), names, strict=True):
        done = folder.abreast("sql", "--write", store, f"update runs set run = '{new}' where run = '{old}'")
        assert done.code == 0, done.err


@pytest.fixture
def two_runs(simulated: Folder) -> Folder:
    """Two complete runs with fresh answers, `alpha-ant-1` with the label e1.2.0 and `alpha-bee-2` without one."""
    simulated.abreast("run", "experiment.yaml", "--quiet", "--label", "e1.2.0")
    simulated.abreast("run", "experiment.yaml", "--quiet", "--fresh", "--seed", "5")
    rename_runs(simulated, "alpha-ant-1", "alpha-bee-2")
    return simulated


@pytest.mark.parametrize(
    "words",
    [
        ["report", "NAME", "--format", "json", "--no-trials"],
        ["show", "NAME", "--json"],
        ["show", "NAME", "c1", "--json"],
        ["logs", "NAME", "--json", "--limit", "3"],
        ["validate", "NAME", "--json"],
        ["export", "NAME", "--format", "jsonl"],
        ["tag", "NAME"],
        ["compare", "NAME", "alpha-bee-2", "--json"],
        ["compare", "alpha-bee-2:plain", "NAME:better", "--format", "markdown"],
        ["rescore", "NAME", "--json"],
    ],
    ids=lambda words: " ".join(words[:1]),
)
def test_a_label_identifies_a_run_in_every_command(two_runs: Folder, words: list[str]) -> None:
    by_name, by_label, by_position = (
        two_runs.abreast(*(word.replace("NAME", name) for word in words))
        for name in ("alpha-ant-1", "e1.2.0", "previous")
    )
    assert by_name.code == by_label.code, by_label.err
    assert by_name.out == by_label.out == by_position.out
    assert by_name.out


def test_a_label_names_a_run_to_resume(folder: Folder) -> None:
    folder.cases(6)
    folder.write("mine.py", "def answer(case):\n    return {'prediction': 'yes', 'cost_usd': 1.0}\n")
    spec = {"cases": "cases.jsonl", "variants": {"a": {"target": "python:mine:answer"}}, "scorers": ["exact"]}
    folder.write("spec.yaml", json.dumps(spec))
    assert folder.abreast("run", "spec.yaml", "--quiet", "--budget", "3", "--label", "v1", "--yes").code == 3
    done = folder.abreast("resume", "v1", "--quiet", "--budget", "30", "--yes")
    assert done.code == 0, done.err
    assert folder.abreast("runs", "--json").json[0]["status"] == "complete"


def test_a_requirement_may_name_a_contender_by_label_or_position(two_runs: Folder) -> None:
    for name in ("e1.2.0:plain", "previous:plain", "alpha-ant-1:plain"):
        done = two_runs.abreast("compare", "--fail-if", f"score[{name}] < 0.99", "--variant", "plain")
        assert done.code == 1
        assert "score of alpha-ant-1:plain is" in done.err


def test_the_reader_accepts_labels_and_positions(two_runs: Folder) -> None:
    reader = Reader(two_runs.path / "results.db")
    frame = reader.to_df(track_id="e1.2.0")
    assert (len(frame), set(frame["run"])) == (80, {"alpha-ant-1"})
    assert set(reader.to_df(track_id="latest")["run"]) == {"alpha-bee-2"}
    assert len(reader.to_df(track_id="nobody")) == 0


@pytest.mark.parametrize(
    ("label", "name", "candidates"),
    [
        (None, "alpha", ["alpha-ant-1", "alpha-bee-2"]),
        ("e1.2.0", "e1.2.0", ['alpha-ant-1 (label "e1.2.0")', 'alpha-bee-2 (label "e1.2.0")']),
        ("alpha-a", "alpha-a", ["alpha-ant-1", 'alpha-bee-2 (label "alpha-a")']),
    ],
    ids=["prefix of two runs", "label of two runs", "label and prefix"],
)
def test_a_name_that_matches_two_runs_is_refused_with_the_candidates(
    two_runs: Folder, label: str | None, name: str, candidates: list[str]
) -> None:
    if label:
        assert two_runs.abreast("tag", "alpha-bee-2", label).code == 0
    for command in (["report"], ["show"], ["logs"], ["validate"], ["export"], ["compare", "alpha-bee-2"]):
        done = two_runs.abreast(*command, name)
        assert done.code == 2
        assert f'"{name}" matches 2 runs: {", ".join(candidates)}' in done.err
        assert "use the full name" in done.err


def test_an_exact_run_name_wins_over_labels_and_prefixes(two_runs: Folder) -> None:
    two_runs.abreast("tag", "alpha-bee-2", "alpha")
    rename_runs(two_runs, "alpha", "alpha-bee-2")
    assert two_runs.abreast("tag", "alpha").out == "alpha: e1.2.0\n"


def test_a_prefix_and_a_label_of_the_same_run_do_not_conflict(two_runs: Folder) -> None:
    two_runs.abreast("tag", "alpha-ant-1", "alpha-a")
    assert two_runs.abreast("tag", "alpha-a").out == "alpha-ant-1: alpha-a\n"


def test_a_label_may_contain_colons(two_runs: Folder) -> None:
    two_runs.abreast("tag", "alpha-ant-1", "prod:v1")
    done = two_runs.abreast("compare", "prod:v1:plain", "alpha-bee-2:plain")
    assert "alpha-bee-2:plain vs alpha-ant-1:plain" in done.out, done.err


def test_positions_cannot_be_labels_and_an_empty_name_matches_nothing(two_runs: Folder) -> None:
    for word in ("latest", "previous"):
        assert f'invalid label "{word}"' in two_runs.abreast("tag", "alpha-ant-1", word).err
        assert two_runs.abreast("run", "experiment.yaml", "--label", word).code == 2
    two_runs.abreast("delete", "alpha-bee-2", "--yes")
    assert two_runs.abreast("report", "").code == 2


def test_a_name_that_matches_in_two_stores_is_refused(two_runs: Folder) -> None:
    two_runs.abreast("copy", "results.db", "other.db")
    rename_runs(two_runs, "alpha-cat-3", "alpha-dog-4", store="other.db")
    two_runs.abreast("tag", "alpha-dog-4", "candidate", "--store", "other.db")
    stores = ["--store", "results.db", "--store", "other.db"]
    done = two_runs.abreast("compare", "alpha-ant-1", "e1.2.0", *stores)
    assert done.code == 2
    assert 'alpha-ant-1 (label "e1.2.0"), alpha-cat-3 (label "e1.2.0")' in done.err
    assert (
        "alpha-dog-4:plain vs alpha-ant-1:plain" in two_runs.abreast("compare", "alpha-ant-1", "candidate", *stores).out
    )


def test_resume_refuses_a_label_that_is_also_the_name_of_a_spec(two_runs: Folder) -> None:
    two_runs.abreast("sql", "--write", "results.db", "update runs set status = 'incomplete'")
    two_runs.abreast("tag", "alpha-ant-1", "experiment.yaml")
    done = two_runs.abreast("resume", "experiment.yaml")
    assert done.code == 2
    assert "alpha-ant-1, alpha-bee-2" in done.err


# -- delete ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["alpha-a", "e1.2.0", "previous", "alpha-ant-"])
def test_delete_takes_full_names_only_and_suggests_the_one_that_matches(two_runs: Folder, name: str) -> None:
    done = two_runs.abreast("delete", name, "--yes")
    assert done.code == 2
    assert f'delete takes full names only; "{name}" matches alpha-ant-1' in done.err
    assert "abreast delete alpha-ant-1" in done.err
    assert len(run_names(two_runs)) == 2


def test_delete_lists_what_a_prefix_of_several_names_matches(two_runs: Folder) -> None:
    done = two_runs.abreast("delete", "alpha", "--yes")
    assert (done.code, "alpha-ant-1, alpha-bee-2" in done.err) == (2, True)
    assert 'did you mean "alpha-bee-2"' in two_runs.abreast("delete", "alpah-bee-2", "--yes").err
    assert two_runs.abreast("delete", "", "--yes").code == 2
    assert len(run_names(two_runs)) == 2


def test_delete_without_a_terminal_needs_yes_and_prints_the_command(two_runs: Folder) -> None:
    two_runs.abreast("copy", "results.db", "other.db")
    done = two_runs.command("delete", "results.db", "alpha-ant-1", stdin=subprocess.DEVNULL)
    assert done.code == 2
    assert "delete needs --yes" in done.err
    assert "abreast delete alpha-ant-1 --yes --store results.db" in done.err
    assert len(run_names(two_runs)) == 2
    assert two_runs.command("delete", "alpha-ant-1", "--yes", "--store", "results.db").code == 0
    assert run_names(two_runs) == ["alpha-bee-2"]


@pytest.mark.parametrize(("answer", "remaining"), [("n", 2), ("y", 1)])
def test_delete_on_a_terminal_asks(two_runs: Folder, answer: str, remaining: int) -> None:
    outside, inside = pty.openpty()
    process = subprocess.Popen(
        [*ABREAST, "delete", "alpha-ant-1"], cwd=two_runs.path, stdin=inside, stderr=subprocess.PIPE
    )
    os.write(outside, f"{answer}\n".encode())
    _, message = process.communicate(timeout=60)
    os.close(outside)
    os.close(inside)
    assert b"delete alpha-ant-1 with 80 trials and the report? [y/N]" in message
    assert len(run_names(two_runs)) == remaining


@pytest.mark.parametrize("name", ["y", "alpha-a", "latest", "e1.2.0", "*", "alpha-%"])
def test_delete_without_a_terminal_deletes_nothing_by_a_short_name(two_runs: Folder, name: str) -> None:
    done = two_runs.command("delete", name, stdin=subprocess.DEVNULL)
    assert done.code == 2, done.output
    assert len(run_names(two_runs)) == 2


# -- other commands that change or destroy something ------------------------------------------------------------------


def test_the_name_of_another_run_cannot_be_a_label(two_runs: Folder) -> None:
    done = two_runs.abreast("tag", "alpha-ant-1", "alpha-bee-2")
    assert (done.code, 'invalid label "alpha-bee-2": it is the name of another run' in done.err) == (2, True)
    assert two_runs.abreast("tag", "alpha-ant-1").out == "alpha-ant-1: e1.2.0\n"
    done = two_runs.abreast("run", "experiment.yaml", "--fresh", "--label", "alpha-bee-2")
    assert (done.code, "the name of another run" in done.err) == (2, True)
    assert len(run_names(two_runs)) == 2


@pytest.mark.parametrize("label", ["", "  ", "a\nb", "\x1b[31mred", "a\u202eb", "a" * 101])
def test_a_label_is_printable_text_on_one_line(two_runs: Folder, label: str) -> None:
    done = two_runs.abreast("tag", "alpha-ant-1", label)
    assert (done.code, "must be one line of printable text" in done.err) == (2, True)
    assert two_runs.abreast("tag", "alpha-ant-1").out == "alpha-ant-1: e1.2.0\n"
    assert two_runs.abreast("run", "experiment.yaml", "--label", label).code == 2


@pytest.mark.parametrize(
    "words",
    [
        ["rename", "params_accuracy", "params_skill"],
        ["rename", "params_accuracy", "params_skill", "--experiment", "simulated"],
        ["cache", "clear"],
    ],
)
def test_without_a_terminal_a_change_needs_yes_and_the_command_is_printed(two_runs: Folder, words: list[str]) -> None:
    before = two_runs.abreast("export").out, two_runs.abreast("cache", "stats").out
    done = two_runs.command(*words, stdin=subprocess.DEVNULL)
    assert (done.code, f"{words[0]} needs --yes without a terminal" in done.err) == (2, True)
    assert (two_runs.abreast("export").out, two_runs.abreast("cache", "stats").out) == before
    command = done.err.splitlines()[-1].removeprefix("help: run `").removesuffix("`").split()
    assert command[0] == "abreast"
    assert two_runs.command(*command[1:], stdin=subprocess.DEVNULL).code == 0
    assert (two_runs.abreast("export").out, two_runs.abreast("cache", "stats").out) != before


def test_the_demo_never_overwrites_files_of_the_user(folder: Folder) -> None:
    assert folder.abreast("demo", "--folder", "there", "--limit", "12", "--quiet").code in (0, 1)
    assert folder.abreast("demo", "--folder", "there", "--limit", "12", "--quiet").code in (0, 1)
    mine = folder.write("there/experiment.yaml", "name: mine\n")
    done = folder.abreast("demo", "--folder", "there")
    assert (done.code, "already exists with other content" in done.err) == (2, True)
    assert mine.read_text() == "name: mine\n"
