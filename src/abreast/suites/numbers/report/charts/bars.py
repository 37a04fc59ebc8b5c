"""Charts of variants: accuracy and tokens by task and series length, and errors of numeric answers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from abreast.report.charts.drawing import Drawing, Picture, Scale, wide
from abreast.report.charts.lanes import MOST, Lane, of_most
from abreast.report.charts.pareto import Axis, Point, picture
from abreast.report.charts.sizes import joined, legend, percentages
from abreast.report.words.variant_figures import NOTHING, count
from abreast.suites.numbers.report.figures import ERRORS, Figures, VariantFigures, percent, plain, with_ends
from abreast.suites.pictures import lane_groups, lanes_in_words, lanes_picture


def _percentage(at: float) -> str:
    return f"{at:.0%}"


def accuracy_by_task(figures: Figures) -> Picture | None:
    """Draw accuracy by task, if any task has a score."""
    names = [variant.name for variant in figures.variants]
    scores = {task: [variant.by_task[task].mean for variant in figures.variants] for task in figures.tasks}
    groups = lane_groups(
        scores.items(), lambda number, score: Lane(number, score.estimate, with_ends(score), (score.low, score.high))
    )
    if not groups:
        return None
    return lanes_picture(
        "accuracy-by-task",
        "Accuracy by task",
        names=names,
        groups=groups,
        axis=(1.0, _percentage),
        alternative=lanes_in_words(names, groups, lambda lane: percent(lane.value)),
        below="share of right answers with its 95 % interval",
        label="task",
        rows=[(group.label, *map(with_ends, scores[group.label])) for group in groups],
    )


def tokens_by_task(figures: Figures, basis: str) -> Picture | None:
    """Draw tokens by task, if known; `basis` says how they were counted."""
    names = [variant.name for variant in figures.variants]
    means = {task: [variant.tokens_in_by_task.get(task) for variant in figures.variants] for task in figures.tasks}
    groups = lane_groups(means.items(), lambda number, mean: Lane(number, mean, plain(mean)))
    if not groups:
        return None
    most = max(lane.value for group in groups for lane in group.lanes) or 1.0
    nothing = [None] * len(names)
    return lanes_picture(
        "token-reduction",
        "Input tokens per call, by task",
        names=names,
        groups=groups,
        axis=(most, lambda at: count(round(at))),
        alternative=f"Mean input tokens per call. {lanes_in_words(names, groups)}",
        below=f"mean over all calls, {basis}",
        label="task",
        rows=[(task, *map(plain, of_task)) for task, of_task in means.items() if of_task != nothing],
    )


def error_distribution(figures: Figures) -> Picture | None:
    """Draw the errors of numeric answers, if there are any."""
    variants, labels = figures.variants, [label for _, label in ERRORS]
    names = [variant.name for variant in variants]
    shares = {label: [_error_share(variant, at) for variant in variants] for at, label in enumerate(labels)}
    groups = lane_groups(shares.items(), lambda number, share: Lane(number, *share))
    if not groups:
        return None
    words = [
        f"{name}: " + ", ".join(f"{share[1]} off by {label}" for label in labels if (share := shares[label][number]))
        for number, name in enumerate(names[:MOST])
        if sum(variants[number].errors)
    ]
    return lanes_picture(
        "error-distribution",
        "How far off numeric answers are",
        names=names,
        groups=groups,
        axis=(max(lane.value for group in groups for lane in group.lanes), _percentage),
        alternative=". ".join(words) + ".",
        below="share of answers to numeric queries, by relative error; ≥ 100 % includes answers without a number",
        label="relative error",
        rows=[(label, *(NOTHING if share is None else share[1] for share in shares[label])) for label in labels],
    )


def _error_share(variant: VariantFigures, at: int) -> tuple[float, str] | None:
    """Return a label such as `12 (40 %)`, and the share."""
    count, total = variant.errors[at], sum(variant.errors)
    return (count / total, f"{count:,} ({count / total:.0%})".replace("%", " %")) if total else None


def accuracy_by_size(figures: Figures) -> Picture | None:
    """Draw accuracy by series length, if at least two lengths have a score."""
    variants = figures.variants
    sizes = [size for size in figures.sizes if size > 0 and any(variant.by_size[size].mean for variant in variants)]
    if len(sizes) < 2:
        return None
    names = [variant.name for variant in variants]
    return Picture(
        name="accuracy-by-size",
        title="Accuracy against the length of the series",
        alternative=". ".join(_in_words(variant, sizes) for variant in variants[:MOST]) + ".",
        draw=lambda width: _draw(variants[:MOST], sizes, width),
        below="share of right answers with its 95 % interval; lengths on a logarithmic scale" + of_most(len(names)),
        head=("points", *names),
        rows=tuple((f"{size:,}", *(with_ends(variant.by_size[size].mean) for variant in variants)) for size in sizes),
    )


def _in_words(variant: VariantFigures, sizes: Sequence[int]) -> str:
    scores = [(size, score) for size in sizes if (score := variant.by_size[size].mean) is not None]
    words = ", ".join(f"{percent(score.estimate)} of {size:,} points" for size, score in scores)
    return f"{variant.name}: {words or 'no score'}"


def _draw(variants: Sequence[VariantFigures], sizes: Sequence[int], width: float) -> Drawing:
    drawing = Drawing(width)
    top = legend(drawing, [variant.name for variant in variants], width) + 8
    x_low, x_high, bottom = 46.0, width - 4.0, top + 220
    drawing.height = bottom + 44
    y = Scale(0, 1, bottom, top)
    x = Scale(math.log10(sizes[0]), math.log10(sizes[-1]), x_low + 24, x_high - 26)
    percentages(drawing, y, x_low, x_high)
    spacing = 8.0 if width > 600 else 5.0
    for index, variant in enumerate(variants):
        shift = (index - (len(variants) - 1) / 2) * spacing
        scores = [(x(math.log10(size)) + shift, variant.by_size[size].mean) for size in sizes]
        joined(drawing, index, [(at, score) for at, score in scores if score is not None], y)
    _lengths(drawing, sizes, x, bottom)
    drawing.text(x_high, drawing.height - 3, "points of a series", "note", "end")
    return drawing


def _lengths(drawing: Drawing, sizes: Sequence[int], x: Scale, bottom: float) -> None:
    free = math.inf
    for size in reversed(sizes):
        at, half = x(math.log10(size)), wide(f"{size:,}", 12) / 2
        drawing.line(at, bottom, at, bottom + 4, "grid")
        if at + half <= free:
            drawing.text(at, bottom + 18, f"{size:,}", "note", "middle")
            free = at - half - 4


_TOKENS = Axis(
    "tokens per call",
    "mean tokens per call, in and out",
    lambda tokens: f"{plain(tokens)} tokens a call",
    lambda tokens: count(round(tokens)),
)


def tokens_and_accuracy(figures: Figures) -> Picture | None:
    """Draw tokens against accuracy, if the tokens of at least two variants are known and not all 0."""
    variant_points = [
        Point(number, variant.name, variant.tokens_in + (variant.tokens_out or 0.0), variant.accuracy.mean)
        for number, variant in enumerate(figures.variants)
        if variant.tokens_in is not None and variant.accuracy.mean is not None
    ]
    if len(variant_points) < 2 or not any(point.takes for point in variant_points):
        return None
    below = "accuracy with its 95 % interval; filled: no other is right as often with fewer tokens"
    return picture("pareto", "Tokens and accuracy", below, "accuracy", variant_points, _TOKENS)
