"""Processes started by a trial end with the trial, and those started by a command end with the command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from conftest import ABREAST, Folder

PYTHON = f"#!{sys.executable}\n"


def agent(folder: Folder, content: str, name: str = "agent") -> None:
    """Write a program next to the spec, in Python."""
    folder.write(name, PYTHON + textwrap.dedent(content)).chmod(0o755)


def write_spec(folder: Folder, variant: dict[str, Any], cases: int = 1, **limits: Any) -> None:
    spec = {
        "cases": [{"id": f"c{n}", "input": "?", "expected": "yes"} for n in range(cases)],
        "variants": {"v": {"target": "command", "command": ["agent"], **variant}},
        "scorers": ["exact"],
        "limits": {"retries": 0, **limits},
    }
    folder.write("spec.json", json.dumps(spec))


def wait_until(holds: Callable[[], Any], condition: str, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"waited in vain: {condition}"
        time.sleep(0.01)


def running(marker: Path) -> list[int]:
    """The processes listed in a marker file, one id per line, that still run."""
    ids = [int(line) for line in marker.read_text().split()] if marker.exists() else []
    return [pid for pid in ids if psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE]


# -- a terminal that closes --------------------------------------------------------------------------------------------

WAITING = """
    import os, pathlib, time
    with open({marker!r}, "a") as file:
        print(os.getpid(), file=file)
    time.sleep(600)
"""


def test_closing_the_terminal_stops_the_run_and_its_agents(folder: Folder) -> None:
    marker = folder.path / "agents.txt"
    agent(folder, WAITING.format(marker=str(marker)))
    write_spec(folder, {}, cases=4)
    ours, theirs = os.openpty()
    command = [*ABREAST, "run", "spec.json", "--parallel", "2", "--events", "events.jsonl"]
    process = subprocess.Popen(command, cwd=folder.path, preexec_fn=lambda: os.login_tty(theirs))
    os.close(theirs)
    wait_until(lambda: len(running(marker)) == 2, "two agents at work")
    os.close(ours)
    wait_until(lambda: '"interrupted"' in (folder.path / "events.jsonl").read_text(), "the run has noticed")
    process.send_signal(signal.SIGHUP)  # the second one: agents are not waited for
    assert process.wait(30) == 130
    assert running(marker) == []
    (run,) = folder.abreast("runs", "--json").json
    assert (run["status"], run["reason"]) == ("incomplete", "interrupted")
    rows = folder.sql("select status from predictions")
    assert rows == [{"status": "cancelled"}] * 2


def test_nohup_keeps_a_run_going_when_the_terminal_closes(folder: Folder) -> None:
    marker = folder.path / "agents.txt"
    agent(folder, WAITING.format(marker=str(marker)).replace("time.sleep(600)", "print(input()) or time.sleep(1)"))
    write_spec(folder, {"stdin": "prompt"})
    process = subprocess.Popen(["nohup", *ABREAST, "run", "spec.json", "--quiet"], cwd=folder.path)
    wait_until(marker.exists, "an agent at work")
    process.send_signal(signal.SIGHUP)
    assert process.wait(30) == 0
    assert folder.sql("select status from predictions") == [{"status": "ok"}]


def test_a_hang_up_before_the_first_trial_leaves_nothing_behind(folder: Folder) -> None:
    """Tests that a check tries before the run are processes, too."""
    marker = folder.path / "tests.txt"
    agent(folder, "print('yes')")
    agent(folder, WAITING.format(marker=str(marker)), "slow-test")
    write_spec(folder, {})
    spec = json.loads((folder.path / "spec.json").read_text())
    check = {"tests": {"command": ["{folder}/slow-test"], "fails_before": True}}
    folder.write("spec.json", json.dumps({**spec, "scorers": [check]}))
    process = folder.start("check", "spec.json", "--try-tests")
    wait_until(lambda: running(marker), "a test that is tried out")
    process.send_signal(signal.SIGHUP)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (130, "interrupted\n"), out
    wait_until(lambda: running(marker) == [], "the test has ended", 5)


# -- daemons -----------------------------------------------------------------------------------------------------------

LIBRARY = """
    import os, signal, sys, time

    MARKER = {marker!r}

    def note():
        with open(MARKER, "a") as file:
            print(os.getpid(), file=file)

    def wait_for_daemon():
        while not os.path.exists(MARKER) or not os.path.getsize(MARKER):
            time.sleep(0.001)

    def detach():
        "Become a daemon without a trace: another session, another parent, nothing in the environment."
        if os.fork():
            return False
        os.setsid()
        if os.fork():
            os._exit(0)
        for descriptor in range(3):
            os.close(descriptor)
        return True

    def parent_of(pid):
        with open(f"/proc/{{pid}}/stat") as file:
            return int(file.read().rpartition(")")[2].split()[1])

    SUPERVISOR = os.getppid()
    LAUNCHER = parent_of(SUPERVISOR)

    def stay(*words):
        os.execve(sys.executable, [*words, "-c", "import time; time.sleep(600)"], {{}})
