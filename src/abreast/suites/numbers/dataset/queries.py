"""The catalogue of queries. Each says what it asks, what is right, and how an answer is read.

A truth is computed by numpy and scipy on the very numbers that are shown. Where those numbers do not decide a query (a
direction on the edge between flat and rising, a skewness of a constant), there is no truth, and so there is no case.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

import numpy as np
from scipy import stats

from abreast.scorers import Scorer, build
from abreast.suites.numbers.dataset import anomalies
from abreast.suites.numbers.dataset.series import Columns, Values

Kind = Literal["number", "class", "positions"]
Unit = Literal["plain", "count", "percent", "share"]
Level = Literal["easy", "medium", "hard"]
LEVELS: tuple[Level, ...] = ("easy", "medium", "hard")
LARGE = 1000  # points from which on a query is one level harder

AHEAD = 10  # steps of a forecast
CLEAR, VAGUE = 0.5, 0.3  # correlation with time: from here on a direction; up to here none
STRONG, WEAK, EDGE = 0.8, 0.4, 0.03  # the same for how strong it is, and how near to a border is too near
SKEWED, EVEN = 0.5, 0.3  # skewness: from here on skewed; up to here symmetric
TOGETHER, APART = 0.5, 0.3  # correlation of two series: from here on; up to here none
HUMID = 60  # percent
GAP = 0.02  # by which two figures must differ, of the larger, for one to be the higher


@dataclass(frozen=True, slots=True)
class Query:
    """One question about a series. `truth` gives what is right, or None if the numbers do not decide it."""

    name: str
    question: str
    truth: Callable[[Columns], Any]
    level: Level
    kind: Kind = "number"
    rel: float = 0.01
    abs: float = 0.0
    classes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # with what else they are called
    unit: Unit = "plain"  # of a number: whether "80 %" means 80, 0.8 or nothing, and "none" means 0

    @property
    def choices(self) -> list[str]:
        return list(self.classes)

    def difficulty(self, size: int) -> Level:
        """Its own level, and one more for a large series."""
        return LEVELS[min(2, LEVELS.index(self.level) + (size >= LARGE))]

    def within(self, found: float, right: float, times: float = 1.0) -> bool:
        """Whether a number is right, by this query's tolerance or so many times that."""
        return abs(found - right) <= times * max(self.abs, self.rel * abs(right)) + 1e-12


@cache
def scorer_of(name: str) -> Scorer:
    """The foundation's scorer that reads the answers to a query."""
    query = QUERIES[name]
    if query.kind == "number":
        return build("number", {"rel": query.rel, "abs": query.abs + 1e-12})
    if query.kind == "class":
        return build("label", {"classes": {each: list(words) for each, words in query.classes.items()}})
    return build("set", {})


# -- figures ----------------------------------------------------------------------------------------------------------


def present(values: Values) -> Values:
    """Without what is missing."""
    found: Values = values[np.isfinite(values)]
    return found


def _only(columns: Columns) -> Values:
    """The series asked about: the only one, or the closing prices."""
    return columns["close"] if "close" in columns else next(iter(columns.values()))


def _of_values(figure: Callable[[Values], Any]) -> Callable[[Columns], float | None]:
    """A figure of the values that are present; None if it is no finite number."""

    def truth(columns: Columns) -> float | None:
        values = present(_only(columns))
        return _finite(figure(values)) if len(values) >= 2 else None

    return truth


def _finite(value: Any) -> float | None:
    number = float(value)
    return float(f"{number:.10g}") + 0.0 if math.isfinite(number) else None


def _percentile(share: float) -> Callable[[Values], float]:
    return lambda values: float(np.percentile(values, share))


def _iqr(values: Values) -> float:
    low, high = np.percentile(values, [25, 75])
    return float(high - low)


def _skewness(values: Values) -> float:
    return float(stats.skew(values)) if np.ptp(values) > 0 else math.nan


def _ratio(above: float, below: float) -> float:
    return above / below if below else math.nan


def _over_time(values: Values) -> tuple[float, float, float]:
    """Slope, intercept and correlation of a least squares line over the positions; what is missing is left out."""
    there = np.isfinite(values)
    at = np.arange(len(values))[there]
    if np.ptp(values[there]) == 0:
        return 0.0, float(values[there][0]), 0.0
    fit = stats.linregress(at, values[there])
    return float(fit.slope), float(fit.intercept), float(fit.rvalue)


