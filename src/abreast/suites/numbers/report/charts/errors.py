"""How far off the numbers are that were answered."""

from __future__ import annotations

from abreast.report.charts.drawing import Picture
from abreast.report.charts.lanes import MOST, Group, Lane, lanes, of_most
from abreast.report.words.variant_figures import NOTHING
from abreast.suites.numbers.report.figures import ERRORS, Figures, VariantFigures


def pictures(figures: Figures) -> list[Picture]:
    """One picture, if numbers were asked for and something was answered."""
    variants, names = figures.variants, [each.name for each in figures.variants]
    if not any(sum(each.errors) for each in variants[:MOST]):
        return []
    groups = [_group(figures, at) for at in range(len(ERRORS))]
    most = max(lane.value for group in groups for lane in group.lanes)
    told = [
        f"{each.name}: " + ", ".join(f"{_said(each, at)} off by {label}" for at, (_, label) in enumerate(ERRORS))
        for each in variants[:MOST]
        if sum(each.errors)
    ]
    return [
        Picture(
            "error-distribution",
            "How far off numeric answers are",
            ". ".join(told) + ".",
            lambda width: lanes(names[:MOST], groups, most, lambda at: f"{at:.0%}", width),
            "share of the answers to queries for a number, by relative error; ≥ 100 %: also those without a number"
            + of_most(len(names)),
            ("relative error", *names),
            tuple((label, *(_said(each, at) for each in variants)) for at, (_, label) in enumerate(ERRORS)),
        )
    ]


def _group(figures: Figures, at: int) -> Group:
    known = [(number, each) for number, each in enumerate(figures.variants[:MOST]) if sum(each.errors)]
    return Group(
        ERRORS[at][1],
        tuple(Lane(number, each.errors[at] / sum(each.errors), _said(each, at)) for number, each in known),
    )


def _said(variant: VariantFigures, at: int) -> str:
    """`12 (40 %)`."""
    total = sum(variant.errors)
    return f"{variant.errors[at]:,} ({variant.errors[at] / total:.0%})".replace("%", " %") if total else NOTHING
