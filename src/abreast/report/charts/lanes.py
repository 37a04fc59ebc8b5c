"""Groups of lanes, one lane per variant: bars from zero, dots with their intervals, or both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from abreast.report.charts.colours import SERIES
from abreast.report.charts.drawing import Drawing, Scale, fitted, steps, wide
from abreast.report.charts.sizes import legend

MOST = 6  # variants drawn
_LANE, _BETWEEN = 20.0, 14.0


@dataclass(frozen=True, slots=True)
class Lane:
    """One figure of one variant: a bar; or a dot on its interval, if it has `ends`; or with `bar` a bar with `ends`."""

    number: int  # index of the variant
    value: float
    figure: str
    ends: tuple[float, float] | None = None
    bar: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    label: str
    lanes: tuple[Lane, ...]


@dataclass(frozen=True, slots=True)
class _Layout:
    """The layout: labels left of their lanes, or above in narrow drawings."""

    in_line: bool
    left: float
    right: float
    above: float

    @classmethod
    def of(cls, groups: Sequence[Group], width: float) -> _Layout:
        in_line = width > 600
        label = min(200.0, 12 + max(wide(group.label) for group in groups)) if in_line else 0.0
        figures = max(wide(lane.figure, 12) for group in groups for lane in group.lanes)
        return cls(in_line, label + 18, width - figures - 12, 0.0 if in_line else 22.0)

    def height(self, group: Group) -> float:
        return self.above + len(group.lanes) * _LANE + _BETWEEN


def of_most(count: int) -> str:
    """Return a note for below the picture if not all variants are drawn, else empty."""
    return f"; the first {MOST} of {count:,} variants" if count > MOST else ""


def lanes(
    names: Sequence[str], groups: Sequence[Group], high: float, tick: Callable[[float], str], width: float
) -> Drawing:
    """Draw all groups on one axis from 0 to `high`, with a legend above."""
    drawing = Drawing(width)
    top = legend(drawing, list(names), width) + 6
    layout = _Layout.of(groups, width)
    bottom = top + sum(layout.height(group) for group in groups)
    drawing.height = bottom + 24
    x = Scale(0.0, high, layout.left, layout.right)
    for at in steps(0.0, high, 3 if width < 600 else 6):
        drawing.line(x(at), top, x(at), bottom, "grid")
        drawing.text(x(at), bottom + 18, tick(at), "soft", "middle")
    for group in groups:
        _group(drawing, group, layout, x, top)
        top += layout.height(group)
    drawing.line(layout.left, bottom, layout.right, bottom, "grid")
    return drawing


def _group(drawing: Drawing, group: Group, layout: _Layout, x: Scale, top: float) -> None:
    if layout.in_line:
        middle = top + _BETWEEN / 2 + len(group.lanes) * _LANE / 2
        drawing.text(0, middle + 4, fitted(group.label, layout.left - 24), "strong")
    else:
        drawing.text(0, top + 18, fitted(group.label, drawing.width), "strong")
    y = top + layout.above + _BETWEEN / 2 + _LANE / 2
    for lane in group.lanes:
        _lane(drawing, lane, layout, x, y)
        y += _LANE


def _lane(drawing: Drawing, lane: Lane, layout: _Layout, x: Scale, y: float) -> None:
    look = f"k{lane.number % SERIES}"
    if lane.bar or lane.ends is None:
        drawing.dot(lane.number, layout.left - 9, y, look, 4)
        pale: dict[str, float | str] = {"fill_opacity": "0.6"} if lane.ends else {}
        drawing.box(x(0), y - 6, x(lane.value) - x(0), 12, look, fill="currentColor", **pale)
    if lane.ends is not None and lane.bar:
        low, high = map(x, lane.ends)
        drawing.line(low, y, high, y, "zero")
        for end in (low, high):
            drawing.line(end, y - 4, end, y + 4, "zero")
    elif lane.ends is not None:
        drawing.stroke(x(lane.ends[0]), y, x(lane.ends[1]), y, look, 2.5)
        drawing.dot(lane.number, x(lane.value), y, look, 5)
    drawing.text(drawing.width, y + 4, lane.figure, "note", "end")
