"""Run the programs of agents: one process tree per trial, its output in files, and no process left at its end.

A program may print endlessly, leave children behind, or never end. Its output goes to files; when it ends or is ended,
so does everything that it started.
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
RAW_SIZE = 2_000_000  # bytes of output stored with the answer
MAX_LINE_BYTES = 32_000_000  # the rest of a longer line is only in the file
DRAIN_S = 0.5  # time to read the rest of the pipe after a program has ended

LineHandler = Callable[[bytes], bool]
"""Called with each line that the program prints; returns True to end the program."""


@dataclass(frozen=True, slots=True)
class Program:
    argv: Sequence[str]
    cwd: Path
    environment: Mapping[str, str]
    stdin: bytes | Path = b""


@dataclass(frozen=True, slots=True)
class ProcessResult:
    code: int  # negative: the signal
    out: Path
    err: Path
    seconds: float
    cpu_s: float
    peak_memory: int | None  # bytes, of all its processes; None if it ended before it was measured

    @property
    def description(self) -> str:
        """A phrase such as `exit code 3` or `killed by SIGKILL`."""
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
class RunningProcess:
    """A started program. Its output goes to files in `folder`, stdout possibly to `pipe`."""

    tree: ProcessTree
    folder: Path
    started_at: float  # by time.monotonic()
    pipe: IO[bytes] | None = None

    def close(self) -> None:
        """Release all resources. A program that still runs is killed."""
        self.tree.close()
        if self.pipe is not None:
            self.pipe.close()


async def run(prepare: Callable[[], Program], folder: Path, mark: str, workers: Workers) -> ProcessResult:
    """Run the program that `prepare` returns (called in a thread). Its output goes to files in `folder`, which is not
    its working folder. If cancelled, no process remains."""
    starting = asyncio.ensure_future(workers.in_thread(lambda: start(prepare(), folder, mark)))
    try:
        running = await asyncio.shield(starting)
    except asyncio.CancelledError:
        starting.add_done_callback(_close_started)
        raise
    return await finish(running, workers)


def _close_started(starting: asyncio.Future[RunningProcess]) -> None:
    if not starting.cancelled() and starting.exception() is None:
        starting.result().close()


async def finish(
    running: RunningProcess, workers: Workers, on_line: LineHandler | None = None, skip_prefix: bytes = b""
) -> ProcessResult:
    """Wait for the end of a program. `on_line` requires piped output; lines that begin with `skip_prefix` are not
    stored. If cancelled, no process remains."""
    tree, folder = running.tree, running.folder
    ending = tree.wait(workers)
    usage = reader = None
    try:
        usage = SAMPLER.watch(await tree.root(), tree.is_supervised)
        if on_line is not None and running.pipe is not None:
            reader = _LineReader(running.pipe, (folder / "stdout").open("wb"), on_line, skip_prefix)
            if await reader.until_it_ends(ending):
                tree.kill()
        code, cpu_s, max_rss = await ending
    except asyncio.CancelledError:
        tree.kill()
        await asyncio.shield(tree.wait(workers))
        raise
    finally:
        if usage is not None:
            SAMPLER.forget(usage)
        if reader is not None:
            await reader.close()
        running.close()
    seconds = time.monotonic() - running.started_at
    peak = max(usage.peak_memory or 0, max_rss) or None
    return ProcessResult(code, folder / "stdout", folder / "stderr", seconds, cpu_s, peak_memory=peak)


def open_output(path: Path) -> IO[bytes]:
    """Open an output file, unless the program has replaced it, for example by an endless pipe. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    raise FileNotFoundError(errno.ENOENT, "the output is no longer a regular file", str(path))


