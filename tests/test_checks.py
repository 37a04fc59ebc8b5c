"""Checks: commands that run in the workspace of a trial after its agent has ended, and how they are scored."""

from __future__ import annotations

import json
import signal
from typing import Any

import psutil
import pytest

from conftest import Done, Folder
from test_durability import ended, until

AGENT = """\
import pathlib, sys
how = sys.argv[1]
sys.stdin.read()
if how != "idle":
    pathlib.Path("value.txt").write_text("right" if how == "right" else "wrong")
print("done")
"""
TEST = """\
import os, pathlib, sys
with open(os.environ["COUNTED"], "a") as file:
    file.write(os.getcwd() + "\\n")
told = pathlib.Path("value.txt").read_text().strip()
print("value is", told, "in", os.path.abspath("value.txt"))
print("keys:", sorted(name for name in os.environ if "KEY" in name))
sys.exit(0 if told == "right" else 3)
"""


@pytest.fixture
def project(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> Folder:
    folder.write("agent.py", AGENT)
    folder.write("project/value.txt", "unset\n")
    folder.write("project/check.py", TEST)
    monkeypatch.setenv("COUNTED", str(folder.path / "counted.txt"))
    return folder


def run(folder: Folder, tests: dict[str, Any], *words: str, **more: Any) -> Done:
    spec = {
        "cases": [{"id": "one", "input": "Set the value."}],
        "target": "command",
        "params": {"workspace": {"copy": "project"}},
        "variants": {how: {"command": ["python3", "{folder}/agent.py", how]} for how in ("idle", "wrong", "right")},
        "scorers": [{"tests": {"command": "python3 check.py", **tests}}],
        **more,
    }
    folder.write("spec.yaml", json.dumps(spec))
    return folder.abreast("run", "spec.yaml", *words)


def scores(folder: Folder) -> dict[str, tuple[Any, str]]:
    query = (
        "select v.name, s.value, s.explanation from scores s join trials t using (run_id, position) "
        "join variants v on v.run_id = t.run_id and v.variant = t.variant "
        "where s.run_id = (select max(run_id) from runs)"
    )
    return {row["name"]: (row["value"], row["explanation"]) for row in folder.sql(query)}


def check_runs(folder: Folder) -> int:
    return len((folder.path / "counted.txt").read_text().splitlines())


def test_an_agent_is_right_if_the_tests_pass_in_what_it_left(project: Folder) -> None:
    done = run(project, {})
    assert done.code == 0, done.err
    outcomes = scores(project)
    assert {name: value for name, (value, _) in outcomes.items()} == {"idle": 0, "wrong": 0, "right": 1}
    assert outcomes["wrong"][1].startswith("exit code 3")
    details = project.abreast("show", "latest", "one").out
    assert "score_tests: 0 exit code 3: " in details, "and why"
    (artifact,) = project.sql("select distinct content from artifacts where content like 'value is wrong%'")
    assert artifact["content"].startswith("value is wrong in value.txt\n"), "the folder is gone tomorrow"
    assert "expected" not in details, "nothing was"
    (output,) = project.sql("select content from artifacts where name = 'tests' and content like '%value is right%'")
    assert "value is right" in output["content"]
    assert project.sql("select files_changed n from predictions where variant = 'right'")[0]["n"] == 1


def test_tests_that_pass_before_any_change_give_no_score_and_the_start_is_tried_once(project: Folder) -> None:
    assert run(project, {"fails_before": True}).code == 0
    assert {name: value for name, (value, _) in scores(project).items()} == {"idle": 0, "wrong": 0, "right": 1}
    assert check_runs(project) == 3 + 1, "once for all variants that begin with it"
    project.write("project/value.txt", "right\n")
    done = run(project, {"fails_before": True})
    assert done.code == 1
    assert "no answer could be scored: succeeds without any change, so it measures nothing" in done.err
    assert "help: run `abreast show " in done.err
    assert "--fresh" in done.err, "the folder where it was decided is gone"
    assert "no case has a score of both" in done.out
    assert set(scores(project).values()) == {
        (None, "succeeds without any change, so it measures nothing: exit code 0: keys: []")
    }


def test_tests_that_take_too_long_are_ended_and_the_agent_failed_them(project: Folder) -> None:
    project.write("project/check.py", "import time\nprint('begun', flush=True)\ntime.sleep(600)\n")
    assert run(project, {"timeout": 1}, "--variant", "right").code == 0
    assert scores(project) == {"right": (0, "took longer than 1 s")}


def test_the_time_of_tests_does_not_count_as_time_of_the_agent(
    project: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent that ended in time does not time out because of its tests."""
    monkeypatch.setattr("abreast.execute.engine.local.STARTUP_S", 0.5)
    slow = {"command": "python3 -c 'import time; time.sleep(1.5)'"}
    done = run(project, slow, "--variant", "right", limits={"timeout": 1})
    assert done.code == 0, done.output
    assert scores(project) == {"right": (1, "exit code 0")}
    (row,) = project.sql("select status, service_s from predictions")
    assert row["status"] == "ok"
    assert row["service_s"] < 1


def test_ctrl_c_while_the_start_is_tried_ends_the_run_and_leaves_nothing(project: Folder) -> None:
    """The run of the check that all trials share does not delay the end."""
    assert run(project, {"fails_before": True}).code == 0, "otherwise the first run would try it earlier"
    (project.path / "counted.txt").unlink()
    project.write("project/check.py", "import os, time\nopen(os.environ['COUNTED'], 'w')\ntime.sleep(600)\n")
    assert run(project, {"fails_before": True}, "--dry-run").code == 0
    process = project.start("run", "spec.yaml")
    until(lambda: (project.path / "counted.txt").exists(), "the start is tried", process)
    process.send_signal(signal.SIGINT)
    until(lambda: project.sql("select 1 from events where kind = 'stop'"), "the first Ctrl-C is heard", process)
    process.send_signal(signal.SIGINT)
    done = ended(process)
    assert done.code == 130, done.output
    assert "help: to continue, run `abreast resume" in done.output


def test_ctrl_c_while_tests_are_tried_before_the_first_run_ends_all_processes(project: Folder) -> None:
    mark = "a-check-that-is-tried-before-a-first-run"
    project.write("project/check.py", f"import os, time\nopen(os.environ['COUNTED'], 'w')\n'{mark}'\ntime.sleep(600)\n")
    spec = {"command": ["python3", "-c", f"exec(open('check.py').read()) # {mark}"], "fails_before": True}
    assert run(project, spec, "--dry-run").code == 0
    process = project.start("run", "spec.yaml")
    until(lambda: (project.path / "counted.txt").exists(), "it is tried", process)
    process.send_signal(signal.SIGINT)
    assert ended(process).code == 130
    alive = [
        process
        for process in psutil.process_iter(["cmdline"])
        if any(mark in word for word in process.info["cmdline"] or ())
    ]
    assert alive == []


def test_code_written_by_a_model_sees_no_keys(project: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-0123456789abcdef")
    assert run(project, {}, "--variant", "right").code == 0
    (output,) = project.sql("select content from artifacts where name = 'tests'")
    assert "keys: []" in output["content"]


def test_a_shell_is_used_only_on_request(project: Folder) -> None:
    assert run(project, {"command": "test -f value.txt && exit 7", "shell": True}, "--variant", "right").code == 0
    assert scores(project)["right"] == (0, "exit code 7")
    assert run(project, {"command": "test -f value.txt && exit 7"}, "--variant", "right").code == 0
    assert scores(project)["right"][0] == 0, "test got more words than it takes"


def test_answers_are_reused_while_the_check_is_the_same(project: Folder) -> None:
    assert run(project, {}, "--json").json[0]["executed"] == 3
    assert run(project, {}, "--json").json[0]["executed"] == 0
    assert run(project, {"timeout": 30}, "--json").json[0]["executed"] == 3
    assert check_runs(project) == 6


@pytest.mark.parametrize(
    ("tests", "more", "code", "message"),
    [
        ({"command": None}, {}, 2, "command must be a string or a list of strings, got None"),
        ({}, {"scorers": ["tests"]}, 2, "command is missing"),
        ({"command": ""}, {}, 2, "command"),
        ({"command": []}, {}, 2, "command"),
        ({"command": "a 'b"}, {}, 2, "no closing quotation"),
        ({"command": ["a"], "shell": True}, {}, 2, "with shell: true, command must be a string"),
        ({"timeout": 0}, {}, 2, "seconds above 0"),
        ({"fails_before": "yes"}, {}, 2, "true or false"),
        ({"command": "no-such-program-anywhere"}, {}, 4, "program no-such-program-anywhere not found"),
        ({}, {"target": "simulated", "params": {}, "variants": {"a": {}}}, 2, "has no workspace"),
    ],
)
def test_a_check_that_cannot_be_run_is_refused(
    project: Folder, tests: dict[str, Any], more: dict[str, Any], code: int, message: str
) -> None:
    done = run(project, tests, **more)
    assert done.code == code, done.err
    assert message in done.err


def test_a_program_missing_from_the_workspace_is_not_the_failure_of_the_agent(project: Folder) -> None:
    done = run(project, {"command": "./missing"}, "--variant", "right")
    assert done.code == 1
    assert scores(project)["right"][0] is None
    assert "could not be run" in scores(project)["right"][1]
