"""Each server started, or reached, for real: whether it works, and which tools it offers."""

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

AT_ONCE = 8
LONGEST_NAME = 128
LONGEST_DESCRIPTION = 10_000
LONGEST_PROBLEM = 500
NO_MARKS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Tool:
    """What a server offers. Its text is the server's, without control characters, and not to be trusted."""

    name: str
    description: str


@dataclass(frozen=True, slots=True)
class Inspection:
    """What one server is, or what is wrong with it and what to do about that."""

    server: str
    tools: tuple[Tool, ...] = ()
    title: str = ""  # the name and version that it gives itself
    seconds: float = 0.0
    problem: str = ""
    fix: str = ""


async def inspect_servers(
    servers: Sequence[Server], cwd: Path, timeout_s: float | None = None, marks: Mapping[str, str] = NO_MARKS
) -> list[Inspection]:
    """In the order of the servers, a few at once."""
    room = asyncio.Semaphore(AT_ONCE)

    async def one(server: Server) -> Inspection:
        async with room:
            return await inspect_server(server, cwd, timeout_s, marks)

    async with asyncio.TaskGroup() as group:  # if one is cancelled, none is left behind
        tasks = [group.create_task(one(server)) for server in servers]
    return [task.result() for task in tasks]


async def inspect_server(
    server: Server, cwd: Path, timeout_s: float | None = None, marks: Mapping[str, str] = NO_MARKS
) -> Inspection:
    """Say hello to it and ask for its tools, within `timeout_s` or its own `start_timeout`; then end the session, and
    the process if it was started here."""
    began = time.monotonic()
    timeout_s = timeout_s or server.start_timeout or START_TIMEOUT_S
    try:
        ready = expand(server)
    except BadInput as error:
        problem = error.message.removeprefix(f"MCP server {server.name}: ")
        return Inspection(server.name, problem=problem, fix=error.fix)
    try:
        about, listed, ended = await _ask(server, ready, cwd, timeout_s, marks)
        return replace(_found(server.name, about, listed), seconds=ended - began)
    except McpError as trouble:
        return Inspection(
            server.name,
            seconds=time.monotonic() - began,
            problem=first_line(redact_log(trouble.problem), LONGEST_PROBLEM),
            fix=redact_log(trouble.fix),
        )


async def _ask(
    server: Server, ready: ExpandedServer, cwd: Path, timeout_s: float, marks: Mapping[str, str]
) -> tuple[Message, list[Mapping[str, Any]], float]:
    """What it says of itself, its tools, and when that was known; to end it takes time of its own."""
    if server.kind == "stdio":
        from abreast.targets.mcp.stdio import stdio_channel

        way: Any = stdio_channel(ready, cwd, marks)
    else:
        from abreast.targets.mcp.http import http_channel

        way = http_channel(server, ready)
    async with way as channel:
        talk = Conversation(channel, Path(ready.cwd) if ready.cwd is not None else cwd)
        try:
            async with asyncio.timeout(timeout_s):
                about = await talk.initialize()
                listed = await talk.list_tools() if _has_tools(about) else []
                return about, listed, time.monotonic()
        except TimeoutError:
            raise channel.timeout_error(talk.method, timeout_s) from None


def _has_tools(about: Message) -> bool:
    """Whether it says so: clients do not ask those that do not."""
    offers = about.get("capabilities")
    return isinstance(offers, dict) and offers.get("tools") is not None


def _found(name: str, about: Message, listed: Sequence[Mapping[str, Any]]) -> Inspection:
    who = about.get("serverInfo")
    words = [str(who.get(key) or "") for key in ("name", "version")] if isinstance(who, dict) else []
    title = first_line(redact_log(" ".join(word for word in words if word)), LONGEST_NAME)
    tools = tuple(
        Tool(
            first_line(redact_log(tool["name"]), LONGEST_NAME),
            plain_text(redact_log(str(tool.get("description") or "")), LONGEST_DESCRIPTION),
        )
        for tool in listed
    )
    if tools:
        return Inspection(name, tools, title)
    why = "" if _has_tools(about) else ": it does not declare the capability tools"
    return Inspection(
        name, (), title, problem=f"offers no tools{why}", fix="is it the right server, with the right args?"
    )
