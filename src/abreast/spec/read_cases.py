"""Reading case files, one format after the other, a case at a time: a file may be larger than memory."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from abreast.errors import BadInput, suggestion
from abreast.model import Case
from abreast.python_reference import load_function
from abreast.spec.load import parse, read_text

FIELDS = ("id", "input", "expected", "tags", "group")
# The code-search format, by its own names.
_ALIASES = {"prompt": "input", "ground_truth": "expected"}
_TAG_FIELDS = ("category", "difficulty")
_IGNORED = ("description",)

Record = tuple[str, Mapping[str, Any] | Case]
"""Where a case stands (`cases.jsonl:17`) and what stands there."""


def records(cases: Any, base: Path) -> Iterator[Record]:
    """Every case of a spec's `cases:`, in order, with its place."""
    if isinstance(cases, str):
        yield from _from_text(cases, base)
    elif callable(cases):
        yield from _from_function(cases, "cases function")
    elif isinstance(cases, Mapping):
        raise BadInput("cases: must be a file, a list of cases, or python:module:function, got a mapping")
    elif isinstance(cases, Iterable):
        for index, item in enumerate(cases):
            if isinstance(item, str):
                yield from _from_text(item, base)
            else:
                yield f"cases[{index}]", item
    else:
        raise BadInput(f"cases: must be a file, a list of cases, or python:module:function, got {cases!r}")


def files_of(cases: Any, base: Path) -> list[Path]:
    """The files that a spec's `cases:` names."""
    found: list[Path] = []
    for item in [cases] if isinstance(cases, str) else cases if isinstance(cases, list | tuple) else []:
        if isinstance(item, str) and not item.startswith("python:"):
            found.extend(_expand(item, base))
    return found


def _from_text(text: str, base: Path) -> Iterator[Record]:
    if text.startswith("python:"):
        yield from _from_function(load_function(text), text)
        return
    for path in _expand(text, base):
        reader = _READERS.get(path.suffix.lower())
        if reader is None:
            raise BadInput(f'{path}: case files end in {", ".join(_READERS)}, not "{path.suffix}"')
        yield from reader(path)


def _expand(text: str, base: Path) -> list[Path]:
    if not text.strip() or "\0" in text:
        raise BadInput(f"cases: {text!r} is not a file name")
    if any(char in text for char in "*?["):
        pattern = Path(text)
        anchor = Path(pattern.anchor) if pattern.is_absolute() else base
        relative = str(pattern.relative_to(pattern.anchor)) if pattern.is_absolute() else text
        try:
            found = sorted(path for path in anchor.glob(relative) if path.is_file())
        except (ValueError, OSError, NotImplementedError) as error:
            raise BadInput(f'cases: "{text}" is not a pattern of files: {error}') from None
        if not found:
            raise BadInput(f'cases: no file matches "{text}" in {anchor}')
        return found
    path = Path(text) if Path(text).is_absolute() else base / text
    if path.is_dir():
        raise BadInput(f"cases: {path} is a folder", f"write {text.rstrip('/')}/*.jsonl")
    if not path.is_file():
        near = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
        hint = suggestion(path.name, near) if near else ""
        raise BadInput(f"cases: {path}: no such file{hint if 'did you mean' in hint else ''}")
    return [path]


def _from_function(function: Callable[[], Any], name: str) -> Iterator[Record]:
    try:
        found = function()
        if isinstance(found, str | bytes | Mapping) or not isinstance(found, Iterable):
            raise BadInput(f"{name}: must return cases (a list or a generator), got {type(found).__name__}")
        iterator = iter(found)
    except BadInput:
        raise
    except Exception as error:
        raise BadInput(f"{name}: {type(error).__name__}: {error}") from error
    index = 0
    while True:
        try:
            item = next(iterator)
        except StopIteration:
            return
        except Exception as error:
            raise BadInput(f"{name}: case {index}: {type(error).__name__}: {error}") from error
        yield f"{name}[{index}]", item
        index += 1


def _jsonl(path: Path) -> Iterator[Record]:
    number = 0
    try:
        with path.open("rb") as file:
            for raw in file:
                number += 1
                line = raw.removeprefix(b"\xef\xbb\xbf").strip() if number == 1 else raw.strip()
                if not line or line.startswith(b"//"):
                    continue
                yield f"{path}:{number}", json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}:{number}: not valid UTF-8 (byte {error.start})", "save the file as UTF-8") from None
    except json.JSONDecodeError as error:
        raise BadInput(f"{path}:{number}: not valid JSON: {error.msg} (column {error.colno})") from None
    except (RecursionError, ValueError) as error:
        raise BadInput(f"{path}:{number}: not usable JSON: {error}") from None
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror or error})") from None


