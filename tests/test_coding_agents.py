"""The suite `coding-agents` at work: agents of known skill, real CLIs, and agents that misbehave."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from conftest import Folder

RUN = f"{sys.executable} $ABREAST_FOLDER/agent.py"


def write(folder: Folder, agents: dict[str, Any], prompts: dict[str, str], **more: Any) -> None:
    """Write a settings file and its prompts; an agent is a command or its full configuration."""
    for name, text in prompts.items():
        folder.write(name, text)
    own = {name: {"commandTemplate": agent} if isinstance(agent, str) else agent for name, agent in agents.items()}
    content = {"prompts": list(prompts), "agents": list(agents), "agent_config": own, **more}
    folder.write("settings.json", json.dumps(content, indent=2))


def run(folder: Folder, *words: str, code: int = 0) -> str:
    done = folder.abreast("run", "settings.json", *words)
    assert done.code == code, done.output
    return done.output


SKILL = """\
task=$(cat {{prompt}}); number=${{task##*-}}
if [ $((number % {every})) {solves} 3 ]; then echo "$task" > answer.txt; else echo wrong > answer.txt; fi
"""


def test_agents_of_known_skill_get_the_right_verdict(folder: Folder) -> None:
    """One agent solves all tasks except every tenth, one only every fifth, and one the same as the first."""
    good = SKILL.format(every=10, solves="-ne")
    agents = {"good": good, "poor": SKILL.format(every=5, solves="-eq"), "twin": f"{good} "}
    tasks = {f"prompts/task-{n}.md": f"write word-{n}" for n in range(20)}
    write(folder, agents, tasks, check="grep -q word answer.txt", parallel_runs=2)
    output = run(folder)
    assert "poor is worse than good" in output
    assert "twin vs good" in output
    assert "twin is worse than good" not in output
    assert "twin is better than good" not in output
    scores = folder.sql("select variant, sum(score) as solved, count(*) as n from predictions group by variant")
    assert {row["variant"]: (row["solved"], row["n"]) for row in scores} == {
        "good": (18, 20),
        "poor": (4, 20),
        "twin": (18, 20),
    }


def test_six_runs_that_end_at_the_same_moment_are_all_stored(folder: Folder) -> None:
    """The runs wait for each other, as far as the machine can run them in parallel."""
    meet = folder.path / "meet"
    meet.mkdir()
    folder.write(
        "agent.py",
        f"""
        import os, pathlib, time, uuid
        meet = pathlib.Path({str(meet)!r})
        mine = uuid.uuid4().hex
        (meet / mine).touch()
        late = min(file.stat().st_mtime for file in meet.iterdir()) + 5
        while len(list(meet.iterdir())) < 6 and time.time() < late:
            time.sleep(0.01)
        pathlib.Path("mine.txt").write_text(mine)
        print(mine)
        """,
    )
    write(folder, {"a": RUN, "b": RUN}, {"prompt1.md": "meet"}, runs_per_prompt=3, parallel_runs=3)
    run(folder, code=0)
    rows = folder.sql("select answer, files_changed, lines_added from predictions")
    assert len({row["answer"] for row in rows}) == 6
    assert {path.name for path in meet.iterdir()} == {row["answer"] for row in rows}
    assert {(row["files_changed"], row["lines_added"]) for row in rows} == {(1, 1)}


def test_fifty_megabytes_of_output_are_an_ordinary_answer(folder: Folder) -> None:
    folder.write(
        "agent.py",
        """
        import sys
        for number in range(500):
            sys.stdout.write(f"{number:07} " + "x" * 99_991 + "\\n")
        sys.stderr.write("e" * 5_000_000 + "the end\\n")
        """,
    )
    write(folder, {"loud": RUN, "quiet": "echo hello"}, {"prompt1.md": "speak"})
    run(folder)
    (loud,) = folder.sql("select answer, exit_code, status from predictions where variant = 'loud'")
    assert (loud["status"], loud["exit_code"]) == ("ok", 0)
    assert loud["answer"].startswith("0000000 x")
    assert "0000499 " in loud["answer"][-200_000:]
    assert 49_900_000 < len(loud["answer"]) < 50_000_000
    (errors,) = folder.sql("select content from artifacts where name = 'stderr'")
    assert errors["content"].rstrip().endswith("the end")
    assert len(errors["content"]) < 10_000


def processes_with(mark: str) -> list[psutil.Process]:
    """Processes that have the mark in their command line."""
    processes = []
    for process in psutil.process_iter(["cmdline"]):
        if any(mark in word for word in process.info["cmdline"] or ()) and process.pid != os.getpid():
            processes.append(process)
    return processes


@pytest.mark.parametrize("ends", ["by itself", "over its time"])
def test_a_daemon_does_not_outlive_its_run(folder: Folder, ends: str) -> None:
    """The daemon leaves the session, forks twice and closes its files, as daemons do."""
    mark = f"a-daemon-of-a-coding-agent-{ends.replace(' ', '-')}"
    folder.write(
        "agent.py",
        f"""
        import os, subprocess, sys, time
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.closerange(0, 100)
                os.execv(sys.executable, [sys.executable, "-c", "import time; '{mark}'; time.sleep(600)"])
            os._exit(0)
        print("started", flush=True)
        time.sleep(0.2 if {ends!r} == "by itself" else 600)
        """,
    )
    agents = {"forks": {"commandTemplate": RUN, "timeout": 1500}, "other": "echo fine"}
    write(folder, agents, {"prompt1.md": "fork"})
    run(folder, code=0 if ends == "by itself" else 1)
    (row,) = folder.sql("select status, error_kind, answer from predictions where variant = 'forks'")
    assert row["status"] == ("ok" if ends == "by itself" else "error")
    assert processes_with(mark) == []


def test_an_agent_that_deletes_its_working_folder_deletes_only_its_copy(folder: Folder) -> None:
    folder.write("project/keep.txt", "kept\n")
    folder.write("agent.py", "import os, shutil; shutil.rmtree(os.getcwd()); print('gone')\n")
    agents = {"vandal": RUN, "good": "echo more >> keep.txt; echo done"}
    write(folder, agents, {"prompt1.md": "work"}, repo_path="project", runs_per_prompt=2)
    run(folder)
    rows = folder.sql("select variant, status, files_changed, lines_added, lines_deleted from predictions")
    assert [row for row in rows if row["status"] != "ok"] == []
    changes = {(row["variant"], row["files_changed"], row["lines_added"], row["lines_deleted"]) for row in rows}
    assert changes == {("vandal", 1, 0, 1), ("good", 1, 1, 0)}
    assert (folder.path / "project/keep.txt").read_text() == "kept\n"


def test_no_run_sees_what_another_left(folder: Folder) -> None:
    """Each run prints what it finds and leaves a file that the next could find."""
    folder.write("project/start.txt", "start\n")
    folder.write("agent.py", "import os; print(sorted(os.listdir())); open(f'{os.getpid()}.txt', 'w').write('x')\n")
    write(folder, {"a": RUN, "b": RUN}, {"1.md": "one", "2.md": "two"}, repo_path="project", runs_per_prompt=3)
    run(folder)
    assert folder.sql("select answer, count(*) as n from predictions group by answer") == [
        {"answer": "['start.txt']", "n": 12}
    ]


def test_runs_failed_by_infrastructure_are_retried_on_a_clean_tree(folder: Folder) -> None:
    """A preset hits a rate limit first; files it had written by then are gone on the second attempt."""
    fake = folder.write(
        "bin/codex",
        f"""\
        #!{sys.executable}
        import json, os, pathlib, sys
        if "--version" in sys.argv:
            print("codex-cli 9.9.9")
            raise SystemExit
        tried = pathlib.Path({str(folder.path)!r}) / "tried"
        found = sorted(os.listdir())
        open("half-done.txt", "w").write("x")
        if not tried.exists():
            tried.touch()
            print(json.dumps({{"type": "error", "message": "stream error: 429 Too Many Requests"}}))
            print(json.dumps({{"type": "turn.failed", "error": {{"message": "429 Too Many Requests"}}}}))
            raise SystemExit(1)
        print(json.dumps({{"type": "item.completed", "item": {{"type": "agent_message", "text": str(found)}}}}))
        print(json.dumps({{"type": "turn.completed", "usage": {{"input_tokens": 5, "output_tokens": 2}}}}))
        """,
    )
    fake.chmod(0o755)
    folder._monkeypatch.setenv("PATH", f"{fake.parent}{os.pathsep}{os.environ['PATH']}")
    folder.write("project/start.txt", "start\n")
    write(folder, {"Codex CLI": {}}, {"prompt1.md": "work"}, repo_path="project")
    run(folder)
    (row,) = folder.sql("select status, answer, files_changed, attempts, input_tokens from predictions")
    assert row == {"status": "ok", "answer": "['start.txt']", "files_changed": 1, "attempts": 2, "input_tokens": 5}


def test_the_resource_usage_of_a_run_is_stored(folder: Folder) -> None:
    folder.write(
        "agent.py",
        """
        import sys, time
        block = bytearray(80_000_000)
        begin = time.process_time()
        while time.process_time() - begin < 0.3:
            sum(range(1000))
        print("done"); print("careful", file=sys.stderr)
        """,
    )
    write(folder, {"busy": RUN, "fails": "echo half; echo why >&2; exit 3"}, {"prompt1.md": "work"})
    run(folder, code=1)
    rows = {row["variant"]: row for row in folder.sql("select * from predictions")}
    busy, fails = rows["busy"], rows["fails"]
    assert busy["exit_code"] == 0
    assert busy["cpu_s"] >= 0.3
    assert busy["peak_memory_mb"] >= 80
    assert busy["latency_s"] >= 0.3
    assert (fails["exit_code"], fails["error_kind"], fails["error_blame"]) == (3, "crash", "variant")
    assert "why" in fails["error"]
    assert {"content": "careful"} in folder.sql("select content from artifacts where name = 'stderr'")


def test_agents_can_run_one_at_a_time_and_the_report_says_so(folder: Folder) -> None:
    """Each run logs its begin and end: never two agents at once, and a separate order for each prompt."""
    notes = folder.path / "notes.txt"
    folder.write(
        "agent.py",
        f"""
        import sys, time, os
        def note(what):
            with open({str(notes)!r}, "a") as file:
                file.write(f"{{sys.argv[1]}} {{what}}\\n")
        note("begin"); time.sleep(0.05); note("end"); print("done")
        """,
    )
    agents = {name: f"{RUN} {name}" for name in ("a", "b", "c")}
    prompts = {f"{n}.md": f"task {n}" for n in range(6)}
    write(folder, agents, prompts, parallel_agents=False, parallel_runs=2, runs_per_prompt=2)
    output = run(folder)
    assert "not interleaved" in output
    active: list[str] = []
    turns: list[str] = []
    for line in notes.read_text().splitlines():
        name, event = line.split()
        if event == "begin":
            active.append(name)
            turns += [name] if not turns or turns[-1] != name or active == [name] else []
        else:
            active.remove(name)
        assert len(set(active)) <= 1, "one agent at a time"
        assert len(active) <= 2, "at most two runs of it"
    orders = {tuple(dict.fromkeys(line.split()[0] for line in part)) for part in _by_prompt(notes)}
    assert len(orders) > 1, "in another order for another prompt"


def _by_prompt(notes: Path) -> list[list[str]]:
    lines = notes.read_text().splitlines()
    return [lines[at : at + 12] for at in range(0, len(lines), 12)]


def test_parallel_agents_run_at_most_the_given_number_of_runs_each(folder: Folder) -> None:
    notes = folder.path / "notes.txt"
    folder.write(
        "agent.py",
        f"""
        import sys, time
        for what in ("begin", "end"):
            with open({str(notes)!r}, "a") as file:
                file.write(f"{{sys.argv[1]}} {{what}}\\n")
            time.sleep(0.1 if what == "begin" else 0)
        print("done")
        """,
    )
    agents = {name: f"{RUN} {name}" for name in ("a", "b")}
    write(folder, agents, {f"{n}.md": f"task {n}" for n in range(4)}, parallel_runs=2, runs_per_prompt=2)
    assert "in flight: 4 requested" in run(folder)
    now = {"a": 0, "b": 0}
    for line in notes.read_text().splitlines():
        name, action = line.split()
        now[name] += 1 if action == "begin" else -1
        assert now[name] <= 2
    (event,) = folder.sql("select detail from events where kind = 'in_flight'")
    assert json.loads(event["detail"])["asked"] == 4
