"""Agents that write outside their workspace: harmful changes are noticed, and a sandbox prevents them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from abreast.targets.workspace import outside_changes
from clis import bubblewrap_folder
from conftest import Done, Folder
from repositories import Project

MARK = "files outside of the workspace changed while"


def run(folder: Folder, agents: dict[str, str], *words: str, workspace: Any = "empty", **params: Any) -> Done:
    spec = {
        "cases": [{"id": "one", "input": "work"}],
        "target": "command",
        "params": {"workspace": workspace, **params},
        "variants": {name: {"command": f"{command}; echo done", "shell": True} for name, command in agents.items()},
        "scorers": ["success"],
    }
    folder.write("spec.yaml", json.dumps(spec))
    done = folder.abreast("run", "spec.yaml", *words)
    assert done.code == 0, done.output
    return done


def changes(folder: Folder) -> dict[str, tuple[int | None, list[str]]]:
    """The outside changes by agent: their number and paths relative to the folder of the spec."""
    rows = folder.sql("select * from predictions where run = (select run from runs order by run_id desc limit 1)")
    changes_by_agent = {}
    for row in rows:
        files = [str(Path(name).relative_to(folder.path)) for name in json.loads(row.get(LIST) or "[]")]
        changes_by_agent[row["variant"]] = (row.get("outside_changes"), files)
    return changes_by_agent


LIST = "outside_files_changed"


def test_agent_changes_in_the_folder_of_the_spec_are_shown_but_not_those_of_the_run_itself(folder: Folder) -> None:
    folder.write("notes/old.txt", "old")
    folder.write("notes/gone.txt", "gone")
    writes = "cd $ABREAST_FOLDER; echo x > new.txt; echo x >> notes/old.txt; rm notes/gone.txt"
    done = run(folder, {"good": "echo x > inside.txt", "writes": writes})
    assert changes(folder) == {"good": (0, []), "writes": (3, ["new.txt", "notes/gone.txt", "notes/old.txt"])}
    assert f"{MARK} writes was working in 1 of 1 trial: one (" in " ".join(done.out.split())
    assert f"{MARK} good" not in done.out
    assert "files changed outside the workspace: " in folder.abreast("show", "latest", "one").out
    assert MARK in folder.abreast("report", "--format", "markdown").out
    (flag,) = json.loads(folder.abreast("report", "--format", "json").out)["flags"]
    assert (flag["variant"], len(flag["outside_changes"]), flag["tests_changed"]) == ("writes", 3, [])
    run(folder, {"good": "echo y > inside.txt"}, "--repeats", "3")
    assert changes(folder) == {"good": (0, [])}, "what was changed before, and stores and reports, do not count"


@pytest.mark.parametrize("is_watched", [True, False])
def test_changes_are_found_with_and_without_a_watch(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, is_watched: bool
) -> None:
    """Also in folders created by a trial and with two trials in flight, but not for trials that begin later."""
    if not is_watched:
        monkeypatch.setattr(outside_changes, "_new_watch", lambda: None)
    folder.write("notes/deep/old.txt", "old")
    folder.write("notes/deep/moved.txt", "old")
    agents = {
        "waits": "until test -e $ABREAST_FOLDER/a/b/c.txt; do sleep 0.01; done",
        "writes": "cd $ABREAST_FOLDER; mkdir -p a/b; sleep 0.1; echo x > a/b/c.txt; : > notes/deep/old.txt; "
        "mv notes/deep notes/other",
    }
    run(folder, agents, "--parallel", "2")
    written, deleted = ["a/b/c.txt", "notes/other/old.txt"], ["notes/deep/moved.txt", "notes/deep/old.txt"]
    assert changes(folder)["writes"][1] == sorted([*written, *deleted])
    assert "a/b/c.txt" in changes(folder)["waits"][1]
    later = {"later": "echo y > inside.txt", "writes": "echo z >> $ABREAST_FOLDER/a/b/c.txt"}
    run(folder, later, "--repeats", "2")
    rows = folder.sql("select * from predictions where run = (select run from runs order by run_id desc limit 1)")
    assert {(row["variant"], row["outside_changes"]) for row in rows} == {("later", 0), ("writes", 1)}


def test_writes_of_the_run_and_its_pipeline_do_not_count(folder: Folder) -> None:
    spec = {
        "cases": [{"id": name, "input": name} for name in "abc"],
        "target": "command",
        "variants": {"slow": {"command": "sleep 0.2; echo done", "shell": True}},
        "scorers": ["success"],
    }
    folder.write("spec.yaml", json.dumps(spec))
    command = f"{sys.executable} -m abreast run spec.yaml --verbose --events events.jsonl 2>&1 | tee log.txt"
    subprocess.run(["/bin/sh", "-c", command], cwd=folder.path, check=True, capture_output=True)
    assert (folder.path / "log.txt").stat().st_size > 0
    assert (folder.path / "events.jsonl").stat().st_size > 0
    assert changes(folder) == {"slow": (0, [])}


def test_changes_in_the_source_repository_of_workspaces_are_noticed(
    folder: Folder, tmp_path_factory: pytest.TempPathFactory
) -> None:
    project = Project(tmp_path_factory.mktemp("elsewhere") / "project")
    project.put("app.py", "pass\n")
    project.commit("Begin")
    where = f"cd {project.path}"
    agents = {
        "looks": f"{where}; git status; git log",
        "edits": f"{where}; echo x > app.py",
        "commits": f"{where}; git -c user.name=a -c user.email=a@b commit -q --allow-empty -m mine",
        "hooks": f"{where}; mkdir -p .git/hooks; echo x > .git/hooks/pre-commit",
    }
    run(folder, agents, "--parallel", "1", workspace={"git": str(project.path), "commit": "HEAD"})
    rows = folder.sql(f"select variant, outside_changes, {LIST} from predictions")
    files = {row["variant"]: json.loads(row[LIST] or "[]") for row in rows}
    changed = {agent: [name.removeprefix(f"{project.path}/") for name in names] for agent, names in files.items()}
    assert changed == {
        "looks": [],
        "edits": ["app.py"],
        "commits": [".git/refs/heads/main"],
        "hooks": [".git/hooks/pre-commit"],
    }


def test_a_sandbox_prevents_outside_changes(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{bubblewrap_folder()}{os.pathsep}{os.environ['PATH']}")
    done = run(folder, {"writes": "echo x > $ABREAST_FOLDER/new.txt"}, sandbox="bubblewrap")
    assert changes(folder) == {"writes": (None, [])}, "outside changes are not observed"
    assert not (folder.path / "new.txt").exists()
    assert MARK not in done.out


def test_a_folder_that_is_too_large_is_not_observed_and_the_check_says_so(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outside_changes, "MAX_ENTRIES", 10)
    for number in range(11):
        folder.write(f"data/{number}.txt", "x")
    done = run(folder, {"writes": "echo x > $ABREAST_FOLDER/new.txt"})
    assert changes(folder) == {"writes": (None, [])}
    assert "has more than 10 files: changes by agents are not noticed there" in done.err


def test_a_home_folder_is_not_observed(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents keep their settings and caches there."""
    monkeypatch.setenv("HOME", str(folder.path))
    run(folder, {"writes": "echo x > $HOME/.cache-of-mine"})
    assert changes(folder) == {"writes": (None, [])}


def test_the_results_of_the_suite_count_outside_changes(folder: Folder) -> None:
    folder.write("prompts/one.md", "work")
    agents = {"good": "echo x > a.txt", "writes": "echo x > $ABREAST_FOLDER/new.txt; echo x > a.txt"}
    own = {name: {"commandTemplate": command} for name, command in agents.items()}
    settings = {"agents": list(agents), "agent_config": own, "output_filename": "bench", "parallel_agents": False}
    folder.write("settings.json", json.dumps(settings))
    done = folder.abreast("run", "settings.json")
    assert done.code == 0, done.output
    assert "files changed outside" in done.out
    results = json.loads((folder.path / "bench.json").read_text())["results"]
    assert {result["assistant"]: result["runs"][0]["outside_changes"] for result in results} == {"good": 0, "writes": 1}
