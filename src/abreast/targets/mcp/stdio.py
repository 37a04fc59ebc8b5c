"""A server that is started: a process of its own, spoken to by lines of JSON. None outlives the look at it."""

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
from abreast.targets.mcp.conversation import McpError, parse_messages
from abreast.targets.mcp.expansion import ExpandedServer
from abreast.targets.mcp.text import error_line, first_line
from abreast.targets.processes import orphans

MARK = "ABREAST_MCP"
PATIENCE_S = 1.0  # for a process to end by itself when its input ends
LONGEST_LINE = 16_000_000  # bytes
MOST_OUTPUT = 64_000_000
MOST_NOISE = 1_000_000  # that is no message
KEPT_OF_STDERR = 8_000
_CHUNK = 65_536
_MOMENT_S = 0.1


@contextlib.asynccontextmanager
async def stdio_channel(ready: ExpandedServer, cwd: Path, marks: Mapping[str, str]) -> AsyncIterator[StdioChannel]:
    """The server while it is needed. Then its input ends, and what is left of it a second later is ended."""
    mark = uuid.uuid4().hex
    process = await _start(ready, Path(ready.cwd) if ready.cwd is not None else cwd, {**marks, MARK: mark})
    channel = StdioChannel(process)
    patience = 0.0  # whoever is cancelled does not wait
    try:
        yield channel
        patience = PATIENCE_S
    except McpError:
        patience = PATIENCE_S
        raise
    finally:
        await _end(process, mark, patience, channel)


async def _start(ready: ExpandedServer, cwd: Path, extra: Mapping[str, str]) -> asyncio.subprocess.Process:
    program = ready.command[0]
    if not cwd.is_dir():
        raise McpError(f"there is no folder {cwd} to start it in", "correct its cwd")
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
            raise McpError(
                f"{program} begins with the name of a program that is not there", "correct its #! line"
            ) from None
        fix = "install it, or write its full path"
        if " " in program.strip():
            fix = f"write command: {program.split()[0]} and the other words in args"
        raise McpError(f"the command {first_line(program)} is not found", fix) from None
    except PermissionError:
        raise McpError(
            f"{first_line(program)} is not executable", f"chmod +x {program}, or name its interpreter"
        ) from None
    except (OSError, ValueError) as error:
        raise McpError(f"{first_line(program)} cannot be started: {error}", "try it in a terminal") from error


async def _end(process: asyncio.subprocess.Process, mark: str, patience: float, channel: StdioChannel) -> None:
    try:
        if process.stdin is not None:
            process.stdin.close()
        await _exit(process, patience)
    finally:
        _kill(process.pid, mark)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE_S):
            await channel.drain()
            await process.wait()


async def _exit(process: asyncio.subprocess.Process, patience: float) -> None:
    """Wait until the process has ended; `wait` alone also waits for children of it that hold its pipes."""
    for _ in range(round(patience / _MOMENT_S)):
        if process.returncode is not None:
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), _MOMENT_S)


def _kill(group: int, mark: str) -> None:
    """The process with its group, and whoever left the group: they all carry the mark."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
    orphans.reap([mark], MARK)


class StdioChannel:
    """Lines of JSON to and from a process. What is no message is passed over, but not for ever."""

    protocol = ""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._buffer = bytearray()
        self._waiting: deque[Message] = deque()
        self._taken = self._noise = 0
        self._first = ""  # what it printed first that is no message
        self._heard = False  # a message
        self._errors = bytearray()
        self._listening = asyncio.create_task(self._listen())

    async def drain(self) -> None:
        """What a dead process left in its pipes, which are only closed when they are empty."""
        assert self._process.stdout is not None
        try:
            while await self._process.stdout.read(_CHUNK):
                pass
            await self._listening
        finally:
            self._listening.cancel()

    async def send(self, message: Message) -> None:
        stdin = self._process.stdin
        assert stdin is not None
        with contextlib.suppress(ConnectionError):  # it has ended: receive says how
            stdin.write(json.dumps(message).encode() + b"\n")
            await stdin.drain()

    async def receive(self) -> Message:
        while not self._waiting:
            await self._read()
        return self._waiting.popleft()

    def timeout_error(self, asked: str, seconds: float) -> McpError:
        """What to say if it has not answered in time."""
        if self._first and not self._heard:
            return self._no_server()
        told = self._last_words()
        said = f"; it said: {told}" if told else ""
        return McpError(
            f"no answer to {asked} within {seconds:g} s{said}",
            "try the command in a terminal; if the server is only slow, raise its start_timeout "
            "(code-search: --start-timeout 90s)",
        )

    async def _read(self) -> None:
        chunk = await self._chunk()
        if not chunk:
            raise await self._ended()
        self._taken += len(chunk)
        *lines, rest = chunk.split(b"\n")
        for each in lines:
            self._take(bytes(self._buffer) + each)
            self._buffer.clear()
        self._buffer += rest
        if len(self._buffer) > LONGEST_LINE or (not self._heard and len(self._buffer) > MOST_NOISE):
            self._take(bytes(self._buffer[:_CHUNK]))
            raise self._no_server()
        if self._noise > MOST_NOISE or self._taken > MOST_OUTPUT:
            raise self._no_server()

    async def _chunk(self) -> bytes:
        """Nothing if its output has ended, or if it has and a child of it holds the pipe."""
        assert self._process.stdout is not None
        while True:
            over = self._process.returncode is not None
            try:
                return await asyncio.wait_for(self._process.stdout.read(_CHUNK), _MOMENT_S)
            except TimeoutError:
                if over:
                    return b""

    def _take(self, content: bytes) -> None:
        messages = parse_messages(content) if content.strip() else []
        if messages is None:
            self._noise += len(content)
            self._first = self._first or first_line(redact_log(content.decode(errors="replace")))
        else:
            self._noise += 0 if messages else 1
            self._heard = self._heard or bool(messages)
            self._waiting.extend(messages)

    def _no_server(self) -> McpError:
        if self._heard:
            return McpError("prints without an end", "the server is broken: tell its authors")
        fix = "is this the command that starts the server? Some need a word such as mcp or --stdio"
        return McpError(f'does not speak MCP: it printed "{self._first}" first', fix)

    async def _ended(self) -> McpError:
        """Its output has ended: how, and its last words."""
        if self._buffer:
            self._take(bytes(self._buffer))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._listening), PATIENCE_S / 2)
        await _exit(self._process, PATIENCE_S)
        code = self._process.returncode
        told = self._last_words()
        if code == 0 and self._first and not self._heard:
            return self._no_server()
        if code is None:
            how = "closed its output"
        elif code < 0:
            how = f"was ended by {signal.Signals(-code).name}"
        else:
            how = f"ended with exit code {code}"
        return McpError(f"{how}: {told}" if told else how, "try the command in a terminal")

    async def _listen(self) -> None:
        assert self._process.stderr is not None
        while chunk := await self._process.stderr.read(_CHUNK):
            self._errors += chunk
            if len(self._errors) > KEPT_OF_STDERR:
                del self._errors[:-KEPT_OF_STDERR]

    def _last_words(self) -> str:
        """The most telling line of stderr."""
        return error_line(redact_log(self._errors.decode(errors="replace")))
