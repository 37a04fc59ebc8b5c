"""What is written about MCP servers: in a spec, or in files in Claude's format."""

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
_OF_COMMAND = ("type", "command", "args", "env", "cwd", "start_timeout")
_OF_ADDRESS = ("type", "url", "headers", "start_timeout")
_KEYS = {*_OF_COMMAND, *_OF_ADDRESS}
_EXAMPLE = "NAME: {command: PROGRAM, args: [...]} or NAME: {type: http, url: https://...}"


@dataclass(frozen=True, slots=True)
class Server:
    """One server as it is declared: `${NAME}` in it stands for an environment variable and is never stored expanded.

    A server with a command is started; one with an address is there already. Files that the command names are those
    beside the spec, in the folder `base`; the process itself works in `cwd`, else where its client does. It has
    `start_timeout` seconds to list its tools (None: 20), which is not part of what answers depend on.
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
    """Fills in environment variables. Every value that is filled in counts as a secret."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment

    def fill(self, place: str, text: str) -> str:
        """The text with values for the variables in it. An empty one counts as not set if there is a default."""
        return REFERENCE.sub(lambda found: self._value(place, found), text)

    def _value(self, place: str, found: re.Match[str]) -> str:
        name, default = found[1], found[2]
        value = self._environment.get(name)
        if value is None or (not value and default is not None):
            if default is None:
                fix = f"export {name}=..., or write ${{{name}:-default}}"
                raise BadInput(f"{place}: the environment variable {name} is not set", fix)
            return default
        declare_secret(name, value)
        return value


def parse_servers(where: str, setting: Any, base: Path) -> tuple[Server, ...]:
    """What a setting `mcp` declares: a mapping by name, the path of a file in Claude's format, or a list of both."""
    found: dict[str, Server] = {}
    for server in _declared(f"{where}: mcp", setting, base):
        if found.setdefault(server.name, server) != server:
            raise BadInput(f'{where}: mcp: two servers are named "{server.name}"', "give one of them another name")
    return tuple(found.values())


def _declared(place: str, setting: Any, base: Path) -> Iterator[Server]:
    if setting is None:
        return
    if isinstance(setting, list | tuple):
        for index, each in enumerate(setting):
            if isinstance(each, list | tuple):
                raise BadInput(f"{place}[{index}] is a list in a list", "write one list of paths and mappings")
            yield from _declared(f"{place}[{index}]", each, base)
    elif isinstance(setting, str | Path):
        yield from _of_mapping(*_read(place, setting, base), base)
    elif isinstance(setting, Mapping):
        if list(setting) == ["mcpServers"] and isinstance(setting["mcpServers"], Mapping):  # pasted from a file
            place, setting = f"{place}.mcpServers", setting["mcpServers"]
        yield from _of_mapping(place, setting, base)
    else:
        raise BadInput(f"{place} declares no servers: {_shown(setting)}", f"write {_EXAMPLE}, or the path of a file")


