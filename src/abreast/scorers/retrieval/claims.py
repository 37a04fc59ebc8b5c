"""What an answer about code claims: files, symbols and lines, from a JSON object in it or from its prose."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from abreast.scorers.retrieval.listed import FIELDS, MOST, fields_of, items, lines_in, places_in, symbols_in
from abreast.scorers.retrieval.names import LONGEST_NAME, Place, Span, ends
from abreast.scorers.retrieval.prose import read_prose


@dataclass(frozen=True, slots=True)
class Claims:
    """What is claimed, each thing once. `listed` are the fields that stand in a JSON object of the answer; `mentioned`
    is what prose names in passing: it counts if it is right, and is not wrong otherwise."""

    files: tuple[str, ...]
    symbols: tuple[str, ...]
    lines: tuple[tuple[str, Span], ...]
    content: tuple[str, ...] = ()
    listed: frozenset[str] = frozenset()
    mentioned: Claims | None = None


def claims_in(text: str, value: Any, known: Callable[[str], bool], asked: str, symbols: Iterable[str] = ()) -> Claims:
    """What an answer claims. Of JSON objects the last one that has one of FIELDS counts, or all that are single places;
    what they leave out is read from the prose. There, `known` tells which words are paths although they do not look it,
    `symbols` are names that count even where they are not marked as code, and what the question (`asked`) names itself
    is not a claim."""
    given = fields_of(text, value)
    files = list(places_in(given.get("files")))
    lines = list(lines_in(given.get("lines"), files))
    spans = [place for place in (*files, *lines) if place[1] is not None]
    prose_files, prose_symbols = read_prose(text, known, asked, symbols)
    mentioned: list[Place] = []
    if "lines" not in given and not spans:
        spans = [place for place in prose_files.claimed if place[1] is not None]
        mentioned = list(prose_files.mentioned)
        if "files" in given:
            paths = {path for path, _ in files}
            spans, mentioned = _of_these(spans, paths), _of_these(mentioned, paths)
        else:
            files = list(prose_files.claimed)
    names = symbols_in(given["symbols"]) if "symbols" in given else [name for name, _ in prose_symbols.claimed]
    aside = () if "symbols" in given else (name for name, _ in prose_symbols.mentioned)
    return Claims(
        files=_once(path for path, _ in (*files, *lines)),
        symbols=_once(names),
        lines=_spans(spans),
        content=tuple(item for item in items(given.get("content")) if isinstance(item, str)),
        listed=frozenset(given.keys() & set(FIELDS)),
        mentioned=Claims(files=_once(path for path, _ in mentioned), symbols=_once(aside), lines=_spans(mentioned)),
    )


def _spans(places: Iterable[Place]) -> tuple[tuple[str, Span], ...]:
    return tuple(dict.fromkeys((path, span) for path, span in places if span is not None))[:MOST]


def _once(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in names if 0 < len(name) <= LONGEST_NAME))[:MOST]


def _of_these(places: list[Place], paths: set[str]) -> list[Place]:
    """Places in these files, as far as both say which they are."""
    shorter = {end for path in paths for end in ends(path, "/")}
    same = {path: path in paths or path in shorter or not paths.isdisjoint(ends(path, "/")) for path, _ in places}
    return [place for place in places if same[place[0]]]
