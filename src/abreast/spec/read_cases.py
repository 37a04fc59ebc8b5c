"""Readers of case files, one case at a time: a file may be larger than memory."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from abreast.code.reference import load_call, load_function
from abreast.errors import BadInput, suggestion
from abreast.filenames import relative_path
from abreast.model import Case
from abreast.plugins import is_async
from abreast.spec.case_columns import ColumnMapping
from abreast.spec.syntax import json_value, near_files, parse, read_text
from abreast.spec.values import find_unstorable, is_plain, kind_of, name_problem, plain, quote

FIELDS = ("id", "input", "expected", "tags", "group")
# names of the code-search format
_ALIASES = {"prompt": "input", "ground_truth": "expected"}
_TAG_FIELDS = ("category", "difficulty")
_IGNORED = ("description",)
_PLAIN = frozenset(("id", "input", "expected"))
_ESCAPED = re.compile("[\udc80-\udcff]")  # how Python writes bytes that are not UTF-8


class CaseLocation(NamedTuple):
    """The location of a case: a source such as `cases.jsonl:`, and a number such as its line."""

    source: str
    number: int

    def __str__(self) -> str:
        return f"{self.source}{self.number}" if self.source.endswith((":", " ")) else self.source


Record = tuple[CaseLocation, Any]
"""The location of a case and its data."""
Flat = Callable[[CaseLocation, Mapping[str, Any]], dict[str, Any]]


class LocatedText(str):
    """`cases:` as the name of a file, pattern or function, with its location in the spec."""

    location: str


class LocatedCall(dict[str, Any]):
    """`cases:` as a function with arguments, or as a file with columns."""

    location: str


class LocatedCases(list[Any]):
    """`cases:` as a list."""

    location: str
    locations: list[str]


def location_of(cases: Any) -> str:
    """`experiment.yaml:3: cases`, or `cases` if it is not from a file."""
    return f"{cases.location}: cases" if isinstance(cases, LocatedText | LocatedCall | LocatedCases) else "cases"


def _item_location(cases: Any, index: int) -> str:
    return f"{cases.locations[index]}: cases[{index}]" if isinstance(cases, LocatedCases) else f"cases[{index}]"


def records(cases: Any, base: Path) -> Iterator[Record]:
    """The cases of a spec, in order, with their locations."""
    if isinstance(cases, str):
        yield from _from_text(cases, base, location_of(cases))
    elif callable(cases):
        yield from _from_function(cases, "cases function")
    elif isinstance(cases, Mapping) and "file" in cases:
        yield from _from_columns(ColumnMapping.parse(cases, location_of(cases)), base, location_of(cases))
    elif isinstance(cases, Mapping):
        call = load_call(location_of(cases), cases)
        yield from _from_function(call, call.name, f"called as {call}")
    elif isinstance(cases, Iterable) and not isinstance(cases, bytes):
        for index, item in enumerate(cases):
            if isinstance(item, str):
                yield from _from_text(item, base, _item_location(cases, index))
            else:
                yield CaseLocation(_item_location(cases, index), index), item
    else:
        raise BadInput(f"cases: must be a file, a list of cases, or python:module:function, got {quote(cases)}")


def files_of(cases: Any, base: Path) -> list[Path]:
    """The files that `cases:` of a spec names."""
    if isinstance(cases, Mapping) and "file" in cases:
        cases = str(cases["file"])
    items = [cases] if isinstance(cases, str) else cases if isinstance(cases, list | tuple) else []
    names = [str(item) for item in items if isinstance(item, str) and not item.startswith("python:")]
    return [path for name in names for path in _expand(name, base, "cases")]


def _from_text(text: str, base: Path, where: str) -> Iterator[Record]:
    text = str(text)  # not a LocatedText: Path takes str only
    if text.startswith("python:"):
        try:
            function = load_function(text)
        except BadInput as error:
            raise BadInput(f"{where}: {error.message}", error.fix) from error
        yield from _from_function(function, text)
        return
    for path in _expand(text, base, where):
        yield from _read(path, where, _from_flat)


def _from_columns(columns: ColumnMapping, base: Path, where: str) -> Iterator[Record]:
    for path in _expand(columns.file, base, where):
        for index, (location, row) in enumerate(_read(path, where, None)):
            if not isinstance(row, Mapping):
                raise BadInput(f"{location}: must be a mapping of columns, got {kind_of(row)}")
            if index == 0:
                columns.check_names(row, relative_path(path))
            yield location, columns.case(row, location)


def _read(path: Path, where: str, flat: Flat | None) -> Iterator[Record]:
    """Read the records of a file. `flat` converts the rows of a table to cases; without it they stay rows."""
    suffix = path.suffix.lower()
    if suffix not in _READERS and suffix not in _TABLES:
        kinds = ", ".join([*_READERS, *_TABLES])
        raise BadInput(f"{where}: {relative_path(path)} is not a case file", f"use one of {kinds}")
    try:
        if suffix in _READERS:
            yield from _READERS[suffix](path)
        else:
            for location, row in _TABLES[suffix](path):
                yield location, row if flat is None else flat(location, row)
    except OSError as error:
        raise BadInput(f"{relative_path(path)}: cannot read the file ({error.strerror or error})") from None


def _expand(text: str, base: Path, where: str) -> list[Path]:
    """The files that a name or pattern matches."""
    if name_problem(text) and len(text) <= 200:
        raise BadInput(f"{where}: {quote(text)} is not a file name", "use a file such as cases.jsonl")
    try:
        if any(char in text for char in "*?["):
            return _matching(text, base, where)
        path = Path(text) if Path(text).is_absolute() else base / text
        if path.is_dir():
            folder = text.rstrip("/")
            raise BadInput(f"{where}: {quote(text)} is a folder", f"use {folder}/*.jsonl")
        if not path.is_file():
            problem = "not a file" if path.exists() else f"no such file{near_files(path)}"
            fix = (
                'write a case as {"input": "2 + 2", "expected": "4"}; text names a file' if where.endswith("]") else ""
            )
            raise BadInput(f"{where}: {relative_path(path)}: {problem}", fix)
    except (OSError, ValueError, NotImplementedError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise BadInput(f"{where}: {quote(text)} is not a file name ({why})") from None
    return [path]


def _matching(text: str, base: Path, where: str) -> list[Path]:
    pattern = Path(text)
    anchor = Path(pattern.anchor) if pattern.is_absolute() else base
    relative = str(pattern.relative_to(pattern.anchor)) if pattern.is_absolute() else text
    files = sorted(path for path in anchor.glob(relative) if path.is_file())
    if not files:
        raise BadInput(f"{where}: no file matches {quote(text)}", f"check the pattern; it is relative to {anchor}")
    return files


def _from_function(function: Callable[[], Any], name: str, how: str = "called without arguments") -> Iterator[Record]:
    if is_async(function):
        raise BadInput(f"{name} is async", "use a plain function that returns cases")
    try:
        cases = function()
    except BadInput:
        raise
    except (Exception, SystemExit) as error:
        raise BadInput(f"{name}: {_describe_crash(error)}", f"fix the function; it is {how}") from error
    if isinstance(cases, str | bytes | Mapping) or not isinstance(cases, Iterable):
        raise BadInput(f"{name}: must return cases (a list or a generator), got {kind_of(cases)}")
    iterator = iter(cases)
    index = 0
    while True:
        try:
            item = next(iterator)
        except StopIteration:
            return
        except BadInput:
            raise
        except (Exception, SystemExit) as error:
            raise BadInput(f"{name}, case {index + 1}: {_describe_crash(error)}") from error
        index += 1
        yield CaseLocation(f"{name}, case ", index), item


def _describe_crash(error: BaseException) -> str:
    """Describe the exception that a user's function raised, with its location in the file."""
    frames = error.__traceback__
    while frames is not None and frames.tb_next is not None:
        frames = frames.tb_next
    at = f" ({relative_path(Path(frames.tb_frame.f_code.co_filename))}:{frames.tb_lineno})" if frames else ""
    return f"raised {type(error).__name__}: {error}{at if 'abreast/spec' not in at else ''}"


