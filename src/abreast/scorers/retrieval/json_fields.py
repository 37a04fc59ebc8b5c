"""Read the JSON objects of an answer, in the many forms in which agents write them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from abreast.scorers.retrieval.names import LONGEST_NAME, SEVERAL, Location, Span, parse_location, path_of, symbol_of

FIELDS = ("files", "symbols", "lines", "content")
_SYNONYMS = {"file": "files", "path": "files", "paths": "files", "line": "lines"} | dict.fromkeys(
    ("symbol", "function", "functions", "method", "methods", "class", "classes", "types", "identifiers"), "symbols"
)
_ANSWER_KEYS = {*FIELDS, *_SYNONYMS}
_COMMENTARY = frozenset(  # keys that may accompany an answer
    ("answer", "confidence", "description", "explanation", "note", "notes", "reason", "reasoning", "summary")
)
_PATH_KEYS = ("path", "file", "filename")  # an object with one of these is a single location
MOST = 2_000  # claims of one kind that are read
_MOST_WASTED = 1_000_000  # characters that may be parsed in vain
_DECODER = json.JSONDecoder()
_OBJECT = re.compile(r"\{\s*[\"'}]")
_LIKELY_ANSWER = re.compile(r"\{\s*[\"'](?:files?|paths?|symbols?|functions?|lines?|content)[\"']", re.IGNORECASE)
_LENIENT_SYNTAX = re.compile(  # strings, then what JSON forbids: single quotes, comments, trailing commas
    r"""("(?:[^"\\\n]|\\.)*+"?)|'((?:[^'\\\n]|\\.)*+)'|//[^\n]*|,(?=\s*[}\]])"""
)


def parse_fields(text: str, value: Any) -> dict[str, Any]:
    """Return the fields of the last answer object; objects that are single locations count together."""
    objects = [item for item in as_list(value) if isinstance(item, Mapping)] or _find_objects(text)
    answers = [_normalize_keys(inner) for item in objects for inner in _unwrap(item)]
    complete = [answer for answer in answers if not _is_location(answer)]
    if complete:
        return {_SYNONYMS.get(key, key): value for key, value in complete[-1].items()}
    names = [answer.get("symbols", answer.get("symbol", answer.get("name"))) for answer in answers]
    symbols = [symbol for name in names for symbol in as_list(name)]
    return {**({"files": answers} if answers else {}), **({"symbols": symbols} if symbols else {})}


def _normalize_keys(item: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(key).strip().lower(): value for key, value in item.items()}


def _is_location(item: Mapping[str, Any]) -> bool:
    return "files" not in item and any(isinstance(item.get(key), str) for key in _PATH_KEYS)


def _unwrap(item: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the object, or the answers in it: `{"answer": {"files": [...]}}`."""
    if _is_answer(item):
        return [item]
    return [inner for value in item.values() for inner in as_list(value) if _is_answer(inner)]


def _is_answer(item: Any) -> bool:
    """Whether most keys are fields of an answer: a quoted `package.json` has `files` among others."""
    if not isinstance(item, Mapping):
        return False
    keys = _normalize_keys(item)
    fields = len(keys.keys() & _ANSWER_KEYS)
    others = len(keys.keys() - _ANSWER_KEYS - _COMMENTARY)
    return _is_location(keys) or (fields > 0 and fields >= others)


def _find_objects(text: str) -> list[Mapping[str, Any]]:
    """Return the outermost JSON objects of a text; comments, single quotes and trailing commas are tolerated."""
    objects: list[Mapping[str, Any]] = []
    position, budget = 0, _MOST_WASTED
    while budget > 0 and (match := _OBJECT.search(text, position)):
        start = match.start()
        try:
            value, position = _DECODER.raw_decode(text, start)
            objects.append(value)
        except (ValueError, RecursionError) as error:
            budget -= error.pos - start + 100 if isinstance(error, json.JSONDecodeError) else _MOST_WASTED // 10
            position = start + 1
            if _LIKELY_ANSWER.match(text, start):
                budget -= _MOST_WASTED // 20
                strict = _LENIENT_SYNTAX.sub(_as_strict, text[start : start + _MOST_WASTED // 20])
                try:
                    value, _ = _DECODER.raw_decode(strict)
                except (ValueError, RecursionError):
                    continue
                objects.append(value)
                return objects  # the end of the object in `text` is unknown, and answers end with it
    return objects


def _as_strict(part: re.Match[str]) -> str:
    if part[2] is not None:
        return json.dumps(re.sub(r"\\(.)", r"\1", part[2]))
    return part[1] or ""


def as_list(value: Any) -> list[Any]:
    return list(value)[:MOST] if isinstance(value, list | tuple) else [] if value is None else [value]


def parse_locations(value: Any) -> Iterator[Location]:
    """Parse the field `files`: paths, perhaps with lines, or objects that have a path."""
    if isinstance(value, Mapping):
        yield from parse_lines(value, ())
        return
    for item in as_list(value):
        if isinstance(item, str):
            yield parse_location(item)
        elif isinstance(item, Mapping):
            yield from _parse_object(item)


def _parse_object(item: Mapping[str, Any]) -> Iterator[Location]:
    fields = _normalize_keys(item)
    text = next((fields[name] for name in (*_PATH_KEYS, "name") if isinstance(fields.get(name), str)), None)
    if text is None:
        return
    path, span = parse_location(text)
    lines = next((fields[name] for name in ("lines", "line", "line_number", "line_numbers") if name in fields), None)
    spans: list[Span | None] = [*parse_spans(lines)]
    yield from ((path, line) for line in spans or [span])


def parse_lines(value: Any, files: Iterable[Location]) -> Iterator[Location]:
    """Parse the field `lines`: numbers and ranges by path, locations, or numbers in the only file."""
    if isinstance(value, Mapping) and not _is_location(value):
        for path, lines in value.items():
            yield from ((path_of(str(path)), span) for span in parse_spans(lines))
        return
    paths = {path for path, _ in files}
    for item in as_list(value):
        spans = [] if isinstance(item, Mapping) else list(parse_spans([item]))
        yield from ((path, span) for path in paths if len(paths) == 1 for span in spans)
        if not spans:
            yield from parse_locations([item])


def parse_spans(value: Any) -> Iterator[Span]:
    """Parse numbers and ranges: `12`, `[12, 40]`, `[[10, 20]]`, `"10-20, 31"`, `[{"line": 12}]`."""
    for item in as_list(value):
        if isinstance(item, Mapping):
            item = next((item[key] for key in ("line", "lines", "start") if key in item), None)
        parts = SEVERAL.split(item[:LONGEST_NAME]) if isinstance(item, str) else [item]
        yield from filter(None, map(Span.read, parts))


def parse_symbols(value: Any) -> list[str]:
    """Parse the field `symbols`; text that is not a name is kept, as a wrong claim."""
    symbols = []
    for item in as_list(value):
        if isinstance(item, Mapping):
            item = next((item[key] for key in ("name", "symbol") if isinstance(item.get(key), str)), "")
        if isinstance(item, str):
            symbols.append(symbol_of(item) or " ".join(item.split())[:200])
    return symbols
