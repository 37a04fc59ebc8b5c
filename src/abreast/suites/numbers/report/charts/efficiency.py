"""What accuracy takes: tokens of a call against the share of right answers."""

from __future__ import annotations

from abreast.report.charts.drawing import Picture
from abreast.report.charts.pareto import Axis, Point, picture
from abreast.report.words.variant_figures import count
from abreast.suites.numbers.report.charts.words import plain
from abreast.suites.numbers.report.figures import Figures

_TOKENS = Axis(
    "tokens of a call",
    "mean tokens of a call, in and out",
    lambda tokens: f"{plain(tokens)} tokens a call",
    lambda tokens: count(round(tokens)),
)


def pictures(figures: Figures) -> list[Picture]:
    """One picture, if the tokens of at least two variants are known, and not all of them are none."""
    found = [
        Point(number, each.name, each.tokens_in + (each.tokens_out or 0.0), each.accuracy.of)
        for number, each in enumerate(figures.variants)
        if each.tokens_in is not None and each.accuracy.of is not None
    ]
    if len(found) < 2 or not any(point.takes for point in found):
        return []
    below = "accuracy with its 95 % interval; filled: no other is right as often with fewer tokens"
    return [picture("pareto", "Tokens and accuracy", below, "accuracy", found, _TOKENS)]
