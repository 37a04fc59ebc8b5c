"""MCP over standard input and output: a server process for the duration of a context."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import uuid
from collections import deque
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from abreast.mcp_protocol import Message
from abreast.redaction import redact_log
from abreast.targets.mcp.conversation import BROKEN, McpError, parse_messages
from abreast.targets.mcp.expansion import ExpandedServer
from abreast.targets.mcp.text import error_line, first_line
from abreast.targets.processes import orphans

MARK = "ABREAST_MCP"
EXIT_S = 1.0  # time for a process to exit by itself when its input ends
LONGEST_LINE = 16_000_000  # bytes
MOST_OUTPUT = 64_000_000
MOST_NOISE = 1_000_000  # bytes of lines that are not messages
STDERR_TAIL = 8_000
_CHUNK = 65_536
_POLL_S = 0.1
TRY = "try the command in a terminal"


@contextlib.asynccontextmanager
async def stdio_channel(ready: ExpandedServer, cwd: Path, marks: Mapping[str, str]) -> AsyncIterator[StdioChannel]:
    """Start a server. At the end its input is closed, and a second later its processes are killed."""
    mark = uuid.uuid4().hex
    process = await _start(ready, Path(ready.cwd) if ready.cwd is not None else cwd, {**marks, MARK: mark})
    channel = StdioChannel(process)
    grace_s = 0.0  # if this is cancelled, do not wait for the exit
    try:
        yield channel
        grace_s = EXIT_S
    except McpError:
        grace_s = EXIT_S
        raise
    finally:
        await _end(process, mark, grace_s, channel)


async def _start(ready: ExpandedServer, cwd: Path, extra: Mapping[str, str]) -> asyncio.subprocess.Process:
    program = ready.command[0]
    if not cwd.is_dir():
        raise McpError(f"cwd: no folder {cwd}", "correct its cwd")
    try:
        return await asyncio.create_subprocess_exec(
            *ready.command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=cwd,
            env={**os.environ, **ready.env, **extra},
            start_new_session=True,
        )
    except FileNotFoundError:
        if os.sep in program and (cwd / program).exists():
            raise McpError(f"the interpreter of {program} does not exist", "correct its #! line") from None
        fix = "install it, or write its full path"
        if " " in program.strip():
            fix = f"write command: {program.split()[0]} and the other words as args:"
        raise McpError(f"command not found: {first_line(program)}", fix) from None
    except PermissionError:
        raise McpError(
            f"{first_line(program)} is not executable", f"chmod +x {program}, or name its interpreter"
        ) from None
    except (OSError, ValueError) as error:
        raise McpError(f"{first_line(program)} cannot be started: {error}", TRY) from error


async def _end(process: asyncio.subprocess.Process, mark: str, grace_s: float, channel: StdioChannel) -> None:
    try:
        if process.stdin is not None:
            process.stdin.close()
        await _wait_for_exit(process, grace_s)
    finally:
        _kill(process.pid, mark)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(EXIT_S):
            await channel.drain()
            await process.wait()


async def _wait_for_exit(process: asyncio.subprocess.Process, timeout_s: float) -> None:
    """Wait for the exit of a process; `wait` alone also waits for its children that hold its pipes."""
    for _ in range(round(timeout_s / _POLL_S)):
        if process.returncode is not None:
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), _POLL_S)


def _kill(group: int, mark: str) -> None:
    """Kill the process group, and processes that left it but carry the mark."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
    orphans.reap([mark], MARK)


class StdioChannel:
    """Lines of JSON to and from a process. Up to a limit, other lines are ignored."""

    protocol = ""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._buffer = bytearray()
        self._received: deque[Message] = deque()
        self._size = self._noise_size = 0
        self._first_noise = ""  # the first line that is not a message
        self._has_spoken = False  # whether it has sent a message
        self._stderr = bytearray()
        self._stderr_reader = asyncio.create_task(self._read_stderr())

    async def drain(self) -> None:
        """Read the rest of the pipes of a dead process, which are only closed when they are empty."""
        assert self._process.stdout is not None
        try:
            while await self._process.stdout.read(_CHUNK):
                pass
            await self._stderr_reader
        finally:
            self._stderr_reader.cancel()

    async def send(self, message: Message) -> None:
        stdin = self._process.stdin
        assert stdin is not None
        with contextlib.suppress(ConnectionError):  # `receive` reports how it ended
            stdin.write(json.dumps(message).encode() + b"\n")
            await stdin.drain()

    async def receive(self) -> Message:
        while not self._received:
            await self._read()
        return self._received.popleft()

    def timeout_error(self, method: str, seconds: float) -> McpError:
        if self._first_noise and not self._has_spoken:
            return self._not_mcp()
        error = self._last_error()
        return McpError(
            f"no answer to {method} within {seconds:g} s{f'; stderr: {error}' if error else ''}",
            f"{TRY}; if the server is only slow, raise its start_timeout (code-search: --start-timeout 90s)",
        )

    async def _read(self) -> None:
        chunk = await self._chunk()
        if not chunk:
            raise await self._exit_error()
        self._size += len(chunk)
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            self._receive_line(bytes(self._buffer) + line)
            self._buffer.clear()
        self._buffer += rest
        if len(self._buffer) > LONGEST_LINE or (not self._has_spoken and len(self._buffer) > MOST_NOISE):
            self._receive_line(bytes(self._buffer[:_CHUNK]))
            raise self._not_mcp()
        if self._noise_size > MOST_NOISE or self._size > MOST_OUTPUT:
            raise self._not_mcp()

    async def _chunk(self) -> bytes:
        """Output of the process; nothing if the output has ended, or the process has and a child holds the pipe."""
        assert self._process.stdout is not None
        while True:
            has_exited = self._process.returncode is not None
            try:
                return await asyncio.wait_for(self._process.stdout.read(_CHUNK), _POLL_S)
            except TimeoutError:
                if has_exited:
                    return b""

    def _receive_line(self, content: bytes) -> None:
        messages = parse_messages(content) if content.strip() else []
        if messages is None:
            self._noise_size += len(content)
            self._first_noise = self._first_noise or first_line(redact_log(content.decode(errors="replace")))
        else:
            self._noise_size += 0 if messages else 1
            self._has_spoken = self._has_spoken or bool(messages)
            self._received.extend(messages)

    def _not_mcp(self) -> McpError:
        if self._has_spoken:
            return McpError("never stops printing", BROKEN)
        fix = "check that the command starts the server; some need a word such as mcp or --stdio"
        return McpError(f'does not speak MCP: its first output was "{self._first_noise}"', fix)

    async def _exit_error(self) -> McpError:
        """Return the error of a process whose output has ended."""
        if self._buffer:
            self._receive_line(bytes(self._buffer))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._stderr_reader), EXIT_S / 2)
        await _wait_for_exit(self._process, EXIT_S)
        code = self._process.returncode
        if code == 0 and self._first_noise and not self._has_spoken:
            return self._not_mcp()
        if code is None:
            reason = "closed its output"
        elif code < 0:
            reason = f"was killed by {signal.Signals(-code).name}"
        else:
            reason = f"exited with code {code}"
        error = self._last_error()
        return McpError(f"{reason}: {error}" if error else reason, TRY)

    async def _read_stderr(self) -> None:
        assert self._process.stderr is not None
        while chunk := await self._process.stderr.read(_CHUNK):
            self._stderr += chunk
            del self._stderr[:-STDERR_TAIL]

    def _last_error(self) -> str:
        return error_line(redact_log(self._stderr.decode(errors="replace")))
