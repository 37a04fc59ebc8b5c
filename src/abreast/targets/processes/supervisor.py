"""The process that runs the programs of trials, one at a time, and ends everything that each of them started.

A supervisor is a child subreaper: whatever its program starts, however it detaches, stays below it. When the program
ends, or the driver closes the channel or dies, the supervisor kills its children until none remain; then it has no
descendants either. A launcher, started once, forks as many supervisors as trials run concurrently. This file runs as a
script and imports only the standard library, so that it starts fast.

An agent may kill its supervisor and the launcher. The processes it started then still have the resource limit that the
supervisor set (`limit_of`): unlike an environment, a process cannot drop a hard limit unless it is root.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import gc
import os
import resource
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Set

READY = b"r"
FORK = b"f"  # tells the launcher to fork a supervisor
HELLO = struct.Struct("=i")  # process id of a new supervisor
LENGTH = struct.Struct("=Q")  # bytes of the request that follows
ENDED = struct.Struct("=iidQ?")
"""Errno of a failed start, exit code (negative: signal), CPU seconds, largest process, whether processes remain."""

_CHUNK = 65_536  # most requests are smaller

_KILL_TIMEOUT_S = 1.0  # wait for processes that cannot be killed: another user's, or blocked by a broken disk
_PAUSE_S = 0.0005  # pause between two rounds of killing
_GRACE_S = 1.0  # time for supervisors to exit by themselves
_PR_SET_CHILD_SUBREAPER = 36
RLIMIT_LOCKS = 10  # Linux has ignored it since 2.4.25, and children inherit it
LIMIT_BITS = 24  # bits of a limit that hold the process id of a supervisor
_LIBC = ctypes.CDLL(None, use_errno=True)


def limit_of(driver: int, pid: int) -> int:
    """Return the limit that marks a supervisor and its descendants; `driver` is a random number of the driver."""
    return driver << LIMIT_BITS | pid


def _set_limit(limit: int) -> None:
    with contextlib.suppress(OSError, ValueError):  # an outer abreast has set a lower limit
        resource.setrlimit(RLIMIT_LOCKS, (limit, limit))


class Children:
    """The children of this process, a child subreaper: orphans below it become its children."""

    def __init__(self) -> None:
        if _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")
        self._list = f"/proc/{os.getpid()}/task/{os.getpid()}/children"
        self.ids()  # raises if the kernel does not provide the file
        self._woken, wake = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(wake, False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        self.codes: dict[int, int] = {}
        self.cpu_s, self.max_rss = 0.0, 0

    def ids(self) -> set[int]:
        with open(self._list, "rb") as file:  # noqa: PTH123 - pathlib is not loaded here
            return {int(word) for word in file.read().split()}

    def wait(self, channel: socket.socket) -> None:
        """Sleep until a child ends or the channel has something to read."""
        # `select` refuses descriptors above 1,023, such as one inherited from a driver with many connections
        events = select.poll()
        for descriptor in (self._woken, channel.fileno()):
            events.register(descriptor, select.POLLIN)
        events.poll()
        with contextlib.suppress(BlockingIOError):
            os.read(self._woken, 1024)

    def collect(self) -> bool:
        """Record how children ended; return whether any remain."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if not pid:
                return True
            self.codes[pid] = os.waitstatus_to_exitcode(status)
            self.cpu_s += usage.ru_utime + usage.ru_stime
            self.max_rss = max(self.max_rss, 1024 * usage.ru_maxrss)

    def end(self, spare: Set[int] = frozenset()) -> None:
        """Kill all children except `spare`. A process that left the group of a child becomes a child itself."""
        deadline = time.monotonic() + _KILL_TIMEOUT_S
        while time.monotonic() < deadline:
            targets = self.ids() - spare
            for pid in targets:
                _kill(pid)
            if not self.collect() or (spare and not targets):
                return
            time.sleep(_PAUSE_S)


def _kill(pid: int) -> None:
    """Kill a child with its process group. The kernel does so in one step: no fork escapes."""
    with contextlib.suppress(OSError):  # it has ended, or belongs to another user
        group = os.getpgid(pid)
        if group == os.getpgrp():
            os.kill(pid, signal.SIGKILL)
        else:
            os.killpg(group, signal.SIGKILL)


