"""A declaration with everything in it that it stands for: only for use, never to be stored."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from abreast.targets.mcp.declaration import REFERENCE, Server, Variables

VALUE = "ABREAST_MCP_VALUE_"  # and a number: a variable for the CLI, with a text that is not written to a file
# Claude's format has no folder to start a server in, so a server that wants one is started by way of this.
_IN_FOLDER = "import os,sys; os.chdir(sys.argv[1]); os.execvp(sys.argv[2], sys.argv[2:])"


@dataclass(frozen=True, slots=True)
class ExpandedServer:
    """What a server is started or reached with."""

    command: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str | None
    url: str
    headers: Mapping[str, str]


def expand(server: Server) -> ExpandedServer:
    """With the environment of now. `BadInput` if a variable is not set."""
    variables = Variables(os.environ)

    def fill(text: str) -> str:
        return variables.fill(f"MCP server {server.name}", text)

    cwd = None if server.cwd is None else str(Path(server.base).resolve() / Path(fill(server.cwd)).expanduser())
    command = tuple(locate(fill(word), server.base, cwd, first=index == 0) for index, word in enumerate(server.command))
    env = {name: fill(value) for name, value in server.env.items()}
    headers = {name: fill(value) for name, value in server.headers.items()}
    return ExpandedServer(command, env, cwd, fill(server.url or ""), headers)


def locate(word: str, base: str, cwd: str | None, first: bool) -> str:
    """A word of a command; where it names a file beside the spec, that file, since a server is started elsewhere."""
    try:
        path = Path(word).expanduser() if word.startswith("~/") else Path(word)
        looks_like_a_file = os.sep in word or (not first and bool(path.suffix))
        if path.is_absolute() or not looks_like_a_file or (cwd is not None and (Path(cwd) / path).is_file()):
            return str(path) if word.startswith("~/") else word
        there = Path(base).resolve() / path
        return str(there) if there.is_file() else word
    except (OSError, ValueError, RuntimeError):  # longer than a path may be; no home
        return word


def client_config(servers: Iterable[Server], marks: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Servers in Claude's format, and variables for the environment of the CLI, which expands references to them.

    No text that refers to a variable, such as a token, is in the configuration: a killed run leaves its file behind.
    Servers that are started get `marks`.
    """
    values: dict[str, str] = {}
    entries = {server.name: _entry(server, expand(server), marks, values) for server in servers}
    return {"mcpServers": entries}, values


def _entry(server: Server, ready: ExpandedServer, marks: Mapping[str, str], values: dict[str, str]) -> dict[str, Any]:
    def written(declared: str, value: str) -> str:
        if not REFERENCE.search(declared):
            return value
        name = f"{VALUE}{len(values)}"
        values[name] = value
        return f"${{{name}}}"

    def all_written(declared: Mapping[str, str], filled: Mapping[str, str]) -> dict[str, str]:
        return {name: written(declared[name], value) for name, value in filled.items()}

    if server.kind != "stdio":
        headers = all_written(server.headers, ready.headers)
        return {"type": server.kind, "url": written(server.url or "", ready.url), "headers": headers}
    command = [written(*words) for words in zip(server.command, ready.command, strict=True)]
    if server.cwd is not None and ready.cwd is not None:
        command = [sys.executable, "-I", "-S", "-c", _IN_FOLDER, written(server.cwd, ready.cwd), *command]
    env = all_written(server.env, ready.env)
    return {"type": "stdio", "command": command[0], "args": command[1:], "env": {**env, **marks}}
