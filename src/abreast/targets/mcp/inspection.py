"""Start or reach servers to check that they work, and list their tools."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from abreast.errors import BadInput
from abreast.mcp_protocol import Message
from abreast.redaction import redact_log
from abreast.targets.mcp.conversation import Conversation, McpError
from abreast.targets.mcp.declaration import START_TIMEOUT_S, Server
from abreast.targets.mcp.expansion import ExpandedServer, expand
from abreast.targets.mcp.text import first_line, plain_text
from abreast.targets.untrusted_json import mapping

AT_ONCE = 8
LONGEST_NAME = 128
LONGEST_DESCRIPTION = 10_000
LONGEST_PROBLEM = 500
NO_MARKS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that a server offers. Its text is untrusted; control characters are removed."""

    name: str
    description: str


@dataclass(frozen=True, slots=True)
class Inspection:
    """The tools of a server, or its problem and the fix."""

    server: str
    tools: tuple[Tool, ...] = ()
    title: str = ""  # the name and version that it reports
    seconds: float = 0.0
    problem: str = ""
    fix: str = ""


async def inspect_servers(
    servers: Sequence[Server], cwd: Path, timeout_s: float | None = None, marks: Mapping[str, str] = NO_MARKS
) -> list[Inspection]:
    """Inspect servers, a few at a time, and return the results in their order."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def inspect(server: Server) -> Inspection:
        async with slots:
            return await inspect_server(server, cwd, timeout_s, marks)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(inspect(server)) for server in servers]
    return [task.result() for task in tasks]


async def inspect_server(
    server: Server, cwd: Path, timeout_s: float | None = None, marks: Mapping[str, str] = NO_MARKS
) -> Inspection:
    """Shake hands and list the tools within `timeout_s`, else the server's `start_timeout`; then end the session, and
    the process if it was started."""
    began = time.monotonic()
    timeout_s = timeout_s or server.start_timeout or START_TIMEOUT_S
    try:
        ready = expand(server)
    except BadInput as error:
        problem = error.message.removeprefix(f"MCP server {server.name}: ")
        return Inspection(server.name, problem=problem, fix=error.fix)
    try:
        about, tools, ended = await _converse(server, ready, cwd, timeout_s, marks)
        return replace(_inspection(server.name, about, tools), seconds=ended - began)
    except McpError as error:
        return Inspection(
            server.name,
            seconds=time.monotonic() - began,
            problem=first_line(redact_log(error.problem), LONGEST_PROBLEM),
            fix=redact_log(error.fix),
        )


async def _converse(
    server: Server, ready: ExpandedServer, cwd: Path, timeout_s: float, marks: Mapping[str, str]
) -> tuple[Message, list[Mapping[str, Any]], float]:
    """What the server reports about itself, its tools, and the time before the session was ended."""
    if server.kind == "stdio":
        from abreast.targets.mcp.stdio import stdio_channel

        context: Any = stdio_channel(ready, cwd, marks)
    else:
        from abreast.targets.mcp.http import http_channel

        context = http_channel(server, ready)
    async with context as channel:
        conversation = Conversation(channel, Path(ready.cwd) if ready.cwd is not None else cwd)
        try:
            async with asyncio.timeout(timeout_s):
                about = await conversation.initialize()
                tools = await conversation.list_tools() if _has_tools(about) else []
                return about, tools, time.monotonic()
        except TimeoutError:
            raise channel.timeout_error(conversation.method, timeout_s) from None


def _has_tools(about: Message) -> bool:
    """Whether the server declares tools. Clients do not ask the others."""
    return mapping(about.get("capabilities")).get("tools") is not None


def _inspection(name: str, about: Message, listed: Sequence[Mapping[str, Any]]) -> Inspection:
    info = mapping(about.get("serverInfo"))
    title = first_line(redact_log(f"{info.get('name') or ''} {info.get('version') or ''}".strip()), LONGEST_NAME)
    tools = tuple(
        Tool(
            first_line(redact_log(tool["name"]), LONGEST_NAME),
            plain_text(redact_log(str(tool.get("description") or "")), LONGEST_DESCRIPTION),
        )
        for tool in listed
    )
    if tools:
        return Inspection(name, tools, title)
    reason = "" if _has_tools(about) else ": it does not declare the capability `tools`"
    fix = "check that it is the right server, with the right args"
    return Inspection(name, (), title, problem=f"offers no tools{reason}", fix=fix)
