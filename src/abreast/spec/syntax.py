"""Parsers of spec files, which also return the line of each key."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from abreast.errors import BadInput, did_you_mean
from abreast.filenames import relative_path
from abreast.spec.values import KeyPath, plain, quote

MAX_BYTES = 16_000_000
MAX_NODES = 2_000_000  # values in a YAML file with expanded aliases

Lines = dict[KeyPath, int]


def read_text(path: Path, too_large: str) -> str:
    """Read a file; `too_large` is the fix if it is too large."""
    where = relative_path(path)
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)  # bounded: a device has no end
        if len(content) > MAX_BYTES:
            raise BadInput(f"{where}: larger than {MAX_BYTES // 1_000_000} MB", too_large)
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise BadInput(f"{where}:{line}: not valid UTF-8 (byte {error.start})", "save the file as UTF-8") from None
    except FileNotFoundError:
        raise BadInput(f"{where}: no such file{near_files(path)}") from None
    except IsADirectoryError:
        raise BadInput(f"{where}: a folder, not a file") from None
    except OSError as error:
        raise BadInput(f"{where[:200]}: cannot read the file ({error.strerror or error})") from None
    except ValueError:  # a name with NUL or a lone surrogate
        raise BadInput(f"{quote(str(path))} is not a file name") from None


def near_files(path: Path) -> str:
    """` (did you mean "cases.jsonl"?)` if a file in the same folder has a similar name."""
    try:
        return did_you_mean(path.name, [entry.name for entry in path.parent.iterdir()])
    except (OSError, ValueError):
        return ""


class KeyLines:
    """The line of each key path in a file."""

    def __init__(self, lines: Mapping[KeyPath, int]) -> None:
        self._lines = lines

    def line(self, location: Sequence[str | int]) -> int | None:
        """The line of the deepest part of `location` that has one."""
        path = tuple(location)
        return next((self._lines[path[:end]] for end in range(len(path), 0, -1) if path[:end] in self._lines), None)


def parse(path: Path, text: str) -> tuple[Any, KeyLines]:
    """The data in a file and the lines of its keys."""
    suffix, where = path.suffix.lower(), relative_path(path)
    parsers = {".yaml": _parse_yaml, ".yml": _parse_yaml, ".toml": _parse_toml, ".json": _parse_json}
    if suffix not in parsers:
        raise BadInput(f'{where}: unknown extension "{suffix}"; a spec ends in {", ".join(parsers)}')
    try:
        return parsers[suffix](where, text)
    except RecursionError:
        raise BadInput(f"{where}: nested too deeply") from None


class _Loader(yaml.SafeLoader):
    """Loader of YAML 1.2, in which `yes`, `12:30`, `007` and dates are text, and `1e-3` is a number.

    PyYAML reads YAML 1.1, in which the first three are true, 750 and 7.
    """


_RESOLVERS = (
    ("tag:yaml.org,2002:bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("tag:yaml.org,2002:int", r"[-+]?(?:0|[1-9][0-9_]*)|0x[0-9a-fA-F_]+", "-+0123456789"),
    (
        "tag:yaml.org,2002:float",
        r"[-+]?(?:(?:0|[1-9][0-9_]*)\.[0-9_]*(?:[eE][-+]?[0-9]+)?|(?:0|[1-9][0-9_]*)[eE][-+]?[0-9]+"
        r"|\.[0-9][0-9_]*(?:[eE][-+]?[0-9]+)?|\.(?:inf|Inf|INF))|\.(?:nan|NaN|NAN)",
        "-+0123456789.",
    ),
)
_REPLACED = {tag for tag, _, _ in _RESOLVERS} | {"tag:yaml.org,2002:timestamp"}
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in _REPLACED]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_NOT_TEXT = {f"tag:yaml.org,2002:{kind}" for kind in ("bool", "int", "float", "null")}
_Loader.yaml_constructors = {
    tag: function
    for tag, function in yaml.SafeLoader.yaml_constructors.items()
    if tag not in {f"tag:yaml.org,2002:{kind}" for kind in ("binary", "timestamp", "omap", "pairs", "set")}
}
for _tag, _pattern, _first in _RESOLVERS:
    _Loader.add_implicit_resolver(_tag, re.compile(rf"^(?:{_pattern})$"), list(_first))


def yaml_value(where: str, text: str) -> Any:
    """A single value in YAML; `where` prefixes errors."""
    return _parse_yaml(where, text)[0]


def _parse_yaml(where: str, text: str) -> tuple[Any, KeyLines]:
    loader: _Loader | None = None
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        lines: Lines = {}
        if node is None:
            return None, KeyLines(lines)
        _count_values(where, node, {})
        _collect_lines(where, node, (), lines, set())
        return _construct(where, loader, node), KeyLines(lines)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise BadInput(f"{where}:{mark.line + 1 if mark else 1}: not valid YAML: {_describe(error)}") from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise BadInput(
            f"{where}:{line}: not valid YAML: an invisible character (U+{ord(text[error.position]):04X})", "remove it"
        ) from None
    finally:
        if loader is not None:
            loader.dispose()


def _describe(error: yaml.MarkedYAMLError) -> str:
    problem = str(error.problem or error.context)
    if r"'\t'" in problem:
        return "a tab; indent with spaces"
    if "another document" in problem:
        return "a second document begins here (---); keep one"
    if "constructor for the tag" in problem:
        return f"{problem.removeprefix('could not determine a constructor for the tag ')} is not a supported tag"
    if "unhashable key" in problem:
        return "a list or mapping cannot be a key"
    if "mapping values are not allowed" in problem:
        return "a second colon in a line, or a line with other indentation; put texts with a colon in quotes"
    return re.sub(
        r"<(\w+) (\w+)>|<(\w+)>", lambda match: f"the {match[0][1:-1]}", problem.replace("<block end>", "<end>")
    )


def _construct(where: str, loader: _Loader, node: yaml.Node) -> Any:
    try:
        return loader.construct_document(node)
    except yaml.YAMLError:
        raise
    except (ValueError, TypeError, OverflowError, IndexError, KeyError, AttributeError) as error:
        if "digits" in str(error):
            raise BadInput(f"{where}: a number has more than 4,300 digits", "write it in quotes") from None
        raise BadInput(f"{where}: not valid YAML: a value does not fit its tag ({error})") from None


def _count_values(where: str, node: yaml.Node, counts: dict[int, int]) -> int:
    """Number of values with expanded aliases: a few lines can expand to billions."""
    count = counts.get(id(node))
    if count is not None:
        if count == 0:
            raise BadInput(f"{where}:{node.start_mark.line + 1}: refers to itself", "remove the alias (*name)")
        return count
    counts[id(node)] = 0
    total = 1
    if isinstance(node, yaml.CollectionNode):
        for child in node.value:
            for part in child if isinstance(child, tuple) else (child,):
                total += _count_values(where, part, counts)
    if total > MAX_NODES:
        raise BadInput(
            f"{where}: more than {MAX_NODES:,} values", "move the cases to a .jsonl file, and use fewer aliases"
        )
    counts[id(node)] = total
    return total


def _collect_lines(where: str, node: yaml.Node, at: KeyPath, lines: Lines, visited: set[int]) -> None:
    lines.setdefault(at, node.start_mark.line + 1)
    if id(node) in visited:
        return
    visited.add(id(node))
    if isinstance(node, yaml.MappingNode):
        keys: set[str] = set()
        for key, value in node.value:
            name = str(key.value)
            if key.tag in _NOT_TEXT:
                raise BadInput(
                    f"{where}:{key.start_mark.line + 1}: the key {name or 'nothing'} is not text",
                    f'write it in quotes: "{name}"',
                )
            if name in keys and key.tag != "tag:yaml.org,2002:merge":
                raise _duplicate_key(where, key.start_mark.line + 1, name)
            keys.add(name)
            lines[(*at, name)] = key.start_mark.line + 1
            _collect_lines(where, value, (*at, name), lines, visited)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            _collect_lines(where, value, (*at, index), lines, visited)


def _duplicate_key(where: str, line: int, name: str) -> BadInput:
    return BadInput(f"{where}:{line}: duplicate key {quote(name)}", "remove one of them")


def _parse_json(where: str, text: str) -> tuple[Any, KeyLines]:
    if not text.strip():
        return None, KeyLines({})
    return json_value(where, text), KeyLines(_json_lines(where, text))


_JSON_WORDS = {
    "Expecting value": "a value is missing",
    "Extra data": "extra text after the end",
    "Expecting property name enclosed in double quotes": "a key in double quotes is missing",
    "Expecting ',' delimiter": "a comma or a closing bracket is missing",
    "Expecting ':' delimiter": "a colon is missing",
    "Unterminated string starting at": "a closing quotation mark is missing",
    "Invalid control character at": "a line break or tab inside a text; write \\n or \\t",
    "Illegal trailing comma before end of object": "a trailing comma",
    "Illegal trailing comma before end of array": "a trailing comma",
}


def json_value(where: str, text: str, line: int | None = None, unique: bool = False) -> Any:
    """The value in a JSON text; `line` is its line in a larger file. With `unique`, duplicate keys are refused."""

    def refuse(word: str) -> Any:
        number = line or _line_of(text, rf"(?<![\w\"]){word}(?![\w\"])")
        raise BadInput(f"{where}:{number}: {word} is not valid JSON", 'write null, or a text in quotes: "NaN"')

    def refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        if len(value) < len(pairs):
            names = [name for name, _ in pairs]
            raise _duplicate_key(where, line or 1, next(name for name in names if names.count(name) > 1))
        return value

    location = f"{where}:{line}" if line else where
    try:
        return json.loads(text, parse_constant=refuse, object_pairs_hook=refuse_duplicates if unique else None)
    except json.JSONDecodeError as error:
        problem = _JSON_WORDS.get(error.msg, error.msg)
        raise BadInput(f"{where}:{line or error.lineno}: not valid JSON: {problem} (column {error.colno})") from None
    except RecursionError:
        raise BadInput(f"{location}: nested too deeply") from None
    except ValueError:  # the interpreter's limit
        raise BadInput(f"{location}: a number has more than 4,300 digits", "write it in quotes") from None


def _line_of(text: str, pattern: str) -> int:
    match = re.search(pattern, text)
    return text.count("\n", 0, match.start()) + 1 if match else 1


_TOKEN = re.compile(r'\n|"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


class _Level:
    """An open object or list of a JSON text."""

    def __init__(self, at: KeyPath, is_object: bool) -> None:
        self.at, self.is_object, self.wants_key = at, is_object, is_object
        self.key: str | int = 0


def _json_lines(where: str, text: str) -> Lines:
    """The lines of all keys and items of a valid JSON text; duplicate keys are refused."""
    lines: Lines = {}
    levels: list[_Level] = []
    line = 1
    for match in _TOKEN.finditer(text):
        token = match[0]
        level = levels[-1] if levels else _Level((), False)
        if token == "\n":
            line += 1
        elif token in "}]":
            levels.pop()
        elif token == ",":
            level.wants_key = level.is_object
            level.key = level.key + 1 if isinstance(level.key, int) else level.key
        elif level.wants_key:
            level.key, level.wants_key = str(json.loads(token)), False
            if (*level.at, level.key) in lines:
                raise _duplicate_key(where, line, level.key)
            lines[(*level.at, level.key)] = line
        elif token != ":":
            at = (*level.at, level.key) if levels else ()
            lines.setdefault(at, line)
            if token in "{[":
                levels.append(_Level(at, token == "{"))
    return lines


def _parse_toml(where: str, text: str) -> tuple[Any, KeyLines]:
    import tomllib  # late: most specs are YAML

    try:
        return plain(tomllib.loads(text)), KeyLines(_toml_lines(text))
    except tomllib.TOMLDecodeError as error:
        match = re.search(r" \(at (?:line (\d+), column (\d+)|end of document)\)", str(error))
        problem = str(error)[: match.start()] if match else str(error)
        line = int(match[1]) if match and match[1] else len(text.splitlines()) or 1
        raise BadInput(f"{where}:{line}: not valid TOML: {_TOML_WORDS.get(problem, problem)}") from None
    except ValueError:  # the interpreter's limit
        raise BadInput(f"{where}: a number has more than 4,300 digits", "write it in quotes") from None


_TOML_WORDS = {
    "Cannot overwrite a value": "duplicate key; remove one of them",
    "Invalid value": "a value is missing, or a text is not in quotes",
    "Expected '=' after a key in a key/value pair": "a key must be followed by = and a value",
    "Expected newline or end of document after a statement": "extra text after the value",
}
_TOML_KEY = r"""(?:[\w-]+|"[^"]*"|'[^']*')"""
_TOML_HEADER = re.compile(rf"\s*(\[\[?)\s*({_TOML_KEY}(?:\s*\.\s*{_TOML_KEY})*)\s*\]")
_TOML_PAIR = re.compile(rf"\s*({_TOML_KEY}(?:\s*\.\s*{_TOML_KEY})*)\s*=")
_TOML_INNER = re.compile(rf"[{{,]\s*({_TOML_KEY})\s*=")


def _toml_lines(text: str) -> Lines:
    """The lines of the keys, found without parsing the values: precise enough for messages."""
    lines: Lines = {}
    table: KeyPath = ()
    counts: dict[KeyPath, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        short = line[:2000]
        if header := _TOML_HEADER.match(short):
            table = _toml_path(header[2])
            if header[1] == "[[":
                counts[table] = counts.get(table, -1) + 1
                table = (*table, counts[table])
            at = table
        elif pair := _TOML_PAIR.match(short):
            at = (*table, *_toml_path(pair[1]))
            for inner in _TOML_INNER.finditer(short, pair.end()):
                lines.setdefault((*at, *_toml_path(inner[1])), number)
        else:
            continue
        for end in range(1, len(at) + 1):
            lines.setdefault(at[:end], number)
    return lines


def _toml_path(keys: str) -> KeyPath:
    return tuple(part.strip("\"'") for part in re.findall(_TOML_KEY, keys))
