"""The interval as the number of cases grew, at the interim looks."""

from __future__ import annotations

import math

from abreast.analyse.run import Analysis, Comparison
from abreast.report.charts.drawing import Drawing, Picture, Scale, slug, steps
from abreast.report.charts.forest import LOOKS
from abreast.report.words.verdict_sentence import points, trusted
from abreast.stats import Look
from abreast.text import many

MOST = 20  # pictures


def pictures(analysis: Analysis) -> list[Picture]:
    """One picture for each comparison with several looks."""
    drawn = [item for item in analysis.comparisons if len(_looks(item)) > 1][:MOST]
    return [_picture(analysis, item, number) for number, item in enumerate(drawn, 1)]


def _looks(item: Comparison) -> list[Look]:
    return [look for look in item.looks if look.n and math.isfinite(look.estimate)]


def _picture(analysis: Analysis, item: Comparison, number: int) -> Picture:
    looks = _looks(item)
    last = looks[-1]
    unit = "groups" if analysis.rows.grouped else "cases"
    name = f"{item.variant} against {item.baseline}"
    rows = tuple((f"{look.n:,}", points(look.estimate), points(look.low), points(look.high)) for look in looks)
    return Picture(
        name=f"closing-in-{number}-{slug(item.variant)}".rstrip("-"),
        title=f"The interval as cases were added: {name}",
        alternative=f"{name}: after {many(looks[0].n, unit[:-1])} the interval went from {points(looks[0].low)} to "
        f"{points(looks[0].high)} points, after {last.n:,} from {points(last.low)} to {points(last.high)}, "
        f"around {points(last.estimate)}.",
        draw=lambda width: _draw(looks, item, analysis.margin, unit, width),
        below="this interval is valid at every look; the mark at the right is the interval of the verdict",
        head=(unit, "points", "low", "high"),
        rows=rows,
    )


def _draw(looks: list[Look], item: Comparison, margin: float, unit: str, width: float) -> Drawing:
    height = 250.0 if width > 600 else 230.0
    left, right, top, bottom = 46.0, width - 22.0, 10.0, height - 40
    low = min(0.0, -margin * 1.2, *(look.low for look in looks))
    high = max(0.0, margin * 1.2, *(look.high for look in looks))
    air = (high - low) * 0.06
    drawing = Drawing(width, height)
    x = Scale(0, looks[-1].n, left, right - 16)
    y = Scale(max(-1.0, low - air), min(1.0, high + air), bottom, top)
    if margin:
        drawing.box(left, y(margin), right - left, y(-margin) - y(margin), "between")
    for tick in steps(y.low, y.high, 6):
        drawing.line(left, y(tick), right, y(tick), "grid")
        drawing.text(left - 8, y(tick) + 4, points(tick).removesuffix(".0") if tick else "0", "soft", "end")
    drawing.line(left, y(0), right, y(0), "zero")
    for edge in (-margin, margin) if margin else ():
        drawing.line(left, y(edge), right, y(edge), "margin")
    for tick in steps(0, looks[-1].n, 4 if width < 600 else 8):
        if tick == int(tick):
            drawing.text(x(tick), bottom + 18, f"{int(tick):,}", "soft", "middle")
    drawing.text(right, height - 4, f"{unit} compared", "note", "end")
    drawing.text(0, height - 4, "points", "note")
    css = LOOKS.get(item.verdict.word, "open")
    highs = [(x(look.n), y(look.high)) for look in looks]
    lows = [(x(look.n), y(look.low)) for look in looks]
    drawing.path([*highs, *reversed(lows)], css, True, fill_opacity="0.16")
    for edge_line in (highs, lows):
        drawing.path(edge_line, css, stroke_width="1.5", stroke_dasharray="5 3")
    drawing.path([(x(look.n), y(look.estimate)) for look in looks], css, stroke_width="2.5")
    if (interval := trusted(item.verdict)) is not None:
        at = right - 5
        drawing.stroke(at, y(interval.low), at, y(interval.high), css, 5)
        drawing.dot({"better": 2, "worse": 4}.get(css, 3), at, y(interval.estimate), css, 6)
    return drawing
