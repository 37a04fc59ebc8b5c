"""Programs as targets: one process group a trial, its output in files, its end certain.

A program may print without end, leave children behind, or never end. What it prints goes to files; when it ends, or is
told to, everything that carries the trial's mark goes with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import secrets
import signal
import stat
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from abreast.targets import orphans
from abreast.targets.base import Workers
from abreast.targets.memory import Peak

TRIAL = "ABREAST_TRIAL"
CHUNK = 65_536
LONGEST_LINE = 32_000_000  # bytes of a line that are looked at; all of it is in the file
LAST_WORDS_S = 0.5  # for what is still in the pipe when a program has ended

Heard = Callable[[bytes], bool]
"""Is given each line that the program prints; by True it ends the program."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended and what it took, its children that it waited for included."""

    code: int  # negative: the signal
    out: Path
    err: Path
    seconds: float
    cpu_s: float
    peak_memory: int | None  # bytes, of its processes together
    told_to: bool = False  # it was ended because of what it printed

    @property
    def told(self) -> str:
        """`exit code 3`, `killed by SIGKILL`."""
        if self.code >= 0:
            return f"exit code {self.code}"
        with contextlib.suppress(ValueError):
            return f"killed by {signal.Signals(-self.code).name}"
        return f"killed by signal {-self.code}"

    def columns(self) -> dict[str, Any]:
        """What is kept of it beside the answer."""
        return {
            "exit_code": self.code,
            "cpu_s": round(self.cpu_s, 3),
            "peak_memory_mb": None if self.peak_memory is None else round(self.peak_memory / 1e6, 1),
        }


def new_mark() -> str:
    return secrets.token_hex(8)


async def run(
    argv: Sequence[str],
    folder: Path,
    cwd: Path,
    environment: Mapping[str, str],
    stdin: bytes,
    mark: str,
    workers: Workers,
    heard: Heard | None = None,
) -> Ended:
    """Run a program to its end. `folder` is for its output, and not where it works. Cancelled, it leaves nothing."""
    start = time.monotonic()
    environment = {**environment, "PWD": str(cwd), TRIAL: mark}  # some programs believe PWD more than the system
    given, out, err = folder / "stdin", folder / "stdout", folder / "stderr"
    starting = asyncio.ensure_future(
        workers.in_thread(_started, argv, cwd, environment, stdin, given, out, err, heard is not None)
    )
    try:
        process: subprocess.Popen[bytes] = await asyncio.shield(starting)
    except asyncio.CancelledError:
        starting.add_done_callback(_end_what_started)
        raise
    listening = None if heard is None else _Listening(process, out, heard)
    memory = Peak(process.pid)
    told_to = False
    try:
        if listening is not None:
            told_to = await listening.until_it_ends()
        if told_to:
            _kill(process.pid)
        status, usage = await _ended(process.pid, workers)
        process.returncode = os.waitstatus_to_exitcode(status)  # it is collected: nobody must wait for it again
    except BaseException:
        _kill(process.pid)
        if process.returncode is None:
            process.wait()
        orphans.reap([mark], TRIAL)
        raise
    finally:
        memory.close()
        if listening is not None:
            await listening.close()
    _kill(process.pid)  # what is left of its group
    await workers.in_thread(orphans.reap, [mark], TRIAL)  # and what has left it
    return Ended(
        process.returncode,
        out,
        err,
        time.monotonic() - start,
        usage.ru_utime + usage.ru_stime,
        memory.bytes,
        told_to,
    )


def printed(path: Path) -> IO[bytes]:
    """A file of output, open to be read. A program knows where it lies: what is in its place and no file is refused,
    for a pipe would never end. Raises OSError."""
    found = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if stat.S_ISREG(os.fstat(found).st_mode):
        return os.fdopen(found, "rb")
    os.close(found)
    raise FileNotFoundError(errno.ENOENT, "the output is no file any more", str(path))


