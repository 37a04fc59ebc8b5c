"""Runs on a Ray cluster of two nodes: the same results as locally, whatever fails."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.conftest import Folder
from tests.ray_cluster import Command, RayCluster
from tests.test_cumulative import git

import abreast

ROOT = Path(__file__).parent.parent
ABREAST = [sys.executable, "-m", "abreast"]
MODULE = """
import asyncio, os, socket, time
from pathlib import Path

FOLDER = Path(__file__).parent

def note(case, name):
    with open(FOLDER / "executed", "a") as file:
        file.write(f"{name} {case.id} {os.readlink('/proc/self/ns/net')}\\n")

async def waits(case, seconds=0.0):
    note(case, "waits")
    await asyncio.sleep(seconds)
    return case.expected if int(case.id[1:]) % 3 else "wrong"

def blocks(case, seconds=0.0):
    note(case, "blocks")
    time.sleep(seconds)
    return {"answer": case.expected, "confidence": 0.5}

def computes(case, seconds=0.0):
    note(case, "computes")
    if case.id == "c1":
        raise ValueError("cannot do this one")
    return case.expected
"""
SPEC = """
name: functions
cases: cases.jsonl
variants:
  waits: {target: "python:functions:waits"}
  blocks: {target: "python:functions:blocks"}
  computes: {target: "python:functions:computes", executor: process}
scorers: [exact]
repeats: 2
limits: {parallel: 8}
"""
SLOW = """
name: slow
cases: cases.jsonl
variants:
  first: {target: "python:functions:waits", seconds: 0.3}
  second: {target: "python:functions:blocks", seconds: 0.3}
