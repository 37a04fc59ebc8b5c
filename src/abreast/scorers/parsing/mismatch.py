"""Describe how a wrong value differs from the expected one, even where they look alike.

>>> mismatch("Paris", "London")
"'Paris', expected 'London'"
>>> print(mismatch("Alan  Turing", "Alan Turing"))
'Alan  Turing', expected 'Alan Turing' (only whitespace differs, first at character 6: read U+0020 SPACE, expected 'T')
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from functools import reduce
from itertools import combinations
from typing import Any

from abreast.scorers.base import rendered, short
from abreast.scorers.parsing.answer_text import without_mark_floods

LONGEST_CLASSIFIED = 2_000  # characters; of longer texts only the first difference is described
MOST_EXPECTED = 100  # expected texts that are searched for one that looks like the answer
_CONTROL_NAMES = {"\t": "TAB", "\n": "LINE FEED", "\r": "CARRIAGE RETURN"}


def _without_spaces(text: str) -> str:
    return "".join(text.split())


def _without_invisible(text: str) -> str:
    return text if text.isascii() else "".join(char for char in text if unicodedata.category(char) != "Cf")


def _normalize(text: str) -> str:
    return text if text.isascii() else unicodedata.normalize("NFKC", without_mark_floods(text))


_FORGIVING: dict[str, Callable[[str], str]] = {
    "whitespace": _without_spaces,
    "case": str.casefold,
    "the Unicode form": _normalize,
    "invisible characters": _without_invisible,
}


def mismatch(actual: Any, expected: Any, longest: int = 60) -> str:
    """Describe two values, such as `'B', expected 'A'`; long ones by about `longest` characters around the first
    difference.
    """
    are_texts = isinstance(actual, str) and isinstance(expected, str)
    if are_texts and actual == expected:
        text = short(actual, longest)
        return f"{text}, expected {text}"
    detail = describe_difference(actual, expected) if are_texts else ""
    left, right = (value if isinstance(value, str) else rendered(value) for value in (actual, expected))
    if left == right or (_fits(actual, longest) and _fits(expected, longest)):
        return f"{short(actual, longest)}, expected {short(expected, longest)}{detail}"
    at = _first_difference(left, right)
    if are_texts and not detail:
        detail = f" (first difference at character {at + 1:,})"
    start = max(0, at - longest // 3)
    excerpts = [_excerpt(value, start, start + longest) for value in (actual, expected)]
    return f"{excerpts[0]}, expected {excerpts[1]}{detail}"


def mismatch_any(actual: str, expected: Sequence[str]) -> str:
    """Describe a text and the expected ones, any of which would be right."""
    if len(expected) == 1:
        return mismatch(actual, expected[0])
    candidates = [] if actual in expected else expected[:MOST_EXPECTED]
    similar = [text for text in candidates if describe_difference(actual, text)]
    closest = f"; closest: {mismatch(actual, similar[0])}" if similar else ""
    return f"{short(actual)}, expected one of {short(list(expected))}{closest}"


def describe_difference(actual: str, expected: str) -> str:
    """Describe the difference between texts that look alike, in parentheses; empty for other texts."""
    if actual == expected or max(len(actual), len(expected)) > LONGEST_CLASSIFIED:
        return ""
    kinds = _only_difference(actual, expected)
    if not kinds and not _look_alike(actual, expected):
        return ""
    at = _first_difference(actual, expected)
    while at and any(unicodedata.combining(text[at : at + 1] or " ") for text in (actual, expected)):
        at -= 1  # an accent belongs to its letter
    read, right = (_describe_cluster(text, at) for text in (actual, expected))
    points = f": read {read}, expected {right}" if kinds != ("case",) else ""
    verb = "differ" if len(kinds) > 1 or kinds == ("invisible characters",) else "differs"
    fact = f"only {' and '.join(kinds)} {verb}, first" if kinds else "differs"
    return f" ({fact} at character {at + 1:,}{points})"


def _only_difference(actual: str, expected: str) -> tuple[str, ...]:
    """Return the smallest set of kinds of differences that explains all differences; empty if none does."""
    if not _are_equal_without(tuple(_FORGIVING), actual, expected):
        return ()
    subsets = (kinds for size in range(1, len(_FORGIVING) + 1) for kinds in combinations(_FORGIVING, size))
    return next(kinds for kinds in subsets if _are_equal_without(kinds, actual, expected))


def _are_equal_without(kinds: tuple[str, ...], actual: str, expected: str) -> bool:
    left, right = (reduce(lambda text, kind: _FORGIVING[kind](text), kinds, text) for text in (actual, expected))
    return left == right


def _look_alike(actual: str, expected: str) -> bool:
    """Whether all letters that differ can be confused, such as Latin and Cyrillic ones."""
    return len(actual) == len(expected) and all(map(_is_confusable, actual, expected))


def _is_confusable(left: str, right: str) -> bool:
    kinds = unicodedata.category(left), unicodedata.category(right)
    return left == right or (not (left + right).isascii() and kinds[0][0] == kinds[1][0] and "Lo" not in kinds)


def _first_difference(left: str, right: str) -> int:
    pairs = enumerate(zip(left, right, strict=False))
    return next((index for index, (a, b) in pairs if a != b), min(len(left), len(right)))


def _fits(value: Any, longest: int) -> bool:
    return (not isinstance(value, str) or len(value) <= longest) and len(rendered(value)) <= longest


def _excerpt(value: Any, start: int, end: int) -> str:
    text = value if isinstance(value, str) else rendered(value)
    piece = repr(text[start:end]) if isinstance(value, str) else text[start:end]
    return f"{'…' if start else ''}{piece}{'…' if end < len(text) else ''}"


def _describe_cluster(text: str, start: int) -> str:
    """Describe a letter with its first accents."""
    end = start + 1
    while end < min(len(text), start + 4) and unicodedata.combining(text[end]):
        end += 1
    cluster = text[start:end]
    if not cluster:
        return "the end"
    if cluster.isascii() and cluster.isprintable() and not cluster.isspace():
        return repr(cluster)
    return " + ".join(
        f"U+{ord(char):04X} {unicodedata.name(char, _CONTROL_NAMES.get(char, 'without a name'))}" for char in cluster
    )
