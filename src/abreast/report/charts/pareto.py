"""Quality against cost, or another expense, with the Pareto frontier."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from abreast.analyse.rows import mean_of_known
from abreast.analyse.run import Analysis
from abreast.report.charts.colours import SERIES
from abreast.report.charts.drawing import Drawing, Picture, Scale, fitted, steps, wide
from abreast.report.words.variant_figures import dollars
from abreast.stats import Interval


@dataclass(frozen=True, slots=True)
class Point:
    """One variant: its expense, such as dollars, and its score."""

    number: int  # index of the variant
    name: str
    takes: float
    score: Interval
    best: bool = False


@dataclass(frozen=True, slots=True)
class Axis:
    """The axis of the expense: title of its table column, label below the axis, and formats of figures."""

    column: str
    below: str
    describe: Callable[[float], str]
    tick: Callable[[float], str]


def on_frontier(points: Sequence[Point]) -> list[Point]:
    """The points, cheapest first, with those on the Pareto frontier marked as `best`."""
    ordered = sorted(points, key=lambda point: (point.takes, -point.score.estimate, point.number))
    return [replace(point, best=not any(_beats(other, point) for other in ordered)) for point in ordered]


def _beats(first: Point, second: Point) -> bool:
    better = first.score.estimate > second.score.estimate or first.takes < second.takes
    return better and first.score.estimate >= second.score.estimate and first.takes <= second.takes


def picture(name: str, title: str, below: str, quality: str, points: Sequence[Point], axis: Axis) -> Picture:
    """The points with their frontier; `quality` is the name of the score."""
    points = on_frontier(points)
    best = [point.name for point in points if point.best]
    return Picture(
        name=name,
        title=title,
        alternative=f"On the frontier, cheapest first: {', '.join(best)}. "
        + ". ".join(
            f"{point.name}: {axis.describe(point.takes)}, {quality} {point.score.estimate:.1%}" for point in points
        )
        + ".",
        draw=lambda width: _draw(points, width, quality, axis),
        below=below,
        head=("variant", axis.column, quality, "95 % interval", "on the frontier"),
        rows=tuple(
            (
                point.name,
                axis.tick(point.takes),
                f"{point.score.estimate:.1%}",
                f"{point.score.low:.1%} … {point.score.high:.1%}",
                "yes" if point.best else "no",
            )
            for point in points
        ),
    )


def _draw(points: Sequence[Point], width: float, quality: str, axis: Axis) -> Drawing:
    height = 330.0 if width > 600 else 290.0
    drawing = Drawing(width, height)
    left, right, top, bottom = 46.0, width - 12.0, 26.0, height - 48
    lows, highs = [point.score.low for point in points], [point.score.high for point in points]
    span = max(0.1, max(highs) - min(lows))
    y = Scale(max(0.0, min(lows) - span * 0.08), min(1.0, max(highs) + span * 0.08), bottom, top)
    x = Scale(0.0, max(point.takes for point in points) * 1.12, left, right)
    drawing.text(0, 12, quality, "note")
    for tick in steps(y.low, y.high, 5):
        drawing.line(left, y(tick), right, y(tick), "grid")
        drawing.text(left - 8, y(tick) + 4, f"{tick:.0%}", "soft", "end")
    for tick in steps(x.low, x.high, 3 if width < 600 else 6):
        drawing.text(x(tick), bottom + 20, axis.tick(tick), "soft", "middle")
    drawing.text(right, height - 4, axis.below, "note", "end")
    _frontier(drawing, [(x(point.takes), y(point.score.estimate)) for point in points if point.best])
    labels: list[tuple[float, float, float]] = []
    for point in points:
        look, px, py = f"k{point.number % SERIES}", x(point.takes), y(point.score.estimate)
        drawing.stroke(px, y(point.score.low), px, y(point.score.high), look, 1.5)
        drawing.dot(point.number, px, py, look, 7, hollow=not point.best)
        _label(drawing, point, px, py, width, labels)
    return drawing


def _frontier(drawing: Drawing, best: Sequence[tuple[float, float]]) -> None:
    """A stepped line through the best points."""
    line: list[tuple[float, float]] = []
    for x, y in best:
        if line:
            line.append((x, line[-1][1]))
        line.append((x, y))
    if len(best) > 1:
        drawing.path(line, "grey", stroke_width="1.5", stroke_dasharray="5 4")


def _label(
    drawing: Drawing, point: Point, px: float, py: float, width: float, labels: list[tuple[float, float, float]]
) -> None:
    """Write the name next to its mark, where it does not overlap earlier `labels`."""
    name = fitted(point.name, width * 0.4)
    span = wide(name)
    start = px + 13 if px + 13 + span < width else px - 13 - span
    for shift in (-11, 14, -27, 30, -43, 46, -59, 62):
        at = py + 4 + shift
        clear = all(abs(at - y) >= 15 or start > to or start + span < frm for frm, to, y in labels)
        if clear and 12 <= at <= drawing.height - 50:
            break
    labels.append((start, start + span, at))
    drawing.text(start, at, name, "strong" if point.best else "soft")


# -- cost and quality of a run's variants

_COST = Axis(
    "cost of a trial",
    "mean cost of a trial",
    lambda cost: f"{dollars(cost)} a trial",
    lambda cost: dollars(cost) if cost else "$0",
)


def pictures(analysis: Analysis) -> list[Picture]:
    """One picture, if the costs of at least two variants are known and not all are 0."""
    rows, points = analysis.rows, []
    for number, summary in enumerate(analysis.variants):
        cost = mean_of_known(rows.cost_usd[rows.variant == number])
        if cost is not None and summary.score is not None:
            points.append(Point(number, summary.name, cost, summary.score))
    if len(points) < 2 or not any(point.takes for point in points):
        return []
    below = "mean score with its 95 % interval; filled: no other is both cheaper and better"
    return [picture("cost-and-quality", "Cost and quality", below, "score", points, _COST)]
