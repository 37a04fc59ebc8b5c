"""Listings: a table for people, a list of objects for programs."""

from __future__ import annotations

import json
import math
import shutil
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from abreast.output import WIDTH_WITHOUT_TERMINAL, echo, emit_json, say
from abreast.sizes import excerpt
from abreast.text import printable

CELL = 60  # characters of a value in a table
LINE = 10_000  # of a value in a line of its own
PASSAGE = 100_000  # of a text in lines of its own
NARROW = 10  # of a value that stands beside others of its column


def show(rows: Sequence[Mapping[str, Any]], as_json: bool, nothing: str) -> None:
    """Print rows; `nothing` goes to standard error if there are none."""
    if as_json:
        show_json(rows)
        return
    if not rows:
        say(nothing)
        return
    titles = list(rows[0])
    cells = [[_cell(row.get(title)) for title in titles] for row in rows]
    _print([list(map(line, titles)), *cells], _right(rows, titles))


def show_json(rows: Sequence[Mapping[str, Any]]) -> None:
    emit_json([_plain(row) for row in rows], indent=2, default=_text)


def show_fitted(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print rows so that no line is wider than the terminal: turned on their side if they are few, so that every column
    is seen; else as many columns as fit, and what the others are.
    """
    room = shutil.get_terminal_size((WIDTH_WITHOUT_TERMINAL, 24)).columns
    titles, empty = _filled(rows)
    cells = [[_cell(row.get(title)) for title in titles] for row in rows]
    lines = [list(map(line, titles)), *cells]
    columns = list(zip(*lines, strict=True))
    widths = [max(map(_width, column)) for column in columns]
    names = min(max(map(_width, lines[0])), room // 3)
    each = (room - names) // len(rows) - 2
    if sum(widths) + 2 * len(widths) - 2 <= room:
        _print(lines, _right(rows, titles))
    elif each >= NARROW:
        _print([[cut(name, names), *(cut(cell, each) for cell in column)] for name, *column in columns])
    else:
        shown, left = _fitting(widths, room)
        fitting = [[cut(cells[at], most) for at, most in shown.items()] for cells in lines]
        _print(fitting, _right(rows, [titles[at] for at in shown]))
        name_columns("more columns", [titles[at] for at in left], "choose: --columns A,B; fewer rows show all: -n 3")
    name_columns("empty here", empty)


def _filled(rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[str]]:
    """The columns with a value in these rows, those of people first; and the columns without."""
    filled = [title for title in rows[0] if any(row.get(title) is not None for row in rows)]
    own = [title for title in filled if title in _OWN]
    people = [title for title in filled if title not in _OWN]
    return [*people, *own] or list(rows[0]), [title for title in rows[0] if title not in filled] if filled else []


_OWN = ("timestamp", "code_commit", "code_dirty", "cache_row", "row_id")  # what is least looked at


def _fitting(widths: Sequence[int], room: int) -> tuple[dict[int, int], list[int]]:
    """Columns that fit beside each other, each with its width, and those left out."""
    shown: dict[int, int] = {}
    for at, width in enumerate(widths):
        most = min(width, 24)
        if most <= room:
            shown[at] = most
            room -= most + 2
    return shown, [at for at in range(len(widths)) if at not in shown]


def name_columns(what: str, titles: Sequence[str], advice: str = "") -> None:
    """Name columns that are not shown."""
    if titles:
        named = ", ".join(map(line, titles[:12])) + (", …" if len(titles) > 12 else "")
        say(f"{len(titles):,} {what}: {named}" + (f"  ({advice})" if advice else ""))


def _print(lines: Sequence[Sequence[str]], right: Sequence[bool] = ()) -> None:
    widths = [max(map(_width, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        aligned = [
            " " * (width - _width(cell)) + cell if to_right else cell + " " * (width - _width(cell))
            for cell, width, to_right in zip(line, widths, right or [False] * len(widths), strict=True)
        ]
        echo("  ".join(aligned).rstrip())


def _right(rows: Sequence[Mapping[str, Any]], titles: Sequence[str]) -> list[bool]:
    return [all(isinstance(row.get(title), int | float | None) for row in rows) for title in titles]


def _width(text: str) -> int:
    """How many places a terminal takes for it."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def cut(text: str, most: int) -> str:
    """The text in so many places of a terminal, with an ellipsis if it is longer.

    >>> cut("abcdef", 6), cut("abcdef", 4), cut("日本語", 4)
    ('abcdef', 'abc…', '日…')
    """
    width = end = 0
    for at, char in enumerate(text):
        width += _width(char)
        if width > most:
            return f"{text[:end]}…"
        if width < most:
            end = at + 1
    return text


def _text(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def _plain(value: Any) -> Any:
    """The same without numbers that JSON has no word for."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    text = line(value)
    return text if len(text) <= CELL else text[: CELL - 1] + "…"


def line(value: Any) -> str:
    """A value as one line of text; of a very long one the beginning."""
    match value:
        case None:
            return ""
        case float():
            return f"{value:.12g}" if 1e6 <= abs(value) < 1e15 else f"{value:.6g}"  # such as a time in seconds
        case bytes():
            return f"({len(value):,} bytes)"
        case dict() | list():
            value = json.dumps(value, ensure_ascii=False)
    text = str(value)
    return " ".join(printable(text[:LINE]).split()) + ("…" if len(text) > LINE else "")


def passage(text: str, most: int = PASSAGE) -> str:
    """Text of a model for the terminal; of a long one the head and tail."""
    return excerpt(text, most, "; --json prints all")


def score_line(score: Mapping[str, Any]) -> str:
    """`score_tests: 0 exit code 1: 2 failed`."""
    value = "no score" if score["value"] is None else f"{score['value']:.6g}"
    explanation = " ".join(part.strip() for part in (score["explanation"] or "").splitlines())
    return f"score_{score['name']}: {value} {explanation}".rstrip()
