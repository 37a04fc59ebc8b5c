"""Text charts for a terminal: bars, and points on a grid."""

from __future__ import annotations

import dataclasses
import itertools
import shutil
from collections.abc import Sequence
from typing import Any

from abreast.errors import BadInput
from abreast.output import say
from abreast.output.listings import cut, line
from abreast.stats.summary import MOST_BINS, mean_by
from abreast.stats.summary import histogram as binned

MOST_BARS = 40
HEIGHT = 18
Chart = tuple[list[dict[str, Any]], list[str]]  # rows for programs, and the lines of the chart

_EIGHTHS = " ▏▎▍▌▋▊▉"
# Characters by the quarters that they fill: 1 top left, 2 top right, 4 bottom left, 8 bottom right.
_QUARTERS = " ▘▝▀▖▌▞▛▗▚▐▜▄▙▟█"
_SHADES = " ░▒▓█"


def bars(labels: Sequence[str], values: Sequence[float], figures: Sequence[str], width: int) -> list[str]:
    """Draw a line for each value: its label, a bar from zero, and its figure.

    >>> bars(["cat", "otter"], [4, 2], ["4", "2"], 16)
    ['  cat ███████ 4', 'otter ███▌ 2']
    """
    margin = max(map(len, labels), default=0)
    longest = max(4, width - margin - 2 - max(map(len, figures), default=0) - 1)
    largest = max((abs(value) for value in values), default=0) or 1
    return [
        f"{name:>{margin}} {_bar(abs(value) / largest * longest)} {figure}".rstrip()
        for name, value, figure in zip(labels, values, figures, strict=True)
    ]


def _bar(length: float) -> str:
    blocks, eighths = divmod(round(length * 8), 8)
    return "█" * blocks + (_EIGHTHS[eighths] if eighths else "")


