"""Reading case files, one format after the other, a case at a time: a file may be larger than memory."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from abreast.code.reference import load_call, load_function
from abreast.errors import BadInput, suggestion
from abreast.model import Case
from abreast.plugins import is_async
from abreast.spec.syntax import json_value, near_files, parse, read_text
from abreast.spec.values import bad_name, flaw, is_plain, kind_of, plain, shown, shown_path
from abreast.spec.written import place_of, place_of_item

FIELDS = ("id", "input", "expected", "tags", "group")
# The code-search format, by its own names.
_ALIASES = {"prompt": "input", "ground_truth": "expected"}
_TAG_FIELDS = ("category", "difficulty")
_IGNORED = ("description",)
_PLAIN = frozenset(("id", "input", "expected"))
_ESCAPED = re.compile("[\udc80-\udcff]")  # how Python writes bytes that are not UTF-8


class Place(NamedTuple):
    """Where a case stands: what the place begins with, and a number (`cases.jsonl:` and 17) if it has one."""

    source: str
    number: int

    def __str__(self) -> str:
        return f"{self.source}{self.number}" if self.source.endswith((":", " ")) else self.source


Record = tuple[Place, Any]
"""Where a case stands and what stands there."""


def records(cases: Any, base: Path) -> Iterator[Record]:
    """Every case of a spec's `cases:`, in order, with its place."""
    if isinstance(cases, str):
        yield from _from_text(cases, base, place_of(cases))
    elif callable(cases):
        yield from _from_function(cases, "cases function")
    elif isinstance(cases, Mapping):
        call = load_call(place_of(cases), cases)
        yield from _from_function(call, call.name, f"it is called as {call}")
    elif isinstance(cases, Iterable) and not isinstance(cases, bytes):
        for index, item in enumerate(cases):
            if isinstance(item, str):
                yield from _from_text(item, base, place_of_item(cases, index))
            else:
                yield Place(place_of_item(cases, index), index), item
    else:
        raise BadInput(f"cases: must be a file, a list of cases, or python:module:function, got {shown(cases)}")


def files_of(cases: Any, base: Path) -> list[Path]:
    """The files that a spec's `cases:` names."""
    found: list[Path] = []
    for item in [cases] if isinstance(cases, str) else cases if isinstance(cases, list | tuple) else []:
        if isinstance(item, str) and not item.startswith("python:"):
            found.extend(_expand(str(item), base, "cases"))
    return found


def _from_text(text: str, base: Path, where: str) -> Iterator[Record]:
    text = str(text)  # without its place: paths take plain texts only
    if text.startswith("python:"):
        try:
            function = load_function(text)
        except BadInput as error:
            raise BadInput(f"{where}: {error.message}", error.fix) from error
        yield from _from_function(function, text)
        return
    for path in _expand(text, base, where):
        reader = _READERS.get(path.suffix.lower())
        if reader is None:
            raise BadInput(f"{where}: {shown_path(path)} is not a case file", f"they end in {', '.join(_READERS)}")
        try:
            yield from reader(path)
        except OSError as error:
            raise BadInput(f"{shown_path(path)}: cannot be read ({error.strerror or error})") from None


def _expand(text: str, base: Path, where: str) -> list[Path]:
    """The files behind a name or a pattern."""
    if bad_name(text) and len(text) <= 200:
        raise BadInput(f"{where}: {shown(text)} is not a file name", "write a file such as cases.jsonl")
    try:
        if any(char in text for char in "*?["):
            return _matching(text, base, where)
        path = Path(text) if Path(text).is_absolute() else base / text
        if path.is_dir():
            folder = text.rstrip("/")
            raise BadInput(f"{where}: {shown(text)} is a folder", f"write {folder}/*.jsonl")
        if not path.is_file():
            what = "not a file" if path.exists() else f"no such file{near_files(path)}"
            fix = (
                'text names a file; write a case as {"input": "2 + 2", "expected": "4"}' if where.endswith("]") else ""
            )
            raise BadInput(f"{where}: {shown_path(path)}: {what}", fix)
    except (OSError, ValueError, NotImplementedError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise BadInput(f"{where}: {shown(text)} is not a file name ({why})") from None
    return [path]


def _matching(text: str, base: Path, where: str) -> list[Path]:
    pattern = Path(text)
    anchor = Path(pattern.anchor) if pattern.is_absolute() else base
    relative = str(pattern.relative_to(pattern.anchor)) if pattern.is_absolute() else text
    found = sorted(path for path in anchor.glob(relative) if path.is_file())
    if not found:
        raise BadInput(f"{where}: no file matches {shown(text)}", f"patterns are looked for in {anchor}")
    return found


def _from_function(
    function: Callable[[], Any], name: str, how: str = "it is called without arguments"
) -> Iterator[Record]:
    if is_async(function):
        raise BadInput(f"{name} is async", "write a plain function that returns cases")
    try:
        found = function()
    except BadInput:  # it says itself what is wrong
        raise
    except (Exception, SystemExit) as error:
        raise BadInput(f"{name}: {_crash(error)}", f"{how}, and returns cases") from error
    if isinstance(found, str | bytes | Mapping) or not isinstance(found, Iterable):
        raise BadInput(f"{name}: must return cases (a list or a generator), got {kind_of(found)}")
    iterator = iter(found)
    index = 0
    while True:
        try:
            item = next(iterator)
        except StopIteration:
            return
        except BadInput:
            raise
        except (Exception, SystemExit) as error:
            raise BadInput(f"{name}, case {index + 1}: {_crash(error)}") from error
        index += 1
        yield Place(f"{name}, case ", index), item


def _crash(error: BaseException) -> str:
    """What a function of the user raised, and where in its file."""
    frames = error.__traceback__
    while frames is not None and frames.tb_next is not None:
        frames = frames.tb_next
    at = f" ({shown_path(Path(frames.tb_frame.f_code.co_filename))}:{frames.tb_lineno})" if frames else ""
    return f"raised {type(error).__name__}: {error}{at if 'abreast/spec' not in at else ''}"


def json_lines(path: Path) -> Iterator[Record]:
    """A value a line, each with its place; empty lines and comments (`//`) are passed over."""
    where = shown_path(path)
    source = f"{where}:"
    decode = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_refuse).decode
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
                json_value(where, line.decode("utf-8"), number, unique=True)  # says what is wrong
                raise
            yield Place(source, number), item


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is there twice")
    return found