def json_lines(path: Path) -> Iterator[Record]:
    """One value per line, with its location; empty lines and comments (`//`) are skipped."""
    where = relative_path(path)
    source = f"{where}:"
    decode = json.JSONDecoder(object_pairs_hook=_refuse_duplicate_keys, parse_constant=_refuse_constant).decode
    number = 0
    with path.open("rb") as file:
        for raw in file:
            number += 1
            line = raw.removeprefix(b"\xef\xbb\xbf").strip() if number == 1 else raw.strip()
            if not line or line.startswith(b"//"):
                continue
            try:
                item = decode(line.decode("utf-8"))
            except UnicodeDecodeError as error:
                raise _not_utf8(where, number, error.start) from None
            except (ValueError, RecursionError):
                json_value(where, line.decode("utf-8"), number, unique=True)  # raises BadInput with the reason
                raise
            yield CaseLocation(source, number), item


def _refuse_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError("duplicate key")
    return value


def _refuse_constant(word: str) -> Any:
    raise ValueError(word)


def _not_utf8(where: str, number: int, column: int) -> BadInput:
    return BadInput(f"{where}:{number}: not valid UTF-8 (byte {column} of the line)", "save the file as UTF-8")


def _table(path: Path, delimiter: str) -> Iterator[Record]:
    where = relative_path(path)
    csv.field_size_limit(100_000_000)
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        reader = csv.reader(_checked_lines(where, file), delimiter=delimiter, strict=True)
        number = 1
        try:
            columns = next(reader, [])
            _check_separator(where, columns, delimiter)
            for column in columns:
                if columns.count(column) > 1:
                    raise BadInput(f"{where}:1: duplicate column {quote(column)}", "rename one of them")
            number = reader.line_num + 1
            for row in reader:
                if row:
                    location = CaseLocation(f"{where}:", number)
                    yield location, _with_names(location, columns, row)
                number = reader.line_num + 1
        except csv.Error as error:
            raise BadInput(f"{where}:{number}: not valid CSV: {_describe_csv_error(str(error))}") from None


