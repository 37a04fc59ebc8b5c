"""Intervals in rows, against zero and a margin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from abreast.report.charts.drawing import Drawing, Scale, fitted, steps, wide
from abreast.report.words.verdict_sentence import points


@dataclass(frozen=True, slots=True)
class Bar:
    """One interval with its name; `ends` is None if it cannot be trusted."""

    label: str
    estimate: float
    ends: tuple[float, float] | None
    look: str  # CSS class: better, worse or open
    note: str = ""

    @property
    def name(self) -> str:
        return f"{self.label} · {self.note}" if self.note else self.label

    @property
    def figures(self) -> str:
        if self.ends is None:
            return f"{points(self.estimate)}, no interval"
        return f"{points(self.estimate)} ({points(self.ends[0])} … {points(self.ends[1])})"


LOOKS = {"better": "better", "worse": "worse"}  # CSS classes; other verdicts: open


def reach(bars: Sequence[Bar], margin: float = 0.0) -> tuple[float, float]:
    """Choose the ends of an axis with zero and all intervals, wide enough that small differences look small."""
    ends = [value for bar in bars for value in (bar.estimate, *(bar.ends or ()))]
    low, high = min(0.0, *ends, -margin), max(0.0, *ends, margin)
    air = max(0.02, (high - low) * 0.08)
    return max(-1.0, low - air), min(1.0, high + air)


def forest(bars: Sequence[Bar], sides: tuple[str, str], margin: float, width: float) -> Drawing:
    """Draw the bars; `sides` are the labels left and right of zero."""
    in_line = width > 600 and len(bars) > 1  # names are left of their bars, else above
    left, right = 10.0, width - 10.0
    if in_line:
        left = min(230.0, 24 + max(wide(bar.name) for bar in bars))
        right = width - 24 - max(wide(bar.figures) for bar in bars)
    step = 32 if in_line else 62 if len(bars) == 1 else 50
    top, bottom = 32.0, 32.0 + len(bars) * step + 4
    drawing = Drawing(width, bottom + 24)
    scale = Scale(*reach(bars, margin), left, right)
    zones = (
        [(top - 6, bottom)]
        if in_line
        else [(top + at * step + 24, top + (at + 1) * step - 2) for at in range(len(bars))]
    )
    if not in_line:
        zones[-1] = (zones[-1][0], bottom)
    for begin, end in zones:
        _against(drawing, scale, margin, begin, end)
    for tick in steps(scale.low, scale.high, 4 if width < 600 else 8):
        drawing.line(scale(tick), bottom, scale(tick), bottom + 5, "grid")
        label = points(tick).removesuffix(".0") if tick else "0"
        half = wide(label) / 2
        drawing.text(min(max(scale(tick), half), width - half), bottom + 20, label, "soft", "middle")
    drawing.line(left, bottom, right, bottom, "grid")
    _sides(drawing, sides, scale(0), width)
    for index, bar in enumerate(bars):
        _bar(drawing, bar, scale, top + index * step, in_line, width, len(bars) == 1)
    return drawing


def _against(drawing: Drawing, scale: Scale, margin: float, begin: float, end: float) -> None:
    if margin:
        drawing.box(scale(-margin), begin, scale(margin) - scale(-margin), end - begin, "between")
        for edge in (-margin, margin):
            drawing.line(scale(edge), begin, scale(edge), end, "margin")
    drawing.line(scale(0), begin, scale(0), end, "zero")


def _sides(drawing: Drawing, sides: tuple[str, str], zero: float, width: float) -> None:
    left, right = f"← {sides[0]}", f"{sides[1]} →"
    if wide(left) + 8 < zero and wide(right) + 8 < width - zero:
        drawing.text(zero - 8, 16, left, "soft", "end")
        drawing.text(zero + 8, 16, right, "soft")
    else:
        drawing.text(0, 16, fitted(left, width / 2 - 8), "soft")
        drawing.text(width, 16, fitted(right, width / 2 - 8), "soft", "end")


def _bar(drawing: Drawing, bar: Bar, scale: Scale, top: float, in_line: bool, width: float, only: bool) -> None:
    if in_line:
        y = top + 18
        drawing.text(0, y + 4, fitted(bar.name, scale.start - 14))
        drawing.text(width, y + 4, bar.figures, "soft", "end")
    else:
        y = top + (42 if only else 36)
        drawing.text(0, top + 18, fitted(bar.name, width - wide(bar.figures) - 12, 14), "strong")
        drawing.text(width, top + 18, bar.figures, "soft", "end")
    thick = 6 if only else 4
    if bar.ends is not None:
        low, high = scale(bar.ends[0]), scale(bar.ends[1])
        drawing.stroke(low, y, high, y, bar.look, thick)
        for end in (low, high):
            drawing.stroke(end, y - thick - 1, end, y + thick + 1, bar.look, 2)
    shape = {"better": 2, "worse": 4}.get(bar.look, 3)
    drawing.dot(shape, scale(bar.estimate), y, bar.look, 8 if only else 6, hollow=bar.ends is None)
