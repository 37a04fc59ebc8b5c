"""What quality costs: mean cost of a trial against mean score, and who is beaten by nobody in both."""

from __future__ import annotations

import numpy as np

from abreast.analyse.run import Analysis
from abreast.report.charts.drawing import Picture
from abreast.report.charts.pareto import Axis, Point, picture
from abreast.report.words.variant_figures import dollars

_COST = Axis(
    "cost of a trial",
    "mean cost of a trial",
    lambda cost: f"{dollars(cost)} a trial",
    lambda cost: dollars(cost) if cost else "$0",
)


def pictures(analysis: Analysis) -> list[Picture]:
    """One picture, if the cost of at least two variants is known, and not all of it is nothing."""
    found = _points(analysis)
    if len(found) < 2 or not any(point.takes for point in found):
        return []
    below = "mean score with its 95 % interval; filled: no other is both cheaper and better"
    return [picture("cost-and-quality", "Cost and quality", below, "score", found, _COST)]


def _points(analysis: Analysis) -> list[Point]:
    rows, found = analysis.rows, []
    for number, summary in enumerate(analysis.variants):
        cost = rows.cost_usd[rows.variant == number]
        known = cost[~np.isnan(cost)]
        if len(known) and summary.score is not None:
            found.append(Point(number, summary.name, float(known.mean()), summary.score))
    return found
