"""Process trees: a program with everything that it starts, ended together.

On Linux, a supervisor process contains the tree (see `supervisor`). Elsewhere the process group does, and the mark in
the environment finds processes that left it; a daemon that also clears its environment survives there.

Starting a program takes one message to a supervisor; its end is one message back, which the event loop reads.
Supervisors are reused by later trials.
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
from abreast.targets.base import Workers
from abreast.targets.processes import orphans, supervisor

TRIAL = "ABREAST_TRIAL"  # environment variable with the mark of a trial
START_S = 60  # time for a new supervisor to answer
KILL_S = 1.5  # time for a supervisor to end a tree before it is killed itself
CLOSE_S = 2.5  # time for the launcher to exit before it is killed
Containment = Literal["subreaper", "group"]


class Exit(NamedTuple):
    code: int  # negative: the signal
    cpu_s: float
    max_rss: int = 0  # bytes of the largest process; 0 if unknown


@dataclass(frozen=True, slots=True)
class Launch:
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
        encoded = os.fsencode("\0".join(texts))  # one call takes a tenth of the time of one per string
        if encoded.count(b"\0") >= len(texts):
            raise ValueError("embedded null byte")
        return supervisor.LENGTH.pack(len(self.argv)) + encoded


class ProcessTree(ABC):
    is_supervised: bool

    @abstractmethod
    async def root(self) -> int:
        """Return the process id of the program, or of its supervisor (0 if that died). Call it after `wait`."""

    @abstractmethod
    def wait(self, workers: Workers) -> asyncio.Future[Exit]:
        """Return a new future for the end of the whole tree. It raises OSError if the program could not be started."""

    @abstractmethod
    def kill(self) -> None:
        """Begin to end the tree; the future of `wait` completes when that is done."""

    @abstractmethod
    def close(self) -> None:
        """Release all resources. A program that still runs is killed."""


def start(launch: Launch) -> ProcessTree:
    """Start a program in a new session. May block briefly. Raises OSError."""
    if _LAUNCHER.open():
        return _LAUNCHER.start(launch)
    stdin, stdout, stderr = launch.streams
    process = subprocess.Popen(
        launch.argv,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        cwd=launch.cwd,
        env=dict(launch.environment),
        start_new_session=True,
    )
    return ProcessGroup(process, launch.mark)


def containment() -> Containment:
    return "subreaper" if _LAUNCHER.open() else "group"


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


@dataclass(slots=True)
class SupervisorHandle:
    channel: socket.socket
    pid: int = 0  # unknown until its first message


class SupervisedTree(ProcessTree):
    """A program below a supervisor, which reports its end."""

    is_supervised = True

    def __init__(self, supervisor: SupervisorHandle, launch: Launch) -> None:
        self._supervisor, self._launch = supervisor, launch
        self._loop: asyncio.AbstractEventLoop | None = None  # reads the channel
        self._future: asyncio.Future[Exit] | None = None  # from the last call of `wait`
        self._outcome: Exit | Exception | None = None
        self._answered = asyncio.Event()  # set by a new supervisor
        self._is_reusable = True  # the next program may use the supervisor

    async def root(self) -> int:
        for _ in range(START_S):
            if self._supervisor.pid or self._outcome is not None:
                return self._supervisor.pid
            try:
                await asyncio.wait_for(self._answered.wait(), 1)
            except TimeoutError:
                _LAUNCHER.resume()
        raise Transient(f"the supervisor of the program does not answer within {START_S} s")

    def wait(self, workers: Workers) -> asyncio.Future[Exit]:
        loop = asyncio.get_running_loop()
        if self._future is None:
            self._loop = loop
            loop.add_reader(self._supervisor.channel.fileno(), self._read, workers)
        self._future = loop.create_future()
        self._complete()
        return self._future

    def _read(self, workers: Workers) -> None:
        is_new = not self._supervisor.pid
        try:
            report = self._supervisor.channel.recv(supervisor.HELLO.size if is_new else supervisor.ENDED.size)
        except BlockingIOError:
            return
        except ConnectionResetError:  # it died with our message unread
            report, is_new = b"", True
        except OSError:
            report = b""
        if report and is_new:
            (self._supervisor.pid,) = supervisor.HELLO.unpack(report)
            self._answered.set()
        elif is_new:
            self._end(Transient("the supervisor of the program was killed before it started the program"))
        elif not report:
            self._stop_reading()
            self._is_reusable = False
            limit = _LAUNCHER.limit_of(self._supervisor)
            self._supervisor.pid = 0  # the system may reuse the id
            self._reaping = asyncio.ensure_future(self._reap(limit, workers))  # the loop keeps weak references only
        else:
            problem, code, cpu_s, max_rss, processes_remain = supervisor.ENDED.unpack(report)
            self._is_reusable &= not processes_remain
            failure = OSError(problem, os.strerror(problem), self._launch.argv[0])
            self._end(failure if problem else Exit(code, cpu_s, max_rss))

    async def _reap(self, limit: int, workers: Workers) -> None:
        """End the orphans of a killed supervisor. The launcher may have been stopped or killed too."""
        try:
            await workers.in_thread(orphans.reap_limited, limit, limit)
            await workers.in_thread(orphans.reap, [self._launch.mark], TRIAL)
        finally:
            self._end(Exit(-signal.SIGKILL, 0.0))

    def _end(self, outcome: Exit | Exception) -> None:
        self._stop_reading()
        self._outcome = outcome
        self._is_reusable &= not isinstance(outcome, Transient)
        self._answered.set()
        self._complete()

    def _complete(self) -> None:
        """Complete the future if the outcome is known and no cancelled task has cancelled it."""
        if self._future is None or self._future.done() or self._outcome is None:
            return
        if isinstance(self._outcome, Exit):
            self._future.set_result(self._outcome)
        else:
            self._future.set_exception(self._outcome)

    def _stop_reading(self) -> None:
        if self._loop is not None:
            self._loop.remove_reader(self._supervisor.channel.fileno())
            self._loop = None

    def kill(self) -> None:
        self._is_reusable = False
        if self._outcome is None:
            self._kill_groups()  # immediately: their next step may cost money
        with contextlib.suppress(OSError):
            self._supervisor.channel.shutdown(socket.SHUT_WR)
        asyncio.get_running_loop().call_later(KILL_S, self._kill_supervisor)

    def _kill_groups(self) -> None:
        """Kill the process groups of the program and of daemons; the supervisor ends the rest."""
        pid = self._supervisor.pid
        with contextlib.suppress(OSError):
            for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
                _kill_group(int(child))

    def _kill_supervisor(self) -> None:
        """Kill a supervisor that has not ended its program, which may have stopped it."""
        if self._outcome is None and self._supervisor.pid:
            with contextlib.suppress(OSError):
                os.kill(self._supervisor.pid, signal.SIGKILL)

    def close(self) -> None:
        self._stop_reading()
        _LAUNCHER.release(self._supervisor, reusable=self._outcome is not None and self._is_reusable)


class Launcher:
    """The process that forks supervisors, started when it is first needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_available = sys.platform == "linux" and bool(sys.executable) and not getattr(sys, "frozen", False)
        self._forget()

    def _forget(self) -> None:
        self._owner = os.getpid()
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._idle: list[SupervisorHandle] = []
        self._busy = 0
        self._number = int.from_bytes(os.urandom(4), "big")  # see `supervisor.limit_of`

    def open(self) -> bool:
        """Start the launcher unless it runs; return whether supervisors work here."""
        with self._lock:
            if self._owner != os.getpid():  # a forked copy: the launcher is the parent's
                self._forget()
            if self._control is None and self._is_available:
                self._open()
            return self._is_available

    def start(self, launch: Launch) -> SupervisedTree:
        request = launch.encode()
        while True:
            handle, is_new = self._take()
            try:
                _send(handle, request, launch.streams)
                return SupervisedTree(handle, launch)
            except BaseException as error:
                self.release(handle, reusable=False)
                if not isinstance(error, OSError):
                    raise
                if is_new:
                    raise Transient(f"the supervisor of the program does not answer: {error}") from error
                # Otherwise an idle supervisor was killed: try the next.

    def limit_of(self, handle: SupervisorHandle) -> int:
        return supervisor.limit_of(self._number, handle.pid)

    def resume(self) -> None:
        """Continue the launcher, which an agent may have stopped."""
        with self._lock:
            if self._process is not None:
                self._process.send_signal(signal.SIGCONT)

    def release(self, handle: SupervisorHandle, reusable: bool) -> None:
        with self._lock:
            self._busy -= 1
            if reusable:
                self._idle.append(handle)
                return
        _close(handle.channel)

    def close_if_idle(self) -> None:
        """End the launcher if no program runs; the next program starts another one."""
        with self._lock:
            if not self._busy and self._owner == os.getpid():
                self._close()

    def _take(self) -> tuple[SupervisorHandle, bool]:
        """Return an idle or new supervisor, and whether it is new."""
        with self._lock:
            if self._idle:
                self._busy += 1
                return self._idle.pop(), False
            own_end, child_end = socket.socketpair()
            with child_end:
                try:
                    self._fork(child_end)
                except OSError:  # the launcher was killed, or just closed
                    self._close()
                    self._open()
                    self._fork(child_end)
            own_end.setblocking(False)
            self._busy += 1
            return SupervisorHandle(own_end), True

    def _fork(self, channel: socket.socket) -> None:
        if self._control is None or self._process is None:
            raise ConnectionError("no launcher")
        self._process.send_signal(signal.SIGCONT)  # an agent may have stopped it
        socket.send_fds(self._control, [supervisor.FORK], [channel.fileno()])

    def _open(self) -> None:
        own_end, child_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        own_end.settimeout(START_S)
        with child_end:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", supervisor.__file__, str(child_end.fileno()), str(self._number)],
                pass_fds=[child_end.fileno()],
                cwd="/",
                env={name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        self._control = own_end
        try:
            self._is_available = own_end.recv(1) == supervisor.READY
        except OSError:
            self._is_available = False
        if not self._is_available:
            self._close()

    def _close(self) -> None:
        for idle in self._idle:
            idle.channel.close()
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            self._end(self._process)
        self._idle.clear()
        self._control = self._process = None

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        """Wait for the launcher, which exits when its channel is closed unless an agent stopped or killed it."""
        process.send_signal(signal.SIGCONT)
        try:
            process.wait(CLOSE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.returncode and not self._busy:
            orphans.reap_limited(supervisor.limit_of(self._number, 0), supervisor.limit_of(self._number + 1, 0) - 1)


def _send(handle: SupervisorHandle, request: bytes, streams: Sequence[int]) -> None:
    """Ask a supervisor to start a program. Raises OSError if the supervisor was killed."""
    if handle.pid:
        os.kill(handle.pid, signal.SIGCONT)  # an agent may have stopped it
    message = supervisor.LENGTH.pack(len(request)) + request
    sent = socket.send_fds(handle.channel, [message], streams)
    if sent < len(message):  # the buffer is full
        handle.channel.settimeout(START_S)
        handle.channel.sendall(memoryview(message)[sent:])
        handle.channel.setblocking(False)


def _close(channel: socket.socket) -> None:
    with contextlib.suppress(OSError):
        channel.shutdown(socket.SHUT_RDWR)  # a forked process may have a copy
    channel.close()


_LAUNCHER = Launcher()
close_launcher = _LAUNCHER.close_if_idle
atexit.register(close_launcher)


class ProcessGroup(ProcessTree):
    """A program and its process group, for systems without supervisors."""

    is_supervised = False

    def __init__(self, process: subprocess.Popen[bytes], mark: str) -> None:
        self._process, self._mark = process, mark
        self._waiting: asyncio.Future[Exit] | None = None

    async def root(self) -> int:
        return self._process.pid

    def wait(self, workers: Workers) -> asyncio.Future[Exit]:
        if self._waiting is None:
            self._waiting = asyncio.ensure_future(self._wait(workers))
        return asyncio.shield(self._waiting)

    async def _wait(self, workers: Workers) -> Exit:
        _, status, usage = await workers.in_thread(os.wait4, self._process.pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(status)  # prevents another wait for it
        self.kill()  # the rest of its group
        await workers.in_thread(orphans.reap, [self._mark], TRIAL)
        return Exit(self._process.returncode, usage.ru_utime + usage.ru_stime)

    def kill(self) -> None:
        _kill_group(self._process.pid)

    def close(self) -> None:
        if self._process.returncode is None:
            self.kill()
            self._process.wait()
