"""How a wrong text differs from the expected one, where a reader could take them for the same.

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


def _normalised(text: str) -> str:
    return text if text.isascii() else unicodedata.normalize("NFKC", without_mark_floods(text))


_FORGIVING: dict[str, Callable[[str], str]] = {
    "whitespace": _without_spaces,
    "case": str.casefold,
    "the Unicode form": _normalised,
    "invisible characters": _without_invisible,
}


def mismatch(found: Any, expected: Any, longest: int = 60) -> str:
    """`'B', expected 'A'`: two values, each in about `longest` characters at most, and what tells them apart.

    Of long values, the neighbourhood of the first difference is shown.
    """
    are_texts = isinstance(found, str) and isinstance(expected, str)
    if are_texts and found == expected:
        text = short(found, longest)
        return f"{text}, expected {text}"
    detail = difference(found, expected) if are_texts else ""
    one, other = (value if isinstance(value, str) else rendered(value) for value in (found, expected))
    if one == other or (_fits(found, longest) and _fits(expected, longest)):
        return f"{short(found, longest)}, expected {short(expected, longest)}{detail}"
    at = _first_difference(one, other)
    if are_texts and not detail:
        detail = f" (first difference at character {at + 1:,})"
    start = max(0, at - longest // 3)
    excerpts = [_excerpt(value, start, start + longest) for value in (found, expected)]
    return f"{excerpts[0]}, expected {excerpts[1]}{detail}"


def mismatch_any(found: str, expected: Sequence[str]) -> str:
    """The same where any of several texts would be right."""
    if len(expected) == 1:
        return mismatch(found, expected[0])
    similar = [] if found in expected else [text for text in expected[:MOST_EXPECTED] if difference(found, text)]
    closest = f"; closest: {mismatch(found, similar[0])}" if similar else ""
    return f"{short(found)}, expected one of {short(list(expected))}{closest}"


def difference(found: str, expected: str) -> str:
    """What tells two texts apart that look alike, in parentheses; empty if a reader sees it anyway."""
    if found == expected or max(len(found), len(expected)) > LONGEST_CLASSIFIED:
        return ""
    kinds = _only_difference(found, expected)
    if not kinds and not _look_alike(found, expected):
        return ""
    at = _first_difference(found, expected)
    while at and any(unicodedata.combining(text[at : at + 1] or " ") for text in (found, expected)):
        at -= 1  # an accent belongs to its letter
    read, wanted = (_cluster(text, at) for text in (found, expected))
    points = f": read {_named(read)}, expected {_named(wanted)}" if kinds != ("case",) else ""
    verb = "differ" if len(kinds) > 1 or kinds == ("invisible characters",) else "differs"
    what = f"only {' and '.join(kinds)} {verb}, first" if kinds else "differs"
    return f" ({what} at character {at + 1:,}{points})"


def _only_difference(found: str, expected: str) -> tuple[str, ...]:
    """The fewest kinds of differences that, if they did not count, would make the texts equal."""
    if not _are_equal_without(tuple(_FORGIVING), found, expected):
        return ()
    subsets = (kinds for size in range(1, len(_FORGIVING) + 1) for kinds in combinations(_FORGIVING, size))
    return next(kinds for kinds in subsets if _are_equal_without(kinds, found, expected))


def _are_equal_without(kinds: tuple[str, ...], found: str, expected: str) -> bool:
    one, other = (reduce(lambda text, kind: _FORGIVING[kind](text), kinds, text) for text in (found, expected))
    return one == other


def _look_alike(found: str, expected: str) -> bool:
    """Whether letters that differ could be mistaken for each other, such as Latin and Cyrillic ones."""
    return len(found) == len(expected) and all(map(_is_confusable, found, expected))


def _is_confusable(one: str, other: str) -> bool:
    kinds = unicodedata.category(one), unicodedata.category(other)
    return one == other or (not (one + other).isascii() and kinds[0][0] == kinds[1][0] and "Lo" not in kinds)


def _first_difference(found: str, expected: str) -> int:
    """The length of what both begin with, by bisection: texts may be very long."""
    low, high = 0, min(len(found), len(expected))
    while low < high:
        middle = (low + high + 1) // 2
        if found[low:middle] == expected[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _fits(value: Any, longest: int) -> bool:
    return (not isinstance(value, str) or len(value) <= longest) and len(rendered(value)) <= longest


def _excerpt(value: Any, start: int, end: int) -> str:
    text = value if isinstance(value, str) else rendered(value)
    piece = repr(text[start:end]) if isinstance(value, str) else text[start:end]
    return f"{'…' if start else ''}{piece}{'…' if end < len(text) else ''}"


def _cluster(text: str, at: int) -> str:
    """A letter with its first accents."""
    end = at + 1
    while end < min(len(text), at + 4) and unicodedata.combining(text[end]):
        end += 1
    return text[at:end]


def _named(cluster: str) -> str:
    if not cluster:
        return "the end"
    if cluster.isascii() and cluster.isprintable() and not cluster.isspace():
        return repr(cluster)
    return " + ".join(
        f"U+{ord(char):04X} {unicodedata.name(char, _CONTROL_NAMES.get(char, 'without a name'))}" for char in cluster
    )
