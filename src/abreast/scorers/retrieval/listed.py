"""What stands in JSON objects of an answer, in the many forms in which agents write them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from abreast.scorers.retrieval.names import LONGEST_NAME, SEVERAL, Place, Span, located, path_of, symbol_of

FIELDS = ("files", "symbols", "lines", "content")
_SYNONYMS = {"file": "files", "path": "files", "paths": "files", "line": "lines"} | dict.fromkeys(
    ("symbol", "function", "functions", "method", "methods", "class", "classes", "types", "identifiers"), "symbols"
)
_COMMENTARY = frozenset(  # keys that go with an answer
    ("answer", "confidence", "description", "explanation", "note", "notes", "reason", "reasoning", "summary")
)
_PLACE = ("path", "file", "filename")  # an object with one of these is one place
MOST = 2_000  # claims of one kind that are read
_PATIENCE = 1_000_000  # characters that may be read in vain while JSON is looked for
_DECODER = json.JSONDecoder()
_OBJECT = re.compile(r"\{\s*[\"'}]")
_MEANT = re.compile(r"\{\s*[\"'](?:files?|paths?|symbols?|functions?|lines?|content)[\"']", re.IGNORECASE)
_NO_JSON = re.compile(  # after a string: one in single quotes, comments, commas at the end
    r"""("(?:[^"\\\n]|\\.)*+"?)|'((?:[^'\\\n]|\\.)*+)'|//[^\n]*|,(?=\s*[}\]])"""
)


def fields_of(text: str, value: Any) -> dict[str, Any]:
    """What stands in JSON, by field."""
    told = [each for each in items(value) if isinstance(each, Mapping)] or _objects(text)
    found = [_plain_keys(inner) for each in told for inner in _unwrapped(each)]
    whole = [each for each in found if not _is_place(each)]
    if whole:
        return {_SYNONYMS.get(key, key): each for key, each in whole[-1].items()}
    names = [each.get("symbols", each.get("symbol", each.get("name"))) for each in found]
    symbols = [name for each in names for name in items(each)]
    return {**({"files": found} if found else {}), **({"symbols": symbols} if symbols else {})}


def _plain_keys(told: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(key).strip().lower(): each for key, each in told.items()}


def _is_place(told: Mapping[str, Any]) -> bool:
    return "files" not in told and any(isinstance(told.get(key), str) for key in _PLACE)


def _unwrapped(told: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The object, or those in it if it only holds them: `{"answer": {"files": [...]}}`."""
    if _is_answer(told):
        return [told]
    inside = [each for value in told.values() for each in items(value) if isinstance(each, Mapping)]
    return [each for each in inside if _is_answer(each)]


def _is_answer(told: Mapping[str, Any]) -> bool:
    """Whether most keys of an object are fields of an answer: a quoted `package.json` has `files` among others."""
    keys = _plain_keys(told)
    fields = sum(key in FIELDS or key in _SYNONYMS for key in keys)
    others = sum(key not in FIELDS and key not in _SYNONYMS and key not in _COMMENTARY for key in keys)
    return _is_place(keys) or (fields > 0 and fields >= others)


def _objects(text: str) -> list[Mapping[str, Any]]:
    """The JSON objects of a text that are in no other one. One with comments, or with a comma too many, is read too."""
    found: list[Mapping[str, Any]] = []
    at, patience = 0, _PATIENCE
    while patience > 0 and (match := _OBJECT.search(text, at)):
        start = match.start()
        try:
            value, at = _DECODER.raw_decode(text, start)
            found.append(value)
        except (ValueError, RecursionError) as error:
            patience -= error.pos - start + 100 if isinstance(error, json.JSONDecodeError) else _PATIENCE // 10
            at = start + 1
            if _MEANT.match(text, start):
                patience -= _PATIENCE // 20
                mended = _NO_JSON.sub(_as_json, text[start : start + _PATIENCE // 20])
                try:
                    value, _ = _DECODER.raw_decode(mended)
                except (ValueError, RecursionError):
                    continue
                found.append(value)
                return found  # where it ends in the text is not known; it is asked for at the end
    return found


def _as_json(part: re.Match[str]) -> str:
    if part[2] is not None:
        return json.dumps(re.sub(r"\\(.)", r"\1", part[2]))
    return part[1] or ""


def items(value: Any) -> list[Any]:
    return list(value)[:MOST] if isinstance(value, list | tuple) else [] if value is None else [value]


def places_in(value: Any) -> Iterator[Place]:
    """What stands under `files`: paths, with lines behind them or not, or objects that have a path."""
    if isinstance(value, Mapping):
        yield from lines_in(value, ())
        return
    for item in items(value):
        if isinstance(item, str):
            yield located(item)
        elif isinstance(item, Mapping):
            yield from _of_object(item)


def _of_object(item: Mapping[str, Any]) -> Iterator[Place]:
    keys = _plain_keys(item)
    path = next((keys[name] for name in (*_PLACE, "name") if isinstance(keys.get(name), str)), None)
    if path is None:
        return
    plain, span = located(path)
    told = next((keys[name] for name in ("lines", "line", "line_number", "line_numbers") if name in keys), None)
    spans: list[Span | None] = [*spans_in(told)]
    yield from ((plain, each) for each in spans or [span])


def lines_in(value: Any, files: Iterable[Place]) -> Iterator[Place]:
    """What stands under `lines`: numbers and ranges by path, a list of places, or numbers of the one file there is."""
    if isinstance(value, Mapping) and not _is_place(value):
        for path, told in value.items():
            yield from ((path_of(str(path)), span) for span in spans_in(told))
        return
    paths = {path for path, _ in files}
    for item in items(value):
        bare = [] if isinstance(item, Mapping) else list(spans_in([item]))
        yield from ((path, span) for path in paths if len(paths) == 1 for span in bare)
        if not bare:
            yield from places_in([item])


def spans_in(told: Any) -> Iterator[Span]:
    """Numbers and ranges, one by one: `12`, `[12, 40]`, `[[10, 20]]`, `"10-20, 31"`, `[{"line": 12}]`."""
    for item in items(told):
        if isinstance(item, Mapping):
            item = next((item[key] for key in ("line", "lines", "start") if key in item), None)
        parts = SEVERAL.split(item[:LONGEST_NAME]) if isinstance(item, str) else [item]
        yield from filter(None, map(Span.read, parts))


def symbols_in(value: Any) -> list[str]:
    found = []
    for item in items(value):
        if isinstance(item, Mapping):
            item = next((item[key] for key in ("name", "symbol") if isinstance(item.get(key), str)), "")
        if isinstance(item, str):
            found.append(symbol_of(item) or " ".join(item.split())[:200])  # what is no name is a claim all the same
    return found
