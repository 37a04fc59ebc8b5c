"""`abreast plot`: columns of a table as a picture in the terminal."""

from __future__ import annotations

import argparse
import shutil
from typing import Any

from abreast.cli import store_argument
from abreast.cli.store_argument import add_shared
from abreast.errors import BadInput, suggestion
from abreast.output import echo, listings, say

EPILOG = """  hist COLUMN         how often numbers fall where
  bar COLUMN [Y]      how often each value occurs; or the mean of Y for each
  scatter X Y         a point a row
  line X Y            the mean of Y for each X
The store may come before or after the kind: abreast plot hist results.db accuracy"""

KINDS = {"hist": (1, 1), "bar": (1, 2), "scatter": (2, 2), "line": (2, 2)}  # how many columns they take
MOST_BARS = 40
HEIGHT = 18


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", metavar="[STORE] hist|bar|scatter|line COLUMN", nargs="*")
    parser.add_argument("--bins", type=int, default=20, metavar="N", help="of hist (20)")
    add_shared(parser, "--table", "--engine", "--store", "--json")


def main(args: argparse.Namespace) -> int:
    from abreast.store.user_tables.tables import read

    store, words = store_argument.store_and_words(args, KINDS)
    with store:
        kind, keys = _asked(words)
        name = store_argument.table_name(args)
        frame = read(store, name, keys=list(dict.fromkeys(keys)))
        if not len(frame):
            listings.show([], args.json, store_argument.no_rows(store, name))
            return 0
    columns = [list(frame.columns[key]) for key in keys]
    draw = {"hist": _hist, "bar": _bar, "scatter": _points, "line": _points}[kind]
    rows, lines = draw(args, kind, keys, columns)
    if args.json:
        listings.show(rows, True, "")
    else:
        echo("\n".join(lines))
    return 0


def _asked(words: list[str]) -> tuple[str, list[str]]:
    kind, keys = (words[0], words[1:]) if words else ("", [])
    if kind not in KINDS:
        known = suggestion(kind, KINDS) if kind else ""
        raise BadInput(f'plot: what picture is wanted? "{kind}" is none{known}', "abreast plot hist COLUMN")
    least, most = KINDS[kind]
    if not least <= len(keys) <= most:
        wanted = "COLUMN" if kind == "hist" else "COLUMN [Y]" if kind == "bar" else "X Y"
        raise BadInput(f"plot {kind}: {len(keys)} columns are named", f"abreast plot {kind} {wanted}")
    return kind, keys


def _numbers(key: str, values: list[Any]) -> list[float | None]:
    """The numbers of a column; what is not one is said."""
    found = [float(value) if isinstance(value, int | float) and abs(value) < 1e300 else None for value in values]
    there = sum(value is not None for value in values)
    kept = sum(value is not None for value in found)
    if not kept:
        raise BadInput(f"plot: {key} has no numbers", f"abreast plot bar {key}")
    if kept < there:
        say(f"left out: {there - kept:,} values of {key} that are not numbers")
    return found


def _width() -> int:
    return shutil.get_terminal_size((100, 24)).columns


def _hist(args: argparse.Namespace, _: str, keys: list[str], columns: list[list[Any]]) -> Any:
    import dataclasses

    from abreast.report.words.text_charts import bars, figure
    from abreast.stats.summary import MOST_BINS, histogram

    if not 1 <= args.bins <= MOST_BINS:
        raise BadInput(f"plot hist: --bins {args.bins} is not between 1 and {MOST_BINS}", "--bins 20")
    bins = histogram([value for value in _numbers(keys[0], columns[0]) if value is not None], args.bins)
    labels = [figure(bin.low) if bin.low == bin.high else f"{figure(bin.low)} … {figure(bin.high)}" for bin in bins]
    counts = [bin.count for bin in bins]
    lines = [listings.line(keys[0]), *bars(labels, counts, [f"{count:,}" for count in counts], _width())]
    return [dataclasses.asdict(bin) for bin in bins], lines


def _bar(_: argparse.Namespace, __: str, keys: list[str], columns: list[list[Any]]) -> Any:
    from abreast.report.words.text_charts import bars, figure
    from abreast.stats.summary import mean_by

    measured = len(keys) > 1
    found = mean_by(columns[0], _numbers(keys[1], columns[1]) if measured else [None] * len(columns[0]))
    found.sort(key=lambda one: -(one[2] if one[2] is not None else -1e300) if measured else -one[1])
    rows = [{"value": key, "rows": count} | ({"mean": mean} if measured else {}) for key, count, mean in found]
    shown = found[:MOST_BARS]
    labels = [listings.cut(listings.line(key) or "–", max(8, _width() // 3)) for key, _, _ in shown]
    if measured:
        figures = ["–" if mean is None else f"{figure(mean)} ({count:,})" for _, count, mean in shown]
    else:
        figures = [f"{count:,}" for _, count, _ in shown]
    values = [(mean or 0.0) if measured else count for _, count, mean in shown]
    lines = [
        listings.line(f"{keys[1]} by {keys[0]}" if measured else keys[0]),
        *bars(labels, values, figures, _width()),
    ]
    if len(found) > MOST_BARS:
        lines.append(f"… and {len(found) - MOST_BARS:,} more values")
    return rows, lines


def _points(_: argparse.Namespace, kind: str, keys: list[str], columns: list[list[Any]]) -> Any:
    from abreast.report.words.text_charts import chart
    from abreast.stats.summary import mean_by

    both = zip(_numbers(keys[0], columns[0]), _numbers(keys[1], columns[1]), strict=True)
    points = [(x, y) for x, y in both if x is not None and y is not None]
    if not points:
        raise BadInput(f"plot: no row has both {keys[0]} and {keys[1]}", "abreast stats describe")
    rows: list[dict[str, Any]] = [{"x": x, "y": y} for x, y in points]
    if kind == "line":
        means = sorted(mean_by([x for x, _ in points], [y for _, y in points]))
        rows = [{"x": x, "y": mean, "rows": count} for x, count, mean in means]
        points = [(x, mean) for x, _, mean in means if mean is not None]
    lines = chart(points, _width(), HEIGHT, kind == "line")
    return rows, [listings.line(f"{keys[1]} against {keys[0]}"), *lines]
