"""Each metric summarised per agent over all cases: rates, scores and amounts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from abreast.analyse.rows import Floats, mean_of_known
from abreast.analyse.variants import mean_score, quantiles
from abreast.stats import Interval, paired_t
from abreast.stats.numerics.arrays import ROUNDING
from abreast.suites.coding_agents.report.run_table import LINES, RESPONSE_TIME, Metric, RunTable

LEAST = 5  # cases that an interval of an amount needs
SOLVED = "cost_per_solved_usd"
OWN = ("peak_memory_max_mb", SOLVED)  # amounts over each agent's own cases


class MetricSummary(NamedTuple):
    """A value of the metric for each agent, in the order of the run; None if unknown."""

    metric: Metric
    values: tuple[float | None, ...]
    intervals: tuple[Interval | None, ...]


def summaries_of(table: RunTable) -> list[MetricSummary]:
    summaries = [summary for metric in table.metrics for summary in _of_metric(table, metric)]
    return [summary for summary in summaries if any(value is not None for value in summary.values)]


def _of_metric(table: RunTable, metric: Metric) -> Iterator[MetricSummary]:
    if metric.name == RESPONSE_TIME:
        yield from _times(table, metric)
    elif metric.is_share:
        yield _share(table, metric)
    elif metric.name != LINES:  # its parts have summaries of their own
        yield _amount(table, metric)
    if metric.name == "cost_usd":
        yield _per_solved(table, metric)
    if metric.name == "peak_memory_mb":
        known_values = [metric.values[table.of(agent) & ~np.isnan(metric.values)] for agent in table.variants]
        largest = [float(values.max()) if len(values) else None for values in known_values]
        renamed = metric._replace(name="peak_memory_max_mb", title="peak memory, largest")
        yield MetricSummary(renamed, tuple(largest), (None,) * len(largest))


def _share(table: RunTable, metric: Metric) -> MetricSummary:
    """Average over all cases, with repeats averaged first; an agent that always failed has rates, but no scores."""
    is_rate = metric.name.endswith("_rate")
    means = tuple(
        None if variant.all_failed and not is_rate else mean_score(table.rows, table.of(agent), metric.values)
        for agent, variant in enumerate(table.analysis.variants)
    )
    return MetricSummary(metric, tuple(None if mean is None else mean.estimate for mean in means), means)


def _amount(table: RunTable, metric: Metric) -> MetricSummary:
    """Average over the cases where all agents have a value, else over each agent's own; repeats are averaged first."""
    by_agent, shared = [table.of_cases(agent, metric.values) for agent in table.variants], table.shared(metric.values)
    compared = [np.where(shared, cases, np.nan) if shared.any() else cases for cases in by_agent]
    intervals = tuple(_interval(table, cases) for cases in compared)
    return MetricSummary(metric, tuple(map(mean_of_known, compared)), intervals)


def _interval(table: RunTable, cases: Floats) -> Interval | None:
    """Return the interval of the mean over cases, if there are enough that differ."""
    known_cases = np.flatnonzero(~np.isnan(cases))
    groups = table.rows.groups(known_cases)
    if len(known_cases if groups is None else set(groups)) < LEAST:
        return None
    interval = paired_t(cases[known_cases], groups=groups)
    is_constant = interval.high - interval.low < ROUNDING
    return None if is_constant else Interval(interval.estimate, max(0.0, interval.low), interval.high)


def _times(table: RunTable, metric: Metric) -> Iterator[MetricSummary]:
    """Yield quantiles over single runs, on the same cases as every amount."""
    shared = table.shared(metric.values)
    usable = shared[table.rows.case] if shared.any() else np.ones(len(table.rows.case), dtype=bool)
    by_agent = [quantiles(metric.values[table.of(agent) & usable]) for agent in table.variants]
    for name, quantile in (("median", "p50"), ("p95", "p95")):
        renamed = metric._replace(name=f"response_time_{name}_s", title=f"response time, {name}")
        yield MetricSummary(renamed, tuple(times.get(quantile) for times in by_agent), (None,) * len(by_agent))


def _per_solved(table: RunTable, metric: Metric) -> MetricSummary:
    scores = table.rows.score[~np.isnan(table.rows.score)]
    title = "cost per solved task" if np.isin(scores, (0.0, 1.0)).all() else "cost per point of score"
    costs = [variant.cost_per_correct for variant in table.analysis.variants]
    finite = tuple(cost if cost and math.isfinite(cost.estimate + cost.high) else None for cost in costs)
    return MetricSummary(metric._replace(name=SOLVED, title=title), table.costs_per_correct(), finite)