def tail(path: Path, most: int = 4_000) -> str:
    """The end of a file as text, from a whole line on."""
    try:
        with printed(path) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - most))
            text = file.read(most).decode("utf-8", "replace")
    except OSError:
        return ""
    return (text.partition("\n")[2] or text if size > most else text).strip()


def content(path: Path, most: int = 2_000_000) -> str:
    """A file as text; of a very large one its beginning and its end."""
    try:
        with printed(path) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(0)
            if size <= most:
                return file.read().decode("utf-8", "replace")
            head = file.read(most // 2).decode("utf-8", "replace")
            file.seek(size - most // 2)
            end = file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    return f"{head}\n… {size - most:,} bytes left out …\n{end}"


def _started(
    argv: Sequence[str],
    cwd: Path,
    environment: Mapping[str, str],
    stdin: bytes,
    given: Path,
    out: Path,
    err: Path,
    piped: bool,
) -> subprocess.Popen[bytes]:
    given.write_bytes(stdin)
    with given.open("rb") as entry, out.open("wb") as output, err.open("wb") as errors:
        return subprocess.Popen(
            argv,
            stdin=entry,
            stdout=subprocess.PIPE if piped else output,
            stderr=errors,
            cwd=cwd,
            env=dict(environment),
            start_new_session=True,
        )


def _end_what_started(starting: asyncio.Future[subprocess.Popen[bytes]]) -> None:
    """It was cancelled while it started."""
    if not starting.cancelled() and starting.exception() is None:
        process = starting.result()
        _kill(process.pid)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _kill(pid: int) -> None:
    """Its whole group; a program is the head of its own."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


async def _ended(pid: int, workers: Workers) -> tuple[int, Any]:
    """Its status and what it used, when it has ended. Where the system can tell, no thread waits for it."""
    try:
        watched = os.pidfd_open(pid)
    except (AttributeError, OSError):
        _, status, usage = await workers.in_thread(os.wait4, pid, 0)
        return status, usage
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(watched, over.set)
    try:
        await over.wait()
    finally:
        loop.remove_reader(watched)
        os.close(watched)
    _, status, usage = os.wait4(pid, 0)  # noqa: ASYNC222 - it has ended
    return status, usage


class _Listening:
    """Reads what a program prints, line by line, and keeps it in a file."""

    def __init__(self, process: subprocess.Popen[bytes], out: Path, heard: Heard) -> None:
        assert process.stdout is not None
        self._pipe, self._heard = process.stdout, heard
        self._file: IO[bytes] = out.open("wb")
        self._pid = process.pid
        self._line = bytearray()
        self._over = asyncio.Event()
        self._told_to = False
        os.set_blocking(self._pipe.fileno(), False)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._pipe.fileno(), self._read)

    async def until_it_ends(self) -> bool:
        """Until it closes its output or has been told to end, which is then True. A child that keeps the pipe open
        is not waited for."""
        while not self._over.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), LAST_WORDS_S)
            if not self._over.is_set() and _has_ended(self._pid):
                break
        return self._told_to

    def _read(self) -> None:
        try:
            chunk = os.read(self._pipe.fileno(), CHUNK)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        if not chunk:
            if self._line:
                self._hear(bytes(self._line))
            self._end()
            return
        self._file.write(chunk)
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            self._hear(bytes(self._line + line))
            self._line.clear()
        if len(self._line) + len(rest) <= LONGEST_LINE:
            self._line += rest

    def _hear(self, line: bytes) -> None:
        if not self._told_to and line.strip() and self._heard(line):
            self._told_to = True
            self._over.set()

    def _end(self) -> None:
        if not self._pipe.closed:
            self._loop.remove_reader(self._pipe.fileno())
        self._over.set()

    async def close(self) -> None:
        if not self._pipe.closed:
            if not self._told_to:
                self._read()  # what came between the last look and the end
            with contextlib.suppress(ValueError, OSError):
                self._loop.remove_reader(self._pipe.fileno())
            self._pipe.close()
        self._file.close()


def _has_ended(pid: int) -> bool:
    """Without collecting it."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True
