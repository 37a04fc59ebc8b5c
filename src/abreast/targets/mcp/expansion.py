"""Declarations of servers with their variables expanded, which are never stored."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from abreast.targets.mcp.declaration import REFERENCE, Server, Variables

VALUE = "ABREAST_MCP_VALUE_"  # prefix of the CLI's variables for values that must not be written to a file
# Claude's format has no working directory, so this starts servers that need one.
_IN_FOLDER = "import os,sys; os.chdir(sys.argv[1]); os.execvp(sys.argv[2], sys.argv[2:])"


@dataclass(frozen=True, slots=True)
class ExpandedServer:
    """What is needed to start or reach a server."""

    command: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str | None
    url: str
    headers: Mapping[str, str]


def expand(server: Server) -> ExpandedServer:
    """Expand a declaration with the current environment. Raises BadInput if a variable is not set."""
    variables = Variables(os.environ)

    def fill(text: str) -> str:
        return variables.fill(f"MCP server {server.name}", text)

    cwd = None if server.cwd is None else str(Path(server.base).resolve() / Path(fill(server.cwd)).expanduser())
    command = tuple(locate(fill(word), server.base, cwd, first=index == 0) for index, word in enumerate(server.command))
    env = {name: fill(value) for name, value in server.env.items()}
    headers = {name: fill(value) for name, value in server.headers.items()}
    return ExpandedServer(command, env, cwd, fill(server.url or ""), headers)


def locate(word: str, base: str, cwd: str | None, first: bool) -> str:
    """Return a word of a command; a file next to the spec as its full path, since a server may start elsewhere."""
    try:
        path = Path(word).expanduser() if word.startswith("~/") else Path(word)
        looks_like_a_file = os.sep in word or (not first and bool(path.suffix))
        if path.is_absolute() or not looks_like_a_file or (cwd is not None and (Path(cwd) / path).is_file()):
            return str(path) if word.startswith("~/") else word
        file = Path(base).resolve() / path
        return str(file) if file.is_file() else word
    except (OSError, ValueError, RuntimeError):  # longer than a path may be; no home
        return word


def client_config(servers: Iterable[Server], marks: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Servers in Claude's format, and the environment variables of the CLI that the servers refer to.

    Texts with variables, such as tokens, are not in the configuration, because a killed run leaves its file behind.
    Started servers get `marks` in their environment.
    """
    values: dict[str, str] = {}
    entries = {server.name: _entry(server, expand(server), marks, values) for server in servers}
    return {"mcpServers": entries}, values


def _entry(server: Server, ready: ExpandedServer, marks: Mapping[str, str], values: dict[str, str]) -> dict[str, Any]:
    def hide(declared: str, value: str) -> str:
        if not REFERENCE.search(declared):
            return value
        name = f"{VALUE}{len(values)}"
        values[name] = value
        return f"${{{name}}}"

    if server.kind != "stdio":
        headers = {name: hide(server.headers[name], value) for name, value in ready.headers.items()}
        return {"type": server.kind, "url": hide(server.url or "", ready.url), "headers": headers}
    command = [hide(*words) for words in zip(server.command, ready.command, strict=True)]
    if server.cwd is not None and ready.cwd is not None:
        command = [sys.executable, "-I", "-S", "-c", _IN_FOLDER, hide(server.cwd, ready.cwd), *command]
    env = {name: hide(server.env[name], value) for name, value in ready.env.items()}
    return {"type": "stdio", "command": command[0], "args": command[1:], "env": {**env, **marks}}
