"""`abreast cluster`: Ray nodes on one machine, here one of its own that no other test sees."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.conftest import ABREAST, SIMULATED, Folder
from tests.ray_cluster import RayCluster

LISTENING = """
import psutil
print(*{c.laddr.ip for c in psutil.net_connections("tcp") if c.status == psutil.CONN_LISTEN})
"""
DRIVER = """
from abreast.cluster.local import ray_address
address = ray_address("auto")
import ray
ray.init(address=address, log_to_driver=False)
where = ray.remote(num_cpus=1)(lambda: ray.get_runtime_context().get_node_id())
pinned = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
nodes = [node["NodeID"] for node in ray.nodes()]
print(ray.get([where.options(scheduling_strategy=pinned(node, soft=False)).remote() for node in nodes]) == nodes)
"""


class Machine:
    """A machine with a network address, on which nothing else runs."""

    def __init__(self, cluster: RayCluster, state: Path) -> None:
        self.cluster = cluster
        self.state = state

    def abreast(self, *words: str, code: int = 0) -> str:
        done = self.cluster.run([*ABREAST, "cluster", *words])
        assert done.returncode == code, done.stderr
        return done.stderr if code else done.stdout

    def python(self, code: str) -> str:
        done = self.cluster.run([sys.executable, "-c", code])
        assert done.returncode == 0, done.stderr
        return done.stdout

    def nodes(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = json.loads(self.abreast("status", "--json"))
        return rows

    def folder(self) -> Path:
        """Ray's files."""
        return Path(json.loads((self.state / "cluster.json").read_text())["folder"])

    def assert_nothing_is_left(self, folder: Path) -> None:
        assert not [process for process in self.cluster.processes(0) if process.status() != psutil.STATUS_ZOMBIE]
        assert not list(self.state.glob("cluster*"))
        assert not folder.exists()


@pytest.fixture
def machine(state: Path) -> Iterator[Machine]:
    cluster = RayCluster()
    try:
        cluster.boot()
        yield Machine(cluster, state)
        cluster.run([*ABREAST, "cluster", "down"])
    finally:
        cluster.stop()


def test_nodes_listen_on_the_loopback_interface_only_run_tasks_and_leave_nothing(machine: Machine) -> None:
    assert "2 nodes up at 127.0.0.1:" in machine.abreast("up")
    assert machine.python(DRIVER) == "True\n"
    assert set(machine.python(LISTENING).split()) <= {"127.0.0.1", "::ffff:127.0.0.1"}
    assert "a cluster of 2 nodes is already up at 127.0.0.1:" in machine.abreast("up", code=2)
    head, worker = machine.nodes()
    assert (head["state"], worker["state"]) == ("alive", "alive")
    assert not set(head["pids"]) & set(worker["pids"])
    folder = machine.folder()
    assert "ended 2 nodes" in machine.abreast("down")
    machine.assert_nothing_is_left(folder)
    assert machine.abreast("down") == "no cluster is up\n"


def test_an_experiment_runs_on_the_nodes_without_an_address(machine: Machine, folder: Folder) -> None:
    folder.cases(20)
    folder.write("experiment.yaml", SIMULATED)
    machine.abreast("up")
    done = machine.cluster.run([*ABREAST, "run", "experiment.yaml", "--engine", "ray"], cwd=folder.path)
    assert done.returncode == 0, done.stderr
    assert "2 nodes with" in done.stderr
    assert folder.sql("SELECT COUNT(*) AS n FROM trials") == [{"n": 40}]


@pytest.mark.heavy
def test_a_killed_node_is_dead_and_processes_of_others_are_left_alone(machine: Machine) -> None:
    machine.abreast("up")
    with machine.cluster.command(["sleep", "1000"]) as other:
        raylets = [process for process in machine.cluster.processes(0) if process.name() == "raylet"]
        (worker,) = (process for process in raylets if "--head" not in process.cmdline())
        worker.kill()
        worker.wait()
        assert [node["state"] for node in machine.nodes()] == ["alive", "dead"]
        folder = machine.folder()
        machine.abreast("down")
        assert other.poll() is None
        other.kill()
    machine.assert_nothing_is_left(folder)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_after_an_interrupted_start(machine: Machine, number: signal.Signals) -> None:
    with machine.cluster.command([*ABREAST, "cluster", "up"]) as up:
        while "gcs_server" not in {process.name() for process in machine.cluster.processes(0)}:
            assert up.poll() is None
            time.sleep(0.01)
        folder = machine.folder()
        up.send_signal(number)
        up.communicate(timeout=20)
    if number == signal.SIGKILL:
        assert "is already up" in machine.abreast("up", code=2)
        machine.abreast("down")
    machine.assert_nothing_is_left(folder)


def test_wrong_arguments_are_explained(folder: Folder) -> None:
    assert "must be from 1 to 16" in folder.abreast("cluster", "up", "--nodes", "0").err
    assert "takes no --nodes" in folder.abreast("cluster", "down", "--nodes", "3").err
    assert folder.abreast("cluster", "status", "--json").json == []
    assert "no cluster is up" in folder.abreast("cluster", "status").output