def _check_separator(where: str, columns: list[str], delimiter: str) -> None:
    """Refuse a table with another separator: it has one column, whose name contains it."""
    for other, name in ((";", "semicolons"), ("\t", "tabs"), (",", "commas")):
        if len(columns) == 1 and other in columns[0] and other != delimiter:
            expected = {",": "commas", "\t": "tabs"}[delimiter]
            raise BadInput(
                f"{where}:1: one column, {quote(columns[0])}: its fields are separated by {name}, not {expected}",
                "name the file .tsv" if other == "\t" else f"save it with {expected} between the fields",
            )


def _checked_lines(where: str, file: TextIO) -> Iterator[str]:
    for number, line in enumerate(file, 1):
        bad = None if line.isascii() else _ESCAPED.search(line)
        if bad:
            raise _not_utf8(where, number, len(line[: bad.start()].encode("utf-8", "surrogateescape")))
        yield line


def _describe_csv_error(message: str) -> str:
    if "unexpected end of data" in message:
        return 'a quotation mark (") is never closed'
    if "expected after" in message:
        return 'text after a closing quotation mark; write "" for a quotation mark inside a quoted text'
    return message


def _with_names(location: CaseLocation, columns: list[str], row: list[str]) -> dict[str, str]:
    if len(row) != len(columns):
        raise BadInput(
            f"{location}: {len(row)} fields, but the header has {len(columns)} ({', '.join(columns)})",
            'put fields that contain the separator or a line break in quotation marks (")',
        )
    return dict(zip(columns, row, strict=True))


def _from_flat(location: CaseLocation, row: Mapping[str, Any]) -> dict[str, Any]:
    """Convert columns to a case: `input.NAME` makes a mapping, `tag_NAME` a tag; empty cells are skipped."""
    case: dict[str, Any] = {}
    parts: dict[str, dict[str, Any]] = {}
    for key, value in row.items():
        head, dot, rest = key.partition(".")
        if key.startswith("tag_") or (dot and head == "tag"):
            head, dot, rest = "tags", ".", key[4:]
        if dot and head in ("input", "expected"):
            parts.setdefault(head, {})[rest] = value
        elif dot and head == "tags":
            if value not in ("", None):
                parts.setdefault(head, {})[rest] = value
        elif key in ("input", "prompt") or value not in ("", None):
            case[key] = value
    for head, mapping in parts.items():
        if case.get(head) not in ("", None):
            raise BadInput(f"{location}: has both {head} and {head}.{next(iter(mapping))}", "keep one of the two forms")
        case[head] = mapping
    return case


def _parquet(path: Path) -> Iterator[Record]:
    from abreast.store.parquet import read_parquet  # late: it imports DuckDB

    where = relative_path(path)
    try:
        for number, row in enumerate(read_parquet(path), 1):
            location = CaseLocation(f"{where}, row ", number)
            yield location, plain(row)
    except ValueError as error:
        why = str(error).replace(str(path), where)
        raise BadInput(f"{where}: not a readable parquet file: {why}") from None