def _refuse(word: str) -> Any:
    raise ValueError(word)


def _not_utf8(where: str, number: int, column: int) -> BadInput:
    return BadInput(f"{where}:{number}: not valid UTF-8 (byte {column} of the line)", "save the file as UTF-8")


def _table(path: Path, delimiter: str) -> Iterator[Record]:
    where = shown_path(path)
    csv.field_size_limit(100_000_000)
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        reader = csv.reader(_checked_lines(where, file), delimiter=delimiter, strict=True)
        number = 1
        try:
            columns = next(reader, [])
            _check_separator(where, columns, delimiter)
            for column in columns:
                if columns.count(column) > 1:
                    raise BadInput(f"{where}:1: the column {shown(column)} is there twice", "rename one")
            number = reader.line_num + 1
            for row in reader:
                if row:
                    yield (
                        Place(f"{where}:", number),
                        _from_flat(Place(f"{where}:", number), _paired(where, number, columns, row)),
                    )
                number = reader.line_num + 1
        except csv.Error as error:
            raise BadInput(f"{where}:{number}: not valid CSV: {_csv_words(str(error))}") from None


def _check_separator(where: str, columns: list[str], delimiter: str) -> None:
    """A table of one column whose name holds a separator was written with that one."""
    for other, name in ((";", "semicolons"), ("\t", "tabs"), (",", "commas")):
        if len(columns) == 1 and other in columns[0] and other != delimiter:
            wanted = {",": "commas", "\t": "tabs"}[delimiter]
            raise BadInput(
                f"{where}:1: one column, {shown(columns[0])}: its fields are separated by {name}, not by {wanted}",
                "name the file .tsv" if other == "\t" else f"save it with {wanted} between the fields",
            )


def _checked_lines(where: str, file: TextIO) -> Iterator[str]:
    for number, line in enumerate(file, 1):
        bad = None if line.isascii() else _ESCAPED.search(line)
        if bad:
            raise _not_utf8(where, number, len(line[: bad.start()].encode("utf-8", "surrogateescape")))
        yield line


def _csv_words(message: str) -> str:
    if "unexpected end of data" in message:
        return 'a quotation mark (") is never closed'
    if "expected after" in message:
        return 'something follows a closing quotation mark; write "" for a quotation mark inside a quoted text'
    return message


def _paired(where: str, number: int, columns: list[str], row: list[str]) -> dict[str, str]:
    if len(row) != len(columns):
        raise BadInput(
            f"{where}:{number}: {len(row)} fields, but the header has {len(columns)} ({', '.join(columns)})",
            'put a field that contains the separator or a line break in quotation marks (")',
        )
    return dict(zip(columns, row, strict=True))


def _from_flat(place: Place, row: Mapping[str, Any]) -> dict[str, Any]:
    """A case out of columns: `input.NAME` makes a mapping, `tag_NAME` a tag; an empty cell is no value."""
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
            raise BadInput(f"{place}: has both {head} and {head}.{next(iter(mapping))}", "keep one of the two forms")
        case[head] = mapping
    return case


def _parquet(path: Path) -> Iterator[Record]:
    from abreast.store.parquet import read_parquet  # late: it imports DuckDB

    where = shown_path(path)
    try:
        for number, row in enumerate(read_parquet(path), 1):
            place = Place(f"{where}, row ", number)
            yield place, _from_flat(place, plain(row))
    except ValueError as error:
        why = str(error).replace(str(path), where)
        raise BadInput(f"{where}: not a readable parquet file: {why}") from None


