"""Bar charts of means over runs: one per metric with a group for each prompt, and summaries over all prompts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from abreast.analyse.rows import Floats
from abreast.report.charts.drawing import Picture
from abreast.report.charts.lanes import MOST, Group, Lane
from abreast.report.words.variant_figures import count as short
from abreast.stats import Interval, paired_t, wilson
from abreast.stats.numerics.arrays import ROUNDING
from abreast.suites.coding_agents.report.run_table import Metric, RunTable
from abreast.suites.coding_agents.report.summaries import MetricSummary, summaries_of
from abreast.suites.pictures import lane_groups, lanes_in_words, lanes_picture

GROUPS = 10  # prompts in one picture
METRICS = 16  # metrics with a picture of their own among the result files
LEAST_RUNS = 3  # runs of one agent at one prompt that an interval needs
Axis = tuple[float, Callable[[float], str]]  # its end, and the format of its ticks
_PERCENTAGES: Axis = (1.0, lambda at: f"{at:.0%}")
_NOT_DRAWN = ("lines_added", "lines_deleted")  # their sum is drawn
_Mean = tuple[float, Interval | None]


def of_metrics(table: RunTable, *metrics: Metric | None) -> tuple[Picture, ...]:
    pictures = (_by_prompt(table, metric) for metric in metrics if metric is not None)
    return tuple(picture for picture in pictures if picture is not None)


def result_pictures(table: RunTable) -> list[Picture]:
    drawn = [metric for metric in table.metrics if metric.name not in _NOT_DRAWN][:METRICS]
    return [*summary_pictures(table), *of_metrics(table, *drawn)]


def _by_prompt(table: RunTable, metric: Metric) -> Picture | None:
    """Bars of one metric for each prompt; None if nothing is known."""
    all_means = {case: [_mean(table, metric, case, agent) for agent in table.variants] for case in table.rows.cases}
    means = {case: all_means[case] for case in sorted(all_means) if any(all_means[case])}
    if not means:
        return None
    drawn = sorted(sorted(means, key=lambda case: -_spread(means[case]))[:GROUPS])
    ids = {case: table.rows.cases[case].id for case in means}
    groups = lane_groups(((ids[case], means[case]) for case in drawn), lambda agent, mean: _bar(metric, agent, mean))
    total = f"the {len(drawn)} of {len(means):,} {table.noun}s that differ most; " if len(drawn) < len(means) else ""
    note = "a failure counts 0" if metric.is_share else "completed runs"
    whiskers = "; lines: 95 % intervals" if any(lane.ends for group in groups for lane in group.lanes) else ""
    return _picture(
        table,
        metric.name,
        f"{metric.title.capitalize()} by {table.noun}",
        f"{total}mean of runs, {note}{whiskers}",
        groups=groups,
        rows=[(ids[case], *(metric.in_words(*(mean or (None,))) for mean in means[case])) for case in means],
        axis=_axis(metric, groups),
    )


def _mean(table: RunTable, metric: Metric, case: int, agent: int) -> _Mean | None:
    known_values = metric.values[table.of(agent) & (table.rows.case == case) & ~np.isnan(metric.values)]
    return (float(known_values.mean()), _interval(metric, known_values)) if len(known_values) else None


def _interval(metric: Metric, runs: Floats) -> Interval | None:
    """Return the interval of a mean over runs; None if there are too few, or all are equal without being 0 or 1."""
    if len(runs) < LEAST_RUNS:
        return None
    if metric.is_share and np.isin(runs, (0.0, 1.0)).all():
        return wilson(float(runs.sum()), len(runs))
    interval = paired_t(runs)
    if interval.high - interval.low < ROUNDING:
        return None
    high = min(1.0, interval.high) if metric.is_share else interval.high
    return Interval(interval.estimate, max(0.0, interval.low), high)


def _spread(means: Sequence[_Mean | None]) -> float:
    values = [mean[0] for mean in means[:MOST] if mean is not None]
    return max(values) - min(values) if values else 0.0


def _bar(metric: Metric, agent: int, mean: _Mean) -> Lane:
    """Return a bar on the displayed scale; it starts at 0 for ratings too, so that lengths can be compared."""
    value, interval = mean
    ends = None if interval is None else (metric.on_scale(interval.low), metric.on_scale(interval.high))
    return Lane(agent, metric.on_scale(value), metric.in_words(value), ends, bar=True)


def _axis(metric: Metric, groups: Sequence[Group]) -> Axis:
    if metric.kind == "share":
        return _PERCENTAGES
    if metric.scale is not None:
        return metric.scale[1], lambda at: f"{at:g}"
    most = max(max((lane.value, *(lane.ends or ()))) for group in groups for lane in group.lanes)
    high = most if most > 0 else 1.0
    units = {"seconds": lambda at: f"{at:g} s", "dollars": lambda at: f"${at:g}", "megabytes": lambda at: f"{at:g} MB"}
    return high, units.get(metric.kind, lambda at: short(round(at)) if high >= 10 else f"{at:g}")


def summary_pictures(table: RunTable) -> list[Picture]:
    """Return a picture of all rates and scores, and one of amounts relative to the largest."""
    summaries, pictures = summaries_of(table), []
    if shares := [summary for summary in summaries if summary.metric.is_share]:
        below = f"means over all {table.noun}s; lines across: 95 % intervals; ratings from worst to best"
        pictures.append(_summary(table, "summary", "Rates and scores", below, shares))
    if amounts := [summary for summary in summaries if not summary.metric.is_share and any(summary.values)]:
        below = "relative to the agent with the largest value"
        pictures.append(_summary(table, "summary_amounts", "Resource use", below, amounts))
    return pictures


def _summary(table: RunTable, name: str, title: str, below: str, summaries: Sequence[MetricSummary]) -> Picture:
    titles = [summary.metric.title for summary in summaries]
    words = [tuple(map(summary.metric.in_words, summary.values, summary.intervals)) for summary in summaries]
    rows = [(title, *cells) for title, cells in zip(titles, words, strict=True)]
    groups = lane_groups(zip(titles, map(_summary_bars, summaries), strict=True), lambda agent, lane: lane)
    return _picture(table, name, title, below, groups=groups, rows=rows, axis=_PERCENTAGES)


def _summary_bars(summary: MetricSummary) -> list[Lane | None]:
    """Bars of finite values. Amounts have no intervals, whose denominator would be another."""
    metric = summary.metric
    finite = [value for value in summary.values if value is not None and np.isfinite(value)]
    largest = 1.0 if metric.is_share else max(finite, default=0.0)
    bars: list[Lane | None] = []
    for agent, (value, interval) in enumerate(zip(summary.values, summary.intervals, strict=True)):
        if value is None or not np.isfinite(value) or not largest:
            bars.append(None)
            continue
        ends = (interval.low, interval.high) if interval is not None and metric.is_share else None
        bars.append(Lane(agent, value / largest, metric.in_words(value), ends, bar=True))
    return bars


def _picture(
    table: RunTable, name: str, title: str, below: str, *, groups: Sequence[Group], rows: Any, axis: Axis
) -> Picture:
    return lanes_picture(
        name,
        title,
        names=table.names,
        groups=groups,
        axis=axis,
        alternative=f"{title}. {lanes_in_words(table.names, groups)}",
        below=below,
        label="" if name.startswith("summary") else table.noun,
        rows=rows,
    )
