"""How often each variant is right, task by task."""

from __future__ import annotations

from abreast.report.charts.drawing import Picture
from abreast.report.charts.lanes import MOST, Group, Lane, lanes, of_most
from abreast.suites.numbers.report.charts.words import percent, with_ends
from abreast.suites.numbers.report.figures import Figures


def pictures(figures: Figures) -> list[Picture]:
    """One picture, if a task has a score."""
    variants, names = figures.variants, [each.name for each in figures.variants]
    groups = [group for task in figures.tasks if (group := _group(figures, task)).lanes]
    if not groups:
        return []
    told = [
        f"{group.label}: " + ", ".join(f"{names[at.number]} {percent(at.value)}" for at in group.lanes)
        for group in groups
    ]
    return [
        Picture(
            "accuracy-by-task",
            "Accuracy by task",
            f"{'. '.join(told)}.",
            lambda width: lanes(names[:MOST], groups, 1.0, lambda at: f"{at:.0%}", width),
            f"share of right answers with its 95 % interval{of_most(len(names))}",
            ("task", *names),
            tuple((group.label, *(with_ends(each.by_task[group.label].of) for each in variants)) for group in groups),
        )
    ]


def _group(figures: Figures, task: str) -> Group:
    known = enumerate(each.by_task[task].of for each in figures.variants[:MOST])
    return Group(
        task,
        tuple(
            Lane(number, score.estimate, with_ends(score), (score.low, score.high))
            for number, score in known
            if score is not None
        ),
    )
