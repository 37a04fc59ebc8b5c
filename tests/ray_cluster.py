"""A Ray cluster on this machine whose nodes are as separate as machines: own network, processes and temporary files.

A node is a set of Linux namespaces (network, PID, mount) with a Ray node in it. Node 0 is the head; a virtual switch in
its network connects the others by veth pairs. Nothing outlives the process that started the cluster, even if it is
killed: the first process of a node ends when its standard input closes, and then the kernel ends all others. Ray's
sessions and object stores are in memory that belongs to the node.

Needs Linux, and either root or user namespaces for everybody. Drivers run on a node: `cluster.run(["abreast", ...])`.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

NETLINK = [sys.executable, "-S", "-E", str(Path(__file__).with_name("netlink.py"))]
RAY = Path(sys.executable).with_name("ray")
IS_ROOT = os.geteuid() == 0
SHM = "/dev/shm"  # of the node: a tmpfs, which also holds its temporary files
MOUNT = f"mount -t tmpfs -o size=1g tmpfs {SHM} && mkdir {SHM}/tmp && echo mounted"
STOPPED, ENDED = psutil.STATUS_STOPPED, {psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD}
FIRST_PROCESS = f'{MOUNT}; read -r _; "$@" </dev/null & read -r _'  # bash reaps orphans while it reads


class Command(subprocess.Popen[str]):
    """A command on a node. Its parent, which moved it there, does not forward signals, so they go to the command."""

    def send_signal(self, sig: int) -> None:
        with contextlib.suppress(psutil.NoSuchProcess):
            for child in psutil.Process(self.pid).children():
                child.send_signal(sig)


@dataclass
class Node:
    """The namespaces of a node: the process that created them, and the first process in them."""

    index: int
    creator: subprocess.Popen[str]
    first: int

    @property
    def address(self) -> str:
        return f"10.213.0.{self.index + 1}"

    def processes(self) -> Iterator[psutil.Process]:
        namespace = _pid_namespace(self.first)
        for process in psutil.process_iter():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError, PermissionError):
                if process.pid != self.first and _pid_namespace(process.pid) == namespace:
                    yield process


def status(process: psutil.Process) -> str:
    try:
        return process.status()
    except psutil.NoSuchProcess:
        return psutil.STATUS_DEAD


def _pid_namespace(pid: int) -> str:
    return str(Path(f"/proc/{pid}/ns/pid").readlink())


class RayCluster:
    """A head and worker nodes, each with the same cores, the custom resource `nodeN` and its own folder for state.

    The nodes inherit the environment of this moment, with `environment` on top.
    """

    def __init__(self, size: int = 2, cpus: int = 2, environment: Mapping[str, str] | None = None) -> None:
        self.nodes: dict[int, Node] = {}
        self._is_intact = False
        self._booted = 0
        self._size = size
        self._cpus = cpus
        self._environment = {
            **os.environ,
            "RAY_TMPDIR": SHM,
            "RAY_USAGE_STATS_ENABLED": "0",
            "TMPDIR": f"{SHM}/tmp",
            "ABREAST_STATE": f"{SHM}/state",
            "ABREAST_CACHE": f"{SHM}/cache",
            **(environment or {}),
        }

    @property
    def address(self) -> str:
        """The address for drivers."""
        return f"{self.nodes[0].address}:6379"

    def start(self) -> None:
        self._start_ray(self.boot())
        for _ in range(1, self._size):
            self.add_node()
        self._is_intact = True

    def boot(self) -> Node:
        """Create the head without Ray, with its network."""
        self._booted = 0
        head = self._boot({})
        self._device(head, "up", "lo")
        self._device(head, "bridge", "switch")
        self._device(head, "address", "switch", f"{head.address}/24")
        self._device(head, "up", "switch")
        return head

    def stop(self) -> None:
        for index in sorted(self.nodes, reverse=True):
            self.kill_node(index)

    def restore(self) -> None:
        """Start afresh after changes: Ray lists a dead node as alive for some time."""
        if not self._is_intact:
            self.stop()
            self.start()

    def add_node(self, resources: Mapping[str, float] | None = None) -> int:
        """Start another worker node, and return its index."""
        self._is_intact = False
        node = self._boot(resources or {})
        port = f"port{node.index}"
        self._device(self.nodes[0], "veth", port, "eth0", str(node.first), "switch")
        self._device(self.nodes[0], "up", port)
        self._device(node, "up", "lo")
        self._device(node, "address", "eth0", f"{node.address}/24")
        self._device(node, "up", "eth0")
        self._start_ray(node)
        return node.index

    def kill_node(self, index: int) -> None:
        """End all processes of a node at once and remove it, like a power failure."""
        self._is_intact = False
        node = self.nodes.pop(index)
        with contextlib.suppress(ProcessLookupError):
            os.kill(node.first, signal.SIGKILL)
        with node.creator:  # waits, and closes the pipes
            pass

    def freeze(self, index: int) -> None:
        """Stop all processes of a node until `thaw`, also those that start while it stops them."""
        self._is_intact = False
        while running := [process for process in self.processes(index) if status(process) not in {STOPPED, *ENDED}]:
            for process in running:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.suspend()
            time.sleep(0.01)

    def thaw(self, index: int) -> None:
        for process in self.nodes[index].processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                for stopped in (process, process.parent()):  # the parent of a `Command` stops with it
                    if stopped is not None:
                        stopped.resume()

    def cut_link(self, index: int = 1) -> None:
        """Unplug a worker node's cable from the switch: packets are lost in both directions without an error."""
        self._is_intact = False
        self._device(self.nodes[0], "down", f"port{index}")

    def restore_link(self, index: int = 1) -> None:
        self._device(self.nodes[0], "up", f"port{index}")

    def hide_folder(self, index: int, path: Path) -> None:
        """Let a folder look empty on a node, which then does not share it with the driver."""
        self._is_intact = False
        self.run(["mount", "-t", "tmpfs", "tmpfs", str(path)], node=index)

    def processes(self, index: int) -> list[psutil.Process]:
        """The processes of a node, Ray's included, numbered as outside of it."""
        return list(self.nodes[index].processes())

    def command(self, words: Sequence[str], node: int = 0, cwd: Path | None = None, **options: Any) -> Command:
        """Start a command on a node. Signals that its `Command` sends reach the command itself."""
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
        enter = self._enter(self.nodes[node], "--net", "--pid", "--mount")
        return Command([*enter, "env", f"--chdir={cwd or Path.cwd()}", *words], **options)

    def run(
        self, words: Sequence[str], node: int = 0, timeout: float = 60, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on a node to its end."""
        with self.command(words, node, **options) as command:
            try:
                out, err = command.communicate(timeout=timeout)
            except BaseException:
                command.kill()
                raise
        return subprocess.CompletedProcess(list(words), command.returncode, out, err)

    def _enter(self, node: Node, *namespaces: str) -> list[str]:
        user = [] if IS_ROOT else ["--user", "--preserve-credentials"]
        return ["nsenter", "--target", str(node.first), *user, *namespaces]

    def _device(self, node: Node, *words: str) -> None:
        """Change a network device of a node."""
        subprocess.run([*self._enter(node, "--net"), *NETLINK, *words], check=True)

    def _boot(self, resources: Mapping[str, float]) -> Node:
        """Create the namespaces of the next node. If we are not root, they belong to a user namespace, the head's."""
        index, self._booted = self._booted, self._booted + 1
        user = ["unshare", "--user", "--map-root-user"] if index == 0 else self._enter(self.nodes[0])
        unshare = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
        creator = subprocess.Popen(
            [*([] if IS_ROOT else user), *unshare, "bash", "-c", FIRST_PROCESS, "node", *self._ray(index, resources)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=self._environment,
            start_new_session=True,  # Ctrl-C is for the tests, which then end the node
            text=True,
        )
        _read_until(creator, "mounted", "cannot create namespaces: become root, or allow user namespaces to everybody")
        node = Node(index, creator, psutil.Process(creator.pid).children()[0].pid)
        self.nodes[index] = node
        return node

    def _ray(self, index: int, resources: Mapping[str, float]) -> list[str]:
        head = "10.213.0.1"
        return [
            str(RAY),
            "start",
            *(["--head", "--port=6379", "--include-dashboard=false"] if index == 0 else [f"--address={head}:6379"]),
            f"--node-ip-address=10.213.0.{index + 1}",
            f"--num-cpus={self._cpus}",
            f"--resources={json.dumps({f'node{index}': 1, **resources})}",
            f"--object-store-memory={80_000_000}",
            "--include-log-monitor=false",
            "--disable-usage-stats",
            "--block",
        ]

    def _start_ray(self, node: Node) -> None:
        assert node.creator.stdin is not None
        node.creator.stdin.write("\n")
        node.creator.stdin.flush()
        _read_until(node.creator, "Ray runtime started", f"cannot start Ray on node {node.index}")


def _read_until(process: subprocess.Popen[str], text: str, error: str) -> None:
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        if text in line:
            return
        lines.append(line)
    raise RuntimeError(f"{error}\n{''.join(lines)}")
