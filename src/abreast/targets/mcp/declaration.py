"""Declarations of MCP servers, in a spec or in files in Claude's format."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qsl, urlsplit

from abreast.errors import BadInput, suggestion
from abreast.redaction import declare_secret, is_secret_name, is_secret_setting

Kind = Literal["stdio", "http", "sse"]

REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")  # ${NAME} or ${NAME:-default}
LARGEST_FILE = 5_000_000  # bytes
_KINDS: dict[str, Kind] = {"stdio": "stdio", "http": "http", "streamable-http": "http", "sse": "sse"}
START_TIMEOUT_S = 20.0
LONGEST_START_S = 3_600
_STDIO_KEYS = ("type", "command", "args", "env", "cwd", "start_timeout")
_HTTP_KEYS = ("type", "url", "headers", "start_timeout")
_KEYS = {*_STDIO_KEYS, *_HTTP_KEYS}
_EXAMPLE = "NAME: {command: PROGRAM, args: [...]} or NAME: {type: http, url: https://...}"


@dataclass(frozen=True, slots=True)
class Server:
    """A declared server. `${NAME}` stands for an environment variable and is never stored expanded.

    A server with a command is started; one with a `url` runs already. Relative files in the command are looked up in
    `base`, the folder of the spec; the process starts in `cwd`, else in the folder of its client. It has
    `start_timeout` seconds to list its tools (None: 20); answers do not depend on that.
    """

    name: str
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    url: str | None = None
    kind: Kind = "stdio"
    headers: Mapping[str, str] = field(default_factory=dict)
    base: str = ""
    start_timeout: float | None = field(default=None, metadata={"digest": False})


class Variables:
    """Expands environment variables. Every expanded value counts as a secret."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment

    def fill(self, where: str, text: str) -> str:
        """Expand the variables in a text. An empty variable counts as not set if there is a default."""
        return REFERENCE.sub(lambda reference: self._value(where, reference), text)

    def _value(self, where: str, reference: re.Match[str]) -> str:
        name, default = reference[1], reference[2]
        value = self._environment.get(name)
        if value is None or (not value and default is not None):
            if default is None:
                fix = f"export {name}=..., or write ${{{name}:-default}}"
                raise BadInput(f"{where}: the environment variable {name} is not set", fix)
            return default
        declare_secret(name, value)
        return value


def parse_servers(where: str, setting: Any, base: Path) -> tuple[Server, ...]:
    """Parse the setting `mcp`: a mapping by name, the path of a file in Claude's format, or a list of both."""
    servers_by_name: dict[str, Server] = {}
    for server in _declarations(f"{where}: mcp", setting, base):
        if servers_by_name.setdefault(server.name, server) != server:
            raise BadInput(f'{where}: mcp: two servers are named "{server.name}"', "rename one of them")
    return tuple(servers_by_name.values())


def _declarations(where: str, setting: Any, base: Path) -> Iterator[Server]:
    if setting is None:
        return
    if isinstance(setting, list | tuple):
        for index, item in enumerate(setting):
            if isinstance(item, list | tuple):
                raise BadInput(f"{where}[{index}] is a list in a list", "write one list of paths and mappings")
            yield from _declarations(f"{where}[{index}]", item, base)
    elif isinstance(setting, str | Path):
        yield from _parse_mapping(*_read_file(where, setting, base), base)
    elif isinstance(setting, Mapping):
        if list(setting) == ["mcpServers"] and isinstance(setting["mcpServers"], Mapping):  # pasted from a file
            where, setting = f"{where}.mcpServers", setting["mcpServers"]
        yield from _parse_mapping(where, setting, base)
    else:
        raise BadInput(f"{where} declares no servers: {_quote(setting)}", f"write {_EXAMPLE}, or the path of a file")