scorers: [exact]
limits: {parallel: 10}
"""


class Experiments:
    """Experiments in a folder, executed by the real command on the head of the cluster."""

    def __init__(self, cluster: RayCluster, folder: Folder) -> None:
        self.cluster, self.folder = cluster, folder
        folder.write("functions.py", MODULE)

    def ray(self, *words: str) -> list[str]:
        return [*ABREAST, *words, "--engine", "ray", "--address", self.cluster.address, "--yes", "--no-pictures"]

    def run(self, *words: str, code: int = 0) -> str:
        done = self.cluster.run(self.ray(*words), cwd=self.folder.path, timeout=120)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def start(self, *words: str) -> Command:
        return self.cluster.command(self.ray(*words, "--events", "events.jsonl"), cwd=self.folder.path)

    def events(self, kind: str) -> list[dict[str, Any]]:
        path = self.folder.path / "events.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [event for event in map(json.loads, lines) if event["kind"] == kind]

    def executed(self) -> Counter[str]:
        """Executions by function and case."""
        path = self.folder.path / "executed"
        lines = path.read_text().splitlines() if path.exists() else []
        return Counter(" ".join(line.split()[:2]) for line in lines)

    def nodes(self) -> int:
        """How many nodes executed something."""
        return len({line.split()[2] for line in (self.folder.path / "executed").read_text().splitlines()})

    def runners(self, node: int) -> list[psutil.Process]:
        return [process for process in self.cluster.processes(node) if "Runner" in _command(process)]

    def verdicts(self, store: str = "results.db") -> list[dict[str, Any]]:
        report = self.folder.abreast("report", "--store", store, "--format", "json").json
        keys = ("variant", "verdict", "effect", "interval", "p", "scores", "reason")
        return [{key: verdict[key] for key in keys} for verdict in report["verdicts"]]

    def rows(self, store: str = "results.db") -> list[dict[str, Any]]:
        columns = "case_id, variant, repeat, status, error_kind, error_blame, answer, score, prompt, attempts"
        return self.folder.sql(f"select {columns} from predictions order by case_id, variant, repeat", store)


def _command(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""


def patched(module: str, name: str, value: float) -> list[str]:
    """The command with another value of a constant."""
    code = f"import sys, {module}; {module}.{name} = {value}; from abreast.cli import main; sys.exit(main())"
    return [sys.executable, "-c", code]


def until(condition: Callable[[], object], seconds: float = 60.0) -> float:
    """Wait until something outside of this process has happened; return how long that took."""
    begin = time.monotonic()
    while not condition():
        assert time.monotonic() - begin < seconds
        time.sleep(0.02)
    return time.monotonic() - begin


@pytest.fixture
def experiments(ray_cluster: RayCluster, folder: Folder) -> Experiments:
    return Experiments(ray_cluster, folder)


def test_the_same_rows_and_verdict_as_locally(experiments: Experiments) -> None:
    folder = experiments.folder
    folder.cases(9)
    folder.write("spec.yaml", SPEC)
    experiments.run("run", "spec.yaml", "--store", "ray.db")
    assert experiments.nodes() == 2
    done = folder.abreast("run", "spec.yaml", "--store", "local.db", "--yes", "--no-pictures")
    assert done.code == 0, done.output
    assert experiments.rows("ray.db") == experiments.rows("local.db")
    assert experiments.verdicts("ray.db") == experiments.verdicts("local.db")


def test_a_killed_runner_loses_nothing_and_is_noticed_at_once(experiments: Experiments) -> None:
    folder = experiments.folder
    folder.cases(60)
    folder.write("spec.yaml", SLOW)
    with experiments.start("run", "spec.yaml") as command:
        until(lambda: len(experiments.executed()) >= 40)
        (runner,) = experiments.runners(1)
        runner.kill()
        assert until(lambda: experiments.events("node_lost")) < 2.0
        out, err = command.communicate(timeout=60)
        assert command.returncode == 0, out + err
    lost = experiments.events("node_lost")[0]["in_flight"]
    assert f"node 10.213.0.2 is lost: its runner died; {lost} trials in flight will be executed again" in err
    executed = experiments.executed()
    assert len(executed) == 120
    assert sum(executed.values()) <= 120 + lost
    assert [row["status"] for row in experiments.rows()] == ["ok"] * 120
    assert {row["attempts"] for row in experiments.rows()} == {1}


@pytest.mark.heavy
def test_trials_of_a_runner_that_rays_memory_monitor_kills_are_retried_as_resources(
    experiments: Experiments, tmp_path: Path
) -> None:
    folder, cluster = experiments.folder, experiments.cluster
    folder.cases(60)
    folder.write("spec.yaml", SLOW)
    empty = re.sub(r"(MemAvailable|MemFree|Cached): .*", r"\1: 1000 kB", Path("/proc/meminfo").read_text())
    (tmp_path / "meminfo").write_text(empty)
    with experiments.start("run", "spec.yaml") as command:
        until(lambda: len(experiments.executed()) >= 40)
        cluster.run(["mount", "--bind", str(tmp_path / "meminfo"), "/proc/meminfo"], node=1)
        until(lambda: experiments.events("node_lost"))
        cluster.run(["umount", "/proc/meminfo"], node=1)
        out, err = command.communicate(timeout=60)
        assert command.returncode == 0, out + err
    retried = experiments.events("trial_retried")
    assert {event["error_kind"] for event in retried} == {"resources"}
    assert "the node was short of memory" in retried[0]["error"]
    assert len(retried) == sum(event["in_flight"] for event in experiments.events("node_lost"))
    assert [row["status"] for row in experiments.rows()] == ["ok"] * 120
    assert "warning" not in err, "a runner that was still starting at the end of the run ends quietly"


@pytest.mark.heavy
def test_a_frozen_node_is_replaced_within_six_seconds_and_ends_what_it_runs(experiments: Experiments) -> None:
    folder, cluster = experiments.folder, experiments.cluster
    folder.cases(60)
    folder.write("spec.yaml", SLOW)
    with experiments.start("run", "spec.yaml") as command:
        until(lambda: len(experiments.executed()) >= 30)
        cluster.freeze(1)
        assert until(lambda: experiments.events("node_lost")) < 6.0
        out, err = command.communicate(timeout=60)
        assert command.returncode == 0, out + err
    lost = experiments.events("node_lost")[0]["in_flight"]
    before = experiments.executed()
    assert len(before) == 120
    assert sum(before.values()) <= 120 + lost
    cluster.thaw(1)
    until(lambda: not experiments.runners(1))
    assert experiments.executed() == before, "nothing starts on a node that lost its leases"
    assert Counter(row["status"] for row in experiments.rows()) == {"ok": 120}


@pytest.mark.heavy
def test_a_run_survives_a_cut_link_and_uses_the_node_when_it_is_back(experiments: Experiments) -> None:
    folder, cluster = experiments.folder, experiments.cluster
    folder.cases(150)
    folder.write("spec.yaml", SLOW)
    with experiments.start("run", "spec.yaml") as command:
        until(lambda: len(experiments.executed()) >= 30)
        cluster.cut_link()
        until(lambda: experiments.events("node_lost"))
        cluster.restore_link()
        out, err = command.communicate(timeout=90)
        assert command.returncode == 0, out + err
    executed = experiments.executed()
    assert len(executed) == 300
    assert Counter(row["status"] for row in experiments.rows()) == {"ok": 300}


@pytest.mark.heavy
def test_a_node_that_joins_is_used(experiments: Experiments) -> None:
    folder, cluster = experiments.folder, experiments.cluster
    cluster.kill_node(1)
    folder.cases(1000)
    folder.write("spec.yaml", SLOW)
    with experiments.start("run", "spec.yaml") as command:
        until(lambda: len(experiments.executed()) >= 10)
        cluster.add_node()
        until(lambda: experiments.nodes() == 2)
        command.send_signal(signal.SIGINT)
        out, err = command.communicate(timeout=30)
        assert command.returncode == 130, out + err
    assert "node 10.213.0.3 joined" in err
    joined = experiments.events("node_joined")[-1]
    assert joined["versions"] == {"python": platform.python_version(), "abreast": abreast.__version__}
    assert max(experiments.executed().values()) == 1


def test_after_the_driver_is_killed_nothing_runs_on_and_resume_continues(experiments: Experiments) -> None:
    folder = experiments.folder
    folder.cases(40)
    folder.write("spec.yaml", SLOW)
    with experiments.start("run", "spec.yaml") as command:
        until(lambda: len(experiments.executed()) >= 30)
        command.send_signal(signal.SIGKILL)
        command.communicate(timeout=20)
    assert until(lambda: not experiments.runners(0) + experiments.runners(1)) < 15.0
    assert experiments.run("resume")
    executed = experiments.executed()
    assert len(executed) == 80
    assert sum(executed.values()) <= 80 + 2 * 10
    assert Counter(row["status"] for row in experiments.rows()) == {"ok": 80}


@pytest.mark.heavy
def test_ctrl_c_lets_trials_finish_and_leaves_no_runner(experiments: Experiments) -> None:
    folder = experiments.folder
    folder.cases(40)
    folder.write("spec.yaml", SLOW)
    with experiments.start("run", "spec.yaml") as command:
        until(lambda: len(experiments.executed()) >= 20)
        command.send_signal(signal.SIGINT)
        out, err = command.communicate(timeout=30)
        assert command.returncode == 130, out + err
    until(lambda: not experiments.runners(0) + experiments.runners(1))
    assert {row["status"] for row in experiments.rows()} == {"ok"}
    experiments.run("resume")
    assert experiments.executed() == Counter(dict.fromkeys(experiments.executed(), 1))
    assert len(experiments.rows()) == 80


@pytest.mark.heavy
def test_ray_sends_the_folder_of_the_spec_to_nodes_that_do_not_see_it(experiments: Experiments) -> None:
    folder, cluster = experiments.folder, experiments.cluster
    folder.cases(12)
    folder.write("spec.yaml", SPEC)
    folder.write(".env", "OPENAI_API_KEY=secret")
    cluster.hide_folder(1, folder.path)
    experiments.run("run", "spec.yaml", "--store", "ray.db")
    sent = cluster.run(["find", "/dev/shm", "-name", "functions.py", "-o", "-name", ".env"], node=1).stdout
    assert sent.count("functions.py") == 1
    assert ".env" not in sent
    done = folder.abreast("run", "spec.yaml", "--store", "local.db", "--yes", "--no-pictures")
    assert done.code == 0, done.output
    assert experiments.rows("ray.db") == experiments.rows("local.db")


@pytest.mark.heavy
def test_a_node_with_other_code_is_refused_before_anything_starts(experiments: Experiments) -> None:
    folder, cluster = experiments.folder, experiments.cluster
    folder.cases(2)
    folder.write("spec.yaml", SPEC)
    cluster.hide_folder(1, folder.path)
    other = MODULE.replace("0.5", "0.6")
    script = f"open('functions.py', 'w').write({other!r}); open('cases.jsonl', 'w'); open('spec.yaml', 'w')"
    assert cluster.run([sys.executable, "-c", script], node=1, cwd=folder.path).returncode == 0
    output = experiments.run("run", "spec.yaml", code=2)
    assert 'node 10.213.0.2: the code or the settings of variant "waits" differ from those on this machine' in output
    assert not experiments.executed()


def test_a_variant_runs_only_on_nodes_that_have_what_it_needs(experiments: Experiments) -> None:
    folder = experiments.folder
    folder.cases(10)
    folder.write("spec.yaml", SLOW.replace("seconds: 0.3", "seconds: 0.05, needs: {node1: 1, cpu: 1}"))
    experiments.run("run", "spec.yaml")
    assert experiments.nodes() == 1
    folder.write("spec.yaml", SLOW.replace("seconds: 0.3", "needs: {claude: 1}"))
    output = experiments.run("run", "spec.yaml", code=2)
    assert 'variant "first" needs claude: 1, which no node of the cluster has' in output


@pytest.mark.heavy
def test_a_variant_that_lost_its_last_node_ends_the_run_after_a_warning(experiments: Experiments) -> None:
    folder, cluster = experiments.folder, experiments.cluster
    folder.cases(100)
    second = '{target: "python:functions:blocks", seconds: 0.3'
    folder.write("spec.yaml", SLOW.replace(second, second + ", needs: {node1: 1}"))
    command = [
        *patched("abreast.execute.engine.ray.node_pool", "NO_NODES_S", 12),
        *experiments.ray("run", "spec.yaml")[3:],
    ]
    with cluster.command(command, cwd=folder.path) as run:
        until(lambda: len(experiments.executed()) >= 40)
        cluster.kill_node(1)
        out, err = run.communicate(timeout=60)
    assert run.returncode == 3, out + err
    waits = f'for a node of the Ray cluster at {cluster.address} that has what variant "second" needs'
    assert f"warning: waiting {waits}" in err
    assert f"stopped: waited 12 s {waits}" in err
    assert {row["status"] for row in experiments.rows()} == {"ok", "cancelled"}


@pytest.mark.heavy
def test_one_line_says_what_holds_back_trials_on_the_nodes(experiments: Experiments) -> None:
    folder = experiments.folder
    folder.cases(20)
    folder.write("spec.yaml", SLOW.replace("parallel: 10", "parallel: 10, memory_per_trial: 900GB"))
    output = experiments.run("run", "spec.yaml", "--events", "events.jsonl")
    short = experiments.events("memory_short")
    assert {event["node"] for event in short} == {"10.213.0.1", "10.213.0.2"}
    (note,) = (line for line in output.splitlines() if line.startswith("note:"))
    assert re.fullmatch(r"note: node 10.213.0.[12]: 1 trial in flight: memory is short .*", note)


@pytest.mark.heavy
def test_a_folder_that_is_too_large_to_send_is_named(experiments: Experiments) -> None:
    folder, cluster = experiments.folder, experiments.cluster
    folder.cases(2)
    folder.write("spec.yaml", SPEC)
    (folder.path / "large.bin").write_bytes(os.urandom(2_000_000))
    cluster.hide_folder(1, folder.path)
    limited = patched("ray._private.runtime_env.packaging", "GCS_STORAGE_MAX_SIZE", 1_000_000)
    done = cluster.run([*limited, *experiments.ray("run", "spec.yaml")[3:]], cwd=folder.path)
    assert done.returncode == 2, done.stdout + done.stderr
    assert f"error: cannot send {folder.path} to the nodes: Package size (1.9" in done.stderr
    folder.write(".rayignore", "large.bin")
    done = cluster.run([*limited, *experiments.ray("run", "spec.yaml")[3:]], cwd=folder.path)
    assert done.returncode == 0, done.stdout + done.stderr


SCRIPT = """
import sys, threading
from abreast import Case, Experiment
from abreast.errors import BadInput

