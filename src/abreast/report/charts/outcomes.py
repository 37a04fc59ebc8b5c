"""Numbers of cases that a variant won, tied and lost."""

from __future__ import annotations

from abreast.analyse.run import Analysis, Comparison
from abreast.report.charts.drawing import Drawing, Picture, fitted, wide
from abreast.text import many

MOST = 40


def pictures(analysis: Analysis) -> list[Picture]:
    """One picture for all comparisons by the primary score."""
    drawn = [item for item in analysis.comparisons if item.cases][:MOST]
    if not drawn:
        return []
    alternative = ". ".join(f"{item.variant} against {item.baseline}: {', '.join(_counts(item))}" for item in drawn)
    title = "Wins, ties and losses, case by case"
    return [Picture("outcomes", title, alternative, lambda width: _draw(drawn, width))]


def _counts(item: Comparison) -> list[str]:
    result = item.verdict
    return [many(result.wins, "win"), many(result.ties, "tie"), many(result.losses, "loss", "losses")]


def _draw(drawn: list[Comparison], width: float) -> Drawing:
    step = 66 if width > 600 else 84
    drawing = Drawing(width, len(drawn) * step - 14)
    for index, item in enumerate(drawn):
        top, result = index * step, item.verdict
        name = fitted(f"{item.variant} against {item.baseline}", width * (0.5 if width > 600 else 1), 14)
        drawing.text(0, top + 16, name, "strong")
        _legend(drawing, item, *((width, top + 16) if width > 600 else (0, top + 36)))
        x, y = 0.0, top + step - 40
        for look, number in (("better", result.wins), ("tie", result.ties), ("worse", result.losses)):
            if not number:
                continue
            span = width * number / item.cases
            drawing.box(x, y, max(1.5, span - 2), 24, look, fill="currentColor", rx=3)
            share = f"{number / item.cases:.0%}"
            if wide(share) + 12 < span:
                drawing.text(x + span / 2 - 1, y + 17, share, "strong" if look == "tie" else "inside", "middle")
            x += span
    return drawing


def _legend(drawing: Drawing, item: Comparison, x: float, y: float) -> None:
    """Marks with their counts, left of `x` if there is room."""
    x = max(0.0, x - sum(wide(count) + 38 for count in _counts(item)) + 20)
    for look, shape, count in zip(("better", "tie", "worse"), (2, 3, 4), _counts(item), strict=True):
        drawing.dot(shape, x + 6, y - 4, look, 4.5)
        drawing.text(x + 17, y, count, "soft")
        x += wide(count) + 38