def _read_file(where: str, name: str | Path, base: Path) -> tuple[str, Mapping[Any, Any]]:
    """Return the servers in a file in Claude's format, and where they are, for messages."""
    where = f"{where}: {_quote(str(name))}"
    try:
        file = base / Path(name).expanduser()
        if file.stat().st_size > LARGEST_FILE:
            raise BadInput(f"{where} is too large for a list of servers", "name a file in Claude's format")
        content = json.loads(file.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise BadInput(f"{where}: no such file in {base}", "write its path relative to the spec") from None
    except json.JSONDecodeError as error:
        raise BadInput(f"{where}, line {error.lineno}: invalid JSON: {error.msg}", "correct that line") from error
    except (OSError, ValueError, RuntimeError, RecursionError) as error:
        raise BadInput(f"{where} cannot be read: {error}", 'name a file with {"mcpServers": {...}}') from error
    declared = content.get("mcpServers") if isinstance(content, dict) else None
    if not isinstance(declared, dict):
        hint = suggestion("mcpServers", content) if isinstance(content, dict) else ""
        hint = hint if "did you mean" in hint else ""
        raise BadInput(f'{where}: no servers under "mcpServers"{hint}', 'write {"mcpServers": {"NAME": {...}}}')
    return f"{where}: mcpServers", declared


def _parse_mapping(where: str, setting: Mapping[Any, Any], base: Path) -> Iterator[Server]:
    for name, declared in setting.items():
        if not isinstance(name, str) or not re.fullmatch("[A-Za-z0-9_-]+", name):
            fix = "name it with letters, digits, _ and -: its tools are called mcp__NAME__TOOL"
            raise BadInput(f"{where}: {_quote(name)} is not a valid server name", fix)
        if not isinstance(declared, Mapping):
            raise BadInput(f"{where}.{name} must be a mapping, got {_quote(declared)}", f"write {_EXAMPLE}")
        yield _parse_server(f"{where}.{name}", name, declared, base)


def _parse_server(where: str, name: str, declared: Mapping[Any, Any], base: Path) -> Server:
    for key in declared:
        if key not in _KEYS:
            hint = suggestion(key, _KEYS) if isinstance(key, str) else ""
            raise BadInput(f"{where}: unknown key {_quote(key)}{hint}", "correct or remove it")
    kind = _kind(where, declared)
    for key in declared:
        if key not in (_STDIO_KEYS if kind == "stdio" else _HTTP_KEYS):
            other = "url" if kind == "stdio" else "command"
            raise BadInput(f'{where}: "{key}" is only for servers with a {other}', "remove it, or declare two servers")
    start_timeout = _seconds(f"{where}.start_timeout", declared.get("start_timeout"))
    if kind != "stdio":
        headers = _texts(f"{where}.headers", declared.get("headers"), "[!#$%&'*+.^_`|~0-9A-Za-z-]+")
        url = _address(where, declared.get("url"))
        return Server(name, url=url, kind=kind, headers=headers, base=str(base), start_timeout=start_timeout)
    command = (_text(f"{where}.command", declared.get("command")), *_words(f"{where}.args", declared.get("args")))
    if not command[0].strip():
        raise BadInput(f"{where}.command is empty", "write the program of the server")
    env = _texts(f"{where}.env", declared.get("env"), "[^=]+")
    cwd = declared.get("cwd")
    folder = None if cwd is None else _text(f"{where}.cwd", cwd)
    return Server(name, command, env, folder, base=str(base), start_timeout=start_timeout)


def _kind(where: str, declared: Mapping[Any, Any]) -> Kind:
    command, url, transport = (declared.get(key) for key in ("command", "url", "type"))
    if command is not None and url is not None:
        raise BadInput(f"{where} has both a command and a url", "remove one of them")
    if transport is not None and (not isinstance(transport, str) or transport not in _KINDS):
        hint = suggestion(transport, _KINDS) if isinstance(transport, str) else ""
        raise BadInput(f"{where}.type: unknown transport {_quote(transport)}{hint}", "write stdio, http or sse")
    kind = _KINDS[transport] if transport is not None else "stdio" if url is None else "http"
    if (command if kind == "stdio" else url) is None:
        required = "command" if kind == "stdio" else "url"
        if transport is None:
            raise BadInput(f"{where} has no command and no url", f"write {_EXAMPLE}")
        raise BadInput(f"{where} has the type {transport} and no {required}", f"write {required}:, or another type")
    return kind


def _address(where: str, value: Any) -> str:
    url = _text(f"{where}.url", value)
    if not url.startswith("${") and not re.match(r"https?://[^/\s]", url, re.IGNORECASE):
        raise BadInput(f"{where}.url: {_quote(url)} is not an address", "begin it with http:// or https://")
    try:
        parts = urlsplit(REFERENCE.sub("", url))
        secret = parts.password or next((v for k, v in parse_qsl(parts.query) if is_secret_name(k)), "")
    except ValueError as error:
        raise BadInput(f"{where}.url: {_quote(url)} is not an address: {error}", "correct it") from error
    if secret:
        raise BadInput(f"{where}.url contains a secret", "write ${NAME} instead and set NAME in the environment")
    return url


def _words(where: str, value: Any) -> list[str]:
    if value is None:
        return []
    if not isinstance(value, list | tuple):
        raise BadInput(f"{where} must be a list, got {_quote(value)}", "write args: [first, second]")
    return [_text(f"{where}[{index}]", word) for index, word in enumerate(value)]


def _texts(where: str, value: Any, names: str) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise BadInput(f"{where} must be a mapping, got {_quote(value)}", "write {NAME: value}")
    texts = {}
    for name, item in value.items():
        if not isinstance(name, str) or "\0" in name or not re.fullmatch(names, name):
            raise BadInput(f"{where}: {_quote(name)} is not a valid name", "correct it")
        text = texts[name] = _text(f"{where}.{name}", item)
        if is_secret_setting(name, text) and is_literal(text):
            variable = re.sub(r"\W", "_", name).upper()
            fix = f"write ${{{variable}}} and set {variable} in the environment; values written here are stored"
            raise BadInput(f"{where}.{name} is a secret in plain text", fix)
        if where.endswith("headers") and re.search(r"[\r\n]", text):
            raise BadInput(f"{where}.{name} contains a line break", "write it on one line")
    return texts


def is_literal(value: str) -> bool:
    """Whether a value can be read as it is written: it has no variable, or one with a default."""
    references = REFERENCE.findall(value)
    return bool(value) and (not references or any(default for _, default in references))


def _seconds(where: str, value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= LONGEST_START_S:
        raise BadInput(f"{where} must be a number of seconds, got {_quote(value)}", f"write 1 to {LONGEST_START_S}")
    return float(value)


def _text(where: str, value: Any) -> str:
    if not isinstance(value, str):
        is_scalar = isinstance(value, bool | int | float)
        fix = f'write it in quotes: "{json.dumps(value)}"' if is_scalar else "write text"
        raise BadInput(f"{where} must be text, got {_quote(value)}", fix)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise BadInput(f"{where}: {_quote(value)} is not valid text", "correct it") from None
    if "\0" in value:
        raise BadInput(f"{where} contains a NUL character: {_quote(value)}", "remove it")
    return value


def _quote(value: Any) -> str:
    try:
        text = f'"{value}"' if isinstance(value, str) and value.isprintable() else ascii(value)
    except RecursionError:
        text = f"a {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:79]}…"
