"""Lanes of each variant: accuracy and tokens by task, and how far off numeric answers are."""

from __future__ import annotations

from abreast.report.charts.drawing import Picture
from abreast.report.charts.lanes import MOST, Group, Lane
from abreast.report.words.variant_figures import NOTHING, count
from abreast.suites.numbers.report.figures import ERRORS, Figures, VariantFigures, percent, plain, with_ends
from abreast.suites.pictures import lanes_in_words, lanes_picture


def _percentage(at: float) -> str:
    return f"{at:.0%}"


def accuracy_by_task(figures: Figures) -> list[Picture]:
    """One picture, if a task has a score."""
    names = [variant.name for variant in figures.variants]
    scores = {task: [variant.by_task[task].of for variant in figures.variants] for task in figures.tasks}
    groups = [
        Group(
            task,
            tuple(
                Lane(number, score.estimate, with_ends(score), (score.low, score.high))
                for number, score in enumerate(of_task[:MOST])
                if score is not None
            ),
        )
        for task, of_task in scores.items()
    ]
    groups = [group for group in groups if group.lanes]
    if not groups:
        return []
    return [
        lanes_picture(
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
    ]


def tokens_by_task(figures: Figures, basis: str) -> list[Picture]:
    """One picture, if tokens are known; `basis` says how they were counted."""
    names = [variant.name for variant in figures.variants]
    means = {task: [variant.tokens_in_by_task.get(task) for variant in figures.variants] for task in figures.tasks}
    groups = [
        Group(task, tuple(Lane(at, mean, plain(mean)) for at, mean in enumerate(of_task[:MOST]) if mean is not None))
        for task, of_task in means.items()
    ]
    groups = [group for group in groups if group.lanes]
    if not groups:
        return []
    most = max(lane.value for group in groups for lane in group.lanes) or 1.0
    nothing = [None] * len(names)
    return [
        lanes_picture(
            "token-reduction",
            "Tokens in of a call, by task",
            names=names,
            groups=groups,
            axis=(most, lambda at: count(round(at))),
            alternative=f"Mean tokens in of a call. {lanes_in_words(names, groups)}",
            below=f"mean of all calls, {basis}",
            label="task",
            rows=[(task, *map(plain, of_task)) for task, of_task in means.items() if of_task != nothing],
        )
    ]


def error_distribution(figures: Figures) -> list[Picture]:
    """One picture, if numbers were asked for and something was answered."""
    names = [variant.name for variant in figures.variants]
    known = [(number, each) for number, each in enumerate(figures.variants[:MOST]) if sum(each.errors)]
    if not known:
        return []
    groups = [
        Group(
            label,
            tuple(Lane(number, each.errors[at] / sum(each.errors), _share_off(each, at)) for number, each in known),
        )
        for at, (_, label) in enumerate(ERRORS)
    ]
    words = [
        f"{each.name}: " + ", ".join(f"{_share_off(each, at)} off by {label}" for at, (_, label) in enumerate(ERRORS))
        for _, each in known
    ]
    return [
        lanes_picture(
            "error-distribution",
            "How far off numeric answers are",
            names=names,
            groups=groups,
            axis=(max(lane.value for group in groups for lane in group.lanes), _percentage),
            alternative=". ".join(words) + ".",
            below="share of the answers to queries for a number, by relative error; "
            "≥ 100 %: also those without a number",
            label="relative error",
            rows=[
                (label, *(_share_off(variant, at) for variant in figures.variants))
                for at, (_, label) in enumerate(ERRORS)
            ],
        )
    ]


def _share_off(variant: VariantFigures, at: int) -> str:
    """`12 (40 %)`."""
    total = sum(variant.errors)
    return f"{variant.errors[at]:,} ({variant.errors[at] / total:.0%})".replace("%", " %") if total else NOTHING
