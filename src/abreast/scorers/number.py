"""`number`: the one number an answer gives, within a tolerance. Where it is not clear which one, it does not guess."""

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
from abreast.scorers.parsing.numerals import Numeral, numerals, prepared

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


class Reading(NamedTuple):
    """The number that was read and where, or none and why not."""

    values: tuple[float, ...]
    why: str


class Number(SingleColumn):
    """Right if |read - expected| <= max(abs, rel * |expected|); `rel` is 1e-6 unless a tolerance is given.

    The number is looked for in this order: a JSON object's `answer`; after "Answer:" and its like; a last line that
    is only a number; after "is", "=", ":"; the only bold one; the only one. Two different numbers in one of these
    places are a refusal to answer, and score 0. A percentage matches as 12 and as 0.12.

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
        wanted = read_value(expected)
        if not wanted.values:
            return None, f"the expected value {short(expected)} is no number: {wanted.why}"
        text, note = clipped(answer.text, LONGEST_PROSE)
        value = returned_value(answer)
        found = read(text) if value is None else read_value(value)
        if not found.values:
            return 0.0, found.why + note
        right = any(within(a, b, self._rel, self._abs) for a in found.values for b in wanted.values)
        return float(right), f"read {found.values[0]!r} ({found.why}), expected {short(expected)}{note}"


def read(text: str) -> Reading:
    """The number a text gives as its answer.

    >>> read("It is not 5; it is 7").values, read("between 12 and 15").values
    ((7.0,), ())
    """
    from_json = _read_json(text)
    if from_json is not None:
        return from_json
    page = _Page(prepared(text))
    for place, found in page.places():
        if found:
            return _only(found, place)
    return Reading((), "no number found")


def read_value(value: Any) -> Reading:
    """The number in a value that is not a text: a number, a numeric string, an object with an answer.

    >>> read_value(3).values, read_value("1,234").values, read_value(True).why
    ((3.0,), (1234.0,), 'true or false is not a number')
    """
    if isinstance(value, bool):
        return Reading((), "true or false is not a number")
    if isinstance(value, str):
        return read(clipped(value, LONGEST_PROSE)[0])
    if isinstance(value, dict):
        return _among(answers_in(value)) or Reading((), "the object has no answer")
    if not isinstance(value, Real | Decimal):
        return Reading((), f"{short(value)} is not a number")
    try:
        number = float(value)
    except (OverflowError, ValueError):
        return Reading((), "the number is too large")
    return Reading((number,), "the value") if math.isfinite(number) else Reading((), f"{number} is not finite")


def _read_json(text: str) -> Reading | None:
    found = find_object(text)
    return None if found is MISSING else _among(answers_in(found))


def _among(values: list[Any]) -> Reading | None:
    readings = [Reading((), "the answer is nested") if isinstance(v, dict | list) else read_value(v) for v in values]
    for reading in readings:
        if not reading.values:
            return reading
    if len({reading.values[0] for reading in readings}) > 1:
        return Reading((), f"several answers in the JSON object: {short(values)}")
    return Reading(readings[0].values, "the answer in the JSON object") if readings else None


def _only(found: list[Numeral], place: str) -> Reading:
    if all(found[0].agrees_with(other) for other in found):
        return Reading(found[0].values, place)
    shown = ", ".join(dict.fromkeys(short(numeral.text, 20).strip("'\"") for numeral in found[:6]))
    if all(not numeral.values for numeral in found):
        return Reading((), f"cannot be read for sure as one number: {shown}")
    return Reading((), f"not clear which number is the answer ({place}): {shown}")


class _Page:
    """A prepared text and its numbers; knows the places where an answer may stand."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.numerals = numerals(text)
        self.starts = [numeral.start for numeral in self.numerals]
        self._negations = Negations(text)
        self._denied: dict[int, bool] = {}

    def places(self) -> Iterator[tuple[str, list[Numeral]]]:
        """From the surest place to the least sure one."""
        yield MARKED, self._after_each(marker_ends(self.text))
        yield "the equation at the end", self._ending_equation()
        yield "the last line", self._last_lines()
        yield "after is, = or :", self._after_each([match.end() for match in _CONNECTOR.finditer(self.text)])
        yield "in bold", self._bold()
        yield "the only number", self._standing(0, len(self.text))

    def _standing(self, start: int, end: int) -> list[Numeral]:
        """The numbers between two positions that are not denied."""
        low, high = bisect.bisect_left(self.starts, start), bisect.bisect_left(self.starts, end)
        return [self.numerals[index] for index in range(low, high) if not self._is_denied(index)]

    def _is_denied(self, index: int) -> bool:
        if index not in self._denied:
            numeral = self.numerals[index]
            self._denied[index] = self._negations.deny(numeral.start, numeral.end, _DENIED_THROUGH)
        return self._denied[index]

    def _after_each(self, positions: list[int]) -> list[Numeral]:
        return [numeral for position in positions for numeral in self._right_after(position)]

    def _right_after(self, position: int) -> list[Numeral]:
        """The number right after a position, with nothing but filler between, and those joined to it."""
        index = bisect.bisect_left(self.starts, position)
        while index < len(self.numerals) and self.starts[index] - position <= _LONGEST_GAP and self._is_denied(index):
            index += 1
        if index == len(self.numerals) or self.starts[index] - position > _LONGEST_GAP:
            return []
        if not _FILLER.issuperset(spoken_words(self.text[position : self.starts[index]])):
            return []
        return [self.numerals[index], *self._joined(index)]

    def _joined(self, index: int) -> Iterator[Numeral]:
        """ "12 or 15", "12 to 15", "5 out of 10", "1 1/2": what belongs to the number before it."""
        for following in range(index + 1, min(index + 1 + _MOST_JOINED, len(self.numerals))):
            left, right = self.numerals[following - 1], self.numerals[following]
            if self._is_denied(following) or not _joins(self.text[left.end : right.start]):
                return
            yield right

    def _lines(self) -> list[tuple[int, int]]:
        """Start and end of the lines that say something, last first."""
        spans = [match.span() for match in re.finditer(r"[^\n]+", self.text)]
        return [(a, b) for a, b in reversed(spans) if re.search(r"\w", self.text[a:b]) and "```" not in self.text[a:b]]

    def _ending_equation(self) -> list[Numeral]:
        """ "= X" at the end of the last line; in "x = 5, y = 6" there are two."""
        for start, end in self._lines()[:1]:
            edges = [start, *(match.end() for match in _CLAUSE.finditer(self.text, start, end)), end]
            found = [self._equation_in(a, b) for a, b in pairwise(edges)]
            return [numeral for numeral in found if numeral] if found[-1] else []
        return []

    def _equation_in(self, start: int, end: int) -> Numeral | None:
        sign = max(self.text.rfind("=", start, end), self.text.rfind("≈", start, end))
        aside = self.text.count("(", start, max(sign, start)) > self.text.count(")", start, max(sign, start))
        after = self._standing(sign, end) if sign >= 0 and not aside else []  # "(n = 20)" is an aside
        if len(after) != 1 or not _FILLER.issuperset(spoken_words(self.text[sign : after[0].start])):
            return None
        return after[0] if _is_unit(self.text[after[0].end : end]) else None

    def _last_lines(self) -> list[Numeral]:
        """The number that is the last line; the whole column if the lines above are bare numbers too."""
        found: list[Numeral] = []
        for start, end in self._lines():
            line = self._standing(start, end)
            if len(line) != 1 or not self._is_bare(line[0], start, end):
                break
            found.append(line[0])
        return found

    def _is_bare(self, numeral: Numeral, start: int, end: int) -> bool:
        before = self.text[start : numeral.start]
        return _FILLER.issuperset(spoken_words(before)) and _is_unit(self.text[numeral.end : end])

    def _bold(self) -> list[Numeral]:
        spans = [match.span() for match in _BOLD.finditer(self.text)]
        return [numeral for start, end in spans for numeral in self._standing(start, end)]


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
