"""Labels, and an experiment over its labelled runs."""

from __future__ import annotations

import json
import subprocess

import pytest

from conftest import Folder

SPEC = """\
name: s
cases: cases.jsonl
target: simulated
variants: {{a: {{accuracy: {a}}}, b: {{accuracy: {b}}}}}
scorers: [exact]
"""


@pytest.fixture
def versions(folder: Folder) -> Folder:
    """Three runs, of which two have a label; b gets worse from the first to the last."""
    folder.cases(80)
    for number, (accuracy, words) in enumerate([(0.95, ["--label", "e1.0.0"]), (0.9, []), (0.5, [])]):
        folder.write("spec.yaml", SPEC.format(a=0.5, b=accuracy))
        assert folder.abreast("run", "spec.yaml", "--quiet", "--fresh", "--seed", str(number), *words).code == 0
    assert folder.abreast("tag", "latest", "e1.1.0").out.endswith(": e1.1.0\n")
    return folder


def test_history_lists_labelled_runs_with_the_verdict_against_the_previous_one(versions: Folder) -> None:
    rows = versions.abreast("history", "--json").json
    assert [(row["label"], row["variant"], row["verdict"]) for row in rows] == [
        ("e1.0.0", "a", None),
        ("e1.0.0", "b", None),
        ("e1.1.0", "a", "not known"),
        ("e1.1.0", "b", "regression"),
    ]
    assert rows[3]["against"] == rows[1]["run"]
    assert len(versions.abreast("history", "s", "--all", "--variant", "b", "--json").json) == 3
    assert "regression" in versions.abreast("history").out


def test_a_label_can_be_shown_changed_and_removed(versions: Folder) -> None:
    run = versions.abreast("runs", "--json").json[0]["run"]
    assert versions.abreast("tag", run).out == f"{run}: e1.0.0\n"
    versions.abreast("tag", run, "e1.0.1")
    assert versions.sql(f"select distinct experiment_version v from metrics where run = '{run}'") == [{"v": "e1.0.1"}]
    assert versions.abreast("tag", run, "--remove").out == f"{run}: no label\n"
    assert [row["label"] for row in versions.abreast("history", "--json").json] == ["e1.1.0", "e1.1.0"]


def test_the_commit_of_a_run_is_tagged_in_git_if_it_was_measured(folder: Folder) -> None:
    folder.cases(3)
    folder.write("spec.yaml", SPEC.format(a=0.5, b=0.9))

    def git(*words: str) -> str:
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.invalid"]
        done = subprocess.run(["git", *identity, *words], cwd=folder.path, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    folder.abreast("run", "spec.yaml", "--quiet")
    assert "not started in a git repository" in folder.abreast("tag", "latest", "e1", "--git").err
    git("init", "-q")
    git("add", "spec.yaml", "cases.jsonl")
    git("commit", "-qm", "one")
    folder.abreast("run", "spec.yaml", "--quiet", "--fresh")
    assert folder.abreast("tag", "latest", "e1", "--git").code == 0
    assert git("rev-parse", "e1") == git("rev-parse", "HEAD")
    assert "git tag e1: " in folder.abreast("tag", "latest", "e1", "--git").err
    folder.cases(4)
    folder.abreast("run", "spec.yaml", "--quiet")
    assert "uncommitted changes" in folder.abreast("tag", "latest", "e2", "--git").err


def test_mistakes_are_reported(versions: Folder) -> None:
    assert 'no run of the experiment "t"' in versions.abreast("history", "t").err
    assert versions.abreast("tag", "latest", "x", "--remove").code == 2
    assert versions.abreast("tag", "nobody", "x").code == 2
    versions.write(
        "other.yaml", json.dumps({"name": "o", "cases": "cases.jsonl", "target": "simulated", "variants": {"a": {}}})
    )
    versions.abreast("run", "other.yaml", "--quiet")
    assert "several experiments: s, o" in versions.abreast("history").err
    assert "o: no labelled run" in versions.abreast("history", "o").err


def test_history_shows_where_no_comparison_was_possible(versions: Folder) -> None:
    """The last run is repeated: all its answers are reused."""
    versions.abreast("run", "spec.yaml", "--quiet", "--seed", "2", "--label", "e1.1.1")
    rows = versions.abreast("history", "--variant", "b", "--json").json
    assert [(row["label"], row["verdict"], row["cases"], row["points"]) for row in rows[2:]] == [
        ("e1.1.1", "no comparison", 0, None)
    ]
    assert "no comparison" in versions.abreast("history").out
