"""The cluster of the tests: its nodes fail like machines, and nothing of it stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from tests.ray_cluster import ENDED, STOPPED, RayCluster, status

from test_durability import until

pytestmark = pytest.mark.heavy
ROOT = Path(__file__).parent.parent
PROBE = "import socket; socket.create_connection(('{}', 6379), timeout=1).close()"


def reaches_the_head(cluster: RayCluster, node: int) -> bool:
    return cluster.run([sys.executable, "-c", PROBE.format(cluster.nodes[0].address)], node=node).returncode == 0


ADDRESSES = """
import ray, sys
from ray.util import get_node_ip_address
ray.init(address=sys.argv[1], log_to_driver=False)
print(*(ray.get(ray.remote(get_node_ip_address).options(resources={node: 1}).remote()) for node in ("node0", "node1")))
"""


def test_tasks_run_on_the_node_that_has_the_resource(ray_cluster: RayCluster) -> None:
    done = ray_cluster.run([sys.executable, "-c", ADDRESSES, ray_cluster.address])
    assert done.stdout.split() == ["10.213.0.1", "10.213.0.2"], done.stderr


def test_a_node_sees_its_own_processes_only(ray_cluster: RayCluster) -> None:
    pids = ray_cluster.run([sys.executable, "-c", "import psutil; print(*psutil.pids())"], node=1).stdout.split()
    head, worker = ray_cluster.processes(0), ray_cluster.processes(1)
    assert not {process.pid for process in head} & {process.pid for process in worker}
    assert len(pids) == len(worker) + 2, "the first process and the command itself besides"


def test_a_cut_link_loses_packets_until_it_is_restored(ray_cluster: RayCluster) -> None:
    assert reaches_the_head(ray_cluster, 1)
    ray_cluster.cut_link()
    assert not reaches_the_head(ray_cluster, 1)
    ray_cluster.restore_link()
    assert reaches_the_head(ray_cluster, 1)


def test_a_frozen_node_stops_and_a_killed_one_ends(ray_cluster: RayCluster) -> None:
    ray_cluster.freeze(1)
    frozen = ray_cluster.processes(1)
    assert len(frozen) > 3
    assert {status(process) for process in frozen} - ENDED == {STOPPED}
    ray_cluster.thaw(1)
    until(lambda: STOPPED not in {status(process) for process in frozen}, "the node runs again")
    ray_cluster.kill_node(1)
    assert not [process for process in frozen if process.is_running()]
    added = ray_cluster.add_node({"claude": 1})
    assert reaches_the_head(ray_cluster, added)


def test_signals_reach_the_command_on_the_node(ray_cluster: RayCluster) -> None:
    waiting = "import time; print('started', flush=True); time.sleep(1000)"
    with ray_cluster.command([sys.executable, "-c", waiting]) as command:
        assert command.stdout is not None
        command.stdout.readline()
        command.send_signal(signal.SIGINT)
        assert "KeyboardInterrupt" in command.communicate(timeout=20)[1]


START = """
import time
from tests.ray_cluster import RayCluster
cluster = RayCluster(size=1)
cluster.start()
print(*(process.pid for process in cluster.processes(0)), flush=True)
time.sleep(1000)
"""


def test_nothing_stays_of_a_cluster_whose_tests_were_killed(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", START], cwd=ROOT, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        processes = [psutil.Process(int(pid)) for pid in owner.stdout.readline().split()]
        os.kill(owner.pid, signal.SIGKILL)
    _, alive = psutil.wait_procs(processes, timeout=20)
    assert len(processes) > 3
    assert not alive
