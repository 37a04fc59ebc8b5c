"""Which cases a condition can answer at all, by a checker that reads nothing but the text that it puts into the prompt.

The checker collects what the text states (`Statements`): the numbers themselves, figures by name, classes by their
words, anomalies. A case is answerable if the answer that follows from these statements is right by the tolerance of
the query. It is not answerable only if every part of the text was understood and no right answer follows; otherwise it
is unknown. So a text of any origin can be checked, and an unknown wording is never taken for ignorance.
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

ORDERED = ("min", "p5", "p25", "median", "p75", "p95", "max")  # each at least as large as the one before
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
    """What a text states about one series. None or empty: it states nothing."""

    figures: dict[str, float] = field(default_factory=dict)  # also `pace` and `variability`, which are words in order
    numbers: list[float] | None = None
    direction: str | None = None
    shape: str | None = None
    anomalies: int | None = None  # how many points are anomalous
    positions: list[int] = field(default_factory=list)  # as many of them as are listed
    values: list[float] = field(default_factory=list)  # of the anomalies
    steps: list[int] = field(default_factory=list)  # positions of changes of level


@dataclass(slots=True)
class Statements:
    """What a text states about each of its series, by name, and about pairs of them."""

    series: dict[str, SeriesStatements] = field(default_factory=dict)
    correlations: dict[frozenset[str], float] = field(default_factory=dict)
    is_uncorrelated: bool = False  # it says that no columns are correlated
    is_understood: bool = True  # there is no other part

    def about(self, name: str) -> SeriesStatements:
        return self.series.setdefault(name, SeriesStatements())


def is_answerable(case: Case, prompt: str) -> bool | None:
    """Tell whether the right answer to a case follows from the data part of a prompt; None if that is unknown."""
    text = data_in(prompt, case.input["question"])
    if text is None:
        return None
    return follows(text, QUERIES[case.input["query"]], case.expected, MARKED in case.input["question"])


def follows(text: str, query: Query, right: Any, is_marked: bool = False) -> bool | None:
    """Tell whether the right answer to a query follows from a text.

    `is_marked`: the answer is what a person marked in a recording, which the numbers themselves do not tell.

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
    is_open = not statements.is_understood or (is_marked and any(each.numbers for each in statements.series.values()))
    return None if is_open else False


def _is_right(query: Query, answer: Any, right: Any) -> bool:
    if query.kind == "number":
        return query.within(float(answer), float(right))
    return position_f1(right, answer) == 1.0 if query.kind == "positions" else bool(answer == right)


# -- from statements to an answer -------------------------------------------------------------------------------------


def _answer_of(query: Query, statements: Statements, is_marked: bool) -> Any:
    columns = {name: np.array(each.numbers) for name, each in statements.series.items() if each.numbers is not None}
    if columns and len(columns) == len(statements.series):
        return None if is_marked else query.truth(columns)
    if query.name in _OF_PAIR:
        return _OF_PAIR[query.name](statements)
    about = _asked_about(statements)
    if about is None:
        return None
    if query.name in _OF_SERIES:
        return _OF_SERIES[query.name](about)
    return _computed(query.name, about.figures)


def _asked_about(statements: Statements) -> SeriesStatements | None:
    if len(statements.series) == 1:
        return next(iter(statements.series.values()))
    return statements.series.get("close")


def _computed(name: str, stated: Mapping[str, float]) -> float | None:
    figures = dict(stated)
    if "min" in figures and figures["min"] == figures.get("max"):  # a constant
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
    "forecast": lambda known: (
        known["mean"] + known["slope"] * ((known["count"] + known.get("missing", 0) - 1) / 2 + AHEAD)
    ),
    "z_of_max": lambda known: (known["max"] - known["mean"]) / known["std"],
    "variation": lambda known: 100 * known["std"] / known["mean"],
    "range_percent": lambda known: 100 * known["range"] / known["mean"],
    "normalised_max": lambda known: known["max"] / known["mean"],
}