def _slope(columns: Columns) -> float | None:
    slope, _, correlation = _over_time(_only(columns))
    return _finite(slope) if abs(correlation) >= CLEAR else None


def _forecast(columns: Columns) -> float | None:
    values = _only(columns)
    slope, intercept, _ = _over_time(values)
    return _finite(intercept + slope * (len(values) - 1 + AHEAD))


# -- classes ----------------------------------------------------------------------------------------------------------


def direction_of(correlation: float) -> str | None:
    """The direction of a series with this correlation of value and position; None if it is not clear."""
    if abs(correlation) <= VAGUE:
        return "flat"
    return None if abs(correlation) < CLEAR else "rising" if correlation > 0 else "falling"


def strength_of(correlation: float) -> str | None:
    """The strength of a trend with this correlation of value and position; None near a border."""
    size = abs(correlation)
    if min(abs(size - STRONG), abs(size - WEAK)) < EDGE:
        return None
    return "strong" if size > STRONG else "moderate" if size > WEAK else "weak"


def shape_of(skewness: float) -> str | None:
    """The shape of a distribution with this skewness; None if it is not clear."""
    if math.isnan(skewness):
        return None
    if abs(skewness) <= EVEN:
        return "symmetric"
    return None if abs(skewness) < SKEWED else "right-skewed" if skewness > 0 else "left-skewed"


def relation_of(correlation: float) -> str | None:
    """How two series with this correlation are related; None if it is not clear."""
    if abs(correlation) <= APART:
        return "none"
    return None if abs(correlation) < TOGETHER else "positive" if correlation > 0 else "negative"


def _direction(columns: Columns) -> str | None:
    return direction_of(_over_time(_only(columns))[2])


def _strength(columns: Columns) -> str | None:
    return strength_of(_over_time(_only(columns))[2])


def _shape(columns: Columns) -> str | None:
    return shape_of(_skewness(present(_only(columns))))


def _higher(figure: Callable[[Values], float]) -> Callable[[Columns], str | None]:
    """A or B, whichever has more of a figure; None if that is too close to call, or there are not two."""

    def truth(columns: Columns) -> str | None:
        if set(columns) != {"A", "B"}:
            return None
        one, other = (figure(columns[name]) for name in ("A", "B"))
        if not abs(one - other) > GAP * max(abs(one), abs(other)):
            return None
        return "A" if one > other else "B"

    return truth


def _correlation(columns: Columns) -> str | None:
    if set(columns) != {"A", "B"}:
        return None
    there = np.isfinite(columns["A"]) & np.isfinite(columns["B"])
    one, other = columns["A"][there], columns["B"][there]
    if len(one) < 3 or not np.ptp(one) or not np.ptp(other):
        return None
    return relation_of(float(np.corrcoef(one, other)[0, 1]))


# -- anomalies --------------------------------------------------------------------------------------------------------


def _found(columns: Columns) -> list[anomalies.Anomaly]:
    return anomalies.find(_only(columns))


def _presence(columns: Columns) -> str:
    return "yes" if _found(columns) else "no"


def _locations(columns: Columns) -> list[int] | None:
    return [each.position for each in _found(columns)] or None


def _type(columns: Columns) -> str | None:
    kinds = {each.kind for each in _found(columns)}
    return kinds.pop() if len(kinds) == 1 else None


# -- prices -----------------------------------------------------------------------------------------------------------


def _of_prices(figure: Callable[[Columns], Any]) -> Callable[[Columns], float | None]:
    def truth(columns: Columns) -> float | None:
        if not {"open", "close", "volume"} <= set(columns):
            return None
        enough = min(len(present(values)) for values in columns.values()) >= 2
        return _finite(figure(columns)) if enough else None

    return truth


def _return(columns: Columns) -> float:
    """Of the first open and the last close that are there, whatever else is missing on those days."""
    first, last = float(present(columns["open"])[0]), float(present(columns["close"])[-1])
    return 100 * _ratio(last - first, first)


def _vwap(columns: Columns) -> float:
    """Of the days that have both."""
    both = np.isfinite(columns["close"]) & np.isfinite(columns["volume"])
    close, volume = columns["close"][both], columns["volume"][both]
    return _ratio(float(np.sum(close * volume)), float(np.sum(volume)))


def _drawdown(columns: Columns) -> float:
    close = present(columns["close"])
    return float(100 * np.max(1 - close / np.maximum.accumulate(close)))


# -- order books, portfolios, sensors ---------------------------------------------------------------------------------