def launch(control: socket.socket, driver: int) -> None:
    """Fork a supervisor for every channel received through `control`, until that is closed."""
    children = Children()
    supervisors: set[int] = set()
    gc.freeze()
    control.sendall(READY)
    while True:
        children.wait(control)
        children.collect()
        supervisors &= children.ids()
        children.end(spare=supervisors)  # orphans of a killed supervisor
        supervisors |= children.ids()
        try:
            message, descriptors, _, _ = socket.recv_fds(control, 1, 1, socket.MSG_DONTWAIT)
        except BlockingIOError:
            continue
        if not message:
            break
        pid = os.fork()
        if not pid:
            control.close()
            _set_limit(limit_of(driver, os.getpid()))
            os.set_inheritable(descriptors[0], False)  # otherwise the driver would not notice the end of this process
            supervise(socket.socket(fileno=descriptors[0]))
            os._exit(0)
        supervisors.add(pid)
        os.close(descriptors[0])
    deadline = time.monotonic() + _GRACE_S
    while children.collect() and time.monotonic() < deadline:
        time.sleep(_PAUSE_S)
    children.end()


def supervise(channel: socket.socket) -> None:
    """Run one program after another until the channel is closed or a process cannot be ended."""
    os.setpgid(0, 0)
    children = Children()
    with contextlib.suppress(OSError):  # the driver is dead
        channel.sendall(HELLO.pack(os.getpid()))
        while _serve(channel, children):
            pass


def _serve(channel: socket.socket, children: Children) -> bool:
    """Run the program of the next request; report its exit once all its processes have ended. Return False if the
    channel was closed, or if a process cannot be ended."""
    request, streams = _receive(channel)
    if not request:
        return False
    try:
        pid = _spawn(*_decode(request), streams)
    except OSError as error:
        channel.sendall(ENDED.pack(error.errno or errno.EIO, 0, 0.0, 0, False))
        return True
    finally:
        for stream in streams:
            os.close(stream)
    has_children = True
    try:
        while (has_children := children.collect()) and pid not in children.codes and not _is_closed(channel):
            children.wait(channel)
    finally:
        if has_children:
            children.end()
    code = children.codes.get(pid, -signal.SIGKILL)
    # A process starts as a copy of this one: the kernel counts our memory as its own.
    floor = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    max_rss = children.max_rss if children.max_rss > floor else 0
    remain = children.collect()
    channel.sendall(ENDED.pack(0, code, children.cpu_s, max_rss, remain))
    children.codes.clear()
    children.cpu_s, children.max_rss = 0.0, 0
    return not remain


def _receive(channel: socket.socket) -> tuple[bytes, list[int]]:
    """Read a request and its descriptors; the request is empty if the channel was closed."""
    content, streams, _, _ = socket.recv_fds(channel, _CHUNK, 3, socket.MSG_CMSG_CLOEXEC)
    if len(content) < LENGTH.size:
        return b"", streams
    size = LENGTH.size + LENGTH.unpack_from(content)[0]
    parts = [content]
    while (size := size - len(parts[-1])) > 0:
        if not (chunk := channel.recv(min(size, 16 * _CHUNK))):
            return b"", streams
        parts.append(chunk)
    return b"".join(parts)[LENGTH.size :], streams


def _decode(request: bytes) -> tuple[list[bytes], bytes, dict[bytes, bytes]]:
    """Decode the command line, folder and environment of a request: a count, then NUL-separated strings."""
    (count,) = LENGTH.unpack_from(request)
    cwd, *texts = request[LENGTH.size :].split(b"\0")
    variables = (text.partition(b"=") for text in texts[count:])
    return texts[:count], cwd, {name: value for name, _, value in variables}


def _spawn(argv: list[bytes], cwd: bytes, environment: dict[bytes, bytes], streams: list[int]) -> int:
    """Start a program in a new session; return its process id. Several times as fast as `subprocess.Popen`."""
    os.chdir(cwd)
    try:
        return os.posix_spawn(
            _find(argv[0], environment),
            argv,
            environment,
            file_actions=[(os.POSIX_SPAWN_DUP2, stream, target) for target, stream in enumerate(streams)],
            setsid=True,
            setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],  # which Python ignores
        )
    finally:
        os.chdir("/")


def _find(program: bytes, environment: dict[bytes, bytes]) -> bytes:
    """Return the file of a program, searched on the PATH of its own environment if it has no folder."""
    if b"/" in program:
        return program
    for folder in environment.get(b"PATH", os.fsencode(os.defpath)).split(b":"):
        file = os.path.join(folder, program)  # noqa: PTH118 - pathlib is not loaded here
        if os.access(file, os.X_OK) and os.path.isfile(file):  # noqa: PTH113
            return file
    raise FileNotFoundError(errno.ENOENT, "no such program")


def _is_closed(channel: socket.socket) -> bool:
    try:
        return not channel.recv(1, socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    launch(socket.socket(fileno=int(sys.argv[1])), driver=int(sys.argv[2]))