def _bounds_suffice(query: Query, statements: Statements, right: Any) -> bool:
    about = _asked_about(statements)
    if about is None:
        return False
    known = about.figures
    if query.name in ("mean", "vwap"):
        ends = [known.get("min"), known.get("max")]
    elif query.name in ORDERED:
        at = ORDERED.index(query.name)
        below = [known[name] for name in ORDERED[:at] if name in known]
        above = [known[name] for name in ORDERED[at + 1 :] if name in known]
        ends = [max(below, default=None), min(above, default=None)]
    else:
        return False
    return all(end is not None and query.within(end, float(right)) for end in ends)


def _events(about: SeriesStatements) -> int | None:
    if about.anomalies is None and not about.steps:
        return None
    return (about.anomalies or 0) + len(about.steps)


def _locations(about: SeriesStatements) -> list[int] | None:
    """All positions; None unless every one is listed."""
    if _events(about) is None or len(about.positions) != (about.anomalies or 0):
        return None
    return sorted({*about.positions, *about.steps})


def _type(about: SeriesStatements) -> str | None:
    """Level shifts alone, or anomalies whose values all lie on the same side of the mean."""
    if about.steps:
        return None if about.anomalies else "level shift"
    middle = about.figures.get("mean")
    if middle is None or not about.anomalies or len(about.values) != about.anomalies:
        return None
    if all(value > middle for value in about.values):
        return "spike"
    return "drop" if all(value < middle for value in about.values) else None


def _by_figure(
    name: str, classify: Callable[[float], str | None], word: str
) -> Callable[[SeriesStatements], str | None]:
    """The class of a series by a figure; by the words of the text where it does not state that figure."""
    return lambda about: classify(about.figures[name]) if name in about.figures else getattr(about, word)


_OF_SERIES: dict[str, Callable[[SeriesStatements], Any]] = {
    "direction": _by_figure("over_time", direction_of, "direction"),
    "strength": lambda about: strength_of(about.figures["over_time"]) if "over_time" in about.figures else None,
    "shape": _by_figure("skewness", shape_of, "shape"),
    "presence": lambda about: {None: None, 0: "no"}.get(_events(about), "yes"),
    "anomalies": _events,
    "locations": _locations,
    "type": _type,
}


def _larger(*names: str, by: Callable[[float], float] = float) -> Callable[[Statements], str | None]:
    """A or B, whichever states more of the first of these figures that it states."""

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


_OF_PAIR: dict[str, Callable[[Statements], Any]] = {
    "higher_mean": _larger("mean"),
    "more_volatile": _larger("std", "variability"),
    "stronger_trend": _larger("over_time", "pace", by=abs),
    "correlation": _correlation,
    "spread_percent": _spread_percent,
    "imbalance": _imbalance,
}


# -- from a text to statements ----------------------------------------------------------------------------------------


def read_statements(text: str) -> Statements:
    """Collect what a text states; what cannot be read makes `is_understood` false."""
    statements = Statements()
    name: str | None = None  # of the series that a line is about
    for line in filter(None, map(str.strip, text.splitlines())):
        title = _TITLE.match(line)
        if title is not None:
            name, line = _series_name(title[1]), line[title.end() :]
            if not line:
                continue  # it is about the next one
        if _ROW_OF_NUMBERS.fullmatch(line):
            if name is None:  # numbers of what?
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
    """Read each sentence of which every part is known; what qualifies a figure may change what it is about."""
    for sentence in _SENTENCE_END.split(text):
        matches = _parts_of(sentence)
        if matches is None:
            statements.is_understood = False
        for read, match in matches or ():
            read(statements, name, match)


Reader = Callable[[Statements, str, Any], None]  # what is stated, the name of the series, a match or a JSON value


def _parts_of(sentence: str) -> list[tuple[Reader, re.Match[str]]] | None:
    parts: list[tuple[Reader, re.Match[str]]] = []
    at = 0
    while at < len(sentence):
        if gap := _BETWEEN.match(sentence, at):
            at = gap.end()
            continue
        found = next(((read, match) for pattern, read in _SENTENCES if (match := pattern.match(sentence, at))), None)
        if found is None:
            return None
        parts.append(found)
        at = found[1].end()
    return parts


def _read_object(statements: Statements, name: str, text: str) -> None:
    """What semantic-frame gives as JSON: figures in `profile`, classes by their words, anomalies with their values."""
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
        except (KeyError, TypeError, ValueError):  # of another origin
            statements.is_understood = False
    figures = statements.about(name).figures
    if "missing_percent" in figures and "count" in figures:  # it counts missing values too
        figures["missing"] = round(figures["count"] * figures["missing_percent"] / 100)
        figures["count"] -= figures["missing"]


