"""Start, inspect and end Ray nodes on this machine.

The nodes and their drivers use the loopback interface. Processes are recognised by a random mark in their environment,
never by their id alone, which the system may reuse.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from abreast.errors import AbreastError, BadInput
from abreast.store.user_state.folders import state_folder
from abreast.targets.processes import orphans
from abreast.text import many

if TYPE_CHECKING:
    import psutil

MARK = "ABREAST_CLUSTER"  # environment variable of the processes of a node
HOST = "127.0.0.1"
LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}  # keeps Ray from replacing 127.0.0.1 by the machine's address
READY = "nodes ready"
START_S = 60.0
OBJECT_STORE = 200_000_000  # bytes per node
MOST_NODES = 16


@dataclass(frozen=True, slots=True)
class LocalCluster:
    """Nodes on this machine, as recorded in the user's state folder before the first of them starts."""

    mark: str
    host: str
    port: int
    folder: str  # Ray's temporary files and logs
    nodes: int
    cores: int  # per node
    memory: int  # per node, in bytes

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def mark_of(self, node: int) -> str:
        return f"{self.mark}.{node}"

    def processes(self) -> list[psutil.Process]:
        return orphans.find([self.mark, *map(self.mark_of, range(self.nodes))], MARK)

    def status(self) -> list[NodeStatus]:
        return [_status(node, orphans.find([self.mark_of(node)], MARK)) for node in range(self.nodes)]


@dataclass(frozen=True, slots=True)
class NodeStatus:
    node: int
    is_alive: bool
    memory_used: int  # bytes
    pids: tuple[int, ...]


def up(nodes: int) -> LocalCluster:
    """Start a head and worker nodes that share this machine's cores. Ends them if it fails or is interrupted."""
    if not 1 <= nodes <= MOST_NODES:
        raise BadInput(f"--nodes {nodes}: must be from 1 to {MOST_NODES}")
    if find_spec("ray") is None:
        raise BadInput("Ray is not installed", "run `pip install 'abreast[ray]'`")
    before = find()
    if before is not None and before.processes():
        problem = f"a cluster of {many(before.nodes, 'node')} is already up at {before.address}"
        raise BadInput(problem, "use it with --engine ray, or end it with `abreast cluster down`")
    down()
    try:
        cluster = _record(nodes)
        _start(cluster)
    except BaseException:
        down()
        raise
    return cluster


def down() -> LocalCluster | None:
    """End all processes of the cluster and remove its files. Return the cluster, or None if there was none."""
    cluster = find()
    if cluster is not None:
        orphans.end(cluster.processes)
        shutil.rmtree(cluster.folder, ignore_errors=True)
        _path().unlink(missing_ok=True)
    return cluster


def find() -> LocalCluster | None:
    try:
        return LocalCluster(**json.loads(_path().read_text()))
    except FileNotFoundError:
        return None


def ray_address(address: str) -> str:
    """Return the address for `ray.init`. Call this before importing Ray, which reads its environment on import."""
    cluster = find()
    if cluster is None or address not in ("auto", cluster.address) or not cluster.processes():
        return address
    if address == "auto" and os.environ.get("RAY_ADDRESS"):
        return address
    os.environ.update(LOOPBACK)
    return cluster.address


def _status(node: int, processes: Sequence[psutil.Process]) -> NodeStatus:
    import psutil

    used, is_alive = 0, False
    for process in processes:
        with contextlib.suppress(psutil.Error):
            used += process.memory_full_info().uss
            is_alive |= process.name() == "raylet"
    return NodeStatus(node, is_alive, used, tuple(sorted(process.pid for process in processes)))


def _path() -> Path:
    return state_folder() / "cluster.json"


def _record(nodes: int) -> LocalCluster:
    import psutil

    cluster = LocalCluster(
        mark=secrets.token_hex(8),
        host=HOST,
        port=_free_port(),
        folder=tempfile.mkdtemp(prefix="abreast-ray-", dir="/tmp"),  # short: paths of sockets have at most 107 bytes
        nodes=nodes,
        cores=max(1, (os.cpu_count() or 1) // nodes),
        memory=psutil.virtual_memory().available * 7 // 10 // nodes,
    )
    path = _path()
    path.parent.mkdir(0o700, parents=True, exist_ok=True)
    new = Path(cluster.folder) / path.name
    new.write_text(json.dumps(asdict(cluster)))
    new.rename(path)
    return cluster


def _free_port() -> int:
    with socket.create_server((HOST, 0)) as server:
        return int(server.getsockname()[1])


def _start(cluster: LocalCluster) -> None:
    log = Path(cluster.folder) / "launcher.log"
    inherited = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    own = {
        **LOOPBACK,
        MARK: cluster.mark,
        "RAY_TMPDIR": cluster.folder,
        "RAY_USAGE_STATS_ENABLED": "0",
        "SPT_NOENV": "1",  # keeps Ray's process titles from overwriting the environment
    }
    with log.open("wb") as output:
        launcher = subprocess.Popen(
            [sys.executable, "-m", "abreast.cluster.launcher", json.dumps(asdict(cluster))],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**inherited, **own},
            start_new_session=True,  # outlives this command
        )
    deadline = time.monotonic() + START_S
    while READY not in (text := log.read_text(errors="replace")):
        if launcher.poll() is not None or time.monotonic() > deadline:
            reason = text.strip().rpartition("\n")[2] or f"exit code {launcher.returncode}"
            raise AbreastError(f"the nodes did not start: {reason}", "run `ray start --head --block` to see why")
        time.sleep(0.05)
