"""Accuracy against the size of the input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from abreast.analyse.rows import Rows
from abreast.analyse.run import Analysis
from abreast.analyse.variants import mean_score
from abreast.report.charts.colours import SERIES
from abreast.report.charts.drawing import Drawing, Picture, Scale, fitted, wide
from abreast.report.words.variant_figures import share
from abreast.stats import Interval
from abreast.stats.numerics.arrays import distinct
from abreast.text import many

BINS = 5
LEAST = 8  # cases in each
MOST = 6  # variants drawn
ALIKE = 1.5  # inputs that differ by a smaller factor have the same size


@dataclass(frozen=True, slots=True)
class _SizeBin:
    label: str
    cases: int
    scores: tuple[Interval | None, ...]  # score of each variant


def pictures(analysis: Analysis) -> list[Picture]:
    """One picture, if inputs differ in size and there are enough cases."""
    rows = analysis.rows
    if not rows.primary or not len(rows.position):
        return []
    sizes = rows.case_column("input_size")
    small, large = np.quantile(list(sizes.values()), (0.1, 0.9), method="inverted_cdf")
    if large < ALIKE * small:
        return []
    bins = _bins(rows, np.array(list(sizes)), np.array(list(sizes.values())))
    if len(bins) < 2:
        return []
    names = rows.variants
    scores = [
        f"{name}: " + ", ".join(_percent(size_bin.scores[index]) for size_bin in bins)
        for index, name in enumerate(names[:MOST])
    ]
    return [
        Picture(
            name="input-size",
            title="Score against the size of the input",
            alternative=f"Mean score by size of the input in characters ({'; '.join(item.label for item in bins)}). "
            + ". ".join(scores)
            + ".",
            draw=lambda width: _draw(names[:MOST], bins, width),
            below="mean score and 95 % interval; about as many cases in each part"
            + (f"; the first {MOST} of {len(names)} variants" if len(names) > MOST else ""),
            head=("characters", "cases", *names),
            rows=tuple((item.label, f"{item.cases:,}", *map(share, item.scores)) for item in bins),
        )
    ]


def _bins(rows: Rows, cases: np.ndarray, sizes: np.ndarray) -> list[_SizeBin]:
    count = min(BINS, len(cases) // LEAST)
    if count < 2:
        return []
    edges = distinct(np.quantile(sizes, np.linspace(0, 1, count + 1)[1:-1], method="inverted_cdf"))
    indexes = np.searchsorted(edges, sizes, side="left")
    bins = []
    for index in distinct(indexes):
        in_bin = indexes == index
        small, large = int(sizes[in_bin].min()), int(sizes[in_bin].max())
        label = f"{small:,}" if small == large else f"{small:,}–{large:,}"
        trials = np.isin(rows.case, cases[in_bin])
        scores = tuple(mean_score(rows, trials & (rows.variant == at), rows.score) for at in range(len(rows.variants)))
        bins.append(_SizeBin(label, int(in_bin.sum()), scores))
    return bins


def _percent(score: Interval | None) -> str:
    return "no score" if score is None else f"{score.estimate:.0%}"


DASHES = ("", "7 4", "2 4", "9 3 2 3", "4 2", "1 3")


def legend(drawing: Drawing, names: list[str], width: float) -> float:
    """Draw names with their marks, in as many rows as needed; return the height."""
    x, y = 6.0, 12.0
    for index, name in enumerate(names):
        label = fitted(name, width / 2 - 40)
        if x > 6 and x + wide(label) + 40 > width:
            x, y = 6.0, y + 22
        drawing.dot(index, x, y - 4, f"k{index % SERIES}", 5)
        drawing.text(x + 12, y, label)
        x += wide(label) + 42
    return y + 14


def percentages(drawing: Drawing, y: Scale, left: float, right: float) -> None:
    """Grid lines from 0 to 100 %."""
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        drawing.line(left, y(tick), right, y(tick), "grid")
        drawing.text(left - 8, y(tick) + 4, f"{tick:.0%}", "soft", "end")


def joined(drawing: Drawing, index: int, scores: Sequence[tuple[float, Interval]], y: Scale) -> None:
    """The scores of one variant with their intervals, from left to right, and a line through them."""
    look = f"k{index % SERIES}"
    for x, score in scores:
        drawing.stroke(x, y(score.low), x, y(score.high), look, 2)
        drawing.dot(index, x, y(score.estimate), look, 5)
    if len(scores) > 1:
        line = [(x, y(score.estimate)) for x, score in scores]
        drawing.path(line, look, stroke_width="1.5", stroke_dasharray=DASHES[index % 6] or "none", opacity="0.7")


def _draw(names: list[str], bins: list[_SizeBin], width: float) -> Drawing:
    drawing = Drawing(width)
    top = legend(drawing, names, width) + 8
    left, right, bottom = 46.0, width - 4.0, top + 200
    drawing.height = bottom + (56 if width > 600 else 40)
    y = Scale(0, 1, bottom, top)
    percentages(drawing, y, left, right)
    step = (right - left) / len(bins)
    spacing = min(16.0, step * 0.6 / max(1, len(names)))
    for index in range(len(names)):
        shift = (index - (len(names) - 1) / 2) * spacing
        scores = [(left + step * (at + 0.5) + shift, item.scores[index]) for at, item in enumerate(bins)]
        joined(drawing, index, [(x, score) for x, score in scores if score is not None], y)
    for at, item in enumerate(bins):
        middle = left + step * (at + 0.5)
        drawing.text(middle, bottom + 18, fitted(item.label, step, 12), "note", "middle")
        if width > 600:
            drawing.text(middle, bottom + 34, many(item.cases, "case"), "note", "middle")
    drawing.text(right, drawing.height - 3, "characters of input", "note", "end")
    return drawing