def _read_figure(statements: Statements, name: str, match: re.Match[str]) -> None:
    figure = next(key for key, words in _FIGURES.items() if re.fullmatch(words, match["name"], re.IGNORECASE))
    _state(statements, name, figure, float(match["value"].replace(",", "")))


def _read_ends(statements: Statements, name: str, match: re.Match[str]) -> None:
    for figure, value in zip(("min", "max"), match.groups(), strict=True):
        _state(statements, name, figure, float(value))


def _state(statements: Statements, name: str, figure: str, value: float) -> None:
    """Keep a figure; one that is stated twice and differently, beyond rounding, is none."""
    figures = statements.about(name).figures
    before = figures.setdefault(figure, value)
    if abs(before - value) > max(0.01, 0.01 * abs(before)):
        figures[figure] = np.nan
        statements.is_understood = False


def _read_trend(about: SeriesStatements, words: str) -> None:
    about.direction = next((word for word in ("rising", "falling", "flat") if word in words), None)
    about.figures["pace"] = next((pace for word, pace in _PACE.items() if word in words), 0)


def _read_pattern(about: SeriesStatements, match: re.Match[str]) -> None:
    _read_trend(about, match["trend"])
    about.figures["variability"] = VARIABILITY.index(match["variability"])


def _read_anomalies(about: SeriesStatements, match: re.Match[str]) -> None:
    if about.values:
        return  # which are listed already, with more about them
    about.anomalies = int(match["number"])
    about.positions = [int(position) for position in re.findall(r"\d+", match["positions"])]
    about.values = [float(match["value"])] if match["value"] else []


def _read_listed_anomalies(about: SeriesStatements, match: re.Match[str]) -> None:
    listed = re.findall(rf"(\d+) \(({_NUMBER})\)", match["listed"])
    about.positions, about.values = [int(at) for at, _ in listed], [float(value) for _, value in listed]
    about.anomalies = len(listed) + int((match["more"] or "0").replace(",", ""))


def _about(read: Callable[[SeriesStatements, Any], None]) -> Reader:
    return lambda statements, name, stated: read(statements.about(name), stated)


def _sets(field_name: str, value: Callable[[Any], Any]) -> Reader:
    return _about(lambda about, stated: setattr(about, field_name, value(stated)))


def _read_pair(statements: Statements, name: str, match: re.Match[str]) -> None:
    statements.correlations[frozenset(match.group("one", "other"))] = float(match["r"])


def _read_no_pair(statements: Statements, name: str, match: re.Match[str]) -> None:
    statements.is_uncorrelated = True


def _read_nothing(statements: Statements, name: str, stated: Any) -> None:
    """What answers no query."""


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
    return _about(lambda about, value: about.figures.update({figure: float(value)}))


def _read_volatility(about: SeriesStatements, value: Any) -> None:
    if value in VARIABILITY:
        about.figures["variability"] = VARIABILITY.index(value)


def _read_anomaly_objects(about: SeriesStatements, value: Any) -> None:
    about.anomalies = len(value)
    about.positions, about.values = [each["index"] for each in value], [float(each["value"]) for each in value]


_KEYS: dict[str, Reader] = {
    **{name: _figure_of(name) for name in ("count", "mean", "median", "std", "min", "max")},
    "min_val": _figure_of("min"),
    "max_val": _figure_of("max"),
    "missing_pct": _figure_of("missing_percent"),
    "narrative": lambda statements, name, value: _read_sentences(statements, name, str(value)),
    "trend": _about(lambda about, value: _read_trend(about, str(value))),
    "volatility": _about(_read_volatility),
    "distribution": _sets("shape", lambda value: _SHAPES.get(str(value))),
    "anomalies": _about(_read_anomaly_objects),
    "step_change_index": _sets("steps", lambda value: [] if value is None else [int(value)]),
    **dict.fromkeys(("data_quality", "anomaly_state", "seasonality", "step_change", "acceleration"), _read_nothing),
    **dict.fromkeys(("context", "compression_ratio"), _read_nothing),
}
