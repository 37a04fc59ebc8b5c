"""Figures in words, as the tables and pictures of the suite say them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from abreast.report.words.variant_figures import NOTHING, dollars, seconds
from abreast.stats import Interval
from abreast.suites.coding_agents.report.work import Kind, Metric


def count(value: float) -> str:
    """A mean of counts, as exact as it is worth.

    >>> count(3.0), count(0.25), count(1234.5)
    ('3', '0.25', '1,234')
    """
    digits = 0 if value >= 100 or value == int(value) else 1 if value >= 10 else 2
    return f"{value:,.{digits}f}"


_WRITTEN: Mapping[Kind, Callable[[float], str]] = {
    "share": lambda value: f"{value * 100:.1f} %",
    "rating": lambda value: f"{value:.1f}",
    "seconds": seconds,
    "count": count,
    "tokens": lambda value: f"{value:,.0f}",
    "dollars": dollars,
    "megabytes": lambda value: f"{value:,.0f} MB",
}


def said(metric: Metric, value: float | None, interval: Interval | None = None) -> str:
    """A figure as it is stored, with its interval: `93.3 % (79 … 98)`, `7.4 (6.1 … 8.3)`, `410 ms (380 … 440)`."""
    if value is None:
        return NOTHING
    told = written(metric, value)
    if interval is None:
        return told
    low, high = (_end(metric, end) for end in (interval.low, interval.high))
    unit = told[told.rindex(" ") :] if " " in told else ""
    if low.endswith(unit) and high.endswith(unit):  # it is said once
        low, high = low.removesuffix(unit), high.removesuffix(unit)
    return f"{told} ({low} … {high})"


def written(metric: Metric, value: float) -> str:
    return _WRITTEN[metric.kind](metric.on_scale(value))


def _end(metric: Metric, value: float) -> str:
    """Of an interval: no more exact than it is worth."""
    return f"{value * 100:.0f} %" if metric.kind == "share" else written(metric, value)


def mean_change(files: float | None, added: float | None, deleted: float | None) -> str:
    """`+31 −4 (2)`: lines added and deleted, and files changed."""
    if files is None:
        return NOTHING
    lines = "" if added is None or deleted is None else f"+{_brief(added)} −{_brief(deleted)} "
    return f"{lines}({_brief(files)})"


def _brief(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.1f}"