def _of_columns(names: str, figure: Callable[..., float]) -> Callable[[Columns], float | None]:
    """A figure of these columns; None if they are not there."""
    wanted = names.split()

    def truth(columns: Columns) -> float | None:
        if not set(wanted) <= set(columns) or min(len(present(columns[name])) for name in wanted) < 2:
            return None
        return _finite(figure(*(columns[name] for name in wanted)))

    return truth


def spread_percent(best_bid: float, best_ask: float) -> float:
    """The gap between the best prices in percent of the price half way between them."""
    return 100 * _ratio(best_ask - best_bid, (best_ask + best_bid) / 2) if best_ask > best_bid else math.nan


def imbalance(to_buy: float, to_sell: float) -> float:
    """By how much more is wanted than offered, in percent of both."""
    return 100 * _ratio(to_buy - to_sell, to_buy + to_sell)


def _portfolio_return(*assets: Values) -> float:
    return 100 * float(np.mean([_ratio(present(prices)[-1], present(prices)[0]) - 1 for prices in assets]))


def _humid_mean(temperature: Values, humidity: Values) -> float:
    there = np.isfinite(temperature) & (np.nan_to_num(humidity) > HUMID)
    return float(np.mean(temperature[there])) if there.any() else math.nan


# -- the catalogue ----------------------------------------------------------------------------------------------------


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split(", "))


def _tails(side: str) -> tuple[str, ...]:
    """How a longer tail on one side is described."""
    tails = (f"{size} {side} tail" for size in ("long", "longer", "heavy", "heavier", "extended"))
    ends = (f"tail {where}" for where in (f"to the {side}", f"on the {side}", f"stretching to the {side}"))
    return (
        f"{side} skewed",
        f"skewed to the {side}",
        f"skewed {side}",
        f"{side} skew",
        f"{side}-tailed",
        *tails,
        *ends,
    )


_ANOMALOUS = _words("anomaly, anomalies, anomalous, outlier, outliers, unusual, out of the ordinary")
_EITHER: dict[str, tuple[str, ...]] = {"A": (), "B": ()}  # read by what is said of them
_YES = {
    "yes": (*_words("yep, yeah, true, present, definitely, certainly, absolutely, ja, oui, sí"), *_ANOMALOUS),
    "no": (
        *_words(
            "nope, false, none, absent, not present, nein, definitely not, certainly not, absolutely not, probably not"
        ),
        *(f"no {word}" for word in _ANOMALOUS),
    ),
}
_DIRECTIONS = {
    "rising": _words(
        "rise, rises, increasing, increase, increases, upward, upwards, up, uphill, growing, growth, grows, climbing, "
        "climbs, ascending, uptrend"
    ),
    "falling": _words(
        "fall, falls, decreasing, decrease, decreases, downward, downwards, down, downhill, declining, decline, "
        "declines, descending, sinking, sinks, downtrend"
    ),
    "flat": _words("stationary, stable, no trend, constant, unchanged, sideways"),
}
_SHAPES = {
    "right-skewed": (
        *_words("positively skewed, positive skew, skew is positive, skewness is positive"),
        *_tails("right"),
    ),
    "left-skewed": (
        *_words("negatively skewed, negative skew, skew is negative, skewness is negative"),
        *_tails("left"),
    ),
    "symmetric": ("symmetrical", "normal", "normally distributed", "not skewed"),
}
_TOGETHER = {
    "positive": _words(
        "positively, positively correlated, strong positive, move together, moves together, in tandem, in step, "
        "same direction"
    ),
    "negative": _words(
        "negatively, negatively correlated, strong negative, inverse, inversely, anticorrelated, anti-correlated, "
        "opposite directions"
    ),
    "none": _words(
        "uncorrelated, not correlated, no correlation, no relationship, unrelated, independent, nothing to do with"
    ),
}
_TYPES = {
    "spike": ("spikes", "upward spike", "upward spikes"),
    "drop": ("drops", "dip", "dips", "downward spike", "downward spikes"),
    "level shift": ("level shifts", "level_shift", "shift", "step change", "shift in level", "regime change"),
}
MARKED = "An anomaly is what somebody who knows the recording has marked as one."
ANOMALY = (
    "An anomaly is a value far outside its neighbours (more than 7 robust standard deviations), or the place where "
    "the level changes for good."
)

