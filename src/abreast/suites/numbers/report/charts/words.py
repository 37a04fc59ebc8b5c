"""Figures in words, as tables and pictures of the suite say them."""

from __future__ import annotations

from abreast.report.words.variant_figures import NOTHING
from abreast.stats import Interval
from abreast.suites.numbers.report.figures import Share


def percent(value: float) -> str:
    """
    >>> percent(0.9333), percent(1.0)
    ('93.3 %', '100.0 %')
    """
    return f"{value * 100:.1f} %"


def with_ends(score: Interval | None) -> str:
    """`93.3 % (78.7 … 98.2)`."""
    return NOTHING if score is None else f"{percent(score.estimate)} ({score.low * 100:.1f} … {score.high * 100:.1f})"


def with_count(share: Share) -> str:
    """`93.3 % (30)`: the share, and of how many trials."""
    return NOTHING if share.of is None else f"{percent(share.of.estimate)} ({share.trials:,})"


def plain(value: float | None, digits: int = 0) -> str:
    """A number, or that it is not known.

    >>> plain(1234.5), plain(0.456, 2), plain(None)
    ('1,234', '0.46', '–')
    """
    return NOTHING if value is None else f"{value:,.{digits}f}"
