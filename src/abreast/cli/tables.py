"""Listings: a table for people, a list of objects for programs."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

CELL = 60  # characters of a value in a table


def argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="a list of objects on standard output, nothing else")


def show(rows: Sequence[Mapping[str, Any]], as_json: bool, nothing: str) -> None:
    """Print rows; `nothing` goes to standard error if there are none."""
    if as_json:
        json.dump([_plain(row) for row in rows], sys.stdout, ensure_ascii=False, indent=2, default=str)
        print()
        return
    if not rows:
        print(nothing, file=sys.stderr)
        return
    titles = list(rows[0])
    cells = [[_cell(row.get(title)) for title in titles] for row in rows]
    widths = [max(len(title), *(len(line[at]) for line in cells)) for at, title in enumerate(titles)]
    right = [all(isinstance(row.get(title), int | float | None) for row in rows) for title in titles]
    for line in [titles, *cells]:
        aligned = [
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(line, widths, right, strict=True)
        ]
        print("  ".join(aligned).rstrip())


def _plain(value: Any) -> Any:
    """The same without numbers that JSON has no word for."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def console() -> Console:
    """Standard output for reports: as wide as the terminal, or wide enough for a table in a file."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else 140
    return Console(highlight=False, width=width)


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.6g}"
    text = " ".join(printable(str(value)).split())
    return text if len(text) <= CELL else text[: CELL - 1] + "…"


def printable(text: str) -> str:
    """Text of a model without what a terminal would obey."""
    return "".join(char if char.isprintable() or char in "\n\t" else "�" for char in text)
