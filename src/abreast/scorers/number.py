"""`number`: compare the number in an answer with the expected one, within a tolerance. Ambiguous answers are wrong."""

from __future__ import annotations

import bisect
import math
import re
from collections.abc import Iterator
from decimal import Decimal
from itertools import pairwise
from numbers import Real
from typing import Any, NamedTuple

from abreast.model import Answer
from abreast.scorers.base import (
    LONGEST_PROSE,
    Mark,
    ScorerSettings,
    SingleColumn,
    clipped,
    returned_value,
    short,
    within,
)
from abreast.scorers.parsing.answer_text import marker_ends, spoken_words
from abreast.scorers.parsing.json_text import MISSING, answers_in, find_object
from abreast.scorers.parsing.negation import Negations
from abreast.scorers.parsing.numerals import Numeral, numerals, prepare

MARKED = "marked as the answer"
_DEFAULT_REL = 1e-6
_LONGEST_GAP = 80
_LONGEST_UNIT = 12
_MOST_JOINED = 8
_CONNECTOR = re.compile(r"\b(?:is|was|are|were|equals?)\b|[=≈≃≅]|:(?!\d)", re.IGNORECASE)
_BOLD = re.compile(r"\*\*([^*\n]{1,200})\*\*|__([^_\n]{1,200})__")
_CLAUSE = re.compile(r"[,;]\s|\band\b", re.IGNORECASE)
_JOINERS = {"or", "and", "to", "through", "until", "vs", "versus", "out", "of", "plus", "minus", "times", "by", "over"}
_FILLER = frozenset(
    spoken_words(
        "about approximately approx around roughly nearly almost exactly precisely just only simply some equal equals"
        " to the a value number of is was be not but rather it instead between from now therefore thus still then"
        " usd eur gbp us text mathbf mathrm boxed left"
    )
)
_DENIED_THROUGH = _FILLER.union(spoken_words("that think believe say answer result mean as large high low small"))


class NumberReading(NamedTuple):
    """The values of a number (two for a percentage) and where it was read, or no values and the reason."""

    values: tuple[float, ...]
    why: str


class Number(SingleColumn):
    """Right if |read - expected| <= max(abs, rel * |expected|); `rel` is 1e-6 unless a tolerance is given.

    The number is read from the first of these that has one: `answer` of a JSON object; after "Answer:" and similar
    markers; a last line that is only a number; after "is", "=", ":"; the only bold number; the only number. Two
    different numbers there score 0. A percentage matches as 12 and as 0.12.

    >>> from abreast.scorers import build
    >>> from abreast.model import Answer, Case
    >>> scorer = build("number", {"rel": 0.01})
    >>> scorer.score(Case("c", "?", expected=66), Answer("The 95th percentile is 66.2 ms."))[0].value
    1.0
    """

    def __init__(self, settings: ScorerSettings) -> None:
        rel, abs_ = settings.tolerance("rel"), settings.tolerance("abs")
        self._rel = rel if rel is not None else _DEFAULT_REL if abs_ is None else 0.0
        self._abs = abs_ or 0.0
        super().__init__(settings)

    def mark(self, expected: Any, answer: Answer) -> Mark:
        expected_number = read_value(expected)
        if not expected_number.values:
            return None, f"the expected value {short(expected)} is not a number: {expected_number.why}"
        text, note = clipped(answer.text, LONGEST_PROSE)
        value = returned_value(answer)
        number = read(text) if value is None else read_value(value)
        if not number.values:
            return 0.0, number.why + note
        right = any(within(a, b, self._rel, self._abs) for a in number.values for b in expected_number.values)
        return float(right), f"read {number.values[0]!r} ({number.why}), expected {short(expected)}{note}"


def read(text: str) -> NumberReading:
    """Read the number that a text gives as its answer.

    >>> read("It is not 5; it is 7").values, read("between 12 and 15").values
    ((7.0,), ())
    """
    from_json = _read_json(text)
    if from_json is not None:
        return from_json
    page = _Candidates(prepare(text))
    for source, candidates in page.by_source():
        if candidates:
            return _read_agreed(candidates, source)
    return NumberReading((), "no number found")


def read_value(value: Any) -> NumberReading:
    """Read a number, a numeric string, or an object with an answer.

    >>> read_value(3).values, read_value("1,234").values, read_value(True).why
    ((3.0,), (1234.0,), 'true or false is not a number')
    """
    if isinstance(value, bool):
        return NumberReading((), "true or false is not a number")
    if isinstance(value, str):
        return read(clipped(value, LONGEST_PROSE)[0])
    if isinstance(value, dict):
        return _among(answers_in(value)) or NumberReading((), "the object has no answer")
    if not isinstance(value, Real | Decimal):
        return NumberReading((), f"{short(value)} is not a number")
    try:
        number = float(value)
    except (OverflowError, ValueError):
        return NumberReading((), "the number is too large")
    return (
        NumberReading((number,), "the value") if math.isfinite(number) else NumberReading((), f"{number} is not finite")
    )


def _read_json(text: str) -> NumberReading | None:
    value = find_object(text)
    return None if value is MISSING else _among(answers_in(value))


def _among(values: list[Any]) -> NumberReading | None:
    readings = [
        NumberReading((), "the answer is nested") if isinstance(v, dict | list) else read_value(v) for v in values
    ]
    for reading in readings:
        if not reading.values:
            return reading
    if len({reading.values[0] for reading in readings}) > 1:
        return NumberReading((), f"several answers in the JSON object: {short(values)}")
    return NumberReading(readings[0].values, "the answer in the JSON object") if readings else None