def _read(place: str, name: str | Path, base: Path) -> tuple[str, Mapping[Any, Any]]:
    """The servers in a file of Claude's, and how to call their place."""
    there = f"{place}: {_shown(str(name))}"
    try:
        file = base / Path(name).expanduser()
        if file.stat().st_size > LARGEST_FILE:
            raise BadInput(f"{there} is too large for a list of servers", "name a file in Claude's format")
        content = json.loads(file.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise BadInput(f"{there}: there is no such file in {base}", "write its path as seen from the spec") from None
    except json.JSONDecodeError as error:
        raise BadInput(f"{there}, line {error.lineno}: no JSON: {error.msg}", "correct that line") from error
    except (OSError, ValueError, RuntimeError, RecursionError) as error:
        raise BadInput(f"{there} cannot be read: {error}", 'name a file with {"mcpServers": {...}}') from error
    listed = content.get("mcpServers") if isinstance(content, dict) else None
    if not isinstance(listed, dict):
        near = suggestion("mcpServers", content) if isinstance(content, dict) else ""
        near = near if "did you mean" in near else ""
        raise BadInput(f'{there}: no servers under "mcpServers"{near}', 'write {"mcpServers": {"NAME": {...}}}')
    return f"{there}: mcpServers", listed


def _of_mapping(place: str, setting: Mapping[Any, Any], base: Path) -> Iterator[Server]:
    for name, declared in setting.items():
        if not isinstance(name, str) or not re.fullmatch("[A-Za-z0-9_-]+", name):
            fix = "name it with letters, digits, _ and -: its tools are called mcp__NAME__TOOL"
            raise BadInput(f"{place}: {_shown(name)} is no name of a server", fix)
        if not isinstance(declared, Mapping):
            raise BadInput(f"{place}.{name} is no declaration: {_shown(declared)}", f"write {_EXAMPLE}")
        yield _server(f"{place}.{name}", name, declared, base)


def _server(place: str, name: str, declared: Mapping[Any, Any], base: Path) -> Server:
    for key in declared:
        if key not in _KEYS:
            near = suggestion(key, _KEYS) if isinstance(key, str) else ""
            raise BadInput(f"{place}: unknown key {_shown(key)}{near}", "correct or remove it")
    kind = _kind(place, declared)
    for key in declared:
        if key not in (_OF_COMMAND if kind == "stdio" else _OF_ADDRESS):
            whose = "a server with a url" if kind == "stdio" else "a server that is started by a command"
            raise BadInput(f'{place}: "{key}" is for {whose}', "remove it, or declare two servers")
    start_timeout = _seconds(f"{place}.start_timeout", declared.get("start_timeout"))
    if kind != "stdio":
        headers = _texts(f"{place}.headers", declared.get("headers"), "[!#$%&'*+.^_`|~0-9A-Za-z-]+")
        url = _address(place, declared.get("url"))
        return Server(name, url=url, kind=kind, headers=headers, base=str(base), start_timeout=start_timeout)
    command = (_text(f"{place}.command", declared.get("command")), *_words(f"{place}.args", declared.get("args")))
    if not command[0].strip():
        raise BadInput(f"{place}.command is empty", "write the program that is the server")
    env = _texts(f"{place}.env", declared.get("env"), "[^=]+")
    cwd = declared.get("cwd")
    folder = None if cwd is None else _text(f"{place}.cwd", cwd)
    return Server(name, command, env, folder, base=str(base), start_timeout=start_timeout)


def _kind(place: str, declared: Mapping[Any, Any]) -> Kind:
    command, url, written = (declared.get(key) for key in ("command", "url", "type"))
    if command is not None and url is not None:
        raise BadInput(f"{place} has a command and a url", "a server is started or it is there: keep one of them")
    if written is not None and (not isinstance(written, str) or written not in _KINDS):
        near = suggestion(written, _KINDS) if isinstance(written, str) else ""
        raise BadInput(f"{place}.type: {_shown(written)} is no way to talk{near}", "write stdio, http or sse")
    kind = _KINDS[written] if written is not None else "stdio" if url is None else "http"
    if (command if kind == "stdio" else url) is None:
        wanted = "command" if kind == "stdio" else "url"
        if written is None:
            raise BadInput(f"{place} has no command and no url", f"write {_EXAMPLE}")
        raise BadInput(f"{place} has the type {written} and no {wanted}", f"write {wanted}:, or another type")
    return kind


def _address(place: str, value: Any) -> str:
    url = _text(f"{place}.url", value)
    if not url.startswith("${") and not re.match(r"https?://[^/\s]", url, re.IGNORECASE):
        raise BadInput(f"{place}.url: {_shown(url)} is no address", "write one that begins with http:// or https://")
    try:
        parts = urlsplit(REFERENCE.sub("", url))
        secret = parts.password or next((v for k, v in parse_qsl(parts.query) if is_secret_name(k)), "")
    except ValueError as error:
        raise BadInput(f"{place}.url: {_shown(url)} is no address: {error}", "correct it") from error
    if secret:
        raise BadInput(f"{place}.url has a secret in it", "write ${NAME} instead and set NAME in the environment")
    return url


def _words(place: str, value: Any) -> list[str]:
    if value is None:
        return []
    if not isinstance(value, list | tuple):
        raise BadInput(f"{place} is no list: {_shown(value)}", "write args: [first, second]")
    return [_text(f"{place}[{index}]", each) for index, each in enumerate(value)]


def _texts(place: str, value: Any, names: str) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise BadInput(f"{place} is no mapping: {_shown(value)}", "write {NAME: value}")
    found = {}
    for name, each in value.items():
        if not isinstance(name, str) or "\0" in name or not re.fullmatch(names, name):
            raise BadInput(f"{place}: {_shown(name)} is no name", "correct it")
        found[name] = _text(f"{place}.{name}", each)
        if is_secret_setting(name, found[name]) and is_literal(found[name]):
            variable = re.sub(r"\W", "_", name).upper()
            fix = f"write ${{{variable}}} and set {variable} in the environment: what is written here is stored"
            raise BadInput(f"{place}.{name} is a secret in plain text", fix)
        if place.endswith("headers") and re.search(r"[\r\n]", found[name]):
            raise BadInput(f"{place}.{name} has a line break in it", "write it in one line")
    return found


def is_literal(value: str) -> bool:
    """Whether a value is there for everybody to read: no variable in it, or one that has a default."""
    references = REFERENCE.findall(value)
    return bool(value) and (not references or any(default for _, default in references))


def _seconds(place: str, value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= LONGEST_START_S:
        raise BadInput(f"{place}: {_shown(value)} is not a number of seconds", f"write 1 to {LONGEST_START_S}")
    return float(value)


def _text(place: str, value: Any) -> str:
    if not isinstance(value, str):
        written = json.dumps(value) if isinstance(value, bool | int | float) else ""
        fix = f'write it in quotes: "{written}"' if written else "write text"
        raise BadInput(f"{place} is no text: {_shown(value)}", fix)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise BadInput(f"{place}: {_shown(value)} is no valid text", "correct it") from None
    if "\0" in value:
        raise BadInput(f"{place} has a NUL character in it: {_shown(value)}", "remove it")
    return value


def _shown(value: Any) -> str:
    try:
        text = f'"{value}"' if isinstance(value, str) and value.isprintable() else ascii(value)
    except RecursionError:
        text = f"a {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:79]}…"
