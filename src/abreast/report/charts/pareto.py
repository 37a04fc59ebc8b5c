"""What quality takes: points by what they take and how good they are, and who is beaten by nobody in both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from abreast.report.charts.colours import SERIES
from abreast.report.charts.drawing import Drawing, Picture, Scale, fitted, steps, wide
from abreast.stats import Interval


@dataclass(frozen=True, slots=True)
class Point:
    """One variant: what it takes, such as dollars, and its score."""

    number: int  # of the variant
    name: str
    takes: float
    score: Interval
    best: bool = False


@dataclass(frozen=True, slots=True)
class Axis:
    """What is taken, in words: of a table's column, below the axis, and as a figure."""

    column: str
    below: str
    said: Callable[[float], str]
    tick: Callable[[float], str]


def on_frontier(points: Sequence[Point]) -> list[Point]:
    """By what they take, little first, with who is beaten by nobody marked."""
    found = sorted(points, key=lambda point: (point.takes, -point.score.estimate, point.number))
    return [replace(point, best=not any(_beats(other, point) for other in found)) for point in found]


def _beats(one: Point, other: Point) -> bool:
    better = one.score.estimate > other.score.estimate or one.takes < other.takes
    return better and one.score.estimate >= other.score.estimate and one.takes <= other.takes


def picture(name: str, title: str, below: str, quality: str, points: Sequence[Point], axis: Axis) -> Picture:
    """The points with their frontier; `quality` is what the score is called."""
    found = on_frontier(points)
    best = [point.name for point in found if point.best]
    return Picture(
        name=name,
        title=title,
        alternative=f"On the frontier, from cheap to dear: {', '.join(best)}. "
        + ". ".join(f"{each.name}: {axis.said(each.takes)}, {quality} {each.score.estimate:.1%}" for each in found)
        + ".",
        draw=lambda width: _draw(found, width, quality, axis),
        below=below,
        head=("variant", axis.column, quality, "95 % interval", "on the frontier"),
        rows=tuple(
            (
                each.name,
                axis.tick(each.takes),
                f"{each.score.estimate:.1%}",
                f"{each.score.low:.1%} … {each.score.high:.1%}",
                "yes" if each.best else "no",
            )
            for each in found
        ),
    )


def _draw(found: Sequence[Point], width: float, quality: str, axis: Axis) -> Drawing:
    height = 330.0 if width > 600 else 290.0
    drawing = Drawing(width, height)
    left, right, top, bottom = 46.0, width - 12.0, 26.0, height - 48
    lows, highs = [each.score.low for each in found], [each.score.high for each in found]
    span = max(0.1, max(highs) - min(lows))
    y = Scale(max(0.0, min(lows) - span * 0.08), min(1.0, max(highs) + span * 0.08), bottom, top)
    x = Scale(0.0, max(each.takes for each in found) * 1.12, left, right)
    drawing.text(0, 12, quality, "note")
    for tick in steps(y.low, y.high, 5):
        drawing.line(left, y(tick), right, y(tick), "grid")
        drawing.text(left - 8, y(tick) + 4, f"{tick:.0%}", "soft", "end")
    for tick in steps(x.low, x.high, 3 if width < 600 else 6):
        drawing.text(x(tick), bottom + 20, axis.tick(tick), "soft", "middle")
    drawing.text(right, height - 4, axis.below, "note", "end")
    _frontier(drawing, [(x(each.takes), y(each.score.estimate)) for each in found if each.best])
    taken: list[tuple[float, float, float]] = []
    for each in found:
        look, px, py = f"k{each.number % SERIES}", x(each.takes), y(each.score.estimate)
        drawing.stroke(px, y(each.score.low), px, y(each.score.high), look, 1.5)
        drawing.dot(each.number, px, py, look, 7, hollow=not each.best)
        _label(drawing, each, px, py, width, taken)
    return drawing


def _frontier(drawing: Drawing, best: Sequence[tuple[float, float]]) -> None:
    """Stairs from one to the next."""
    line: list[tuple[float, float]] = []
    for x, y in best:
        if line:
            line.append((x, line[-1][1]))
        line.append((x, y))
    if len(best) > 1:
        drawing.path(line, "grey", stroke_width="1.5", stroke_dasharray="5 4")


def _label(
    drawing: Drawing, each: Point, px: float, py: float, width: float, taken: list[tuple[float, float, float]]
) -> None:
    """The name beside its mark, moved to where no other name stands."""
    said = fitted(each.name, width * 0.4)
    span = wide(said)
    start = px + 13 if px + 13 + span < width else px - 13 - span
    for shift in (-11, 14, -27, 30, -43, 46, -59, 62):
        at = py + 4 + shift
        clear = all(abs(at - y) >= 15 or start > to or start + span < frm for frm, to, y in taken)
        if clear and 12 <= at <= drawing.height - 50:
            break
    taken.append((start, start + span, at))
    drawing.text(start, at, said, "strong" if each.best else "soft")