def _read_ends(path: Path, head: int, end: int) -> tuple[str, str, int]:
    """Return the first and last bytes of a file as text, and its size; a short file is entirely in the second text."""
    try:
        with open_output(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size <= head + end:
                head, end = 0, size
            first = file.read(head)
            file.seek(size - end)
            last = file.read(end)
    except OSError:
        return "", "", 0
    return first.decode("utf-8", "replace"), last.decode("utf-8", "replace"), size


def tail(path: Path, max_bytes: int = 4_000) -> str:
    _, end, size = _read_ends(path, 0, max_bytes)
    if not end:
        return ""
    text = redact_log(end)  # may begin within a secret
    return (text.partition("\n")[2] or text if size > max_bytes else text).strip()


def content(path: Path, max_bytes: int = RAW_SIZE) -> str:
    """Return a file as text; only the beginning and the end of a very large one."""
    head, end, size = _read_ends(path, max_bytes - max_bytes // 2, max_bytes // 2)
    if size <= max_bytes:
        return end
    return f"{redact_log(head)}\n… {size - max_bytes:,} bytes left out …\n{redact_log(end)}"


def start(program: Program, folder: Path, mark: str, is_piped: bool = False) -> RunningProcess:
    """Start a program with its output in files in `folder`; if `is_piped`, stdout goes to a pipe. May block briefly."""
    # Some programs trust PWD more than the system.
    environment = {**program.environment, "PWD": str(program.cwd), TRIAL: mark}
    descriptors: list[int] = []
    pipe = None
    try:
        descriptors.append(_open(_input(folder, program.stdin), os.O_RDONLY))
        if is_piped:
            reader, writer = os.pipe()
            descriptors.append(writer)
            pipe = os.fdopen(reader, "rb")
        else:
            descriptors.append(_open(f"{folder}/stdout", _WRITE_FLAGS))
        descriptors.append(_open(f"{folder}/stderr", _WRITE_FLAGS))
        stdin, stdout, stderr = descriptors
        launch = Launch(program.argv, program.cwd, environment, (stdin, stdout, stderr))
        started_at = time.monotonic()
        return RunningProcess(process_tree.start(launch), folder, started_at, pipe)
    except BaseException:
        if pipe is not None:
            pipe.close()
        raise
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


_WRITE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC


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


class _LineReader:
    """Reads the output of a program line by line and copies it to a file."""

    def __init__(self, pipe: IO[bytes], file: IO[bytes], on_line: LineHandler, skip_prefix: bytes) -> None:
        self._pipe, self._file, self._on_line, self._skip_prefix = pipe, file, on_line, skip_prefix
        self._line = bytearray()
        self._loop = asyncio.get_running_loop()
        self._over = asyncio.Event()
        self._is_stopped = False

    async def until_it_ends(self, ending: asyncio.Future[Any]) -> bool:
        """Wait until the program closes its output or ends, but not for children that keep the pipe open. Return
        whether to end the program."""
        os.set_blocking(self._pipe.fileno(), False)
        self._loop.add_reader(self._pipe.fileno(), self._read)
        while not self._over.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), DRAIN_S)
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
            self._finish_line(line, b"\n")
        if len(self._line) + len(rest) <= MAX_LINE_BYTES:
            self._line += rest
        if not chunk:
            self._finish_line(b"", b"")
            if not self._pipe.closed:
                self._loop.remove_reader(self._pipe.fileno())
            self._over.set()

    def _finish_line(self, rest: bytes, ending: bytes) -> None:
        """Process a complete line."""
        line = bytes(self._line + rest)
        self._line.clear()
        self._write(line + ending)
        if not self._is_stopped and line.strip() and self._on_line(line):
            self._is_stopped = True
            self._over.set()

    def _write(self, line: bytes) -> None:
        if not self._skip_prefix or not line.startswith(self._skip_prefix):
            self._file.write(line)

    async def close(self) -> None:
        if not self._pipe.closed:
            if not self._is_stopped:
                self._read()  # the output since the last read
            with contextlib.suppress(ValueError, OSError):
                self._loop.remove_reader(self._pipe.fileno())
            self._pipe.close()
        self._write(bytes(self._line))
        self._file.close()
