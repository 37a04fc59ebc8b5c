"""How many tokens a call takes, task by task."""

from __future__ import annotations

from abreast.report.charts.drawing import Picture
from abreast.report.charts.lanes import MOST, Group, Lane, lanes, of_most
from abreast.report.words.variant_figures import count
from abreast.suites.numbers.report.charts.words import plain
from abreast.suites.numbers.report.figures import Figures


def pictures(figures: Figures, basis: str) -> list[Picture]:
    """One picture, if tokens are known; `basis` says how they were counted."""
    variants, names = figures.variants, [each.name for each in figures.variants]
    groups = [group for task in figures.tasks if (group := _group(figures, task)).lanes]
    if not groups:
        return []
    most = max(lane.value for group in groups for lane in group.lanes) or 1.0
    told = [f"{group.label}: " + ", ".join(f"{names[at.number]} {at.said}" for at in group.lanes) for group in groups]
    return [
        Picture(
            "token-reduction",
            "Tokens in of a call, by task",
            f"Mean tokens in of a call. {'. '.join(told)}.",
            lambda width: lanes(names[:MOST], groups, most, lambda at: count(round(at)), width),
            f"mean of all calls, {basis}{of_most(len(names))}",
            ("task", *names),
            tuple(
                (task, *(plain(each.tokens_in_by_task.get(task)) for each in variants))
                for task in figures.tasks
                if any(task in each.tokens_in_by_task for each in variants)
            ),
        )
    ]


def _group(figures: Figures, task: str) -> Group:
    known = enumerate(each.tokens_in_by_task.get(task) for each in figures.variants[:MOST])
    return Group(task, tuple(Lane(number, mean, plain(mean)) for number, mean in known if mean is not None))
