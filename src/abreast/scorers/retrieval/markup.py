"""The Markdown structure of an answer: fenced code, headings, list items, table rows and paragraphs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

Kind = Literal["heading", "item", "row", "text", "code"]
_FENCE = re.compile(r"[ \t]{0,80}(`{3,40}|~{3,40})[ \t]{0,80}([\w+#.-]{0,40})")
_HEADING = re.compile(r"[ \t]{0,80}(?:#{1,6}[ \t]|\*\*[^*\n]{1,300}\*\*:?[ \t]*$|__[^_\n]{1,300}__:?[ \t]*$)")
_ITEM = re.compile(r"[ \t]{0,200}(?:[-*+•]|\d{1,3}[.)])[ \t]")
_ROW = re.compile(r"[ \t]{0,80}\|")
_RULE = re.compile(r"[\s|:-]+")
_STRUCK = re.compile(r"~~[^~\n]{1,500}~~")


@dataclass(frozen=True, slots=True)
class Unit:
    """A heading, list item, table row, paragraph or fenced block: its characters in the text."""

    kind: Kind
    start: int
    end: int
    language: str = ""


def units_of(text: str) -> list[Unit]:
    """Split a text into units, in order; blank lines are dropped."""
    units: list[Unit] = []
    position, fence = 0, ""
    opened, language = 0, ""
    is_blank = True
    for line in text.splitlines(keepends=True):
        start, end = position, position + len(line)
        position = end
        marker = _FENCE.match(line)
        if fence:
            if marker and marker[1].startswith(fence):
                units.append(Unit("code", opened, start, language))
                fence = ""
            continue
        if marker and "`" not in line[marker.end(1) :]:
            fence, language, opened, is_blank = marker[1], marker[2].lower(), end, True
            continue
        if not line.strip():
            is_blank = True
            continue
        kind = _kind_of(line)
        last = units[-1] if units else None
        if kind == "text" and not is_blank and last is not None and last.kind in ("text", "item"):
            units[-1] = Unit(last.kind, last.start, end)
        else:
            units.append(Unit(kind, start, end))
        is_blank = False
    if fence:
        units.append(Unit("code", opened, len(text), language))
    return units


def _kind_of(line: str) -> Kind:
    if _HEADING.match(line):
        return "heading"
    if _ITEM.match(line):
        return "item"
    return "row" if _ROW.match(line) else "text"


def cells_of(text: str, row: Unit) -> list[tuple[int, str]]:
    """The cells of a table row, each with its place in the text."""
    bars = [match.start() for match in re.finditer(r"(?<!\\)\|", text[row.start : row.end])]
    return [(row.start + left + 1, text[row.start + left + 1 : row.start + right]) for left, right in pairwise(bars)]


def tables_of(text: str, units: list[Unit]) -> Iterator[list[Unit]]:
    """The rows of each table, with its header and without the rule below it."""
    rows: list[Unit] = []
    for unit in units:
        if unit.kind == "row" and (not rows or rows[-1].end == unit.start):
            rows.append(unit)
            continue
        if rows:
            yield [row for row in rows if not _RULE.fullmatch(text, row.start, row.end)]
        rows = [unit] if unit.kind == "row" else []
    if rows:
        yield [row for row in rows if not _RULE.fullmatch(text, row.start, row.end)]


def struck_out(text: str) -> list[tuple[int, int]]:
    """The ranges between `~~` marks."""
    return [match.span() for match in _STRUCK.finditer(text)]