def _read_agreed(candidates: list[Numeral], source: str) -> NumberReading:
    if all(candidates[0].agrees_with(other) for other in candidates):
        return NumberReading(candidates[0].values, source)
    texts = ", ".join(dict.fromkeys(short(numeral.text, 20).strip("'\"") for numeral in candidates[:6]))
    if not any(numeral.values for numeral in candidates):
        return NumberReading((), f"ambiguous number: {texts}")
    return NumberReading((), f"several possible answers ({source}): {texts}")


class _Candidates:
    """The numbers of a prepared text that may be the answer."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.numerals = numerals(text)
        self.starts = [numeral.start for numeral in self.numerals]
        self._negations = Negations(text)
        self._denied: dict[int, bool] = {}

    def by_source(self) -> Iterator[tuple[str, list[Numeral]]]:
        """Yield the candidates, from the most to the least certain source."""
        yield MARKED, self._find_after_each(marker_ends(self.text))
        yield "the equation at the end", self._ending_equation()
        yield "the last line", self._last_lines()
        yield "after is, = or :", self._find_after_each([match.end() for match in _CONNECTOR.finditer(self.text)])
        yield "in bold", self._bold()
        yield "the only number", self._find_affirmed(0, len(self.text))

    def _find_affirmed(self, start: int, end: int) -> list[Numeral]:
        """Return the numbers between two positions that are not negated."""
        low, high = bisect.bisect_left(self.starts, start), bisect.bisect_left(self.starts, end)
        return [self.numerals[index] for index in range(low, high) if not self._is_denied(index)]

    def _is_denied(self, index: int) -> bool:
        if index not in self._denied:
            numeral = self.numerals[index]
            self._denied[index] = self._negations.deny(numeral.start, numeral.end, _DENIED_THROUGH)
        return self._denied[index]

    def _find_after_each(self, positions: list[int]) -> list[Numeral]:
        return [numeral for position in positions for numeral in self._find_after(position)]

    def _find_after(self, position: int) -> list[Numeral]:
        """Return the number after a position, with only filler between them, and the numbers joined to it."""
        index = bisect.bisect_left(self.starts, position)
        while index < len(self.numerals) and self.starts[index] - position <= _LONGEST_GAP and self._is_denied(index):
            index += 1
        if index == len(self.numerals) or self.starts[index] - position > _LONGEST_GAP:
            return []
        if not _FILLER.issuperset(spoken_words(self.text[position : self.starts[index]])):
            return []
        return [self.numerals[index], *self._find_joined(index)]

    def _find_joined(self, index: int) -> Iterator[Numeral]:
        """Yield the numbers joined to one, as in "12 or 15", "5 out of 10", "1 1/2"."""
        for following in range(index + 1, min(index + 1 + _MOST_JOINED, len(self.numerals))):
            previous, numeral = self.numerals[following - 1], self.numerals[following]
            if self._is_denied(following) or not _joins(self.text[previous.end : numeral.start]):
                return
            yield numeral

    def _lines(self) -> list[tuple[int, int]]:
        """Return the ranges of lines with words or digits, the last first."""
        spans = [match.span() for match in re.finditer(r"[^\n]+", self.text)]
        return [(a, b) for a, b in reversed(spans) if re.search(r"\w", self.text[a:b]) and "```" not in self.text[a:b]]

    def _ending_equation(self) -> list[Numeral]:
        """Return X in "= X" at the end of the last line; "x = 5, y = 6" has two."""
        for start, end in self._lines()[:1]:
            edges = [start, *(match.end() for match in _CLAUSE.finditer(self.text, start, end)), end]
            results = [self._equation_in(a, b) for a, b in pairwise(edges)]
            return [numeral for numeral in results if numeral] if results[-1] else []
        return []

    def _equation_in(self, start: int, end: int) -> Numeral | None:
        sign = max(self.text.rfind("=", start, end), self.text.rfind("≈", start, end))
        aside = self.text.count("(", start, max(sign, start)) > self.text.count(")", start, max(sign, start))
        after = self._find_affirmed(sign, end) if sign >= 0 and not aside else []  # "(n = 20)" is an aside
        if len(after) != 1 or not _FILLER.issuperset(spoken_words(self.text[sign : after[0].start])):
            return None
        return after[0] if _is_unit(self.text[after[0].end : end]) else None

    def _last_lines(self) -> list[Numeral]:
        """Return the numbers of the trailing lines that contain nothing but a number, the last first."""
        column: list[Numeral] = []
        for start, end in self._lines():
            line = self._find_affirmed(start, end)
            if len(line) != 1 or not self._is_bare(line[0], start, end):
                break
            column.append(line[0])
        return column

    def _is_bare(self, numeral: Numeral, start: int, end: int) -> bool:
        before = self.text[start : numeral.start]
        return _FILLER.issuperset(spoken_words(before)) and _is_unit(self.text[numeral.end : end])

    def _bold(self) -> list[Numeral]:
        spans = [match.span() for match in _BOLD.finditer(self.text)]
        return [numeral for start, end in spans for numeral in self._find_affirmed(start, end)]


def _is_unit(text: str) -> bool:
    words = spoken_words(text)
    return not words or (len(words) <= 2 and all(len(word) <= _LONGEST_UNIT for word in words))


def _joins(gap: str) -> bool:
    if len(gap) > 40:
        return False
    words = spoken_words(gap)
    if not words:
        return not re.search(r"[(\n.;=≈:]", gap)
    if words[0] not in _JOINERS and len(words) > 1:
        words = words[1:]  # the unit in "12 ms or 15 ms"
    return words[0] in _JOINERS and (_JOINERS | _FILLER).issuperset(words)
