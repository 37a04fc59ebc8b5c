"""Mean cost of a trial against mean score, with the Pareto frontier."""

from __future__ import annotations

from abreast.analyse.rows import mean_of_known
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
    """One picture, if the costs of at least two variants are known and not all are 0."""
    rows, points = analysis.rows, []
    for number, summary in enumerate(analysis.variants):
        cost = mean_of_known(rows.cost_usd[rows.variant == number])
        if cost is not None and summary.score is not None:
            points.append(Point(number, summary.name, cost, summary.score))
    if len(points) < 2 or not any(point.takes for point in points):
        return []
    below = "mean score with its 95 % interval; filled: no other is both cheaper and better"
    return [picture("cost-and-quality", "Cost and quality", below, "score", points, _COST)]
