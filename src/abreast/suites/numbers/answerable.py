"""Check which cases can be answered from the text that a condition puts into the prompt.

The checker collects what the text states (`Statements`): the numbers, named figures, classes, anomalies. A case is
answerable if a right answer, within the tolerance of the query, follows from them. It is not answerable only if every
part of the text was understood; otherwise the result is unknown, so that texts of any origin can be checked.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from abreast.model import Case
from abreast.suites.numbers.conditions import data_in
from abreast.suites.numbers.dataset.queries import (
    AHEAD,
    MARKED,
    QUERIES,
    Query,
    direction_of,
    imbalance,
    relation_of,
    shape_of,
    spread_percent,
    strength_of,
)
from abreast.suites.numbers.scoring import position_f1

ORDERED = ("min", "p5", "p25", "median", "p75", "p95", "max")  # in ascending order
VARIABILITY = ("compressed", "stable", "moderate", "expanding", "extreme")
_NUMBER = r"-?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?"
_GROUPED = rf"-?\d{{1,3}}(?:,\d{{3}})+(?:\.\d+)?(?!\d)|{_NUMBER}"
_FIGURES = {
    "count": r"count|number of values|n",
    "mean": r"mean|average",
    "median": r"median|p50|50th percentile",
    "std": r"(?:sample )?standard deviation|std(?:ev| dev)?",
    "min": r"min(?:imum)?(?:_val)?|smallest(?: value)?",
    "max": r"max(?:imum)?(?:_val)?|largest(?: value)?",
    **{f"p{share}": rf"p{share}|{share}th percentile" for share in (5, 25, 75, 95)},
    "iqr": r"iqr|interquartile range",
    "range": r"range",
    "skewness": r"skewness|skew",
    "slope": r"slope",
    "over_time": r"correlation with (?:the )?position",
    "missing": r"missing",
}
_ROW_OF_NUMBERS = re.compile(rf"\[?\s*(?:{_NUMBER}|null)(?:\s*,\s*(?:{_NUMBER}|null))+\s*\]?", re.IGNORECASE)
_TITLE = re.compile(
    r"(?:series )?([a-z]|data|values?|open|high|low|close|volume|(?:bid|ask)(?:[ _]size)?|stocks|bonds|gold|"
    r"temperature|humidity|pressure): *(?=\S|$)",
    re.IGNORECASE,
)
_HEADING = re.compile(r"(?:summary|description) of the data:$", re.IGNORECASE)
_SENTENCE_END = re.compile(r"[.;](?=\s|$|[A-Z])")
_BETWEEN = re.compile(r"[\s,]+")
_PACE = {"rapidly": 2, "steadily": 1}
_SHAPES = {
    "right-skewed": "right-skewed",
    "left-skewed": "left-skewed",
    "normally distributed": "symmetric",
    "uniformly distributed": "symmetric",
}


@dataclass(slots=True)
class SeriesStatements:
    """The statements of a text about one series; None or empty where it makes none."""

    figures: dict[str, float] = field(default_factory=dict)  # with `pace` and `variability` as ranks
    numbers: list[float] | None = None
    direction: str | None = None
    shape: str | None = None
    anomalies: int | None = None  # number of anomalous points
    positions: list[int] = field(default_factory=list)  # listed positions of anomalies
    values: list[float] = field(default_factory=list)  # values of anomalies
    steps: list[int] = field(default_factory=list)  # positions of level shifts


@dataclass(slots=True)
class Statements:
    """The statements of a text about its series, by name, and about pairs of series."""

    series: dict[str, SeriesStatements] = field(default_factory=dict)
    correlations: dict[frozenset[str], float] = field(default_factory=dict)
    is_uncorrelated: bool = False  # no columns are strongly correlated
    is_understood: bool = True  # False if parts of the text cannot be read

    def about(self, name: str) -> SeriesStatements:
        return self.series.setdefault(name, SeriesStatements())


def is_answerable(case: Case, prompt: str) -> bool | None:
    """Whether the right answer to a case follows from the data part of a prompt; None if unknown."""
    text = data_in(prompt, case.input["question"])
    if text is None:
        return None
    return follows(text, QUERIES[case.input["query"]], case.expected, MARKED in case.input["question"])


def follows(text: str, query: Query, right: Any, is_marked: bool = False) -> bool | None:
    """Whether the right answer to a query follows from a text; None if unknown.

    `is_marked`: the answer is what a person marked in a recording, which does not follow from the numbers.

    >>> follows("Mean: 50.8 (range: 20.1-80.3)", QUERIES["range"], 60.2)
    True
    >>> follows("Mean: 50.8 (range: 20.1-80.3)", QUERIES["std"], 9.6)
    False
    >>> follows("The usual week.", QUERIES["std"], 9.6) is None
    True
    """
    statements = read_statements(text)
    answer = _answer_of(query, statements, is_marked)
    if answer is not None and _is_right(query, answer, right):
        return True
    if query.kind == "number" and _bounds_suffice(query, statements, right):
        return True
    is_open = not statements.is_understood or (
        is_marked and any(series.numbers for series in statements.series.values())
    )
    return None if is_open else False


def _is_right(query: Query, answer: Any, right: Any) -> bool:
    if query.kind == "number":
        return query.within(float(answer), float(right))
    return position_f1(right, answer) == 1.0 if query.kind == "positions" else bool(answer == right)


def _answer_of(query: Query, statements: Statements, is_marked: bool) -> Any:
    columns = {
        name: np.array(series.numbers) for name, series in statements.series.items() if series.numbers is not None
    }
    if columns and len(columns) == len(statements.series):
        return None if is_marked else query.truth(columns)
    if query.name in _PAIR_ANSWERS:
        return _PAIR_ANSWERS[query.name](statements)
    series = _main_series(statements)
    if series is None:
        return None
    if query.name in _SERIES_ANSWERS:
        return _SERIES_ANSWERS[query.name](series)
    return _computed(query.name, series.figures)


def _main_series(statements: Statements) -> SeriesStatements | None:
    if len(statements.series) == 1:
        return next(iter(statements.series.values()))
    return statements.series.get("close")


def _computed(name: str, stated: Mapping[str, float]) -> float | None:
    figures = dict(stated)
    if "min" in figures and figures["min"] == figures.get("max"):  # a constant series
        figures |= dict.fromkeys(ORDERED, figures["min"]) | {"std": 0.0, "mean": figures["min"]}
    if {"min", "max"} <= set(figures):
        figures.setdefault("range", figures["max"] - figures["min"])
    if {"p25", "p75"} <= set(figures):
        figures.setdefault("iqr", figures["p75"] - figures["p25"])
    if name in figures:
        return figures[name]
    try:
        return _FORMULAS[name](figures)
    except (KeyError, ZeroDivisionError):
        return None


_FORMULAS: dict[str, Callable[[Mapping[str, float]], float]] = {
    "forecast": lambda figures: (
        figures["mean"] + figures["slope"] * ((figures["count"] + figures.get("missing", 0) - 1) / 2 + AHEAD)
    ),
    "z_of_max": lambda figures: (figures["max"] - figures["mean"]) / figures["std"],
    "variation": lambda figures: 100 * figures["std"] / figures["mean"],
    "range_percent": lambda figures: 100 * figures["range"] / figures["mean"],
    "normalised_max": lambda figures: figures["max"] / figures["mean"],
}


def _bounds_suffice(query: Query, statements: Statements, right: Any) -> bool:
    """Whether the bounds of a figure are so close that both are right."""
    series = _main_series(statements)
    if series is None:
        return False
    figures = series.figures
    if query.name in ("mean", "vwap"):
        ends = [figures.get("min"), figures.get("max")]
    elif query.name in ORDERED:
        at = ORDERED.index(query.name)
        below = [figures[name] for name in ORDERED[:at] if name in figures]
        above = [figures[name] for name in ORDERED[at + 1 :] if name in figures]
        ends = [max(below, default=None), min(above, default=None)]
    else:
        return False
    return all(end is not None and query.within(end, float(right)) for end in ends)


def _events(series: SeriesStatements) -> int | None:
    if series.anomalies is None and not series.steps:
        return None
    return (series.anomalies or 0) + len(series.steps)


def _locations(series: SeriesStatements) -> list[int] | None:
    """Return the positions of all anomalies; None if some are not listed."""
    if _events(series) is None or len(series.positions) != (series.anomalies or 0):
        return None
    return sorted({*series.positions, *series.steps})


def _type(series: SeriesStatements) -> str | None:
    """Return the kind of the anomalies, if all are level shifts, or all values are on the same side of the mean."""
    if series.steps:
        return None if series.anomalies else "level shift"
    middle = series.figures.get("mean")
    if middle is None or not series.anomalies or len(series.values) != series.anomalies:
        return None
    if all(value > middle for value in series.values):
        return "spike"
    return "drop" if all(value < middle for value in series.values) else None


def _by_figure(
    name: str, classify: Callable[[float], str | None], word: str
) -> Callable[[SeriesStatements], str | None]:
    """Classify a series by a figure, or by the words of the text if it does not state the figure."""
    return lambda series: classify(series.figures[name]) if name in series.figures else getattr(series, word)


_SERIES_ANSWERS: dict[str, Callable[[SeriesStatements], Any]] = {
    "direction": _by_figure("over_time", direction_of, "direction"),
    "strength": lambda series: strength_of(series.figures["over_time"]) if "over_time" in series.figures else None,
    "shape": _by_figure("skewness", shape_of, "shape"),
    "presence": lambda series: {None: None, 0: "no"}.get(_events(series), "yes"),
    "anomalies": _events,
    "locations": _locations,
    "type": _type,
}


def _larger(*names: str, by: Callable[[float], float] = float) -> Callable[[Statements], str | None]:
    """Return a function that finds the series, A or B, with the larger value of the first stated figure."""

    def answer(statements: Statements) -> str | None:
        if set(statements.series) != {"A", "B"}:
            return None
        stated = (statements.series[series].figures for series in ("A", "B"))
        of_a, of_b = (next((by(figures[name]) for name in names if name in figures), None) for figures in stated)
        if of_a is None or of_b is None or of_a == of_b:
            return None
        return "A" if of_a > of_b else "B"

    return answer


def _correlation(statements: Statements) -> str | None:
    r = statements.correlations.get(frozenset({"A", "B"}))
    return relation_of(r) if r is not None else "none" if statements.is_uncorrelated else None


def _spread_percent(statements: Statements) -> float | None:
    bid, ask = (statements.series.get(name, SeriesStatements()).figures for name in ("bid", "ask"))
    return spread_percent(bid["max"], ask["min"]) if "max" in bid and "min" in ask else None


def _imbalance(statements: Statements) -> float | None:
    sides = [statements.series.get(name, SeriesStatements()).figures for name in ("bid_size", "ask_size")]
    if not all({"count", "mean"} <= figures.keys() for figures in sides):
        return None
    return imbalance(*(figures["count"] * figures["mean"] for figures in sides))


_PAIR_ANSWERS: dict[str, Callable[[Statements], Any]] = {
    "higher_mean": _larger("mean"),
    "more_volatile": _larger("std", "variability"),
    "stronger_trend": _larger("over_time", "pace", by=abs),
    "correlation": _correlation,
    "spread_percent": _spread_percent,
    "imbalance": _imbalance,
}


def read_statements(text: str) -> Statements:
    """Collect what a text states; unreadable parts make `is_understood` false."""
    statements = Statements()
    name: str | None = None  # the series that the line is about
    for line in filter(None, map(str.strip, text.splitlines())):
        title = _TITLE.match(line)
        if title is not None:
            name, line = _series_name(title[1]), line[title.end() :]
            if not line:
                continue  # the title of the next line
        if _ROW_OF_NUMBERS.fullmatch(line):
            if name is None:  # numbers without a title
                statements.is_understood = False
            else:
                parts = (part.strip() for part in line.strip("[] ").split(","))
                statements.about(name).numbers = [np.nan if part in ("null", "") else float(part) for part in parts]
        elif line.startswith("{"):
            _read_object(statements, name or "", line)
        elif not _HEADING.match(line):
            _read_sentences(statements, name or "", line)
        name = None
    return statements


def _series_name(title: str) -> str:
    if title.casefold() in ("data", "value", "values"):
        return ""
    return title if len(title) == 1 else title.casefold().replace(" ", "_")


def _read_sentences(statements: Statements, name: str, text: str) -> None:
    """Read the sentences of which every part is known, because an unknown part may qualify a figure."""
    for sentence in _SENTENCE_END.split(text):
        matches = _parts_of(sentence)
        if matches is None:
            statements.is_understood = False
        for read, match in matches or ():
            read(statements, name, match)


Reader = Callable[[Statements, str, Any], None]  # statements, series name, match or JSON value


def _parts_of(sentence: str) -> list[tuple[Reader, re.Match[str]]] | None:
    parts: list[tuple[Reader, re.Match[str]]] = []
    at = 0
    while at < len(sentence):
        if gap := _BETWEEN.match(sentence, at):
            at = gap.end()
            continue
        part = next(((read, match) for pattern, read in _SENTENCES if (match := pattern.match(sentence, at))), None)
        if part is None:
            return None
        parts.append(part)
        at = part[1].end()
    return parts


def _read_object(statements: Statements, name: str, text: str) -> None:
    try:
        stated = json.loads(text)
    except (ValueError, RecursionError):
        statements.is_understood = False
        return
    parts = (
        item.items() if key == "profile" and isinstance(item, Mapping) else [(key, item)]
        for key, item in stated.items()
    )
    for key, value in itertools.chain.from_iterable(parts):
        try:
            _KEYS[key](statements, name, value)
        except (KeyError, TypeError, ValueError):  # not from semantic-frame
            statements.is_understood = False
    figures = statements.about(name).figures
    if "missing_percent" in figures and "count" in figures:  # `count` includes missing values
        figures["missing"] = round(figures["count"] * figures["missing_percent"] / 100)
        figures["count"] -= figures["missing"]


def _read_figure(statements: Statements, name: str, match: re.Match[str]) -> None:
    figure = next(key for key, words in _FIGURES.items() if re.fullmatch(words, match["name"], re.IGNORECASE))
    _state(statements, name, figure, float(match["value"].replace(",", "")))


def _read_ends(statements: Statements, name: str, match: re.Match[str]) -> None:
    for figure, value in zip(("min", "max"), match.groups(), strict=True):
        _state(statements, name, figure, float(value))


def _state(statements: Statements, name: str, figure: str, value: float) -> None:
    """Store a figure; contradicting statements, beyond rounding, make it unknown."""
    figures = statements.about(name).figures
    before = figures.setdefault(figure, value)
    if abs(before - value) > max(0.01, 0.01 * abs(before)):
        figures[figure] = np.nan
        statements.is_understood = False


def _read_trend(series: SeriesStatements, words: str) -> None:
    series.direction = next((word for word in ("rising", "falling", "flat") if word in words), None)
    series.figures["pace"] = next((pace for word, pace in _PACE.items() if word in words), 0)


def _read_pattern(series: SeriesStatements, match: re.Match[str]) -> None:
    _read_trend(series, match["trend"])
    series.figures["variability"] = VARIABILITY.index(match["variability"])


def _read_anomalies(series: SeriesStatements, match: re.Match[str]) -> None:
    if series.values:
        return  # already listed in full
    series.anomalies = int(match["number"])
    series.positions = [int(position) for position in re.findall(r"\d+", match["positions"])]
    series.values = [float(match["value"])] if match["value"] else []


def _read_listed_anomalies(series: SeriesStatements, match: re.Match[str]) -> None:
    listed = re.findall(rf"(\d+) \(({_NUMBER})\)", match["listed"])
    series.positions, series.values = [int(at) for at, _ in listed], [float(value) for _, value in listed]
    series.anomalies = len(listed) + int((match["more"] or "0").replace(",", ""))


def _about(read: Callable[[SeriesStatements, Any], None]) -> Reader:
    return lambda statements, name, stated: read(statements.about(name), stated)


def _sets(field_name: str, value: Callable[[Any], Any]) -> Reader:
    return _about(lambda series, stated: setattr(series, field_name, value(stated)))


def _read_pair(statements: Statements, name: str, match: re.Match[str]) -> None:
    statements.correlations[frozenset(match.group("one", "other"))] = float(match["r"])


def _read_no_pair(statements: Statements, name: str, match: re.Match[str]) -> None:
    statements.is_uncorrelated = True


def _read_nothing(statements: Statements, name: str, stated: Any) -> None:
    """Accept a part that answers no query."""


_PAIRED = (
    "move together strongly|show positive relationship|have weak/no clear relationship|show inverse relationship|"
    "are strongly inverse"
)
_LISTED = rf"\d+ \({_NUMBER}\)"
_READERS: dict[str, Reader] = {
    r"the [^.]{0,80} data shows an? (?P<trend>(?:rapidly |steadily )?(?:rising|falling|flat)(?:/stationary)?) pattern "
    rf"with (?P<variability>{'|'.join(VARIABILITY)}) variability": _about(_read_pattern),
    r"(?P<number>\d+) anomal(?:y|ies) detected at ind(?:ex|ices) (?P<positions>\d+(?:, \d+)*)(?: \(\+\d+ more\))?"
    rf"(?: \(value: (?P<value>{_NUMBER})\))?": _about(_read_anomalies),
    rf"anomalies at position (?P<listed>{_LISTED}(?:, {_LISTED})*)(?: and (?P<more>[\d,]+) more)?": _about(
        _read_listed_anomalies
    ),
    "no anomalies": _sets("anomalies", lambda match: 0),
    r"a significant step (?:up|down) was detected at index (?P<at>\d+)": _sets(
        "steps", lambda match: [int(match["at"])]
    ),
    r"the trend is (?:rapidly )?(?:acceler|deceler)ating"
    r"|a (?:weak|moderate|strong) (?:cyclic pattern|seasonality) was detected"
    r"|data quality is [a-z ]+ \([\d.]+% missing\)|analyzed \d+ numeric column\(s\) in \w+"
    r"|found \d+ significant correlation\(s\)": _read_nothing,
    "no strong correlations detected between columns": _read_no_pair,
    rf"(?:key findings: )?(?P<one>\w+) and (?P<other>\w+) (?:{_PAIRED}) \(r=(?P<r>{_NUMBER})\)": _read_pair,
    rf"correlation of (?P<one>\w+) and (?P<other>\w+):? (?P<r>{_NUMBER})": _read_pair,
    rf"\(range: ({_NUMBER})-({_NUMBER})\)": _read_ends,
    rf"(?:the )?(?P<name>{'|'.join(_FIGURES.values())})(?: is| =|:)? (?P<value>{_GROUPED})(?![\w.]*\w|%| %)": (
        _read_figure
    ),
}
_SENTENCES = [(re.compile(pattern, re.IGNORECASE), read) for pattern, read in _READERS.items()]


def _figure_of(figure: str) -> Reader:
    return _about(lambda series, value: series.figures.update({figure: float(value)}))


def _read_volatility(series: SeriesStatements, value: Any) -> None:
    if value in VARIABILITY:
        series.figures["variability"] = VARIABILITY.index(value)


def _read_anomaly_objects(series: SeriesStatements, value: Any) -> None:
    series.anomalies = len(value)
    series.positions, series.values = (
        [anomaly["index"] for anomaly in value],
        [float(anomaly["value"]) for anomaly in value],
    )


_KEYS: dict[str, Reader] = {
    **{name: _figure_of(name) for name in ("count", "mean", "median", "std", "min", "max")},
    "min_val": _figure_of("min"),
    "max_val": _figure_of("max"),
    "missing_pct": _figure_of("missing_percent"),
    "narrative": lambda statements, name, value: _read_sentences(statements, name, str(value)),
    "trend": _about(lambda series, value: _read_trend(series, str(value))),
    "volatility": _about(_read_volatility),
    "distribution": _sets("shape", lambda value: _SHAPES.get(str(value))),
    "anomalies": _about(_read_anomaly_objects),
    "step_change_index": _sets("steps", lambda value: [] if value is None else [int(value)]),
    **dict.fromkeys(("data_quality", "anomaly_state", "seasonality", "step_change", "acceleration"), _read_nothing),
    **dict.fromkeys(("context", "compression_ratio"), _read_nothing),
}