QUERIES: dict[str, Query] = {
    query.name: query
    for query in (
        # statistical, scaling: within 1 %
        Query("mean", "What is the mean?", _of_values(np.mean), "medium"),
        Query("median", "What is the median?", _of_values(np.median), "medium"),
        Query(
            "std",
            "What is the sample standard deviation (with n - 1)?",
            _of_values(lambda values: np.std(values, ddof=1)),
            "hard",
        ),
        Query("min", "What is the smallest value?", _of_values(np.min), "easy"),
        Query("max", "What is the largest value?", _of_values(np.max), "easy"),
        Query("p25", "What is the 25th percentile (linear interpolation)?", _of_values(_percentile(25)), "hard"),
        Query("p75", "What is the 75th percentile (linear interpolation)?", _of_values(_percentile(75)), "hard"),
        Query("p95", "What is the 95th percentile (linear interpolation)?", _of_values(_percentile(95)), "hard"),
        Query("iqr", "What is the interquartile range (75th minus 25th percentile)?", _of_values(_iqr), "hard"),
        Query("range", "What is the range (largest minus smallest value)?", _of_values(np.ptp), "easy"),
        Query("skewness", "What is the skewness (population)?", _of_values(_skewness), "hard", abs=0.02),
        Query("count", "How many values are there?", _of_values(len), "easy", unit="count"),
        Query(
            "shape",
            "Is the distribution right-skewed, left-skewed or symmetric?",
            _shape,
            "medium",
            "class",
            classes=_SHAPES,
        ),
        # trend
        Query(
            "direction",
            f"Over the whole series, is the trend rising, falling or flat? Flat means an absolute correlation with "
            f"the position of at most {VAGUE}.",
            _direction,
            "easy",
            "class",
            classes=_DIRECTIONS,
        ),
        Query(
            "strength",
            f"How strong is the linear trend: strong (absolute correlation of value and position above {STRONG}), "
            f"moderate (above {WEAK}) or weak?",
            _strength,
            "medium",
            "class",
            classes={"strong": (), "moderate": ("medium", "moderately strong"), "weak": ("no trend", "very weak")},
        ),
        Query("slope", "What is the slope of the least squares line, per position?", _slope, "hard", rel=0.2),
        # anomaly
        Query("presence", f"Are there anomalies? {ANOMALY}", _presence, "easy", "class", classes=_YES),
        Query(
            "anomalies",
            f"How many anomalies are there? {ANOMALY} A change of level counts once.",
            lambda columns: len(_found(columns)),
            "medium",
            rel=0.0,
            unit="count",
        ),
        Query(
            "locations",
            f"At which positions are the anomalies, counting from 0? {ANOMALY} Give the positions, separated by "
            f"commas; of a change of level the first position at the new level.",
            _locations,
            "hard",
            "positions",
        ),
        Query(
            "type",
            f"Of what kind are the anomalies: spike, drop or level shift? {ANOMALY}",
            _type,
            "medium",
            "class",
            classes=_TYPES,
        ),
        # comparative
        Query(
            "higher_mean",
            "Which series has the higher mean, A or B?",
            _higher(lambda values: float(np.mean(present(values)))),
            "easy",
            "class",
            classes=_EITHER,
        ),
        Query(
            "more_volatile",
            "Which series has the larger standard deviation, A or B?",
            _higher(lambda values: float(np.std(present(values)))),
            "medium",
            "class",
            classes=_EITHER,
        ),
        Query(
            "stronger_trend",
            "Which series has the stronger linear trend (the larger absolute correlation with the position), A or B?",
            _higher(lambda values: abs(_over_time(values)[2])),
            "medium",
            "class",
            classes=_EITHER,
        ),
        Query(
            "correlation",
            f"How are A and B correlated: positive (above {TOGETHER}), negative (below -{TOGETHER}) or none?",
            _correlation,
            "hard",
            "class",
            classes=_TOGETHER,
        ),
        # multi_step: within 5 %
        Query(
            "forecast",
            f"Extend the least squares line: what is its value {AHEAD} positions after the last one?",
            _forecast,
            "hard",
            rel=0.05,
        ),
        Query(
            "z_of_max",
            "How many sample standard deviations does the largest value lie above the mean?",
            _of_values(lambda values: _ratio(float(np.max(values) - np.mean(values)), float(np.std(values, ddof=1)))),
            "hard",
            rel=0.05,
        ),
        Query(
            "variation",
            "What is the coefficient of variation in percent (100 × sample standard deviation / mean)?",
            _of_values(lambda values: 100 * _ratio(float(np.std(values, ddof=1)), float(np.mean(values)))),
            "hard",
            rel=0.05,
            unit="percent",
        ),
        Query(
            "range_percent",
            "How large is the range in percent of the mean (100 × (largest - smallest) / mean)?",
            _of_values(lambda values: 100 * _ratio(float(np.ptp(values)), float(np.mean(values)))),
            "medium",
            rel=0.05,
            unit="percent",
        ),
        Query(
            "normalised_max",
            "What is the largest value divided by the mean?",
            _of_values(lambda values: _ratio(float(np.max(values)), float(np.mean(values)))),
            "medium",
            rel=0.05,
        ),
        Query(
            "return_percent",
            "What is the return in percent from the first open to the last close?",
            _of_prices(_return),
            "medium",
            rel=0.05,
            unit="percent",
        ),
        Query("vwap", "What is the mean closing price weighted by volume?", _of_prices(_vwap), "hard", rel=0.05),
        Query(
            "drawdown",
            "What is the largest fall of the closing price from an earlier highest close, in percent of that close?",
            _of_prices(_drawdown),
            "hard",
            rel=0.05,
            unit="percent",
        ),
        Query(
            "spread_percent",
            "How large is the gap between the lowest ask and the highest bid, in percent of the price half way?",
            _of_columns("bid ask", lambda bid, ask: spread_percent(float(np.nanmax(bid)), float(np.nanmin(ask)))),
            "medium",
            rel=0.05,
        ),
        Query(
            "imbalance",
            "What is the imbalance in percent: 100 × (all bid sizes - all ask sizes) / (sum of both)?",
            _of_columns("bid_size ask_size", lambda bid, ask: imbalance(float(np.nansum(bid)), float(np.nansum(ask)))),
            "hard",
            rel=0.05,
            abs=0.1,
        ),
        Query(
            "portfolio_return",
            "Equal amounts of stocks, bonds and gold are bought at the first prices and kept to the last: what is the "
            "return in percent?",
            _of_columns("stocks bonds gold", _portfolio_return),
            "hard",
            rel=0.05,
            abs=0.05,
        ),
        Query(
            "humid_mean",
            f"What is the mean temperature of the readings with a humidity above {HUMID}?",
            _of_columns("temperature humidity", _humid_mean),
            "hard",
            rel=0.01,
        ),
    )
}


