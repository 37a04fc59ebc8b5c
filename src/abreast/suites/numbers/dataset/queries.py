"""The catalogue of queries: question, truth, tolerance and classes.

The truth is computed with numpy and scipy from the numbers that are shown. Where they do not decide a query (a trend
between flat and rising, the skewness of a constant), there is no truth and no case.
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
LARGE = 1000  # points that make a query one level harder

AHEAD = 10  # steps of a forecast
CLEAR, VAGUE = 0.5, 0.3  # correlation with time: at least for a direction, at most for none
STRONG, WEAK, EDGE = 0.8, 0.4, 0.03  # bounds of its strength, and the undecided margin around them
SKEWED, EVEN = 0.5, 0.3  # skewness: at least for skewed, at most for symmetric
RELATED, UNRELATED = 0.5, 0.3  # correlation of two series: at least for related, at most for none
HUMID = 60  # percent
GAP = 0.02  # minimum relative difference of two figures


@dataclass(frozen=True, slots=True)
class Query:
    """One question about a series. `truth` returns the right answer, or None if the numbers do not decide it."""

    name: str
    question: str
    truth: Callable[[Columns], Any]
    level: Level
    kind: Kind = "number"
    rel: float = 0.01
    abs: float = 0.0
    classes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # with their synonyms
    unit: Unit = "plain"  # whether "80 %" means 80, 0.8 or nothing, and whether "none" means 0

    @property
    def choices(self) -> list[str]:
        return list(self.classes)

    def difficulty(self, size: int) -> Level:
        return LEVELS[min(2, LEVELS.index(self.level) + (size >= LARGE))]

    def within(self, value: float, right: float, times: float = 1.0) -> bool:
        """Whether a number is right, within `times` the tolerance of this query."""
        return abs(value - right) <= times * max(self.abs, self.rel * abs(right)) + 1e-12


@cache
def scorer_of(name: str) -> Scorer:
    query = QUERIES[name]
    if query.kind == "number":
        return build("number", {"rel": query.rel, "abs": query.abs + 1e-12})
    if query.kind == "class":
        return build("label", {"classes": {name: list(words) for name, words in query.classes.items()}})
    return build("set", {})


def present(values: Values) -> Values:
    finite: Values = values[np.isfinite(values)]
    return finite


def _only(columns: Columns) -> Values:
    """Return the only series, or the closing prices."""
    return columns["close"] if "close" in columns else next(iter(columns.values()))


def _of_values(figure: Callable[[Values], Any]) -> Callable[[Columns], float | None]:
    """Return a function that computes a figure of the present values; None if it is not finite."""

    def truth(columns: Columns) -> float | None:
        values = present(_only(columns))
        return _finite(figure(values)) if len(values) >= 2 else None

    return truth


def _finite(value: Any) -> float | None:
    number = float(value)
    return float(f"{number:.10g}") + 0.0 if math.isfinite(number) else None


def _percentile(share: float) -> Callable[[Values], float]:
    return lambda values: float(np.percentile(values, share))


def _std(values: Values) -> float:
    return float(np.std(values, ddof=1))


def _iqr(values: Values) -> float:
    low, high = np.percentile(values, [25, 75])
    return float(high - low)


def _skewness(values: Values) -> float:
    return float(stats.skew(values)) if np.ptp(values) > 0 else math.nan


def _ratio(above: float, below: float) -> float:
    return above / below if below else math.nan


def _share_of(
    above: Callable[[Values], Any], below: Callable[[Values], Any], times: float = 1
) -> Callable[[Columns], float | None]:
    """Return a function that divides one figure of the values by another, times a factor."""
    return _of_values(lambda values: times * _ratio(float(above(values)), float(below(values))))


def _over_time(values: Values) -> tuple[float, float, float]:
    """Fit a line by least squares over the positions of finite values; return slope, intercept and correlation."""
    is_present = np.isfinite(values)
    at = np.arange(len(values))[is_present]
    if np.ptp(values[is_present]) == 0:
        return 0.0, float(values[is_present][0]), 0.0
    fit = stats.linregress(at, values[is_present])
    return float(fit.slope), float(fit.intercept), float(fit.rvalue)


def _slope(columns: Columns) -> float | None:
    slope, _, correlation = _over_time(_only(columns))
    return _finite(slope) if abs(correlation) >= CLEAR else None


def _forecast(columns: Columns) -> float | None:
    values = _only(columns)
    slope, intercept, _ = _over_time(values)
    return _finite(intercept + slope * (len(values) - 1 + AHEAD))


def direction_of(correlation: float) -> str | None:
    """Return the direction of a series with this correlation of value and position; None if it is unclear."""
    if abs(correlation) <= VAGUE:
        return "flat"
    return None if abs(correlation) < CLEAR else "rising" if correlation > 0 else "falling"


def strength_of(correlation: float) -> str | None:
    """Return the strength of a trend with this correlation of value and position; None near a border."""
    size = abs(correlation)
    if min(abs(size - STRONG), abs(size - WEAK)) < EDGE:
        return None
    return "strong" if size > STRONG else "moderate" if size > WEAK else "weak"


def shape_of(skewness: float) -> str | None:
    """Return the shape of a distribution with this skewness; None if it is unclear."""
    if math.isnan(skewness):
        return None
    if abs(skewness) <= EVEN:
        return "symmetric"
    return None if abs(skewness) < SKEWED else "right-skewed" if skewness > 0 else "left-skewed"


def relation_of(correlation: float) -> str | None:
    """Return the relation of two series with this correlation; None if it is unclear."""
    if abs(correlation) <= UNRELATED:
        return "none"
    return None if abs(correlation) < RELATED else "positive" if correlation > 0 else "negative"


def _higher(figure: Callable[[Values], float]) -> Callable[[Columns], str | None]:
    """Return a function that finds the series, A or B, with the higher figure; None if close or not two series."""

    def truth(columns: Columns) -> str | None:
        if set(columns) != {"A", "B"}:
            return None
        a, b = (figure(columns[name]) for name in ("A", "B"))
        if not abs(a - b) > GAP * max(abs(a), abs(b)):
            return None
        return "A" if a > b else "B"

    return truth


def _correlation(columns: Columns) -> str | None:
    if set(columns) != {"A", "B"}:
        return None
    is_present = np.isfinite(columns["A"]) & np.isfinite(columns["B"])
    a, b = columns["A"][is_present], columns["B"][is_present]
    if len(a) < 3 or not np.ptp(a) or not np.ptp(b):
        return None
    return relation_of(float(np.corrcoef(a, b)[0, 1]))


def _anomalies(columns: Columns) -> list[anomalies.Anomaly]:
    return anomalies.find(_only(columns))


def _locations(columns: Columns) -> list[int] | None:
    return [anomaly.position for anomaly in _anomalies(columns)] or None


def _type(columns: Columns) -> str | None:
    kinds = {anomaly.kind for anomaly in _anomalies(columns)}
    return kinds.pop() if len(kinds) == 1 else None


_PRICES = "open close volume"


def _of_columns(names: str, figure: Callable[..., float]) -> Callable[[Columns], float | None]:
    """Return a function that computes a figure of columns; None if it is not finite or a column is (nearly) empty."""
    required = names.split()

    def truth(columns: Columns) -> float | None:
        if not set(required) <= set(columns) or min(len(present(columns[name])) for name in required) < 2:
            return None
        return _finite(figure(*(columns[name] for name in required)))

    return truth


def _return(opens: Values, closes: Values, volumes: Values) -> float:
    """Compute the return in percent from the first known open to the last known close."""
    first, last = float(present(opens)[0]), float(present(closes)[-1])
    return 100 * _ratio(last - first, first)


def _vwap(opens: Values, closes: Values, volumes: Values) -> float:
    is_present = np.isfinite(closes) & np.isfinite(volumes)
    return _ratio(float(np.sum(closes[is_present] * volumes[is_present])), float(np.sum(volumes[is_present])))


def _drawdown(opens: Values, closes: Values, volumes: Values) -> float:
    prices = present(closes)
    return float(100 * np.max(1 - prices / np.maximum.accumulate(prices)))


def spread_percent(best_bid: float, best_ask: float) -> float:
    """Return the gap between the best prices in percent of the mid price."""
    return 100 * _ratio(best_ask - best_bid, (best_ask + best_bid) / 2) if best_ask > best_bid else math.nan


def imbalance(to_buy: float, to_sell: float) -> float:
    """Return demand less supply, in percent of both."""
    return 100 * _ratio(to_buy - to_sell, to_buy + to_sell)


def _spread(bid: Values, ask: Values) -> float:
    return spread_percent(float(np.nanmax(bid)), float(np.nanmin(ask)))


def _imbalance(bid_size: Values, ask_size: Values) -> float:
    return imbalance(float(np.nansum(bid_size)), float(np.nansum(ask_size)))


def _portfolio_return(*assets: Values) -> float:
    return 100 * float(np.mean([_ratio(present(prices)[-1], present(prices)[0]) - 1 for prices in assets]))


def _humid_mean(temperature: Values, humidity: Values) -> float:
    is_humid = np.isfinite(temperature) & (np.nan_to_num(humidity) > HUMID)
    return float(np.mean(temperature[is_humid])) if is_humid.any() else math.nan


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split(", "))


def _tails(side: str) -> tuple[str, ...]:
    tails = (f"{size} {side} tail" for size in ("long", "longer", "heavy", "heavier", "extended"))
    ends = (f"tail {where}" for where in (f"to the {side}", f"on the {side}", f"stretching to the {side}"))
    skews = (f"{side} skewed", f"skewed to the {side}", f"skewed {side}", f"{side} skew", f"{side}-tailed")
    return (*skews, *tails, *ends)


_ANOMALOUS = _words("anomaly, anomalies, anomalous, outlier, outliers, unusual, out of the ordinary")
_EITHER: dict[str, tuple[str, ...]] = {"A": (), "B": ()}  # read from the clause about each
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
_STRENGTHS = {"strong": (), "moderate": ("medium", "moderately strong"), "weak": ("no trend", "very weak")}
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
_RELATIONS = {
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

_QUESTIONS = {
    "mean": "What is the mean?",
    "median": "What is the median?",
    "std": "What is the sample standard deviation (with n - 1)?",
    "min": "What is the smallest value?",
    "max": "What is the largest value?",
    "p25": "What is the 25th percentile (linear interpolation)?",
    "p75": "What is the 75th percentile (linear interpolation)?",
    "p95": "What is the 95th percentile (linear interpolation)?",
    "iqr": "What is the interquartile range (75th minus 25th percentile)?",
    "range": "What is the range (largest minus smallest value)?",
    "skewness": "What is the skewness (population)?",
    "count": "How many values are there?",
    "shape": "Is the distribution right-skewed, left-skewed or symmetric?",
    "direction": "Over the whole series, is the trend rising, falling or flat? Flat means an absolute correlation with "
    f"the position of at most {VAGUE}.",
    "strength": f"How strong is the linear trend: strong (absolute correlation of value and position above {STRONG}), "
    f"moderate (above {WEAK}) or weak?",
    "slope": "What is the slope of the least squares line, per position?",
    "presence": f"Are there anomalies? {ANOMALY}",
    "anomalies": f"How many anomalies are there? {ANOMALY} A change of level counts once.",
    "locations": f"At which positions are the anomalies, counting from 0? {ANOMALY} Give the positions, separated by "
    "commas; of a change of level the first position at the new level.",
    "type": f"Of what kind are the anomalies: spike, drop or level shift? {ANOMALY}",
    "higher_mean": "Which series has the higher mean, A or B?",
    "more_volatile": "Which series has the larger standard deviation, A or B?",
    "stronger_trend": "Which series has the stronger linear trend (the larger absolute correlation with the position), "
    "A or B?",
    "correlation": f"How are A and B correlated: positive (above {RELATED}), negative (below -{RELATED}) or none?",
    "forecast": f"Extend the least squares line: what is its value {AHEAD} positions after the last one?",
    "z_of_max": "How many sample standard deviations does the largest value lie above the mean?",
    "variation": "What is the coefficient of variation in percent (100 × sample standard deviation / mean)?",
    "range_percent": "How large is the range in percent of the mean (100 × (largest - smallest) / mean)?",
    "normalised_max": "What is the largest value divided by the mean?",
    "return_percent": "What is the return in percent from the first open to the last close?",
    "vwap": "What is the mean closing price weighted by volume?",
    "drawdown": "What is the largest fall of the closing price from an earlier highest close, in percent of that "
    "close?",
    "spread_percent": "How large is the gap between the lowest ask and the highest bid, in percent of the price half "
    "way?",
    "imbalance": "What is the imbalance in percent: 100 × (all bid sizes - all ask sizes) / (sum of both)?",
    "portfolio_return": "Equal amounts of stocks, bonds and gold are bought at the first prices and kept to the last: "
    "what is the return in percent?",
    "humid_mean": f"What is the mean temperature of the readings with a humidity above {HUMID}?",
}


def _query(name: str, level: Level, truth: Callable[[Columns], Any], **settings: Any) -> Query:
    return Query(name, _QUESTIONS[name], truth, level, **settings)


def _class(name: str, level: Level, truth: Callable[[Columns], Any], classes: Mapping[str, tuple[str, ...]]) -> Query:
    return _query(name, level, truth, kind="class", classes=classes)


QUERIES: dict[str, Query] = {
    query.name: query
    for query in (
        # statistical, scaling: within 1 %
        _query("mean", "medium", _of_values(np.mean)),
        _query("median", "medium", _of_values(np.median)),
        _query("std", "hard", _of_values(_std)),
        _query("min", "easy", _of_values(np.min)),
        _query("max", "easy", _of_values(np.max)),
        _query("p25", "hard", _of_values(_percentile(25))),
        _query("p75", "hard", _of_values(_percentile(75))),
        _query("p95", "hard", _of_values(_percentile(95))),
        _query("iqr", "hard", _of_values(_iqr)),
        _query("range", "easy", _of_values(np.ptp)),
        _query("skewness", "hard", _of_values(_skewness), abs=0.02),
        _query("count", "easy", _of_values(len), unit="count"),
        _class("shape", "medium", lambda columns: shape_of(_skewness(present(_only(columns)))), _SHAPES),
        # trend
        _class("direction", "easy", lambda columns: direction_of(_over_time(_only(columns))[2]), _DIRECTIONS),
        _class("strength", "medium", lambda columns: strength_of(_over_time(_only(columns))[2]), _STRENGTHS),
        _query("slope", "hard", _slope, rel=0.2),
        # anomaly
        _class("presence", "easy", lambda columns: "yes" if _anomalies(columns) else "no", _YES),
        _query("anomalies", "medium", lambda columns: len(_anomalies(columns)), rel=0.0, unit="count"),
        _query("locations", "hard", _locations, kind="positions"),
        _class("type", "medium", _type, _TYPES),
        # comparative
        _class("higher_mean", "easy", _higher(lambda values: float(np.mean(present(values)))), _EITHER),
        _class("more_volatile", "medium", _higher(lambda values: float(np.std(present(values)))), _EITHER),
        _class("stronger_trend", "medium", _higher(lambda values: abs(_over_time(values)[2])), _EITHER),
        _class("correlation", "hard", _correlation, _RELATIONS),
        # multi_step: within 5 %
        _query("forecast", "hard", _forecast, rel=0.05),
        _query("z_of_max", "hard", _share_of(lambda values: np.max(values) - np.mean(values), _std), rel=0.05),
        _query("variation", "hard", _share_of(_std, np.mean, 100), rel=0.05, unit="percent"),
        _query("range_percent", "medium", _share_of(np.ptp, np.mean, 100), rel=0.05, unit="percent"),
        _query("normalised_max", "medium", _share_of(np.max, np.mean), rel=0.05),
        _query("return_percent", "medium", _of_columns(_PRICES, _return), rel=0.05, unit="percent"),
        _query("vwap", "hard", _of_columns(_PRICES, _vwap), rel=0.05),
        _query("drawdown", "hard", _of_columns(_PRICES, _drawdown), rel=0.05, unit="percent"),
        _query("spread_percent", "medium", _of_columns("bid ask", _spread), rel=0.05),
        _query("imbalance", "hard", _of_columns("bid_size ask_size", _imbalance), rel=0.05, abs=0.1),
        _query("portfolio_return", "hard", _of_columns("stocks bonds gold", _portfolio_return), rel=0.05, abs=0.05),
        _query("humid_mean", "hard", _of_columns("temperature humidity", _humid_mean)),
    )
}


def quantities(columns: Columns) -> list[tuple[str, float]]:
    """Return all numeric truths of these columns, and of each column by itself, with the names of their queries."""
    quantities: list[tuple[str, float]] = []
    for part in [columns, *({name: values} for name, values in columns.items() if len(columns) > 1)]:
        for query in QUERIES.values():
            if query.kind == "number":
                value = query.truth(part)
                if value is not None:
                    quantities.append((query.name, float(value)))
    return quantities


VALUES = ("min", "max", "median", "p25", "p75", "p95")  # queries whose answer can be a value of the data
_NAMES = {  # names of the statistics in replies
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
    """Whether a reply mentions the statistic of a query.

    >>> is_named("median", "Answer: 48\\nReasoning: I took the median."), is_named("std", "Answer: 48")
    (True, False)
    """
    return re.search(rf"\b(?:{_NAMES[name]})\b", reply, re.IGNORECASE) is not None
