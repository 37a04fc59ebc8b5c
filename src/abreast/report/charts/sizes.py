"""Accuracy against the size of the input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from abreast.analyse.rows import Rows
from abreast.analyse.run import Analysis
from abreast.report.charts.colours import SERIES
from abreast.report.charts.drawing import Drawing, Picture, Scale, fitted, wide
from abreast.report.words.variant_figures import share
from abreast.stats import Interval, paired_t, wilson
from abreast.stats.numerics.arrays import distinct
from abreast.text import many

BINS = 5
LEAST = 8  # cases in each
MOST = 6  # variants drawn
ALIKE = 1.5  # times as long: inputs that differ less have one size


@dataclass(frozen=True, slots=True)
class _SizeBin:
    label: str
    cases: int
    scores: tuple[Interval | None, ...]  # of each variant


def pictures(analysis: Analysis) -> list[Picture]:
    """One picture, if inputs differ in size and there are enough cases."""
    rows = analysis.rows
    if not rows.primary or not len(rows.position):
        return []
    sizes = rows.input_sizes()
    small, large = np.quantile(list(sizes.values()), (0.1, 0.9), method="inverted_cdf")
    if large < ALIKE * small:
        return []
    bins = _bins(rows, np.array(list(sizes)), np.array(list(sizes.values())))
    if len(bins) < 2:
        return []
    names = rows.variants
    told = [
        f"{name}: " + ", ".join(_percent(each.scores[index]) for each in bins)
        for index, name in enumerate(names[:MOST])
    ]
    return [
        Picture(
            name="input-size",
            title="Score against the size of the input",
            alternative=f"Mean score by size of the input in characters ({'; '.join(each.label for each in bins)}). "
            + ". ".join(told)
            + ".",
            draw=lambda width: _draw(names[:MOST], bins, width),
            below="mean score and 95 % interval; about as many cases in each part"
            + (f"; the first {MOST} of {len(names)} variants" if len(names) > MOST else ""),
            head=("characters", "cases", *names),
            rows=tuple((each.label, f"{each.cases:,}", *map(share, each.scores)) for each in bins),
        )
    ]


def _bins(rows: Rows, cases: np.ndarray, sizes: np.ndarray) -> list[_SizeBin]:
    count = min(BINS, len(cases) // LEAST)
    if count < 2:
        return []
    edges = distinct(np.quantile(sizes, np.linspace(0, 1, count + 1)[1:-1], method="inverted_cdf"))
    place = np.searchsorted(edges, sizes, side="left")
    found = []
    for at in distinct(place):
        mine = cases[place == at]
        small, large = int(sizes[place == at].min()), int(sizes[place == at].max())
        label = f"{small:,}" if small == large else f"{small:,}–{large:,}"
        scores = tuple(_mean(rows, index, mine) for index in range(len(rows.variants)))
        found.append(_SizeBin(label, len(mine), scores))
    return found


def _mean(rows: Rows, variant: int, cases: np.ndarray) -> Interval | None:
    """The mean over cases, and how far off it may be."""
    chosen = np.zeros(rows.planned_cases, dtype=bool)
    chosen[cases] = True
    mine = (rows.variant == variant) & ~np.isnan(rows.score) & chosen[rows.case]
    score = rows.score[mine]
    if not len(score):
        return None
    unique, inverse = np.unique(rows.case[mine], return_inverse=True)
    means = np.bincount(inverse, weights=score) / np.bincount(inverse)
    groups = rows.groups(unique)
    if groups is None and rows.repeats == 1 and np.isin(score, (0.0, 1.0)).all():
        return wilson(float(score.sum()), len(score))
    if (len(means) if groups is None else len(set(groups))) < 2:
        return Interval(float(means.mean()), 0.0, 1.0)
    found = paired_t(means, groups=groups)
    return Interval(found.estimate, max(0.0, found.low), min(1.0, found.high))


def _percent(score: Interval | None) -> str:
    return "no score" if score is None else f"{score.estimate:.0%}"


DASHES = ("", "7 4", "2 4", "9 3 2 3", "4 2", "1 3")


def legend(drawing: Drawing, names: list[str], width: float) -> float:
    """Names with their marks, in as many rows as they need; the height of it."""
    x, y = 6.0, 12.0
    for index, name in enumerate(names):
        shown = fitted(name, width / 2 - 40)
        if x > 6 and x + wide(shown) + 40 > width:
            x, y = 6.0, y + 22
        drawing.dot(index, x, y - 4, f"k{index % SERIES}", 5)
        drawing.text(x + 12, y, shown)
        x += wide(shown) + 42
    return y + 14


def percentages(drawing: Drawing, y: Scale, left: float, right: float) -> None:
    """Lines across, from 0 to 100 %."""
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
    apart = min(16.0, step * 0.6 / max(1, len(names)))
    for index, _ in enumerate(names):
        shift = (index - (len(names) - 1) / 2) * apart
        scores = [(left + step * (at + 0.5) + shift, each.scores[index]) for at, each in enumerate(bins)]
        joined(drawing, index, [(x, score) for x, score in scores if score is not None], y)
    for at, each in enumerate(bins):
        middle = left + step * (at + 0.5)
        drawing.text(middle, bottom + 18, fitted(each.label, step, 12), "note", "middle")
        if width > 600:
            drawing.text(middle, bottom + 34, many(each.cases, "case"), "note", "middle")
    drawing.text(right, drawing.height - 3, "characters of input", "note", "end")
    return drawing