class Grade:
    def __init__(self, value):
        self.value = value
    def __eq__(self, other):
        return isinstance(other, Grade) and self.value == other.value
    def __str__(self):
        return f"grade {self.value}"

class Broken(Exception):
    def __init__(self, one, two):
        super().__init__(one)

class Locked:
    lock = None
    def __init__(self):
        self.lock = threading.Lock()
    def __str__(self):
        return "locked"

def target(case, grade):
    return {"answer": case.input, "grade": Grade(grade), "broken": Broken("why", 2), "locked": Locked()}

def right(case, answer):
    return float(answer.data["grade"] == Grade(1))

def experiment(target):
    cases = [Case(f"c{number}", str(number)) for number in range(10)]
    return Experiment(name="script", cases=cases, variants={"a": {"grade": 1}, "b": {"grade": 2}}, target=target,
                      scorers=[right], store=sys.argv[2])

lock = threading.Lock()
engine = "local" if sys.argv[1] == "local" else {"ray": {"address": sys.argv[1]}}
if engine != "local":
    try:
        experiment(lambda case, grade: str(lock)).run(engine=engine)
    except BadInput as error:
        print(error.message)
experiment(target).run(engine=engine)
"""


def test_a_script_gets_the_same_objects_and_rows_as_locally(experiments: Experiments) -> None:
    folder, cluster = experiments.folder, experiments.cluster
    folder.write("script.py", SCRIPT)
    done = cluster.run([sys.executable, "script.py", cluster.address, "ray.db"], cwd=folder.path)
    assert "variant \"a\" cannot be sent to the nodes: TypeError: cannot pickle '_thread.lock' object" in done.stdout
    assert done.returncode == 0, done.stdout + done.stderr
    assert cluster.run([sys.executable, "script.py", "local", "local.db"], cwd=folder.path).returncode == 0
    query = "select case_id, variant, status, error, score, grade, broken, locked from predictions order by 1, 2"
    rows = folder.sql(query, "ray.db")
    assert Counter((row["score"], row["grade"], row["broken"], row["locked"]) for row in rows) == {
        (1.0, "grade 1", "why", "locked"): 10,
        (0.0, "grade 2", "why", "locked"): 10,
    }
    assert rows == folder.sql(query, "local.db")


EARLY = """
name: early
cases: cases.jsonl
target: simulated
variants: {low: {accuracy: 0.1}, high: {accuracy: 0.9}}
scorers: [exact]
until_decided: true
min_cases: 10
limits: {parallel: 10}
"""
API = """
name: api
cases: cases.jsonl
target: openai
params: {base_url: "http://127.0.0.1:8765/v1", prompt: "{{ input }}"}
variants: {one: {model: small}, two: {model: large}}
scorers:
  - exact
  - judge: {target: openai, model: judge, base_url: "http://127.0.0.1:8765/v1", rubric: "Is it right?"}
