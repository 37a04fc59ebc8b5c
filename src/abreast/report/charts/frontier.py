"""What quality costs: mean cost of a trial against mean score, and who is beaten by nobody in both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from abreast.analyse import Analysis
from abreast.report.charts.colours import SERIES
from abreast.report.charts.drawing import Drawing, Picture, Scale, fitted, steps, wide
from abreast.report.figures import dollars
from abreast.stats import Interval


@dataclass(frozen=True, slots=True)
class _Point:
    number: int  # of the variant
    name: str
    cost: float
    score: Interval
    best: bool = False


def pictures(analysis: Analysis) -> list[Picture]:
    """One picture, if the cost of at least two variants is known, and not all of it is nothing."""
    found = _points(analysis)
    if len(found) < 2 or not any(point.cost for point in found):
        return []
    best = [point.name for point in found if point.best]
    return [
        Picture(
            "cost-and-quality",
            "Cost and quality",
            f"On the frontier, from cheap to dear: {', '.join(best)}. "
            + ". ".join(f"{each.name}: {dollars(each.cost)} a trial, score {each.score.estimate:.1%}" for each in found)
            + ".",
            lambda width: _draw(found, width),
            "mean score with its 95 % interval; filled: no other is both cheaper and better",
            ("variant", "cost of a trial", "score", "95 % interval", "on the frontier"),
            tuple(
                (
                    each.name,
                    dollars(each.cost),
                    f"{each.score.estimate:.1%}",
                    f"{each.score.low:.1%} … {each.score.high:.1%}",
                    "yes" if each.best else "no",
                )
                for each in found
            ),
        )
    ]


def _points(analysis: Analysis) -> list[_Point]:
    """By cost, cheap ones first."""
    rows, found = analysis.rows, []
    for number, summary in enumerate(analysis.variants):
        cost = rows.cost_usd[rows.variant == number]
        known = cost[~np.isnan(cost)]
        if len(known) and summary.score is not None:
            found.append(_Point(number, summary.name, float(known.mean()), summary.score))
    found.sort(key=lambda point: (point.cost, -point.score.estimate, point.number))
    return [
        _Point(point.number, point.name, point.cost, point.score, not any(_beats(other, point) for other in found))
        for point in found
    ]


def _beats(one: _Point, other: _Point) -> bool:
    better = one.score.estimate > other.score.estimate or one.cost < other.cost
    return better and one.score.estimate >= other.score.estimate and one.cost <= other.cost


def _draw(found: Sequence[_Point], width: float) -> Drawing:
    height = 330.0 if width > 600 else 290.0
    drawing = Drawing(width, height)
    left, right, top, bottom = 46.0, width - 12.0, 26.0, height - 48
    lows, highs = [each.score.low for each in found], [each.score.high for each in found]
    span = max(0.1, max(highs) - min(lows))
    y = Scale(max(0.0, min(lows) - span * 0.08), min(1.0, max(highs) + span * 0.08), bottom, top)
    x = Scale(0.0, max(each.cost for each in found) * 1.12, left, right)
    drawing.text(0, 12, "score", "note")
    for tick in steps(y.low, y.high, 5):
        drawing.line(left, y(tick), right, y(tick), "grid")
        drawing.text(left - 8, y(tick) + 4, f"{tick:.0%}", "soft", "end")
    for tick in steps(x.low, x.high, 3 if width < 600 else 6):
        drawing.text(x(tick), bottom + 20, dollars(tick) if tick else "$0", "soft", "middle")
    drawing.text(right, height - 4, "mean cost of a trial", "note", "end")
    best = [each for each in found if each.best]
    line: list[tuple[float, float]] = []
    for each in best:
        if line:
            line.append((x(each.cost), line[-1][1]))
        line.append((x(each.cost), y(each.score.estimate)))
    if len(best) > 1:
        drawing.path(line, "grey", stroke_width="1.5", stroke_dasharray="5 4")
    taken: list[tuple[float, float, float]] = []
    for each in found:
        look, px, py = f"k{each.number % SERIES}", x(each.cost), y(each.score.estimate)
        drawing.stroke(px, y(each.score.low), px, y(each.score.high), look, 1.5)
        drawing.dot(each.number, px, py, look, 7, hollow=not each.best)
        _label(drawing, each, px, py, width, taken)
    return drawing


def _label(
    drawing: Drawing, each: _Point, px: float, py: float, width: float, taken: list[tuple[float, float, float]]
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
