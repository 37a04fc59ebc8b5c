"""The variants, which differ only in their tools and MCP servers."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

from abreast.errors import BadInput
from abreast.redaction import is_secret_name
from abreast.targets import mcp
from abreast.targets.mcp.declaration import REFERENCE

WITHOUT, WITH = "without_mcp", "with_mcp"
DEMO = {"demo": {"command": "abreast-demo-mcp"}}  # the default server
SEARCH = ("Bash(rg:*)", "Bash(grep:*)", "Bash(find:*)", "Read", "Glob", "Grep")
_ADDRESS = re.compile(r"https?://", re.IGNORECASE)
READ = ("Read",)  # built-in tools of variants with servers


def arms_of(
    servers_of: list[str], tool_sets: list[str], search_for_all: bool, base: Path, start_timeout: float | None = None
) -> dict[str, dict[str, Any]]:
    """Return the variants: without servers, with those of each `--mcp`, with the tools of each `--tools`."""
    arms = {WITHOUT: _tool_params(SEARCH)}
    built_in = SEARCH if search_for_all else READ
    for name, (declared, servers) in _server_sets(servers_of, base, start_timeout).items():
        params = _tool_params(built_in)
        allowed = [*params["allowed_tools"], *(f"mcp__{server}" for server in servers)]
        _add(arms, name, {**params, "allowed_tools": allowed, "mcp": declared})
    for text in tool_sets:
        name, tools = _parse_tools(text)
        _add(arms, name, _tool_params(tools))
    return arms


def _tool_params(tools: tuple[str, ...]) -> dict[str, Any]:
    """Return the built-in tools and their allowed calls: `Bash(rg:*)` allows the tool Bash only for rg."""
    names = dict.fromkeys(tool.partition("(")[0] for tool in tools)
    return {"tools": list(names), "allowed_tools": list(tools), "on_denied": "continue"}


def _add(arms: dict[str, dict[str, Any]], name: str, params: dict[str, Any]) -> None:
    if name in arms:
        raise BadInput(f'two variants are called "{name}"', "rename one of them: NAME=...")
    arms[name] = params


def _server_sets(words: list[str], base: Path, start_timeout: float | None) -> dict[str, tuple[Any, list[str]]]:
    """Return the servers of each variant, as `mcp:` takes them, and their names; a single variant is with_mcp."""
    sets: dict[str, tuple[Any, list[str]]] = {}
    for text in _join_commands(words, base):
        name, declared = _parse_server(text, base, start_timeout)
        if name in sets:
            raise BadInput(f'--mcp: "{name}" is used twice', "rename one of them")
        sets[name] = declared, [server.name for server in mcp.parse_servers("--mcp", declared, base)]
    if not sets:
        limit = {} if start_timeout is None else {"start_timeout": start_timeout}
        return {WITH: ({name: {**server, **limit} for name, server in DEMO.items()}, list(DEMO))}
    return {WITH if len(sets) == 1 else f"with_{name}": servers for name, servers in sets.items()}


def _join_commands(words: list[str], base: Path) -> list[str]:
    """Join the words of each server: those after a command that are neither a server nor a file are its arguments.

    >>> _join_commands(["near=codetect", "mcp", "far=other --quick"], Path())
    ['near=codetect mcp', 'far=other --quick']
    """
    commands: list[str] = []
    for word in words:
        is_file = word.endswith(".json") or (base / word).is_file()
        if "=" in word or not commands or "=" not in commands[-1] or is_file:
            commands.append(word)
        else:
            commands[-1] += f" {shlex.quote(word)}"
    return commands


def _parse_server(text: str, base: Path, start_timeout: float | None) -> tuple[str, Any]:
    """Parse `NAME=COMMAND`, `NAME=URL`, or a file in Claude's format, whose servers belong to one variant."""
    name, equals, command = text.partition("=")
    fix = 'use NAME="COMMAND ARGUMENTS", NAME=https://..., or a file with mcpServers'
    if not equals:
        if not (base / Path(text).expanduser()).is_file():
            raise BadInput(f"--mcp {text}: no such file", fix)
        if start_timeout is not None:
            raise BadInput(f"--start-timeout: {text} is a file of servers", 'set "start_timeout": SECONDS in it')
        return Path(text).stem.strip(".") or "mcp", text
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise BadInput(f"--mcp {text}: {str(error).lower()}", fix) from None
    limit = {} if start_timeout is None else {"start_timeout": start_timeout}
    if words and _ADDRESS.match(words[-1]):
        return name, {name: {"type": "http", "url": words[-1], **_headers(name, words[:-1], fix), **limit}}
    count = next((index for index, word in enumerate(words) if not re.match(r"[A-Za-z_]\w*=", word)), len(words))
    if count == len(words):
        raise BadInput(f"--mcp {text}: the command is missing", fix)
    for word, following in zip(words, [*words[1:], ""], strict=True):
        _refuse_secret(name, word, following)
    env = {"env": dict(word.split("=", 1) for word in words[:count])} if count else {}
    return name, {name: {"command": words[count], "args": words[count + 1 :], **env, **limit}}


def _headers(name: str, words: list[str], fix: str) -> dict[str, Any]:
    """Parse headers before a URL: `Authorization='Bearer ${TOKEN}' https://...`."""
    for word in words:
        if not re.match(r"[A-Za-z][\w-]*=", word):
            raise BadInput(
                f"--mcp {name}: {word} is not a header", f"{fix}; write headers before the URL as NAME='VALUE'"
            )
    return {"headers": dict(word.split("=", 1) for word in words)} if words else {}


def _refuse_secret(server: str, word: str, following: str) -> None:
    flag, equals, value = word.partition("=")
    value = value if equals else "" if following.startswith("-") else following
    if flag.startswith("-") and is_secret_name(flag.lstrip("-")) and value and not REFERENCE.search(value):
        raise BadInput(
            f"--mcp {server}: {flag} is a secret in plain text",
            "set NAME in the environment and write '${NAME}', in single quotes; values written here are stored",
        )


def _parse_tools(text: str) -> tuple[str, tuple[str, ...]]:
    name, equals, tools = text.partition("=")
    names = tuple(tool.strip() for tool in tools.split(",") if tool.strip())
    if not equals or not name or not names:
        raise BadInput(f"--tools {text}: must be NAME=TOOL,TOOL", "use, for example, --tools plain=Read,Grep")
    return name, names
