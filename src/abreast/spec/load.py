"""From a file to a `Spec`, with errors that name the file, the line, the value and the way out."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pydantic
import yaml

from abreast.errors import BadInput, suggestion
from abreast.spec.schema import Bounds, Limits, Spec, Timeout

SUFFIXES = (".yaml", ".yml", ".toml", ".json")
MAX_BYTES = 16_000_000


def load_spec(path: Path) -> Spec:
    """The experiment written in `path`; its name is the file's if it has none."""
    text = read_text(path)
    data, places = parse(path, text)
    if data is None or data == {}:
        raise BadInput(f"{path}: empty", "write at least cases: and variants:, or start with: abreast demo --write DIR")
    if not isinstance(data, Mapping):
        raise BadInput(f"{path}: must be a mapping of keys such as name, cases and variants, got {_shown(data)}")
    data = dict(data)
    if "name" not in data:
        data["name"] = path.stem
    return validated(data, str(path), places)


def validated(data: Mapping[str, Any], source: str, places: Places | None = None) -> Spec:
    """The spec of these keys and values; `source` begins every message."""
    try:
        return Spec.model_validate(data)
    except pydantic.ValidationError as error:
        raise _explained(error, source, places) from None
    except RecursionError:
        raise BadInput(f"{source}: refers to itself, or is nested too deeply") from None


def read_text(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise BadInput(f"{path}: larger than {MAX_BYTES // 1_000_000} MB", "keep the cases in a file of their own")
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise BadInput(f"{path}:{line}: not valid UTF-8 (byte {error.start})", "save the file as UTF-8") from None
    except FileNotFoundError:
        near = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
        hint = suggestion(path.name, near) if near else ""
        hint = hint if "did you mean" in hint else ""
        raise BadInput(f"{path}: no such file{hint}") from None
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror or error})") from None
    except ValueError as error:  # a name with a NUL in it
        raise BadInput(f"{str(path)!r}: not a file name ({error})") from None


class Places:
    """Where in the file each key stands: a line for a path of keys."""

    def __init__(self, lines: Mapping[tuple[str | int, ...], int]) -> None:
        self._lines = lines

    def line(self, location: Sequence[str | int]) -> int | None:
        """The line of the deepest part of `location` that has one."""
        path = tuple(location)
        while path:
            if path in self._lines:
                return self._lines[path]
            path = path[:-1]
        return None


def parse(path: Path, text: str) -> tuple[Any, Places]:
    """The data in a file and where its keys stand."""
    suffix = path.suffix.lower()
    if suffix in (".yaml", ".yml"):
        return _parse_yaml(path, text)
    if suffix == ".json":
        return _parse_json(path, text), Places(_scan_lines(text, r'"((?:[^"\\]|\\.)*)"\s*:'))
    if suffix == ".toml":
        try:
            return tomllib.loads(text), Places(_scan_lines(text, r"^\s*\[*\s*\"?([\w.-]+)\"?\s*[\]=]"))
        except tomllib.TOMLDecodeError as error:
            raise BadInput(f"{path}: not valid TOML: {error}") from None
        except RecursionError:
            raise BadInput(f"{path}: nested too deeply") from None
    raise BadInput(f'{path}: a spec ends in {", ".join(SUFFIXES)}, not "{suffix}"')


