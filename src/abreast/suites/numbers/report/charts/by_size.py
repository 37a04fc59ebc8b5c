"""How often each variant is right, against the length of the series."""

from __future__ import annotations

import math
from collections.abc import Sequence

from abreast.report.charts.drawing import Drawing, Picture, Scale, wide
from abreast.report.charts.lanes import MOST, of_most
from abreast.report.charts.sizes import joined, legend, percentages
from abreast.suites.numbers.report.charts.words import percent, with_ends
from abreast.suites.numbers.report.figures import Figures, VariantFigures


def pictures(figures: Figures) -> list[Picture]:
    """One picture, if series of at least two lengths have a score."""
    variants = figures.variants
    sizes = [size for size in figures.sizes if size > 0 and any(each.by_size[size].of for each in variants)]
    if len(sizes) < 2:
        return []
    names = [each.name for each in variants]
    return [
        Picture(
            "accuracy-by-size",
            "Accuracy against the length of the series",
            ". ".join(_told(each, sizes) for each in variants[:MOST]) + ".",
            lambda width: _draw(variants[:MOST], sizes, width),
            "share of right answers with its 95 % interval; lengths on a logarithmic scale" + of_most(len(names)),
            ("points", *names),
            tuple((f"{size:,}", *(with_ends(each.by_size[size].of) for each in variants)) for size in sizes),
        )
    ]


def _told(variant: VariantFigures, sizes: Sequence[int]) -> str:
    known = {size: score for size in sizes if (score := variant.by_size[size].of) is not None}
    told = ", ".join(f"{percent(score.estimate)} of {size:,} points" for size, score in known.items())
    return f"{variant.name}: {told or 'no score'}"


def _draw(variants: Sequence[VariantFigures], sizes: Sequence[int], width: float) -> Drawing:
    drawing = Drawing(width)
    top = legend(drawing, [each.name for each in variants], width) + 8
    left, right, bottom = 46.0, width - 4.0, top + 220
    drawing.height = bottom + 44
    y = Scale(0, 1, bottom, top)
    x = Scale(math.log10(sizes[0]), math.log10(sizes[-1]), left + 24, right - 26)
    percentages(drawing, y, left, right)
    apart = 8.0 if width > 600 else 5.0
    for index, variant in enumerate(variants):
        shift = (index - (len(variants) - 1) / 2) * apart
        known = [(x(math.log10(size)) + shift, variant.by_size[size].of) for size in sizes]
        joined(drawing, index, [(at, score) for at, score in known if score is not None], y)
    _lengths(drawing, sizes, x, bottom)
    drawing.text(right, drawing.height - 3, "points of a series", "note", "end")
    return drawing


def _lengths(drawing: Drawing, sizes: Sequence[int], x: Scale, bottom: float) -> None:
    """Below the axis, those that there is room for: the longest one, and others to its left."""
    free = math.inf
    for size in reversed(sizes):
        at, half = x(math.log10(size)), wide(f"{size:,}", 12) / 2
        drawing.line(at, bottom, at, bottom + 4, "grid")
        if at + half <= free:
            drawing.text(at, bottom + 18, f"{size:,}", "note", "middle")
            free = at - half - 4
