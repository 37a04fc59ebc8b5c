"""Pictures of plain characters, for a terminal: bars, and points on a grid."""

from __future__ import annotations

import dataclasses
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
Drawn = tuple[list[dict[str, Any]], list[str]]  # rows for programs, and the lines of the picture

_EIGHTHS = " ▏▎▍▌▋▊▉"
# By which quarters of a place are set: 1 top left, 2 top right, 4 bottom left, 8 bottom right.
_QUARTERS = " ▘▝▀▖▌▞▛▗▚▐▜▄▙▟█"
_SHADES = " ░▒▓█"


def bars(labels: Sequence[str], values: Sequence[float], figures: Sequence[str], width: int) -> list[str]:
    """A line for each value: its label, a bar from zero, its figure.

    >>> bars(["cat", "otter"], [4, 2], ["4", "2"], 16)
    ['  cat ███████ 4', 'otter ███▌ 2']
    """
    label = max(map(len, labels), default=0)
    room = max(4, width - label - 2 - max(map(len, figures), default=0) - 1)
    most = max((abs(value) for value in values), default=0) or 1
    return [
        f"{name:>{label}} {_bar(abs(value) / most * room)} {figure}".rstrip()
        for name, value, figure in zip(labels, values, figures, strict=True)
    ]


def _bar(length: float) -> str:
    whole, rest = divmod(round(length * 8), 8)
    return "█" * whole + (_EIGHTHS[rest] if rest else "")


def chart(points: Sequence[tuple[float, float]], width: int, height: int, joined: bool = False) -> list[str]:
    """Points between their extremes, with what those are at the sides; `joined` by lines in the order given.

    Where there are more points than places, shades say how many are in one.
    """
    (left, right), (low, high) = ((min(column), max(column)) for column in zip(*points, strict=True))
    marks = {0: figure(high), height - 1: figure(low)} if low < high else {height // 2: figure(low)}
    margin = max(map(len, marks.values()))
    room = max(8, width - margin - 2, len(figure(left)) + 1 + len(figure(right)))
    lines = _drawn([(_share(x, left, right), _share(y, low, high)) for x, y in points], room, height, joined)
    axis = f"{figure(left)}{figure(right):>{room - len(figure(left))}}" if left < right else f"{figure(left):^{room}}"
    return [
        *(
            f"{marks.get(at, ''):>{margin}} {'┤' if at in marks else '│'}{drawn}".rstrip()
            for at, drawn in enumerate(lines)
        ),
        f"{'':>{margin}} └{'─' * room}",
        f"{'':>{margin}}  {axis}".rstrip(),
    ]


def figure(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) and abs(value) < 1e15 else f"{value:.4g}"


def _share(value: float, low: float, high: float) -> float:
    """Where a value is between the extremes: 0 … 1."""
    return (value - low) / (high - low) if high > low else 0.5


def _drawn(shares: Sequence[tuple[float, float]], width: int, height: int, joined: bool) -> list[str]:
    places = [[0] * width for _ in range(height)]
    if len(shares) > width * height and not joined:
        for x, y in shares:
            places[round((1 - y) * (height - 1))][round(x * (width - 1))] += 1
        most = max(map(max, places))
        return ["".join(_SHADES[-(-4 * place // most)] for place in line) for line in places]
    spots = [(round(x * (2 * width - 1)), round((1 - y) * (2 * height - 1))) for x, y in shares]
    if joined:
        spots += [spot for at in range(len(spots) - 1) for spot in _between(spots[at], spots[at + 1])]
    for across, down in spots:
        places[down // 2][across // 2] |= 1 << (down % 2 * 2 + across % 2)
    return ["".join(_QUARTERS[place] for place in line) for line in places]


def _between(one: tuple[int, int], other: tuple[int, int]) -> list[tuple[int, int]]:
    steps = max(abs(other[0] - one[0]), abs(other[1] - one[1]), 1)
    return [
        (one[0] + round((other[0] - one[0]) * step / steps), one[1] + round((other[1] - one[1]) * step / steps))
        for step in range(steps)
    ]


# -- columns of a table, for `abreast plot` ------------------------------------------------------------------------


def _width() -> int:
    return shutil.get_terminal_size((100, 24)).columns


def _numbers(key: str, values: Sequence[Any]) -> list[float | None]:
    """The numbers of a column; what is not one is said."""
    numbers = [float(value) if isinstance(value, int | float) and abs(value) < 1e300 else None for value in values]
    there = sum(value is not None for value in values)
    kept = sum(value is not None for value in numbers)
    if not kept:
        raise BadInput(f"plot: {key} has no numbers", f"abreast plot bar {key}")
    if kept < there:
        say(f"left out: {there - kept:,} values of {key} that are not numbers")
    return numbers


def histogram(key: str, values: Sequence[Any], count: int) -> Drawn:
    """How often numbers fall into each of so many bins."""
    if not 1 <= count <= MOST_BINS:
        raise BadInput(f"plot hist: --bins {count} is not between 1 and {MOST_BINS}", "--bins 20")
    bins = binned([value for value in _numbers(key, values) if value is not None], count)
    labels = [figure(bin.low) if bin.low == bin.high else f"{figure(bin.low)} … {figure(bin.high)}" for bin in bins]
    counts = [bin.count for bin in bins]
    lines = [line(key), *bars(labels, counts, [f"{count:,}" for count in counts], _width())]
    return [dataclasses.asdict(bin) for bin in bins], lines


def bar_chart(keys: Sequence[str], columns: Sequence[Sequence[Any]]) -> Drawn:
    """How often each value of the first column occurs; with a second column, its mean for each value."""
    measured = len(keys) > 1
    groups = mean_by(columns[0], _numbers(keys[1], columns[1]) if measured else [None] * len(columns[0]))
    groups.sort(key=lambda group: -(group[2] if group[2] is not None else -1e300) if measured else -group[1])
    rows = [{"value": key, "rows": count} | ({"mean": mean} if measured else {}) for key, count, mean in groups]
    shown = groups[:MOST_BARS]
    labels = [cut(line(key) or "–", max(8, _width() // 3)) for key, _, _ in shown]
    if measured:
        figures = ["–" if mean is None else f"{figure(mean)} ({count:,})" for _, count, mean in shown]
    else:
        figures = [f"{count:,}" for _, count, _ in shown]
    values = [(mean or 0.0) if measured else count for _, count, mean in shown]
    title = line(f"{keys[1]} by {keys[0]}" if measured else keys[0])
    more = [f"… and {len(groups) - MOST_BARS:,} more values"] if len(groups) > MOST_BARS else []
    return rows, [title, *bars(labels, values, figures, _width()), *more]


def point_chart(keys: Sequence[str], columns: Sequence[Sequence[Any]], joined: bool) -> Drawn:
    """A point for each row; if they are `joined`, the mean of the second column for each value of the first."""
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
