"""The remains of a killed run are removed by the next abreast command of the same user, whatever its store."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from conftest import SIMULATED, Folder

TOKEN = "tok-5d1f0c88e2b94a67"
SERVER = {
    "command": sys.executable,
    "args": [str(Path(__file__).parent / "mcp_server.py")],
    "env": {"API_TOKEN": "${SERVICE_TOKEN}"},
}

# Stands in for the Claude Code CLI: starts a child that leaves its group, plants links, locks a folder, and hangs.
AGENT = """\
#!/bin/sh
if [ "$1" = --version ]; then echo 2.1.325; exit; fi
mkdir -p locked/inside && echo text > locked/inside/file && chmod 000 locked
ln -s "$OUTSIDE" link && ln -s "$OUTSIDE" locked-link
echo "${ABREAST_MCP_VALUE_0}" > "$OUTSIDE/token"
setsid sleep 1000 &
echo $! > "$OUTSIDE/child.tmp" && mv "$OUTSIDE/child.tmp" "$OUTSIDE/child"
exec sleep 1000
"""


class KilledRun:
    """A real run of an agent with an MCP server that needs a token, in a separate folder and store."""

    def __init__(self, folder: Folder, name: str) -> None:
        self.outside = folder.path / f"{name}-outside"
        self.outside.mkdir()
        (self.outside / "precious.txt").write_text("precious")
        self.folder = folder
        folder.cases(1, f"{name}/cases.jsonl")
        folder.write(f"{name}/agent.sh", AGENT).chmod(0o755)
        variant = {"target": "claude-code", "command": "./agent.sh", "tools": ["Bash"], "mcp": {"service": SERVER}}
        spec = {"name": name, "cases": "cases.jsonl", "variants": {"only": variant}, "scorers": ["exact"]}
        folder.write(f"{name}/spec.json", json.dumps(spec))
        self.driver = subprocess.Popen(
            [sys.executable, "-m", "abreast", "run", "spec.json", "--force"],
            cwd=folder.path / name,
            env={**os.environ, "OUTSIDE": str(self.outside), "SERVICE_TOKEN": TOKEN, "ANTHROPIC_API_KEY": "none"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        until((self.outside / "child").exists, "the agent works", self.driver)
        self.child = int((self.outside / "child").read_text())

    def kill(self) -> None:
        """Kill the driver and, at the same moment, the supervisors that would end its agents."""
        supervisors: list[psutil.Process] = []
        if self.driver.poll() is None:
            below = psutil.Process(self.driver.pid).children(recursive=True)
            supervisors = [process for process in below if is_supervisor(process)]
        for process in supervisors:
            process.suspend()
        self.driver.kill()
        for process in supervisors:
            process.kill()
        self.driver.communicate()

    @property
    def child_lives(self) -> bool:
        try:
            return psutil.Process(self.child).status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False


def is_supervisor(process: psutil.Process) -> bool:
    try:
        return "supervisor.py" in " ".join(process.cmdline())
    except psutil.Error:  # it ended a moment ago
        return False


def until(condition: Callable[[], Any], description: str, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, f"still not: {description}"
        assert process.poll() is None, f"ended before: {description}: {process.communicate()}"
        time.sleep(0.01)


def files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]


@pytest.fixture
def workspaces(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path_factory.mktemp("workspaces")
    monkeypatch.setenv("ABREAST_WORKSPACES", str(root))
    return root


@pytest.fixture
def start(folder: Folder, workspaces: Path) -> Iterator[Callable[[str], KilledRun]]:
    """Start a run that hangs; it is cleaned up even if the test fails."""
    killed_runs: list[KilledRun] = []

    def start_run(name: str) -> KilledRun:
        killed_runs.append(KilledRun(folder, name))
        return killed_runs[-1]

    yield start_run
    for run in killed_runs:
        run.kill()
    folder.command("clean")
    for run in killed_runs:
        if run.child_lives:
            os.kill(run.child, signal.SIGKILL)


def records(state: Path) -> list[Path]:
    return sorted((state / "drivers").glob("*"))


@pytest.mark.parametrize("command", ["clean", "check", "run", "delete"])
@pytest.mark.matrix(quick=1)
def test_a_killed_run_is_cleaned_up_by_a_command_on_another_store(
    folder: Folder,
    start: Callable[[str], KilledRun],
    workspaces: Path,
    state: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
) -> None:
    folder.cases(4)
    folder.write("experiment.yaml", SIMULATED)
    if command == "delete":
        assert folder.command("run", "experiment.yaml", "--label", "old").code == 0
    run = start("agents")
    token_files = [path for path in files_in(workspaces) if TOKEN in path.read_text(errors="replace")]
    assert token_files == [], "no file holds the token"
    assert (run.outside / "token").read_text().strip() == TOKEN, "the agent has it all the same"
    run.kill()
    assert run.child_lives
    assert files_in(workspaces)
    monkeypatch.delenv("ABREAST_WORKSPACES")  # the record says where they are
    if command == "delete":
        (name,) = [row["run"] for row in folder.abreast("runs", "--json", "--store", "results.db").json]
        done = folder.command("delete", name, "--yes", "--store", "results.db")
    else:
        done = folder.command(*([command] if command == "clean" else [command, "experiment.yaml"]))
    assert done.code == 0, done.output
    assert not run.child_lives
    assert list(workspaces.iterdir()) == []
    assert records(state) == []
    assert (run.outside / "precious.txt").read_text() == "precious", "links are removed, not followed"
    if command in ("check", "run"):
        assert re.search(r"leftovers: +ended \d+ process(es)? and removed 1 folder \(.* MB\)", done.err)


def test_clean_says_what_it_removes_and_a_dry_run_removes_nothing(
    folder: Folder, start: Callable[[str], KilledRun], workspaces: Path
) -> None:
    run = start("agents")
    run.kill()
    before = sorted(workspaces.rglob("*"))
    dry = folder.command("clean", "--dry-run")
    assert f"would end process {run.child}: sleep 1000" in dry.out
    assert f"would remove {workspaces}" in dry.out
    rows = folder.command("clean", "--dry-run", "--json").json
    assert {"kind": "process", "pid": run.child, "command": "sleep 1000", "removed": False} in rows
    (of_folder,) = [row for row in rows if row["kind"] == "folder"]
    assert of_folder["bytes"] > 0
    assert of_folder["removed"] is False
    assert sorted(workspaces.rglob("*")) == before
    assert run.child_lives
    rows = folder.command("clean", "--json").json
    assert all(row["removed"] for row in rows)
    assert [row["path"] for row in rows if row["kind"] == "folder"] == [of_folder["path"]]
    second = folder.command("clean")
    assert (second.code, second.out, second.err) == (0, "", "nothing to clean\n")
    assert folder.command("clean", "--json").json == []


def test_a_live_run_is_not_touched_when_a_dead_one_is_cleaned_up(
    folder: Folder, start: Callable[[str], KilledRun], workspaces: Path, state: Path
) -> None:
    dead, alive = start("dead"), start("alive")
    before = folder.command("clean")
    assert (before.out, before.err) == ("", "nothing to clean\n"), "both live"
    dead.kill()
    assert folder.command("clean").code == 0
    assert not dead.child_lives
    assert alive.child_lives
    assert alive.driver.poll() is None
    (record,) = records(state)
    assert [path.name for path in workspaces.iterdir()] == [record.name]
    assert files_in(workspaces / record.name)


def rewrite_record(record: Path, host: str | None = None, boot: str | None = None) -> None:
    """Rewrite the record as if made on another host or before the last restart."""
    first, *rest = record.read_text().splitlines()
    own_host, own_boot, namespace = json.loads(first)["place"].split("|")
    location = "|".join((host or own_host, boot or own_boot, namespace))
    record.write_text("\n".join([json.dumps({"place": location}), *rest]) + "\n")


def test_after_a_restart_of_the_machine_the_folders_are_removed(
    folder: Folder, start: Callable[[str], KilledRun], workspaces: Path, state: Path
) -> None:
    start("agents").kill()
    (record,) = records(state)
    rewrite_record(record, boot="an-earlier-boot")
    assert folder.command("clean").code == 0
    assert list(workspaces.iterdir()) == []
    assert records(state) == []


def test_runs_of_another_machine_with_the_same_home_are_not_touched(
    folder: Folder, start: Callable[[str], KilledRun], workspaces: Path, state: Path
) -> None:
    run = start("agents")
    run.kill()
    (record,) = records(state)
    rewrite_record(record, host="other-host", boot="another-boot")
    done = folder.command("clean")
    assert done.code == 0
    assert "other-host" in done.err
    assert run.child_lives
    assert files_in(workspaces)
    rewrite_record(record, host=os.uname().nodename)


def test_a_workspace_that_the_user_keeps_outlives_a_killed_run(folder: Folder, workspaces: Path) -> None:
    folder.write("cases.jsonl", '{"id": "fails", "input": "fail"}\n{"id": "hangs", "input": "hang"}\n')
    script = "touch made; if grep -q fail; then exit 1; fi; touch ../../../../hangs; exec sleep 1000"
    variant = {"target": "command", "command": script, "shell": True}
    folder.write("spec.json", json.dumps({"name": "x", "cases": "cases.jsonl", "variants": {"only": variant}}))
    driver = folder.start("run", "spec.json", "--keep-workspaces", "--parallel", "2", "--force")

    def failed() -> list[dict[str, Any]]:
        done = folder.abreast("sql", "--json", "results.db", "SELECT * FROM predictions WHERE status = 'error'")
        return done.json if done.code == 0 else []

    try:
        until((workspaces / "hangs").exists, "the second trial hangs", driver)
        until(failed, "the first trial is stored", driver)
    finally:
        driver.kill()
        driver.communicate()
    (workspaces / "hangs").unlink()
    (path,) = [Path(row["workspace"]) for row in failed()]
    assert folder.command("clean").code == 0
    assert [file.name for file in files_in(workspaces)] == ["made"]
    assert (path / "made").exists()
    assert folder.command("clean").err == "nothing to clean\n"
    assert (path / "made").exists()


def test_a_forked_child_does_not_make_a_dead_driver_look_alive(folder: Folder, state: Path) -> None:
    folder.cases(1)
    folder.write(
        "forks.py",
        """\
        import os, time
        from pathlib import Path

        def predict(case):
            child = os.fork()
            if child == 0:
                time.sleep(1000)
            Path("child.tmp").write_text(str(child))
            os.rename("child.tmp", "child")
            time.sleep(1000)
        """,
    )
    folder.write("spec.yaml", "name: forks\ncases: cases.jsonl\nvariants: {only: {target: 'python:forks:predict'}}\n")
    driver = folder.start("run", "spec.yaml", "--force")
    until((folder.path / "child").exists, "it forks", driver)
    child = int((folder.path / "child").read_text())
    try:
        driver.kill()
        driver.wait()
        assert len(records(state)) == 1
        assert folder.command("clean").code == 0
        assert records(state) == []
    finally:
        os.kill(child, signal.SIGKILL)
        driver.communicate()


def test_a_run_that_ends_leaves_no_record(simulated: Folder, state: Path) -> None:
    assert simulated.command("run", "experiment.yaml").code == 0
    assert records(state) == []


def test_a_home_that_cannot_be_written_does_not_stop_a_run(simulated: Folder, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    environment = {**os.environ, "ABREAST_STATE": str(file / "state"), "TMPDIR": str(tmp_path)}
    done = simulated.command("run", "experiment.yaml", env=environment)
    assert done.code == 0, done.output
    assert simulated.command("clean", env=environment).code == 0
