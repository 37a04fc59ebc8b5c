"""What an answer about code claims: files, symbols and lines, from a JSON object in it or from its prose."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from abreast.scorers.retrieval.listed import FIELDS, MOST, fields_of, items, lines_in, places_in, symbols_in
from abreast.scorers.retrieval.names import LONGEST_NAME, Place, Span, ends
from abreast.scorers.retrieval.prose import places_in_prose, symbols_in_prose


@dataclass(frozen=True, slots=True)
class Claims:
    """What is claimed, each thing once. `listed` are the fields that stand in a JSON object of the answer."""

    files: tuple[str, ...]
    symbols: tuple[str, ...]
    lines: tuple[tuple[str, Span], ...]
    content: tuple[str, ...] = ()
    listed: frozenset[str] = frozenset()


def claims_in(text: str, value: Any, known: Callable[[str], bool], asked: str) -> Claims:
    """What an answer claims. Of JSON objects the last one that has one of FIELDS counts, or all that are single places;
    what they leave out is read from the prose. There, `known` says which words are paths although they do not look it,
    and what the question (`asked`) names itself is no claim."""
    given = fields_of(text, value)
    files = list(places_in(given.get("files")))
    lines = list(lines_in(given.get("lines"), files))
    spans = [place for place in (*files, *lines) if place[1] is not None]
    if "lines" not in given and not spans:
        in_prose = list(places_in_prose(text, known, asked))
        spans = [place for place in in_prose if place[1] is not None]
        if "files" in given:
            spans = _of_these(spans, {path for path, _ in files})
        else:
            files = in_prose
    symbols = symbols_in(given["symbols"]) if "symbols" in given else symbols_in_prose(text, asked)
    return Claims(
        _once(path for path, _ in (*files, *lines)),
        _once(symbols),
        tuple(dict.fromkeys((path, span) for path, span in spans if span is not None))[:MOST],
        tuple(item for item in items(given.get("content")) if isinstance(item, str)),
        frozenset(given.keys() & set(FIELDS)),
    )


def _once(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in names if 0 < len(name) <= LONGEST_NAME))[:MOST]


def _of_these(places: list[Place], paths: set[str]) -> list[Place]:
    """Places in these files, as far as both say which they are."""
    shorter = {end for path in paths for end in ends(path, "/")}
    same = {path: path in paths or path in shorter or not paths.isdisjoint(ends(path, "/")) for path, _ in places}
    return [place for place in places if same[place[0]]]
