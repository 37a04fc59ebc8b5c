"""Normalize characters, find the markers that announce an answer, and split text into words."""

from __future__ import annotations

import re
import unicodedata

_QUOTES = {"‘": "'", "’": "'", "‛": "'", "ʼ": "'", "＇": "'", "“": '"', "”": '"', "„": '"', "«": '"', "»": '"'}
_MINUS = dict.fromkeys("−﹣－‐‑", "-")
_INVISIBLE = dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff\u00ad", "")
_SAME = str.maketrans({**_QUOTES, **_MINUS, **_INVISIBLE})
_MOST_MARKS = 30


def fold(text: str) -> str:
    """Unify quotes, minus signs and composed letters. Case is kept, and `casefold()` of the result keeps positions.

    >>> fold("It isn’t −3 straße").casefold()
    "it isn't -3 strasse"
    """
    text = text.translate(_SAME)
    if text.isascii():
        return text
    text = unicodedata.normalize("NFC", without_mark_floods(text))
    return "".join(character if len(character.casefold()) == 1 else character.casefold() for character in text)


def without_mark_floods(text: str) -> str:
    """Keep at most 30 accents per letter: normalizing more takes quadratic time.

    >>> len(without_mark_floods("a" + chr(0x301) * 99))
    31
    """
    characters: list[str] = []
    run = 0
    for character in text:
        run = run + 1 if unicodedata.combining(character) else 0
        if run <= _MOST_MARKS:
            characters.append(character)
    return "".join(characters)


MARKER = re.compile(
    r"""
      \\boxed\s{0,3}\{
    | <(?:final[_\s-]?)?answer>
    | ^\#{4}[ \t]
    | \b(?: (?:answer|verdict|prediction)
          | final\s{1,3}(?:result|value|estimate|label|decision|classification|choice) )\b
      [\s*_`"')]{0,6} (?: [:=≈→—–] | ->? | (?:is|was)\b | (?:would|should|must|will)\s{1,3}be\b )
    | \b(?:label|classification)\b[\s*_`"')]{0,6}[:=]
    """,
    re.IGNORECASE | re.MULTILINE | re.VERBOSE,
)


def marker_ends(text: str) -> list[int]:
    """Return the end of each marker.

    >>> [text[end:] for text in ["**Answer:** 5", "So the answer is 5"] for end in marker_ends(text)]
    ['** 5', ' 5']
    """
    return [match.end() for match in MARKER.finditer(text)]


def spoken_words(text: str) -> list[str]:
    """Return the words in lower case, without signs, markup and digits.

    >>> spoken_words(" **approximately** $")
    ['approximately']
    """
    return re.findall(r"[^\W\d_]+", text.casefold())
