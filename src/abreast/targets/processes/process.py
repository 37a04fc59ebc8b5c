"""Programs as targets: one process tree a trial, its output in files, its end certain.

A program may print without end, leave children behind, or never end. What it prints goes to files; when it ends, or is
ended, everything that it started goes with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import secrets
import signal
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from abreast.redaction import redact_log
from abreast.targets.base import Workers
from abreast.targets.processes import process_tree
from abreast.targets.processes.process_tree import TRIAL, Launch, ProcessTree
from abreast.targets.processes.process_usage import SAMPLER

CHUNK = 65_536
RAW_SIZE = 2_000_000  # bytes of the output that are stored beside the answer
LONGEST_LINE = 32_000_000  # bytes of a line that are looked at; all of it is in the file
LAST_WORDS_S = 0.5  # for what is still in the pipe when a program has ended

Heard = Callable[[bytes], bool]
"""Is given each line that the program prints; by True it ends the program."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program to run: its command line, the folder where it works, its environment and its input."""

    argv: Sequence[str]
    cwd: Path
    environment: Mapping[str, str]
    stdin: bytes | Path = b""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended and what it took, its children that it waited for included."""

    code: int  # negative: the signal
    out: Path
    err: Path
    seconds: float
    cpu_s: float
    peak_memory: int | None  # bytes, of its processes together; None if it was too quick and too small to tell

    @property
    def description(self) -> str:
        """`exit code 3`, `killed by SIGKILL`."""
        if self.code >= 0:
            return f"exit code {self.code}"
        with contextlib.suppress(ValueError):
            return f"killed by {signal.Signals(-self.code).name}"
        return f"killed by signal {-self.code}"

    def columns(self) -> dict[str, Any]:
        return {
            "exit_code": self.code,
            "cpu_s": round(self.cpu_s, 3),
            "peak_memory_mb": None if self.peak_memory is None else round(self.peak_memory / 1e6, 1),
        }


def new_mark() -> str:
    return secrets.token_hex(8)


@dataclass(frozen=True, slots=True)
class Running:
    """A program that has been started. Its output goes to files in `folder`, or to the `pipe`."""

    tree: ProcessTree
    folder: Path
    started_at: float  # by time.monotonic()
    pipe: IO[bytes] | None = None

    def close(self) -> None:
        """Release what belongs to it. A program that still runs is killed."""
        self.tree.close()
        if self.pipe is not None:
            self.pipe.close()


async def run(prepare: Callable[[], Program], folder: Path, mark: str, workers: Workers) -> Ended:
    """Run the program that `prepare` returns, called in a thread, to its end. The output goes to files in `folder`,
    which is not where the program works. Cancelled, it leaves nothing."""
    starting = asyncio.ensure_future(workers.in_thread(lambda: start(prepare(), folder, mark)))
    try:
        running = await asyncio.shield(starting)
    except asyncio.CancelledError:
        starting.add_done_callback(_close_started)
        raise
    return await finish(running, workers)


def _close_started(starting: asyncio.Future[Running]) -> None:
    if not starting.cancelled() and starting.exception() is None:
        starting.result().close()


async def finish(running: Running, workers: Workers, heard: Heard | None = None, dropped: bytes = b"") -> Ended:
    """Wait for the end of a program. With `heard` its output must be piped, and lines that begin with `dropped` are not
    kept. Cancelled, it leaves nothing."""
    tree, folder = running.tree, running.folder
    ending = tree.wait(workers)
    usage = listening = None
    try:
        usage = SAMPLER.watch(await tree.root(), tree.is_supervised)
        if heard is not None and running.pipe is not None:
            listening = _Listening(running.pipe, (folder / "stdout").open("wb"), heard, dropped)
            if await listening.until_it_ends(ending):
                tree.kill()
        code, cpu_s, largest = await ending
    except asyncio.CancelledError:
        tree.kill()
        await asyncio.shield(tree.wait(workers))
        raise
    finally:
        if usage is not None:
            SAMPLER.forget(usage)
        if listening is not None:
            await listening.close()
        running.close()
    seconds = time.monotonic() - running.started_at
    peak = max(usage.peak_memory or 0, largest) or None
    return Ended(code, folder / "stdout", folder / "stderr", seconds, cpu_s, peak_memory=peak)


def printed(path: Path) -> IO[bytes]:
    """Open a file of output. A program may have put a pipe in its place, which would never end. Raises OSError."""
    return os.fdopen(_open_output(path)[0], "rb")


def _open_output(path: Path) -> tuple[int, int]:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode):
        return descriptor, status.st_size
    os.close(descriptor)
    raise FileNotFoundError(errno.ENOENT, "the output is no file any more", str(path))


def _read_ends(path: Path, head: int, end: int) -> tuple[str, str, int]:
    """The first and last bytes of a file as text, and its size; all of a short one is in the second."""
    try:
        descriptor, size = _open_output(path)
    except OSError:
        return "", "", 0
    try:
        if size <= head + end:
            head, end = 0, size
        first = os.pread(descriptor, head, 0) if head else b""
        last = os.pread(descriptor, end, size - end) if end else b""
    except OSError:
        return "", "", 0
    finally:
        os.close(descriptor)
    return first.decode("utf-8", "replace"), last.decode("utf-8", "replace"), size


def tail(path: Path, most: int = 4_000) -> str:
    """The end of a file as text, from a whole line on."""
    _, end, size = _read_ends(path, 0, most)
    if not end:
        return ""
    text = redact_log(end)  # it may begin inside a secret
    return (text.partition("\n")[2] or text if size > most else text).strip()


def content(path: Path, most: int = RAW_SIZE) -> str:
    """A file as text; of a very large one its beginning and its end."""
    head, end, size = _read_ends(path, most - most // 2, most // 2)
    if size <= most:
        return end
    return f"{redact_log(head)}\n… {size - most:,} bytes left out …\n{redact_log(end)}"


def start(program: Program, folder: Path, mark: str, is_piped: bool = False) -> Running:
    """Start a program. May block for a moment. Its output goes to files in `folder`, that of stdout to a pipe if it
    `is_piped`."""
    # Some programs believe PWD more than the system.
    environment = {**program.environment, "PWD": str(program.cwd), TRIAL: mark}
    opened: list[int] = []
    pipe = None
    try:
        opened.append(_open(_input(folder, program.stdin), os.O_RDONLY))
        if is_piped:
            reader, writer = os.pipe()
            opened.append(writer)
            pipe = os.fdopen(reader, "rb")
        else:
            opened.append(_open(f"{folder}/stdout", _WRITTEN))
        opened.append(_open(f"{folder}/stderr", _WRITTEN))
        stdin, stdout, stderr = opened
        launch = Launch(program.argv, program.cwd, environment, (stdin, stdout, stderr))
        started_at = time.monotonic()
        return Running(process_tree.start(launch), folder, started_at, pipe)
    except BaseException:
        if pipe is not None:
            pipe.close()
        raise
    finally:
        for descriptor in opened:
            os.close(descriptor)


_WRITTEN = os.O_WRONLY | os.O_CREAT | os.O_TRUNC


def _open(path: str | Path, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)


def _input(folder: Path, content: bytes | Path) -> str | Path:
    if isinstance(content, Path):
        return content
    if not content:
        return os.devnull
    path = folder / "stdin"
    path.write_bytes(content)
    return path


class _Listening:
    """Reads what a program prints, line by line, and keeps it in a file."""

    def __init__(self, pipe: IO[bytes], file: IO[bytes], heard: Heard, dropped: bytes) -> None:
        self._pipe, self._file, self._heard, self._dropped = pipe, file, heard, dropped
        self._line = bytearray()
        self._loop = asyncio.get_running_loop()
        self._over = asyncio.Event()
        self._is_stopped = False

    async def until_it_ends(self, ending: asyncio.Future[Any]) -> bool:
        """Wait until it closes its output, or is to be ended, which is then True. A child that keeps the pipe open is
        not waited for."""
        os.set_blocking(self._pipe.fileno(), False)
        self._loop.add_reader(self._pipe.fileno(), self._read)
        while not self._over.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), LAST_WORDS_S)
            if not self._over.is_set() and ending.done():
                break
        return self._is_stopped

    def _read(self) -> None:
        try:
            chunk = os.read(self._pipe.fileno(), CHUNK)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            self._take(line, b"\n")
        if len(self._line) + len(rest) <= LONGEST_LINE:
            self._line += rest
        if not chunk:
            self._take(b"", b"")
            if not self._pipe.closed:
                self._loop.remove_reader(self._pipe.fileno())
            self._over.set()

    def _take(self, rest: bytes, ending: bytes) -> None:
        """Take the line that ends so."""
        line = bytes(self._line + rest)
        self._line.clear()
        self._keep(line + ending)
        if not self._is_stopped and line.strip() and self._heard(line):
            self._is_stopped = True
            self._over.set()

    def _keep(self, line: bytes) -> None:
        if not self._dropped or not line.startswith(self._dropped):
            self._file.write(line)

    async def close(self) -> None:
        if not self._pipe.closed:
            if not self._is_stopped:
                self._read()  # what came between the last look and the end
            with contextlib.suppress(ValueError, OSError):
                self._loop.remove_reader(self._pipe.fileno())
            self._pipe.close()
        self._keep(bytes(self._line))
        self._file.close()