def quantities(columns: Columns) -> list[tuple[str, float]]:
    """Every number that the catalogue has for these columns, each column taken by itself as well, with its query."""
    found: list[tuple[str, float]] = []
    for part in [columns, *({name: values} for name, values in columns.items() if len(columns) > 1)]:
        for query in QUERIES.values():
            if query.kind == "number":
                value = query.truth(part)
                if value is not None:
                    found.append((query.name, float(value)))
    return found


VALUES = ("min", "max", "median", "p25", "p75", "p95")  # queries whose answer is, or may be, a value of the data
_NAMES = {  # what a reply calls the answer to a query
    "mean": "mean|average",
    "median": "median|middle value",
    "std": "standard deviation|std|sigma",
    "min": "min|minimum|smallest|lowest",
    "max": "max|maximum|largest|highest",
    "p25": "p25|25th percentile|first quartile|lower quartile",
    "p75": "p75|75th percentile|third quartile|upper quartile",
    "p95": "p95|95th percentile",
    "iqr": "iqr|interquartile range",
    "range": "range",
    "skewness": "skewness|skew",
    "count": "count|number of (?:values|points)|n",
    "slope": "slope",
    "anomalies": "anomalies|anomaly|outliers?",
    "forecast": "forecast|prediction|extrapolation",
    "z_of_max": "z-score",
    "variation": "coefficient of variation|cv",
    "range_percent": "range in percent|range / mean",
    "normalised_max": "max / mean",
    "return_percent": "return",
    "vwap": "vwap|weighted mean|weighted average",
    "drawdown": "drawdown",
    "spread_percent": "spread",
    "imbalance": "imbalance",
    "portfolio_return": "return",
    "humid_mean": "humid",
}


def is_named(name: str, reply: str) -> bool:
    """Tell whether a reply mentions the statistic that a query asks for.

    >>> is_named("median", "Answer: 48\\nReasoning: I took the median."), is_named("std", "Answer: 48")
    (True, False)
    """
    return re.search(rf"\b(?:{_NAMES[name]})\b", reply, re.IGNORECASE) is not None
