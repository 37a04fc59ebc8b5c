"""Pictures of plain characters, for a terminal: bars, and points on a grid."""

from __future__ import annotations

from collections.abc import Sequence

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
    (left, right), (low, high) = (_extremes(column) for column in zip(*points, strict=True))
    marks = {0: figure(high), height - 1: figure(low)} if low < high else {height // 2: figure(low)}
    margin = max(map(len, marks.values()))
    room = max(8, width - margin - 2, len(figure(left)) + 1 + len(figure(right)))
    lines = _drawn([(_share(x, left, right), _share(y, low, high)) for x, y in points], room, height, joined)
    axis = f"{figure(left)}{figure(right):>{room - len(figure(left))}}" if left < right else f"{figure(left):^{room}}"
    return [
        *(
            f"{marks.get(at, ''):>{margin}} {'┤' if at in marks else '│'}{line}".rstrip()
            for at, line in enumerate(lines)
        ),
        f"{'':>{margin}} └{'─' * room}",
        f"{'':>{margin}}  {axis}".rstrip(),
    ]


def figure(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) and abs(value) < 1e15 else f"{value:.4g}"


def _extremes(values: Sequence[float]) -> tuple[float, float]:
    return min(values), max(values)


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