def _document(path: Path) -> Iterator[Record]:
    data, locations = parse(path, read_text(path, "convert it to .jsonl, which has no size limit"))
    where = relative_path(path)
    prefix: tuple[str, ...] = ()
    if isinstance(data, Mapping) and set(data) == {"cases"}:
        data, prefix = data["cases"], ("cases",)
    if data is None:
        return
    if not isinstance(data, list):
        raise BadInput(f"{where}: must be a list of cases, got {kind_of(data)}", "use - {input: ..., expected: ...}")
    for index, item in enumerate(data):
        line = locations.line((*prefix, index))
        yield CaseLocation(f"{where}:", line) if line else CaseLocation(f"{where}, case ", index + 1), item


_READERS: dict[str, Callable[[Path], Iterator[Record]]] = {
    ".jsonl": json_lines,
    ".ndjson": json_lines,
    ".yaml": _document,
    ".yml": _document,
    ".json": _document,
}
_TABLES: dict[str, Callable[[Path], Iterator[Record]]] = {
    ".csv": lambda path: _table(path, ","),
    ".tsv": lambda path: _table(path, "\t"),
    ".parquet": _parquet,
}


def as_case(location: CaseLocation, item: Any) -> Case:
    """Convert data from a file, or a `Case` object, to a case; its id is empty if it has none."""
    is_object = isinstance(item, Case)
    if is_object:
        item = {name: getattr(item, name) for name in FIELDS if name != "id" or item.id != ""}
    if not isinstance(item, Mapping):
        raise BadInput(
            f"{location}: a case must be a mapping with input and expected, got {quote(item)}",
            'use a mapping such as {"input": "2 + 2", "expected": "4"}',
        )
    if (
        item.keys() <= _PLAIN
        and _is_simple(item.get("id"))
        and _is_simple(item.get("input"))
        and not name_problem(item["id"])
    ):
        case = Case(item["id"], item["input"], item.get("expected"))  # the fast path for most cases
    else:
        case = _from_mapping(location, item)
    if not (_is_simple(case.input) and _is_simple(case.expected)):
        problem = find_unstorable({"input": case.input, "expected": case.expected})
        # cases made in Python may have other objects
        if problem is not None and (not is_object or is_plain(case.input, case.expected)):
            raise BadInput(f"{location}: {'.'.join(map(str, problem[0]))} {problem[1]}")
    return case


def _is_simple(text: Any) -> bool:
    """Whether this is plain printable text, which needs no further check."""
    return type(text) is str and text.isascii() and text.isprintable() and text != ""


def _from_mapping(location: CaseLocation, item: Mapping[Any, Any]) -> Case:
    for alias, name in _ALIASES.items():
        if alias in item and name in item:
            raise BadInput(f'{location}: has both "{alias}" and "{name}"', "keep one of them")
    values = {_ALIASES.get(key, key): value for key, value in item.items() if key not in _IGNORED}
    tags = values.pop("tags", None)
    tags = {} if tags is None else tags
    if not isinstance(tags, Mapping):
        raise BadInput(f"{location}: tags must be a mapping such as {{category: easy}}, got {quote(tags)}")
    extra = {key: values.pop(key) for key in _TAG_FIELDS if key in values}
    extra = {key: value for key, value in extra.items() if value is not None}
    for key in values:
        if key not in FIELDS:
            raise BadInput(
                f"{location}: unknown key {quote(key)}{suggestion(str(key), FIELDS)}",
                f"use {', '.join(FIELDS)}; put further values under tags or into a mapping as input",
            )
    if values.get("input") is None:
        raise BadInput(f'{location}: "input" is missing', "add the question, as text or as a mapping")
    return Case(
        _text(location, "id", values.get("id")) or "",
        values["input"],
        values.get("expected"),
        {_key(location, key): _tag(location, key, value) for key, value in {**tags, **extra}.items()},
        _text(location, "group", values.get("group")),
    )


def _text(location: CaseLocation, key: str, value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise BadInput(f"{location}: {key} must be text, got {quote(value)}", "put it in quotes")
    if isinstance(value, int) and value.bit_length() > 64:
        raise BadInput(f"{location}: {key} is too large a number", "put it in quotes")
    text = str(value)
    if problem := name_problem(text):
        raise BadInput(f"{location}: {key} {problem}: {quote(text)}", "use a short plain text, or omit it")
    return text


def _key(location: CaseLocation, key: Any) -> str:
    if not isinstance(key, str) or name_problem(key):
        raise BadInput(f"{location}: the tag {quote(key)} is not a name", "use tags such as {category: easy}")
    return key


def _tag(location: CaseLocation, key: Any, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str | int | float) or find_unstorable(value) is not None:
        raise BadInput(f"{location}: the tag {key} must be text, got {quote(value)}", "omit it, or put it in quotes")
    return str(value)