"""

DAEMONS = {
    "a daemon without an environment": "if detach(): note(); stay('python')",
    "a daemon by the name of Python's own": """
        if detach():
            note()
            stay("python", "-W", "ignore:multiprocessing.resource_tracker")
    """,
    "a daemon that forks again every 4 ms": """
        while detach():
            note()
            time.sleep(0.004)
    """,
    "a daemon that forks as fast as it can, in a session of its own each time": """
        if detach():
            while True:
                note()
                if os.fork():
                    os._exit(0)
                os.setsid()
    """,
    "a daemon that ignores signals and whose children multiply": """
        if detach():
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            for _ in range(6):
                os.fork()
            note()
            time.sleep(600)
    """,
    "an agent that kills its parent": """
        if detach():
            note()
            stay("python")
        wait_for_daemon()
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(600)
    """,
    "an agent that stops its parent": """
        if detach():
            note()
            stay("python")
        wait_for_daemon()
        os.kill(os.getppid(), signal.SIGSTOP)
    """,
    "an agent that kills its supervisor and the launcher": """
        if detach():
            note()
            stay("python")
        wait_for_daemon()
        os.kill(LAUNCHER, signal.SIGKILL)
        os.kill(SUPERVISOR, signal.SIGKILL)
        time.sleep(600)
    """,
    "an agent that stops its supervisor and the launcher, again and again": """
        if detach():
            note()
            stop = f"[os.kill(pid, {signal.SIGSTOP:d}) for pid in {LAUNCHER, SUPERVISOR}]"
            words = ["python", "-c", f"import os, time\\nwhile True: {stop}; time.sleep(0.001)"]
            os.execve(sys.executable, words, {})
        time.sleep(600)
    """,
}


def daemonic(folder: Folder, content: str) -> Path:
    """Write an agent that ends once its daemon runs; return the file that lists the daemons."""
    marker = folder.path / "daemons.txt"
    begin = textwrap.dedent(LIBRARY.format(marker=str(marker))) + textwrap.dedent(content)
    agent(folder, f"{begin}\nwait_for_daemon()\nprint('yes')\n")
    write_spec(folder, {}, timeout=5)
    return marker


@pytest.mark.parametrize("content", DAEMONS.values(), ids=DAEMONS)
def test_no_daemon_outlives_its_trial(folder: Folder, content: str) -> None:
    marker = daemonic(folder, content)
    folder.abreast("run", "spec.json", "--quiet")
    assert marker.read_text()
    assert running(marker) == []
    assert len(folder.sql("select status from predictions")) == 1


def test_agents_that_stop_the_launcher_delay_neither_the_next_trial_nor_the_end(folder: Folder) -> None:
    """A trial that runs out of time needs another supervisor, which only the launcher can fork."""
    stopping = """
    os.kill(LAUNCHER, signal.SIGSTOP)
    print("yes", flush=True)
    if sys.stdin.read() == "?":
        os.kill(SUPERVISOR, signal.SIGKILL)
    """
    agent(folder, LIBRARY.format(marker="unused") + stopping)
    write_spec(folder, {}, cases=2)
    run = folder.start("run", "spec.json", "--quiet", "--parallel", "1")
    out, err = run.communicate(timeout=30)
    assert len(folder.sql("select status from predictions")) == 2, out + err
    assert "does not answer" not in str(folder.sql("select error from predictions"))


def test_a_driver_with_thousands_of_open_files_can_start_programs(folder: Folder) -> None:
    agent(folder, "print('yes')")
    write_spec(folder, {})
    script = """
    import os
    from abreast import Experiment
    files = [os.open(os.devnull, os.O_RDONLY) for _ in range(1_100)]
    result = Experiment.load("spec.json").run()
    assert result.analysis.stored == 1, result
    """
    path = folder.write("script.py", textwrap.dedent(script))
    done = subprocess.run([sys.executable, path.name], cwd=folder.path, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert [row["status"] for row in folder.sql("select status from predictions")] == ["ok"]


def test_an_agent_that_only_leaves_a_daemon_has_answered(folder: Folder) -> None:
    marker = daemonic(folder, DAEMONS["a daemon without an environment"])
    assert folder.abreast("run", "spec.json", "--quiet").code == 0
    assert running(marker) == []


def test_daemons_end_with_a_driver_that_is_killed(folder: Folder) -> None:
    """They end without another start of abreast, so that none can go on spending money."""
    marker = daemonic(folder, "if detach(): note(); stay('python')\ntime.sleep(600)")
    run = folder.start("run", "spec.json", "--quiet")
    wait_until(lambda: running(marker), "a daemon at work")
    run.kill()
    run.communicate()
    wait_until(lambda: running(marker) == [], "the daemon has ended")


def test_a_trial_goes_on_while_the_daemons_of_another_end(folder: Folder) -> None:
    """Only the processes that a trial leaves behind are ended with it."""
    marker = folder.path / "daemons.txt"
    agent(
        folder,
        LIBRARY.format(marker=str(marker))
        + """
    if sys.stdin.read() == "leave a daemon":
        if detach(): note(); stay("python")
        wait_for_daemon()
    else:
        wait_for_daemon()
        pid = int(open(MARKER).read())
        while os.path.exists(f"/proc/{pid}"): time.sleep(0.001)
    print("yes")
    """,
    )
    write_spec(folder, {}, timeout=30)
    spec = json.loads((folder.path / "spec.json").read_text())
    inputs = ["leave a daemon", "wait for its end"]
    spec["cases"] = [{"id": f"c{n}", "input": word, "expected": "yes"} for n, word in enumerate(inputs)]
    spec["limits"]["free_cores"] = 0
    folder.write("spec.json", json.dumps(spec))
    assert folder.abreast("run", "spec.json", "--quiet", "--parallel", "2").code == 0
    assert [row["score"] for row in folder.sql("select score from predictions")] == [1.0, 1.0]


def test_processes_left_by_a_python_function_end_with_the_run_whatever_their_name(folder: Folder) -> None:
    marker = folder.path / "children.txt"
    folder.write(
        "mine.py",
        f"""
        import subprocess, sys

        def predict(case):
            words = [sys.executable, "-c", "import time; time.sleep(600)", "multiprocessing.resource_tracker"]
            with open({str(marker)!r}, "a") as file:
                print(subprocess.Popen(words, start_new_session=True).pid, file=file)
            return "yes"
        """,
    )
    write_spec(folder, {})
    spec = json.loads((folder.path / "spec.json").read_text())
    folder.write("spec.json", json.dumps({**spec, "variants": {"v": {"target": "python:mine:predict"}}}))
    assert folder.command("run", "spec.json", "--quiet").code == 0
    assert marker.read_text()
    assert running(marker) == []
