"""The arms: which tools and servers each variant has. Everything else is the same in all of them."""

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
DEMO = {"demo": {"command": "abreast-demo-mcp"}}  # the server if none is named
SEARCH = ("Bash(rg:*)", "Bash(grep:*)", "Bash(find:*)", "Read", "Glob", "Grep")
_ADDRESS = re.compile(r"https?://", re.IGNORECASE)
READ = ("Read",)  # what an agent with servers has besides them


def arms_of(
    servers_of: list[str], tool_sets: list[str], search_for_all: bool, base: Path, start_timeout: float | None = None
) -> dict[str, dict[str, Any]]:
    """The variants by name: without servers, with those of each `--mcp`, with the tools of each `--tools`."""
    found: dict[str, dict[str, Any]] = {WITHOUT: _with_tools(SEARCH)}
    given = SEARCH if search_for_all else READ
    for name, (declared, servers) in _server_sets(servers_of, base, start_timeout).items():
        own = _with_tools(given)
        allowed = [*own["allowed_tools"], *(f"mcp__{server}" for server in servers)]
        _add(found, name, {**own, "allowed_tools": allowed, "mcp": declared})
    for text in tool_sets:
        name, tools = _tool_set(text)
        _add(found, name, _with_tools(tools))
    return found


def _with_tools(tools: tuple[str, ...]) -> dict[str, Any]:
    """Built-in tools, and which calls of them are allowed: `Bash(rg:*)` is the tool Bash, for rg only."""
    there = dict.fromkeys(tool.partition("(")[0] for tool in tools)
    return {"tools": list(there), "allowed_tools": list(tools), "on_denied": "go_on"}


def _add(found: dict[str, dict[str, Any]], name: str, params: dict[str, Any]) -> None:
    if name in found:
        raise BadInput(f'two variants would be called "{name}"', "give one of them another name: NAME=...")
    found[name] = params


def _server_sets(words: list[str], base: Path, start_timeout: float | None) -> dict[str, tuple[Any, list[str]]]:
    """The servers of each variant, as `mcp:` takes them and by name; the variant of a single set is with_mcp."""
    sets: dict[str, tuple[Any, list[str]]] = {}
    for text in _commands(words, base):
        name, declared = _declared(text, base, start_timeout)
        if name in sets:
            raise BadInput(f'--mcp: "{name}" is there twice', "give one of them another name")
        sets[name] = declared, [server.name for server in mcp.parse_servers("--mcp", declared, base)]
    if not sets:
        limit = {} if start_timeout is None else {"start_timeout": start_timeout}
        return {WITH: ({name: {**server, **limit} for name, server in DEMO.items()}, list(DEMO))}
    return {WITH if len(sets) == 1 else f"with_{name}": found for name, found in sets.items()}


def _commands(words: list[str], base: Path) -> list[str]:
    """Each server in one text: words behind a command that are neither a server nor a file of them are its arguments.

    >>> _commands(["near=codetect", "mcp", "far=other --quick"], Path())
    ['near=codetect mcp', 'far=other --quick']
    """
    found: list[str] = []
    for word in words:
        if "=" in word or not found or "=" not in found[-1] or word.endswith(".json") or (base / word).is_file():
            found.append(word)
        else:
            found[-1] += f" {shlex.quote(word)}"
    return found


def _declared(text: str, base: Path, start_timeout: float | None) -> tuple[str, Any]:
    """`NAME=COMMAND`, `NAME=ADDRESS`, or a file in Claude's format, whose servers all belong to one variant."""
    name, equals, command = text.partition("=")
    how = 'write NAME="COMMAND ARGUMENTS", NAME=https://..., or a file with mcpServers'
    if not equals:
        if not (base / Path(text).expanduser()).is_file():
            raise BadInput(f"--mcp {text}: no such file", how)
        if start_timeout is not None:
            raise BadInput(f"--start-timeout: {text} is a file of servers", 'write "start_timeout": SECONDS into it')
        return Path(text).stem.strip(".") or "mcp", text
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise BadInput(f"--mcp {text}: {str(error).lower()}", how) from None
    limit = {} if start_timeout is None else {"start_timeout": start_timeout}
    if words and _ADDRESS.match(words[-1]):
        return name, {name: {"type": "http", "url": words[-1], **_headers(name, words[:-1], how), **limit}}
    count = next((index for index, word in enumerate(words) if not re.match(r"[A-Za-z_]\w*=", word)), len(words))
    if count == len(words):
        raise BadInput(f"--mcp {text}: there is no command", how)
    for word, following in zip(words, [*words[1:], ""], strict=True):
        _refuse_secret(name, word, following)
    env = {"env": dict(word.split("=", 1) for word in words[:count])} if count else {}
    return name, {name: {"command": words[count], "args": words[count + 1 :], **env, **limit}}


def _headers(name: str, words: list[str], how: str) -> dict[str, Any]:
    """Headers before an address, `Authorization='Bearer ${TOKEN}' https://...`."""
    for word in words:
        if not re.match(r"[A-Za-z][\w-]*=", word):
            raise BadInput(
                f"--mcp {name}: {word} before an address is not a header", f"{how}; headers are NAME='VALUE'"
            )
    return {"headers": dict(word.split("=", 1) for word in words)} if words else {}


def _refuse_secret(server: str, word: str, following: str) -> None:
    """What stands in a command is stored."""
    flag, equals, value = word.partition("=")
    value = value if equals else "" if following.startswith("-") else following
    if flag.startswith("-") and is_secret_name(flag.lstrip("-")) and value and not REFERENCE.search(value):
        raise BadInput(
            f"--mcp {server}: {flag} is a secret in plain text",
            "write '${NAME}' instead, in single quotes, and set NAME in the environment: what stands here is stored",
        )


def _tool_set(text: str) -> tuple[str, tuple[str, ...]]:
    name, equals, tools = text.partition("=")
    found = tuple(tool.strip() for tool in tools.split(",") if tool.strip())
    if not equals or not name or not found:
        raise BadInput(f"--tools {text}: must be NAME=TOOL,TOOL", "such as --tools plain=Read,Grep")
    return name, found
