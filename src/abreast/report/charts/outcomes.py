"""On how many cases a variant won, tied and lost."""

from __future__ import annotations

from abreast.analyse.run import Analysis, Comparison
from abreast.report.charts.drawing import Drawing, Picture, fitted, wide
from abreast.text import many

MOST = 40


def pictures(analysis: Analysis) -> list[Picture]:
    """One picture for all comparisons by the primary score."""
    shown = [item for item in analysis.comparisons if item.cases][:MOST]
    if not shown:
        return []
    told = [f"{item.variant} against {item.baseline}: {', '.join(_counts(item))}" for item in shown]
    return [
        Picture("outcomes", "Wins, ties and losses, case by case", ". ".join(told), lambda wide: _draw(shown, wide))
    ]


def _counts(item: Comparison) -> list[str]:
    found = item.verdict
    return [many(found.wins, "win"), many(found.ties, "tie"), many(found.losses, "loss", "losses")]


def _draw(shown: list[Comparison], width: float) -> Drawing:
    step = 66 if width > 600 else 84
    drawing = Drawing(width, len(shown) * step - 14)
    for index, item in enumerate(shown):
        top, found = index * step, item.verdict
        drawing.text(
            0,
            top + 16,
            fitted(f"{item.variant} against {item.baseline}", width * (0.5 if width > 600 else 1), 14),
            "strong",
        )
        _legend(drawing, item, *((width, top + 16) if width > 600 else (0, top + 36)))
        x, y = 0.0, top + step - 40
        for look, number in (("better", found.wins), ("tie", found.ties), ("worse", found.losses)):
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
    """Marks with their counts; to the left of `x`, if that is the edge of the paper."""
    x = max(0.0, x - sum(wide(told) + 38 for told in _counts(item)) + 20)
    for look, shape, told in zip(("better", "tie", "worse"), (2, 3, 4), _counts(item), strict=True):
        drawing.dot(shape, x + 6, y - 4, look, 4.5)
        drawing.text(x + 17, y, told, "soft")
        x += wide(told) + 38
