"""A program with everything that it starts, which ends as one.

On Linux a supervisor process contains the tree (`supervisor`). Elsewhere the process group does, and the mark in the
environment finds processes that left it: a daemon that also clears its environment survives there.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from abreast.errors import Transient
from abreast.targets import orphans, supervisor
from abreast.targets.base import Workers

TRIAL = "ABREAST_TRIAL"  # the variable with the mark of a trial
START_S = 60  # for a supervisor to answer
KILL_S = 1.5  # for a supervisor to end a tree, before it is killed itself
CLOSE_S = 2.5  # for the launcher to end, before it is killed
Containment = Literal["subreaper", "group"]


class Exit(NamedTuple):
    """How a program ended, and what it and everything it started used."""

    code: int  # negative: the signal
    cpu_s: float
    largest: int = 0  # bytes of the largest process; 0 if unknown


@dataclass(frozen=True, slots=True)
class Launch:
    """A program to start, and descriptors for its standard streams."""

    argv: Sequence[str]
    cwd: Path
    environment: Mapping[str, str]
    streams: tuple[int, int, int]

    @property
    def mark(self) -> str:
        return self.environment.get(TRIAL, "")

    def encode(self) -> bytes:
        variables = [f"{name}={value}" for name, value in self.environment.items()]
        texts = [str(self.cwd), *self.argv, *variables]
        encoded = os.fsencode("\0".join(texts))  # at once, which takes a tenth of the time
        if encoded.count(b"\0") >= len(texts):
            raise ValueError("embedded null byte")
        return supervisor.LENGTH.pack(len(self.argv)) + encoded


class ProcessTree(ABC):
    """A running program and its descendants."""

    pid: int

    @abstractmethod
    async def wait(self, workers: Workers) -> Exit:
        """Wait until the program has ended and nothing is left of what it started."""

    @abstractmethod
    def kill(self) -> None:
        """Begin to end all of it; `wait` says when that is done."""

    @abstractmethod
    def close(self) -> None:
        """Let go of it; what still runs is ended."""


def start(launch: Launch) -> ProcessTree:
    """Start a program in a session of its own. Blocks for a moment. Raises OSError as `subprocess` does."""
    return _LAUNCHER.start(launch) if _LAUNCHER.open() else ProcessGroup(launch)


def containment() -> Containment:
    """What keeps together what a trial starts on this machine."""
    return "subreaper" if _LAUNCHER.open() else "group"


def close_launcher() -> None:
    """End the process that forks supervisors if no program runs; the next program starts another one."""
    _LAUNCHER.close_if_idle()


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


class SupervisedTree(ProcessTree):
    """A program below a supervisor, which is reached by a channel."""

    def __init__(self, channel: socket.socket, supervisor_pid: int, pid: int, mark: str, limit: int) -> None:
        self._channel, self._supervisor, self.pid, self._mark = channel, supervisor_pid, pid, mark
        self._limit = limit
        self._is_over = self._is_killed = False

    async def wait(self, workers: Workers) -> Exit:
        try:
            reply = await asyncio.get_running_loop().sock_recv(self._channel, supervisor.ENDED.size)
        except OSError:
            reply = b""
        if len(reply) < supervisor.ENDED.size:  # the supervisor was killed
            self._is_over = self._is_killed = True
            await workers.in_thread(self._reap)
            return Exit(-signal.SIGKILL, 0.0)
        self._is_over = True
        return Exit(*supervisor.ENDED.unpack(reply))

    def _reap(self) -> None:
        """End what the supervisor left. The launcher does that too, but may have been stopped or killed as well."""
        orphans.reap_limited(self._limit, self._limit)
        orphans.reap([self._mark], TRIAL)

    def kill(self) -> None:
        self._is_killed = True
        if not self._is_over:
            _kill_group(self.pid)  # at once: what it would do next may cost money
        with contextlib.suppress(OSError):
            self._channel.shutdown(socket.SHUT_WR)
        asyncio.get_running_loop().call_later(KILL_S, self._kill_supervisor)

    def _kill_supervisor(self) -> None:
        """It may have been stopped by its own program."""
        if not self._is_over:
            with contextlib.suppress(OSError):
                os.kill(self._supervisor, signal.SIGKILL)

    def close(self) -> None:
        _LAUNCHER.release(self._channel, reusable=self._is_over and not self._is_killed)


class Launcher:
    """The process that forks supervisors: one for this process, started when it is first needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_available = sys.platform == "linux" and bool(sys.executable) and not getattr(sys, "frozen", False)
        self._forget()

    def _forget(self) -> None:
        self._owner = os.getpid()
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._idle: list[socket.socket] = []  # channels of supervisors that wait for a program
        self._busy = 0
        self._number = int.from_bytes(os.urandom(4), "big")  # see `supervisor.limit_of`

    def open(self) -> bool:
        """Start it unless it runs. False where supervisors cannot work."""
        with self._lock:
            if self._owner != os.getpid():  # a forked copy: the launcher is the parent's
                self._forget()
            if self._control is None and self._is_available:
                self._open()
            return self._is_available

    def start(self, launch: Launch) -> SupervisedTree:
        request = launch.encode()
        while True:
            channel, is_new = self._take()
            try:
                supervisor_pid, pid, problem = _ask(channel, request, launch.streams)
            except OSError as error:
                self.release(channel, reusable=False)
                if is_new:
                    raise Transient(f"the supervisor of the program does not answer: {error}") from error
                continue  # an idle one was killed
            except BaseException:
                self.release(channel, reusable=False)
                raise
            if problem:
                self.release(channel, reusable=True)
                raise OSError(problem, os.strerror(problem), launch.argv[0])
            limit = supervisor.limit_of(self._number, supervisor_pid)
            return SupervisedTree(channel, supervisor_pid, pid, launch.mark, limit)

    def release(self, channel: socket.socket, reusable: bool) -> None:
        with self._lock:
            self._busy -= 1
            if reusable:
                self._idle.append(channel)
                return
        with contextlib.suppress(OSError):
            channel.shutdown(socket.SHUT_RDWR)  # another process may hold a copy of it
        channel.close()

    def continue_supervisors(self) -> None:
        with self._lock, contextlib.suppress(OSError):
            if self._control is not None and self._process is not None:
                self._process.send_signal(signal.SIGCONT)
                self._control.send(supervisor.CONTINUE)

    def close_if_idle(self) -> None:
        with self._lock:
            if not self._busy and self._owner == os.getpid():
                self._close()

    def _take(self) -> tuple[socket.socket, bool]:
        """A channel to a supervisor, and whether that is a new one."""
        with self._lock:
            if self._idle:
                self._busy += 1
                return self._idle.pop(), False
            ours, theirs = socket.socketpair()
            with theirs:
                try:
                    self._fork(theirs)
                except OSError:  # it was killed, or closed a moment ago
                    self._close()
                    self._open()
                    self._fork(theirs)
            self._busy += 1
            return ours, True

    def _fork(self, channel: socket.socket) -> None:
        if self._control is None or self._process is None:
            raise ConnectionError("no launcher")
        self._process.send_signal(signal.SIGCONT)  # an agent may have stopped it
        socket.send_fds(self._control, [supervisor.FORK], [channel.fileno()])

    def _open(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(START_S)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", supervisor.__file__, str(theirs.fileno()), str(self._number)],
                pass_fds=[theirs.fileno()],
                cwd="/",
                env={name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        self._control = ours
        try:
            self._is_available = ours.recv(1) == supervisor.READY
        except OSError:
            self._is_available = False
        if not self._is_available:
            self._close()

    def _close(self) -> None:
        for channel in (*self._idle, *([] if self._control is None else [self._control])):
            channel.close()
        if self._process is not None:
            self._end(self._process)
        self._idle.clear()
        self._control = self._process = None

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        """Wait for the launcher, which ends when its channel is closed unless an agent stops or kills it."""
        process.send_signal(signal.SIGCONT)
        try:
            process.wait(CLOSE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.returncode and not self._busy:
            orphans.reap_limited(supervisor.limit_of(self._number, 0), supervisor.limit_of(self._number + 1, 0) - 1)


def _ask(channel: socket.socket, request: bytes, streams: Sequence[int]) -> tuple[int, int, int]:
    """Have a supervisor start a program. Its id, that of the program, and errno if that could not be started."""
    channel.settimeout(START_S)
    socket.send_fds(channel, [supervisor.LENGTH.pack(len(request))], streams)
    channel.sendall(request)
    reply = _receive(channel, supervisor.STARTED.size)
    if len(reply) < supervisor.STARTED.size:
        raise ConnectionError("it ended")
    channel.setblocking(False)
    supervisor_pid, pid, problem = supervisor.STARTED.unpack(reply)
    return supervisor_pid, pid, problem


def _receive(channel: socket.socket, size: int) -> bytes:
    """Read a reply. An agent may stop its supervisor before that could say that the agent runs."""
    channel.settimeout(1)
    for _ in range(START_S):
        with contextlib.suppress(TimeoutError):
            return channel.recv(size, socket.MSG_WAITALL)
        _LAUNCHER.continue_supervisors()
    raise TimeoutError(f"no reply in {START_S} seconds")


_LAUNCHER = Launcher()
atexit.register(close_launcher)


class ProcessGroup(ProcessTree):
    """A program and its process group, where there are no supervisors."""

    def __init__(self, launch: Launch) -> None:
        self._mark = launch.mark
        stdin, stdout, stderr = launch.streams
        self._process = subprocess.Popen(
            launch.argv,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cwd=launch.cwd,
            env=dict(launch.environment),
            start_new_session=True,
        )
        self.pid = self._process.pid

    async def wait(self, workers: Workers) -> Exit:
        _, status, usage = await workers.in_thread(os.wait4, self.pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(status)  # nobody must wait for it again
        self.kill()  # the rest of its group
        await workers.in_thread(orphans.reap, [self._mark], TRIAL)
        return Exit(self._process.returncode, usage.ru_utime + usage.ru_stime)

    def kill(self) -> None:
        _kill_group(self.pid)

    def close(self) -> None:
        if self._process.returncode is None:
            self.kill()
            self._process.wait()
