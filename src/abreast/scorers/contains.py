"""`contains` and `regex`: the answer contains a phrase or matches a pattern."""

from __future__ import annotations

import re
from typing import Any

from abreast import regex_timeout
from abreast.errors import BadInput
from abreast.model import Answer
from abreast.scorers.base import LONGEST_TEXT, Mark, ScorerSettings, SingleColumn, clipped, short, texts_of
from abreast.scorers.parsing.answer_text import fold
from abreast.scorers.parsing.negation import Phrases
from abreast.settings import is_flag, is_text, is_texts


class Contains(SingleColumn):
    """Right if the answer mentions the word or phrase, as a whole word, and does not deny it.

    >>> from abreast.scorers import build
    >>> from abreast.model import Answer, Case
    >>> scorer = build("contains", {"value": "rising"})
    >>> [scorer.score(Case("c", "?"), Answer(text))[0].value for text in ("It is rising.", "It is not rising.")]
    [1.0, 0.0]
    """

    def __init__(self, settings: ScorerSettings) -> None:
        self._value = settings.take("value", None, _is_text_or_texts, "a string or a list of strings")
        self._all = settings.take("all", False, is_flag, "true or false")
        self._negation = settings.take("negation", True, is_flag, "true or false")
        super().__init__(settings, needs_expected=self._value is None)

    def mark(self, expected: Any, answer: Answer) -> Mark:
        terms = [term for term in texts_of(expected if self._value is None else self._value) if term.strip()]
        if not terms:
            return None, "the expected value is empty"
        clip, note = clipped(answer.text)
        text = fold(clip).casefold()
        states = {term: self._state(term, text) for term in terms}
        matches = [state == "found" for state in states.values()]
        right = all(matches) if self._all else any(matches)
        why = ", ".join(f"{short(term)} {state}" for term, state in list(states.items())[:5])
        return float(right), why + note

    def _state(self, term: str, text: str) -> str:
        state = "not found"
        for mention in Phrases([fold(term)]).mentions(text):
            if not (self._negation and mention.negated):
                return "found"
            state = "only negated"
        return state


class Regex(SingleColumn):
    """Right if the Python pattern matches anywhere in the answer. There is no score if the search takes more than 5
    seconds, as it may with nested repeats.

    >>> from abreast.scorers import build
    >>> from abreast.model import Answer, Case
    >>> build("regex", {"pattern": "^[0-9]+$"}).score(Case("c", "?"), Answer("42"))[0].value
    1.0
    """

    def __init__(self, settings: ScorerSettings) -> None:
        pattern = settings.take("pattern", None, is_text, "a regular expression")
        ignore_case = settings.take("ignore_case", False, is_flag, "true or false")
        self._flags = re.IGNORECASE if ignore_case else re.NOFLAG
        self._pattern = None if pattern is None else compile_pattern(settings.where, pattern, self._flags)
        self._where = settings.where
        super().__init__(settings, needs_expected=pattern is None)

    def mark(self, expected: Any, answer: Answer) -> Mark:
        try:
            patterns = (
                [self._pattern]
                if self._pattern
                else [compile_pattern(self._where, item, self._flags) for item in texts_of(expected)]
            )
        except BadInput as error:
            return None, error.message
        return search_any(patterns, answer.text)


def compile_pattern(where: str, pattern: str, flags: re.RegexFlag = re.NOFLAG, key: str = "pattern") -> re.Pattern[str]:
    """Compile the pattern of the setting `key`."""
    try:
        return re.compile(pattern, flags)
    except (re.error, OverflowError, RecursionError, Warning) as error:  # a warning only under -W error
        raise BadInput(
            f"{where}: {key} {short(pattern)} is not a regular expression: {error}",
            f"use single quotes in YAML, which keep backslashes: {key}: '\\d+'",
        ) from error


def search_any(patterns: list[re.Pattern[str]], text: str) -> Mark:
    """Search the beginning of a text for any of the patterns."""
    note = ""
    if len(text) > LONGEST_TEXT:
        text, note = text[:LONGEST_TEXT], f" (only the first {LONGEST_TEXT:,} characters were read)"
    for pattern in patterns:
        try:
            match = regex_timeout.search(pattern, text)
        except regex_timeout.TooSlow:
            return None, f"{short(pattern.pattern)} {regex_timeout.TOO_SLOW}{note}"
        if match is not None:
            return 1.0, f"{short(pattern.pattern)} matches {short(match)}{note}"
    return 0.0, f"{short(' | '.join(pattern.pattern for pattern in patterns))} matches nothing{note}"


def _is_text_or_texts(value: Any) -> bool:
    return is_text(value) or is_texts(value)
