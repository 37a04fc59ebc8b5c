"""Listings: tables for people, lists of objects for programs."""

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
LINE = 10_000  # characters of a value on its own line
PASSAGE = 100_000  # characters of a text on its own lines
NARROW = 10  # least width of a column when rows are printed side by side


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
    """Print rows no wider than the terminal: transposed if they are few, else the columns that fit and the names of the
    others.
    """
    available = shutil.get_terminal_size((WIDTH_WITHOUT_TERMINAL, 24)).columns
    titles, empty = _split_columns(rows)
    cells = [[_cell(row.get(title)) for title in titles] for row in rows]
    lines = [list(map(line, titles)), *cells]
    columns = list(zip(*lines, strict=True))
    widths = [max(map(_width, column)) for column in columns]
    names = min(max(map(_width, lines[0])), available // 3)
    width = (available - names) // len(rows) - 2  # width of a transposed row
    if sum(widths) + 2 * len(widths) - 2 <= available:
        _print(lines, _right(rows, titles))
    elif width >= NARROW:
        _print([[cut(name, names), *(cut(cell, width) for cell in column)] for name, *column in columns])
    else:
        fitting = _fitting_widths(widths, available)
        _print(
            [[cut(cells[at], most) for at, most in fitting.items()] for cells in lines],
            _right(rows, [titles[at] for at in fitting]),
        )
        hidden = [title for at, title in enumerate(titles) if at not in fitting]
        name_columns("more columns", hidden, "choose columns with --columns A,B, or show fewer rows with -n 3")
    name_columns("empty", empty)


def _split_columns(rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[str]]:
    """The columns with values, internal ones last, and the empty columns."""
    filled = [title for title in rows[0] if any(row.get(title) is not None for row in rows)]
    if not filled:
        return list(rows[0]), []
    return sorted(filled, key=_INTERNAL.__contains__), [title for title in rows[0] if title not in filled]


_INTERNAL = ("timestamp", "code_commit", "code_dirty", "cache_row", "row_id")


def _fitting_widths(widths: Sequence[int], available: int) -> dict[int, int]:
    """The widths of the columns that fit side by side, by index."""
    fitting: dict[int, int] = {}
    for at, width in enumerate(widths):
        most = min(width, 24)
        if most <= available:
            fitting[at] = most
            available -= most + 2
    return fitting


def name_columns(adjective: str, titles: Sequence[str], advice: str = "") -> None:
    """Name columns that are not shown."""
    if titles:
        names = ", ".join(map(line, titles[:12])) + (", …" if len(titles) > 12 else "")
        say(f"{len(titles):,} {adjective}: {names}" + (f"  ({advice})" if advice else ""))


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
    """Width on a terminal, in columns."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def cut(text: str, most: int) -> str:
    """Cut the text to a width on a terminal, with an ellipsis.

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
    """Replace numbers in a value that JSON cannot represent by None."""
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
    """Format a value as one line of text, cut if it is very long."""
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
    """Format the text of a model for the terminal, shortened to head and tail if it is long."""
    return excerpt(text, most, "; --json prints all")


def score_line(score: Mapping[str, Any]) -> str:
    """`score_tests: 0 exit code 1: 2 failed`."""
    value = "no score" if score["value"] is None else f"{score['value']:.6g}"
    explanation = " ".join(part.strip() for part in (score["explanation"] or "").splitlines())
    return f"score_{score['name']}: {value} {explanation}".rstrip()
