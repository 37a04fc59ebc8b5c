"""The figures of each agent over all cases: rates and scores, and what its runs took."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from abreast.analyse.rows import Floats, mean_of_known
from abreast.analyse.variants import mean_score, quantiles
from abreast.stats import Interval, paired_t
from abreast.stats.numerics.arrays import ROUNDING
from abreast.suites.coding_agents.report.work import LINES, RESPONSE_TIME, Metric, Work

LEAST = 5  # cases that the interval of an amount needs
SOLVED = "cost_per_solved_usd"
OWN = ("peak_memory_max_mb", SOLVED)  # amounts that are not only of the cases that all have


class Measure(NamedTuple):
    """One figure of all agents, in the order of the run. What is not known is None, never 0."""

    metric: Metric
    values: tuple[float | None, ...]
    intervals: tuple[Interval | None, ...]


class Runs(NamedTuple):
    planned: int
    ok: int
    failed: int  # by its own fault
    infrastructure: int
    skipped: int

    @property
    def not_run(self) -> int:
        return self.planned - self.ok - self.failed - self.infrastructure - self.skipped


def runs_of(work: Work) -> list[Runs]:
    rows = work.rows
    parts = (rows.ok, rows.own_failure, rows.error & ~rows.own_failure, rows.skipped)
    planned = rows.planned_cases * rows.repeats
    return [Runs(planned, *(int((work.of(one) & part).sum()) for part in parts)) for one in work.variants]


def measures_of(work: Work) -> list[Measure]:
    found = [measure for metric in work.metrics for measure in _of_metric(work, metric)]
    return [each for each in found if any(value is not None for value in each.values)]


def _of_metric(work: Work, metric: Metric) -> Iterator[Measure]:
    if metric.name == RESPONSE_TIME:
        yield from _times(work, metric)
    elif metric.is_share:
        yield _share(work, metric)
    elif metric.name != LINES:  # the two of it are there one by one
        yield _amount(work, metric)
    if metric.name == "cost_usd":
        yield _per_solved(work, metric)
    if metric.name == "peak_memory_mb":
        known = [metric.values[work.of(one) & ~np.isnan(metric.values)] for one in work.variants]
        largest = [float(values.max()) if len(values) else None for values in known]
        own = metric._replace(name="peak_memory_max_mb", title="peak memory, largest")
        yield Measure(own, tuple(largest), (None,) * len(largest))


def _share(work: Work, metric: Metric) -> Measure:
    """Over all cases, repeats averaged; of an agent that always failed a score says nothing."""
    is_rate = metric.name.endswith("_rate")
    summaries = work.analysis.variants
    means = tuple(
        None if summaries[one].all_failed and not is_rate else mean_score(work.rows, work.of(one), metric.values)
        for one in work.variants
    )
    return Measure(metric, tuple(None if mean is None else mean.estimate for mean in means), means)


def _amount(work: Work, metric: Metric) -> Measure:
    """The mean over the cases at which all agents have one, repeats averaged; without any, over each one's own."""
    cases, shared = [work.of_cases(one, metric.values) for one in work.variants], work.shared(metric.values)
    kept = [np.where(shared, own, np.nan) if shared.any() else own for own in cases]
    return Measure(metric, tuple(mean_of_known(own) for own in kept), tuple(_around(work, own) for own in kept))


def _around(work: Work, cases: Floats) -> Interval | None:
    """Of the mean over cases, if there are enough that differ."""
    known = ~np.isnan(cases)
    places = np.flatnonzero(known)
    groups = work.rows.groups(places)
    if len(places if groups is None else set(groups)) < LEAST:
        return None
    found = paired_t(cases[places], groups=groups)
    alike = found.high - found.low < ROUNDING
    return None if alike else Interval(found.estimate, max(0.0, found.low), found.high)


def _times(work: Work, metric: Metric) -> Iterator[Measure]:
    """Of single runs, on the same cases as every amount."""
    shared = work.shared(metric.values)
    usable = shared[work.rows.case] if shared.any() else np.ones(len(work.rows.case), dtype=bool)
    each = [quantiles(metric.values[work.of(one) & usable]) for one in work.variants]
    nothing = (None,) * len(each)
    for name, which in (("median", "p50"), ("p95", "p95")):
        own = metric._replace(name=f"response_time_{name}_s", title=f"response time, {name}")
        yield Measure(own, tuple(found.get(which) for found in each), nothing)


def _per_solved(work: Work, metric: Metric) -> Measure:
    known = work.rows.score[~np.isnan(work.rows.score)]
    title = "cost per solved task" if np.isin(known, (0.0, 1.0)).all() else "cost per point of score"
    prices = [summary.cost_per_correct for summary in work.analysis.variants]
    sure = tuple(price if price and math.isfinite(price.estimate + price.high) else None for price in prices)
    return Measure(metric._replace(name=SOLVED, title=title), work.costs_per_correct(), sure)