limits: {parallel: 4}
"""
AGENTS = """
name: agents
cases: cases.jsonl
target: command
params: {workspace: {git: project, commit: HEAD}}
variants:
  quick: {command: [sh, -c, "cat > notes.txt; echo done"]}
  slow: {command: [sh, -c, "cat > notes.txt; sleep 0.5; cat start.txt"]}
scorers: [{tests: {command: [test, -f, notes.txt]}}]
limits: {parallel: 6}
"""


@pytest.mark.parametrize("is_hidden", [False, pytest.param(True, marks=pytest.mark.heavy)])
def test_agents_work_in_workspaces_of_their_node(experiments: Experiments, is_hidden: bool) -> None:
    folder = experiments.folder
    folder.cases(6)
    folder.write("spec.yaml", AGENTS)
    folder.write("project/start.txt", "begin\n")
    git(folder.path / "project", "init", "--quiet")
    git(folder.path / "project", "add", "-A")
    git(folder.path / "project", "commit", "--quiet", "-m", "Begin")
    if is_hidden:
        experiments.cluster.hide_folder(1, folder.path)
    experiments.run("run", "spec.yaml", "--store", "ray.db")
    done = folder.abreast("run", "spec.yaml", "--store", "local.db", "--yes", "--no-pictures")
    assert done.code == 0, done.output
    assert experiments.rows("ray.db") == experiments.rows("local.db")
    query = "select content from artifacts where name = 'diff' order by position"
    assert experiments.folder.sql(query, "ray.db") == experiments.folder.sql(query, "local.db")


@pytest.mark.heavy
def test_agents_end_with_their_runner(experiments: Experiments) -> None:
    folder, cluster = experiments.folder, experiments.cluster
    folder.cases(8)
    spec = AGENTS.replace("params: {workspace: {git: project, commit: HEAD}}\n", "")
    folder.write("spec.yaml", spec.replace("sleep 0.5; cat start.txt", "sleep 3; echo done"))

    def agents() -> list[psutil.Process]:
        return [process for process in cluster.processes(1) if _command(process) == "sleep 3"]

    with experiments.start("run", "spec.yaml") as command:
        until(agents)
        old = {process.pid for process in agents()}
        (runner,) = experiments.runners(1)
        runner.kill()
        assert until(lambda: not old & {process.pid for process in agents()}) < 2.0
        out, err = command.communicate(timeout=60)
        assert command.returncode == 0, out + err
    assert Counter(row["status"] for row in experiments.rows()) == {"ok": 16}
    until(lambda: not agents())


@pytest.mark.heavy
def test_the_contract_of_engines_holds_on_ray(experiments: Experiments) -> None:
    """The conformance suite, on the head."""
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "ray_engine", "tests/test_engine_conformance.py"]
    environment = ["env", f"RAY_CONTRACT={experiments.cluster.address}"]
    done = experiments.cluster.run([*environment, sys.executable, *words], cwd=ROOT, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "......" in done.stdout


@pytest.mark.heavy
def test_every_node_is_warmed_up_before_its_first_trial(experiments: Experiments) -> None:
    folder = experiments.folder
    folder.cases(10)
    folder.write("spec.yaml", SLOW.replace("seconds: 0.3", "seconds: 0.1, warmup: true"))
    with experiments.start("run", "spec.yaml") as command:
        out, err = command.communicate(timeout=60)
        assert command.returncode == 0, out + err
    assert len(experiments.events("warmup")) == 2, "one for each target"
    assert sum(experiments.executed().values()) == 20 + 2 * 2, "each target once on each node"
    assert Counter(row["status"] for row in experiments.rows()) == {"ok": 20}


def test_a_run_stops_as_soon_as_it_is_decided(experiments: Experiments) -> None:
    folder = experiments.folder
    folder.cases(300)
    folder.write("spec.yaml", EARLY)
    output = experiments.run("run", "spec.yaml")
    assert "better" in output
    assert 20 <= len(experiments.rows()) < 600
    run = folder.sql("select status from runs")
    assert run == [{"status": "stopped_early"}]


def test_judges_and_api_models_answer_on_the_nodes(experiments: Experiments) -> None:
    folder, cluster = experiments.folder, experiments.cluster
    folder.cases(6)
    folder.write("spec.yaml", API)
    fake = [sys.executable, "-m", "abreast.fake"]
    with cluster.command(fake, node=0) as first, cluster.command(fake, node=1) as second:
        experiments.run("run", "spec.yaml", "--fail-if", "errors > 0%")
        first.send_signal(signal.SIGINT)
        second.send_signal(signal.SIGINT)
    assert Counter(row["status"] for row in experiments.rows()) == {"ok": 12}
    assert len(folder.sql("select * from judgements")) == 12
