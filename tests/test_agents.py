"""Guarantees that apply to every agent program."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from abreast.targets.agents.agent import Agent
from abreast.targets.workspace import Workspace, Workspaces
from conftest import Done, Folder

SAY = "import os, sys\nprint(os.environ.get('WHO', ''), *sys.argv[1:])\n"


def run(folder: Folder, variant: dict[str, Any], *words: str, **spec: Any) -> Done:
    content = {
        "name": "agents",
        "cases": [{"id": "a", "input": "Hello", "expected": "4"}],
        "variants": {"only": {"target": "command", **variant}},
        "scorers": ["exact"],
        **spec,
    }
    folder.write("experiment.yaml", yaml.safe_dump(content, sort_keys=False))
    return folder.abreast("run", "experiment.yaml", *words)


def row(folder: Folder) -> dict[str, Any]:
    (actual,) = folder.sql("select * from predictions where run = (select run from runs order by run_id desc limit 1)")
    return actual


def test_another_value_of_a_variable_is_not_reused(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.write("say.py", SAY)
    variant = {"command": ["python", "{folder}/say.py"], "env": {"WHO": "${SOMEBODY}"}}
    for name in ("ann", "bob", "bob"):
        monkeypatch.setenv("SOMEBODY", name)
        assert run(folder, variant).code == 0
        assert row(folder)["answer"] == name
    reused = folder.sql("select count(reused_from) n from trials group by run_id")
    assert [counts["n"] for counts in reused] == [0, 0, 1]


def test_changed_content_of_a_file_in_an_argument_is_not_reused(folder: Folder) -> None:
    folder.write("say.py", SAY)
    for content in ("one", "two", "two"):
        folder.write("settings.toml", content)
        assert run(folder, {"command": ["python", "{folder}/say.py", "--config={folder}/settings.toml"]}).code == 0
    reused = folder.sql("select count(reused_from) n from trials group by run_id")
    assert [counts["n"] for counts in reused] == [0, 0, 1]


def test_set_up_and_clean_up_do_not_count_as_trial_time(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    make, clean = Workspaces.make, Agent._clean

    def slow_disk(self: Workspaces, *words: Any) -> Workspace:
        time.sleep(1.2)
        return make(self, *words)

    def slow_removal(self: Agent, *args: Any, **kwargs: Any) -> None:
        time.sleep(1.2)
        clean(self, *args, **kwargs)

    monkeypatch.setattr(Workspaces, "make", slow_disk)
    monkeypatch.setattr(Agent, "_clean", slow_removal)
    done = run(folder, {"command": ["echo", "4"]}, limits={"timeout": 1.0})
    assert done.code == 0, done.err
    trial = row(folder)
    assert (trial["status"], trial["answer"]) == ("ok", "4")
    assert trial["service_s"] < 1.0
    assert trial["queue_s"] >= 1.2


def test_the_workspace_of_a_trial_that_times_out_is_removed(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ABREAST_WORKSPACES", str(tmp_path / "spaces"))
    run(folder, {"command": ["sleep", "60"]}, limits={"timeout": 0.5})
    assert row(folder)["error_kind"] == "timeout"
    assert list((tmp_path / "spaces").rglob("*")) == []


@pytest.mark.parametrize("shape", ["{}", "line one of it 12345\\n{}\\nline three 12345"])
def test_keys_that_an_agent_can_read_are_stored_nowhere(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, shape: str
) -> None:
    key = "s3cret-0123456789-abcdefghijklmnop"
    monkeypatch.setenv("MY_API_KEY", shape.format(key).replace("\\n", "\n"))
    folder.write(
        "tell.py",
        """
        import json, os, sys
        key = os.environ["MY_API_KEY"]
        open("key.txt", "w").write(key)
        print(json.dumps({"answer": key}))
        sys.stderr.write("x" * 470 + key)
        sys.exit(int(sys.argv[1]))
        """,
    )
    for code in ("0", "3"):
        run(folder, {"command": ["python", "{folder}/tell.py", code], "output": "json", "answer": "answer"})
        assert folder.sql("select count(*) n from artifacts where name = 'diff'")[0]["n"] > 0
    stored_bytes = b"".join(file.read_bytes() for file in folder.path.rglob("*") if file.is_file())
    assert key.encode() not in stored_bytes
    assert key[:20].encode() not in stored_bytes


def test_a_word_that_is_also_a_password_is_an_answer(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DB_PASSWORD", "password")
    run(folder, {"command": ["echo", "password"]}, cases=[{"id": "a", "input": "?", "expected": "password"}])
    assert row(folder)["score"] == 1.0


def test_a_first_case_that_is_too_hard_does_not_refuse_the_run(folder: Folder) -> None:
    cases = [{"id": "hard", "input": "sleep 60", "expected": "4"}, {"id": "easy", "input": "echo 4", "expected": "4"}]
    variant = {"command": "sh $ABREAST_PROMPT_FILE", "shell": True, "warmup": True}
    done = run(folder, variant, cases=cases, limits={"timeout": 1.0})
    assert done.code == 0, done.err
    rows = folder.sql("select case_id, status from predictions order by 1")
    assert rows == [{"case_id": "easy", "status": "ok"}, {"case_id": "hard", "status": "error"}]