class _Loader(yaml.SafeLoader):
    """YAML whose dates stay text: a case's input is what was written."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _parse_yaml(path: Path, text: str) -> tuple[Any, Places]:
    try:
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            lines: dict[tuple[str | int, ...], int] = {}
            if node is None:
                return None, Places(lines)
            _note_lines(path, node, (), lines, set())
            return loader.construct_document(node), Places(lines)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f":{mark.line + 1}" if mark else ""
        raise BadInput(f"{path}{line}: not valid YAML: {error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise BadInput(f"{path}: not valid YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise BadInput(f"{path}: refers to itself, or is nested too deeply") from None
    except (ValueError, TypeError, OverflowError) as error:  # a value YAML itself cannot build, such as a bad number
        raise BadInput(f"{path}: not valid YAML: {error}") from None


def _note_lines(
    path: Path, node: yaml.Node, at: tuple[str | int, ...], lines: dict[tuple[str | int, ...], int], seen: set[int]
) -> None:
    lines.setdefault(at, node.start_mark.line + 1)
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        keys: set[str] = set()
        for key, value in node.value:
            name = str(key.value)
            if name in keys and key.tag != "tag:yaml.org,2002:merge":
                raise BadInput(f'{path}:{key.start_mark.line + 1}: the key "{name}" is there twice', "remove one")
            keys.add(name)
            lines[(*at, name)] = key.start_mark.line + 1
            _note_lines(path, value, (*at, name), lines, seen)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            _note_lines(path, value, (*at, index), lines, seen)


def _parse_json(path: Path, text: str) -> Any:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise BadInput(f'{path}: the key "{twice}" is there twice', "remove one")
        return found

    try:
        return json.loads(text, object_pairs_hook=unique) if text.strip() else None
    except json.JSONDecodeError as error:
        raise BadInput(f"{path}:{error.lineno}: not valid JSON: {error.msg} (column {error.colno})") from None
    except RecursionError:
        raise BadInput(f"{path}: nested too deeply") from None
    except ValueError as error:
        raise BadInput(f"{path}: not valid JSON: {error}") from None


def _scan_lines(text: str, key: str) -> dict[tuple[str | int, ...], int]:
    """Lines of keys by name alone, the first of a name: enough to point a reader to the place."""
    lines: dict[tuple[str | int, ...], int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        for match in re.finditer(key, line[:2000]):
            for part in match[1].split("."):
                lines.setdefault((part,), number)
    return lines


_TYPES = {
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "float_type": "must be a number",
    "string_type": "must be text",
    "list_type": "must be a list",
    "dict_type": "must be a mapping",
    "bool_type": "must be true or false",
    "model_type": "must be a mapping",
}


def _explained(error: pydantic.ValidationError, source: str, places: Places | None) -> BadInput:
    """The first thing that is wrong, in one sentence."""
    problems = error.errors(include_url=False)
    unknown = [item for item in problems if item["type"] == "extra_forbidden"]
    first = (unknown or problems)[0]
    location = [part for part in first["loc"] if not _is_branch(part)]
    where = ".".join(str(part) for part in location)
    line = places.line(location) or places.line(location[-1:]) if places and location else None
    prefix = f"{source}:{line}" if line else source
    if first["type"] == "extra_forbidden":
        key = str(location[-1])
        inside = f" in {'.'.join(map(str, location[:-1]))}" if len(location) > 1 else ""
        return BadInput(f'{prefix}: unknown key "{key}"{inside}{suggestion(key, _known_keys(location[:-1]))}')
    if first["type"] == "missing":
        return BadInput(f'{prefix}: "{where}" is missing', f"add {where}:")
    what = _TYPES.get(first["type"])
    if what is None:
        context = first.get("ctx", {}).get("error")
        what = str(context) if context else first["msg"][0].lower() + first["msg"][1:]
    if len([item for item in problems if item["loc"][:1] == first["loc"][:1]]) > 1 and len(location) == 2:
        what = _CHOICES.get(where, what)
    return BadInput(f"{prefix}: {where} {what}, got {_shown(first['input'])}")


_CHOICES = {
    "limits.parallel": "must be a whole number, auto, variants, or {min, start, max}",
    "limits.timeout": "must be seconds above 0, or {base, per_1k_chars, max}",
}


def _is_branch(part: str | int) -> bool:
    """Whether pydantic put this into the path to name the branch of a union it tried."""
    return isinstance(part, str) and (
        part in ("int", "float", "Bounds", "Timeout", "constrained-int", "constrained-float")
        or part.startswith(("literal[", "function-", "constrained", "int", "float"))
    )


def _known_keys(location: Sequence[str | int]) -> list[str]:
    models: dict[tuple[str | int, ...], type[pydantic.BaseModel]] = {
        (): Spec,
        ("limits",): Limits,
        ("limits", "parallel"): Bounds,
        ("limits", "timeout"): Timeout,
    }
    model = models.get(tuple(location))
    return list(model.model_fields) if model else []


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except RecursionError:
        return "a value that contains itself"
    return text if len(text) <= 80 else text[:77] + "..."
