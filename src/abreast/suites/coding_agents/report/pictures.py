"""Bars: for each metric a group for each prompt, and all prompts together in one picture. Always means over runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from abreast.analyse.rows import Floats
from abreast.report.charts.drawing import Picture
from abreast.report.charts.lanes import MOST, Group, Lane
from abreast.report.words.variant_figures import NOTHING
from abreast.report.words.variant_figures import count as short
from abreast.stats import Interval, paired_t, wilson
from abreast.stats.numerics.arrays import ROUNDING
from abreast.suites.coding_agents.report.measures import Measure, measures_of
from abreast.suites.coding_agents.report.words import said
from abreast.suites.coding_agents.report.work import Metric, Work
from abreast.suites.pictures import lanes_in_words, lanes_picture

GROUPS = 10  # prompts in one picture
METRICS = 16  # with a picture of their own, among files of results
LEAST_RUNS = 3  # of one agent at one prompt, for an interval
Axis = tuple[float, Callable[[float], str]]  # its end, and how steps are written
_PERCENTAGES: Axis = (1.0, lambda at: f"{at:.0%}")
_NOT_DRAWN = ("lines_added", "lines_deleted")  # both together are


class Mean(NamedTuple):
    value: float
    interval: Interval | None


def of_metrics(work: Work, *metrics: Metric | None) -> tuple[Picture, ...]:
    return tuple(one for metric in metrics if metric is not None for one in by_prompt(work, metric))


def all_of(work: Work) -> list[Picture]:
    drawn = [metric for metric in work.metrics if metric.name not in _NOT_DRAWN][:METRICS]
    return [*summaries(work), *of_metrics(work, *drawn)]


# -- prompt by prompt -------------------------------------------------------------------------------------------------


def by_prompt(work: Work, metric: Metric) -> list[Picture]:
    """One picture, if anything is known and there is more than one prompt."""
    cases = sorted(work.rows.cases)
    means = {case: [_mean(work, metric, case, one) for one in work.variants] for case in cases}
    told = [case for case in cases if any(means[case])]
    if not told:
        return []
    drawn = _differing_most(told, means)
    ids = {case: work.rows.cases[case].id for case in told}
    groups = [
        Group(
            ids[case],
            tuple(_lane(metric, number, mean) for number, mean in enumerate(means[case][:MOST]) if mean is not None),
        )
        for case in drawn
    ]
    some = f"the {len(drawn)} of {len(told):,} {work.noun}s that differ most; " if len(drawn) < len(told) else ""
    note = "a failure counts 0" if metric.is_share else "runs that ended well"
    whiskers = "; lines: 95 % intervals" if any(lane.ends for one in groups for lane in one.lanes) else ""
    return [
        _picture(
            work,
            metric.name,
            f"{metric.title.capitalize()} by {work.noun}",
            f"{some}mean of runs, {note}{whiskers}",
            groups=groups,
            rows=[
                (ids[case], *(NOTHING if mean is None else said(metric, *mean) for mean in means[case]))
                for case in told
            ],
            axis=_axis(metric, groups),
        )
    ]


def _mean(work: Work, metric: Metric, case: int, agent: int) -> Mean | None:
    mine = metric.values[work.of(agent) & (work.rows.case == case)]
    known = mine[~np.isnan(mine)]
    return Mean(float(known.mean()), _around(metric, known)) if len(known) else None


def _around(metric: Metric, runs: Floats) -> Interval | None:
    """Of the mean over runs, where there are enough of them and they differ, or are plain yes or no."""
    if len(runs) < LEAST_RUNS:
        return None
    if metric.is_share and np.isin(runs, (0.0, 1.0)).all():
        return wilson(float(runs.sum()), len(runs))
    found = paired_t(runs)
    if found.high - found.low < ROUNDING:
        return None
    high = min(1.0, found.high) if metric.is_share else found.high
    return Interval(found.estimate, max(0.0, found.low), high)


def _differing_most(cases: list[int], means: dict[int, list[Mean | None]]) -> list[int]:

    def apart(case: int) -> float:
        values = [mean.value for mean in means[case][:MOST] if mean is not None]
        return max(values) - min(values) if values else 0.0

    return sorted(sorted(cases, key=lambda case: -apart(case))[:GROUPS])


def _lane(metric: Metric, number: int, mean: Mean) -> Lane:
    """On the scale that is shown, which begins at 0 for ratings too, so that bars can be compared."""
    ends = None
    if mean.interval is not None:
        ends = metric.on_scale(mean.interval.low), metric.on_scale(mean.interval.high)
    return Lane(number, metric.on_scale(mean.value), said(metric, mean.value), ends, bar=True)


def _axis(metric: Metric, groups: Sequence[Group]) -> Axis:
    if metric.kind == "share":
        return _PERCENTAGES
    if metric.scale is not None:
        return metric.scale[1], lambda at: f"{at:g}"
    most = max(max((lane.value, *(lane.ends or ()))) for one in groups for lane in one.lanes)
    high = most if most > 0 else 1.0
    units = {"seconds": lambda at: f"{at:g} s", "dollars": lambda at: f"${at:g}", "megabytes": lambda at: f"{at:g} MB"}
    return high, units.get(metric.kind, lambda at: short(round(at)) if high >= 10 else f"{at:g}")


# -- all together -----------------------------------------------------------------------------------------------------


def summaries(work: Work) -> list[Picture]:
    """A picture of all rates and scores, and one of what it took, each as a part of the most that any agent takes."""
    found = measures_of(work)
    shares = [each for each in found if each.metric.is_share]
    amounts = [each for each in found if not each.metric.is_share and max(filter(None, each.values), default=0.0)]
    pictures = []
    if shares:
        groups = [Group(each.metric.title, _shares(each)) for each in shares]
        below = f"means over all {work.noun}s; lines across: 95 % intervals; ratings from worst to best"
        pictures.append(_summary(work, "summary", "Rates and scores", below, shares, groups))
    if amounts:
        groups = [Group(each.metric.title, _parts(each)) for each in amounts]
        below = "as a part of the most that any agent takes"
        pictures.append(_summary(work, "summary_amounts", "What it took", below, amounts, groups))
    return pictures


def _shares(each: Measure) -> tuple[Lane, ...]:
    return tuple(
        Lane(
            number,
            value,
            said(each.metric, value),
            None if (interval := each.intervals[number]) is None else (interval.low, interval.high),
            bar=True,
        )
        for number, value in enumerate(each.values[:MOST])
        if value is not None
    )


def _parts(each: Measure) -> tuple[Lane, ...]:
    """Without intervals: they would be of another denominator. What is infinite has no bar."""
    known = [value for value in each.values if value is not None and np.isfinite(value)]
    most = max(known, default=0.0)
    return tuple(
        Lane(number, value / most, said(each.metric, value), bar=True)
        for number, value in enumerate(each.values[:MOST])
        if value is not None and np.isfinite(value) and most
    )


def _summary(
    work: Work, name: str, title: str, below: str, measures: Sequence[Measure], groups: Sequence[Group]
) -> Picture:
    rows = [
        (each.metric.title, *(said(each.metric, *both) for both in zip(each.values, each.intervals, strict=True)))
        for each in measures
    ]
    groups = [one for one in groups if one.lanes]
    return _picture(work, name, title, below, groups=groups, rows=rows, axis=_PERCENTAGES)


def _picture(
    work: Work, name: str, title: str, below: str, *, groups: Sequence[Group], rows: Any, axis: Axis
) -> Picture:
    return lanes_picture(
        name,
        title,
        names=work.names,
        groups=groups,
        axis=axis,
        alternative=f"{title}. {lanes_in_words(work.names, groups)}",
        below=below,
        label="" if name.startswith("summary") else work.noun,
        rows=rows,
    )