def chart(points: Sequence[tuple[float, float]], width: int, height: int, joined: bool = False) -> list[str]:
    """Draw points on axes labelled with their extremes; if `joined`, with a line through them in this order.

    If there are more points than characters, shades show how many fall on each character.
    """
    (left, right), (low, high) = ((min(column), max(column)) for column in zip(*points, strict=True))
    marks = {0: figure(high), height - 1: figure(low)} if low < high else {height // 2: figure(low)}
    margin = max(map(len, marks.values()))
    columns = max(8, width - margin - 2, len(figure(left)) + 1 + len(figure(right)))
    lines = _draw([(_share(x, left, right), _share(y, low, high)) for x, y in points], columns, height, joined)
    rest = columns - len(figure(left))
    axis = f"{figure(left)}{figure(right):>{rest}}" if left < right else f"{figure(left):^{columns}}"
    return [
        *(
            f"{marks.get(at, ''):>{margin}} {'┤' if at in marks else '│'}{drawn}".rstrip()
            for at, drawn in enumerate(lines)
        ),
        f"{'':>{margin}} └{'─' * columns}",
        f"{'':>{margin}}  {axis}".rstrip(),
    ]


def figure(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) and abs(value) < 1e15 else f"{value:.4g}"


def _share(value: float, low: float, high: float) -> float:
    """The position of a value between the extremes, from 0 to 1."""
    return (value - low) / (high - low) if high > low else 0.5


def _draw(shares: Sequence[tuple[float, float]], width: int, height: int, joined: bool) -> list[str]:
    cells = [[0] * width for _ in range(height)]
    if len(shares) > width * height and not joined:
        for x, y in shares:
            cells[round((1 - y) * (height - 1))][round(x * (width - 1))] += 1
        largest = max(map(max, cells))
        return ["".join(_SHADES[-(-4 * cell // largest)] for cell in line) for line in cells]
    quarters = [(round(x * (2 * width - 1)), round((1 - y) * (2 * height - 1))) for x, y in shares]
    if joined:
        for start, end in itertools.pairwise(tuple(quarters)):
            quarters += _interpolate(start, end)
    for across, down in quarters:
        cells[down // 2][across // 2] |= 1 << (down % 2 * 2 + across % 2)
    return ["".join(_QUARTERS[cell] for cell in line) for line in cells]


def _interpolate(start: tuple[int, int], end: tuple[int, int]) -> list[tuple[int, int]]:
    steps = max(abs(end[0] - start[0]), abs(end[1] - start[1]), 1)
    return [
        (start[0] + round((end[0] - start[0]) * step / steps), start[1] + round((end[1] - start[1]) * step / steps))
        for step in range(steps)
    ]


# -- columns of a table, for `abreast plot` ------------------------------------------------------------------------


def _width() -> int:
    return shutil.get_terminal_size((100, 24)).columns


def _numbers(key: str, values: Sequence[Any]) -> list[float | None]:
    """Return the numbers of a column, None for other values, whose number is reported."""
    numbers = [float(value) if isinstance(value, int | float) and abs(value) < 1e300 else None for value in values]
    present = sum(value is not None for value in values)
    kept = sum(value is not None for value in numbers)
    if not kept:
        raise BadInput(f"plot: {key} has no numbers", f"abreast plot bar {key}")
    if kept < present:
        say(f"left out: {present - kept:,} values of {key} that are not numbers")
    return numbers


def histogram(key: str, values: Sequence[Any], count: int) -> Chart:
    """Count the numbers in each of `count` bins."""
    if not 1 <= count <= MOST_BINS:
        raise BadInput(f"plot hist: --bins {count} is not between 1 and {MOST_BINS}", "--bins 20")
    bins = binned([value for value in _numbers(key, values) if value is not None], count)
    labels = [figure(bin.low) if bin.low == bin.high else f"{figure(bin.low)} … {figure(bin.high)}" for bin in bins]
    counts = [bin.count for bin in bins]
    lines = [line(key), *bars(labels, counts, [f"{count:,}" for count in counts], _width())]
    return [dataclasses.asdict(bin) for bin in bins], lines


def bar_chart(keys: Sequence[str], columns: Sequence[Sequence[Any]]) -> Chart:
    """Count each value of the first column; with a second column, draw its mean for each value."""
    measured = len(keys) > 1
    groups = mean_by(columns[0], _numbers(keys[1], columns[1]) if measured else [None] * len(columns[0]))
    groups.sort(key=lambda group: -(group[2] if group[2] is not None else -1e300) if measured else -group[1])
    rows = [{"value": key, "rows": count} | ({"mean": mean} if measured else {}) for key, count, mean in groups]
    drawn = groups[:MOST_BARS]
    labels = [cut(line(key) or "–", max(8, _width() // 3)) for key, _, _ in drawn]
    if measured:
        figures = ["–" if mean is None else f"{figure(mean)} ({count:,})" for _, count, mean in drawn]
    else:
        figures = [f"{count:,}" for _, count, _ in drawn]
    values = [(mean or 0.0) if measured else count for _, count, mean in drawn]
    title = line(f"{keys[1]} by {keys[0]}" if measured else keys[0])
    more = [f"… and {len(groups) - MOST_BARS:,} more values"] if len(groups) > MOST_BARS else []
    return rows, [title, *bars(labels, values, figures, _width()), *more]


def point_chart(keys: Sequence[str], columns: Sequence[Sequence[Any]], joined: bool) -> Chart:
    """Draw a point for each row; if `joined`, the mean of the second column for each value of the first."""
    both = zip(_numbers(keys[0], columns[0]), _numbers(keys[1], columns[1]), strict=True)
    points = [(x, y) for x, y in both if x is not None and y is not None]
    if not points:
        raise BadInput(f"plot: no row has both {keys[0]} and {keys[1]}", "abreast stats describe")
    rows: list[dict[str, Any]] = [{"x": x, "y": y} for x, y in points]
    if joined:
        means = sorted(mean_by([x for x, _ in points], [y for _, y in points]))
        rows = [{"x": x, "y": mean, "rows": count} for x, count, mean in means]
        points = [(x, mean) for x, _, mean in means if mean is not None]
    return rows, [line(f"{keys[1]} against {keys[0]}"), *chart(points, _width(), HEIGHT, joined)]