def _table(path: Path, delimiter: str) -> Iterator[Record]:
    csv.field_size_limit(100_000_000)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, delimiter=delimiter, strict=True)
            if reader.fieldnames is None:
                return
            columns = list(reader.fieldnames)
            if len(set(columns)) < len(columns):
                raise BadInput(f"{path}:1: a column is there twice: {', '.join(columns)}")
            for row in reader:
                if None in row or None in row.values():
                    raise BadInput(f"{path}:{reader.line_num}: not {len(columns)} fields as the header has")
                yield f"{path}:{reader.line_num}", _from_flat(row)
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: not valid UTF-8 (byte {error.start})", "save the file as UTF-8") from None
    except csv.Error as error:
        raise BadInput(f"{path}:{reader.line_num}: not valid CSV: {error}") from None
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror or error})") from None


def _from_flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """A case out of columns: `input.NAME` makes a mapping, `tag_NAME` a tag; an empty cell is no value."""
    case: dict[str, Any] = {}
    for key, value in row.items():
        head, dot, rest = key.partition(".")
        if dot and head in ("input", "expected"):
            case.setdefault(head, {})[rest] = value
        elif dot and head in ("tag", "tags"):
            if value not in ("", None):
                case.setdefault("tags", {})[rest] = value
        elif key.startswith("tag_"):
            if value not in ("", None):
                case.setdefault("tags", {})[key[4:]] = value
        elif value not in ("", None) or key == "input":
            case[key] = value
    return case


def _parquet(path: Path) -> Iterator[Record]:
    import duckdb

    try:
        with duckdb.connect(config={"threads": 1}) as connection:
            result = connection.execute("SELECT * FROM read_parquet(?)", [str(path)])
            names = [column[0] for column in result.description or []]
            number = 0
            while rows := result.fetchmany(1000):
                for row in rows:
                    number += 1
                    yield f"{path}, row {number}", _from_flat(dict(zip(names, row, strict=True)))
    except duckdb.Error as error:
        raise BadInput(f"{path}: not a readable parquet file: {str(error).splitlines()[0]}") from None


def _document(path: Path) -> Iterator[Record]:
    data, places = parse(path, read_text(path))
    prefix: tuple[str, ...] = ()
    if isinstance(data, Mapping) and set(data) == {"cases"}:
        data, prefix = data["cases"], ("cases",)
    if data is None:
        return
    if not isinstance(data, list):
        raise BadInput(f"{path}: must be a list of cases, got {type(data).__name__}")
    for index, item in enumerate(data):
        line = places.line((*prefix, index))
        yield f"{path}:{line}" if line else f"{path}, case {index + 1}", item


_READERS: dict[str, Callable[[Path], Iterator[Record]]] = {
    ".jsonl": _jsonl,
    ".ndjson": _jsonl,
    ".csv": lambda path: _table(path, ","),
    ".tsv": lambda path: _table(path, "\t"),
    ".parquet": _parquet,
    ".yaml": _document,
    ".yml": _document,
    ".json": _document,
}


def as_case(place: str, item: Any) -> Case:
    """A case out of what stands in a file; its id is left empty if it has none."""
    if isinstance(item, Case):
        return item
    if not isinstance(item, Mapping):
        raise BadInput(f"{place}: a case must be a mapping with input and expected, got {_shown(item)}")
    values = {_ALIASES.get(key, key): value for key, value in item.items() if key not in _IGNORED}
    tags = values.pop("tags", None)
    tags = {} if tags is None else tags
    if not isinstance(tags, Mapping):
        raise BadInput(f"{place}: tags must be a mapping such as {{category: easy}}, got {_shown(tags)}")
    extra = {key: values.pop(key) for key in _TAG_FIELDS if key in values}
    for key in values:
        if key not in FIELDS:
            raise BadInput(
                f'{place}: unknown key "{key}"{suggestion(str(key), FIELDS)}',
                f"a case has {', '.join(FIELDS)}; further values go under tags, or into input as a mapping",
            )
    if "input" not in values or values["input"] is None:
        raise BadInput(f'{place}: "input" is missing')
    return Case(
        _text(place, "id", values.get("id")) or "",
        values["input"],
        values.get("expected"),
        {str(key): _tag(place, key, value) for key, value in {**tags, **extra}.items()},
        _text(place, "group", values.get("group")),
    )


def _text(place: str, key: str, value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise BadInput(f"{place}: {key} must be text, got {_shown(value)}")
    if isinstance(value, str) and not value.strip():
        raise BadInput(f"{place}: {key} is empty", "give it a text, or leave it out")
    return str(value)


def _tag(place: str, key: Any, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str | int | float):
        raise BadInput(f"{place}: the tag {key} must be text, got {_shown(value)}")
    return str(value)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