def _document(path: Path) -> Iterator[Record]:
    data, places = parse(path, read_text(path, "write it as .jsonl, which may be of any size"))
    where = shown_path(path)
    prefix: tuple[str, ...] = ()
    if isinstance(data, Mapping) and set(data) == {"cases"}:
        data, prefix = data["cases"], ("cases",)
    if data is None:
        return
    if not isinstance(data, list):
        raise BadInput(f"{where}: must be a list of cases, got {kind_of(data)}", "write - {input: ..., expected: ...}")
    for index, item in enumerate(data):
        line = places.line((*prefix, index))
        yield Place(f"{where}:", line) if line else Place(f"{where}, case ", index + 1), item


_READERS: dict[str, Callable[[Path], Iterator[Record]]] = {
    ".jsonl": json_lines,
    ".ndjson": json_lines,
    ".csv": lambda path: _table(path, ","),
    ".tsv": lambda path: _table(path, "\t"),
    ".parquet": _parquet,
    ".yaml": _document,
    ".yml": _document,
    ".json": _document,
}


def as_case(place: Place, item: Any) -> Case:
    """A case out of what stands in a file, or a `Case` made in Python; its id is left empty if it has none."""
    is_object = isinstance(item, Case)
    if is_object:
        item = {name: getattr(item, name) for name in FIELDS if name != "id" or item.id != ""}
    if not isinstance(item, Mapping):
        raise BadInput(
            f"{place}: a case must be a mapping with input and expected, got {shown(item)}",
            'such as {"input": "2 + 2", "expected": "4"}',
        )
    if (
        item.keys() <= _PLAIN
        and _is_simple(item.get("id"))
        and _is_simple(item.get("input"))
        and not bad_name(item["id"])
    ):
        case = Case(item["id"], item["input"], item.get("expected"))  # most cases, and there may be a million
    else:
        case = _from_mapping(place, item)
    if not (_is_simple(case.input) and _is_simple(case.expected)):
        problem = flaw({"input": case.input, "expected": case.expected})
        # a function may take what is not plain data
        if problem is not None and (not is_object or is_plain(case.input, case.expected)):
            raise BadInput(f"{place}: {'.'.join(map(str, problem[0]))} {problem[1]}")
    return case


def _is_simple(text: Any) -> bool:
    """Whether there is nothing to look into: a plain printable text."""
    return type(text) is str and text.isascii() and text.isprintable() and text != ""


def _from_mapping(place: Place, item: Mapping[Any, Any]) -> Case:
    for alias, name in _ALIASES.items():
        if alias in item and name in item:
            raise BadInput(f'{place}: has both "{alias}" and "{name}"', "keep one of them")
    values = {_ALIASES.get(key, key): value for key, value in item.items() if key not in _IGNORED}
    tags = values.pop("tags", None)
    tags = {} if tags is None else tags
    if not isinstance(tags, Mapping):
        raise BadInput(f"{place}: tags must be a mapping such as {{category: easy}}, got {shown(tags)}")
    extra = {key: values.pop(key) for key in _TAG_FIELDS if key in values}
    extra = {key: value for key, value in extra.items() if value is not None}
    for key in values:
        if key not in FIELDS:
            raise BadInput(
                f"{place}: unknown key {shown(key)}{suggestion(str(key), FIELDS)}",
                f"a case has {', '.join(FIELDS)}; further values go under tags, or into input as a mapping",
            )
    if values.get("input") is None:
        raise BadInput(f'{place}: "input" is missing', "add what is asked, as text or as a mapping")
    return Case(
        _text(place, "id", values.get("id")) or "",
        values["input"],
        values.get("expected"),
        {_key(place, key): _tag(place, key, value) for key, value in {**tags, **extra}.items()},
        _text(place, "group", values.get("group")),
    )


def _text(place: Place, key: str, value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise BadInput(f"{place}: {key} must be text, got {shown(value)}", "put it in quotes")
    if isinstance(value, int) and value.bit_length() > 64:
        raise BadInput(f"{place}: {key} is too long a number", "put it in quotes")
    text = str(value)
    if bad_name(text):
        raise BadInput(f"{place}: {key} {bad_name(text)}: {shown(text)}", "give it a short plain text, or leave it out")
    return text


def _key(place: Place, key: Any) -> str:
    if not isinstance(key, str) or bad_name(key):
        raise BadInput(f"{place}: the tag {shown(key)} is not a name", "write tags such as {category: easy}")
    return key


def _tag(place: Place, key: Any, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str | int | float) or flaw(value) is not None:
        raise BadInput(f"{place}: the tag {key} must be text, got {shown(value)}", "leave it out, or put it in quotes")
    return str(value)
