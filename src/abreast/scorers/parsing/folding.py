"""Folding: one spelling for characters that mean the same (quotes, dashes, composed letters, case)."""

from __future__ import annotations

import unicodedata

_QUOTES = {"‘": "'", "’": "'", "‛": "'", "ʼ": "'", "＇": "'", "“": '"', "”": '"', "„": '"', "«": '"', "»": '"'}
_MINUS = dict.fromkeys("−﹣－‐‑", "-")
_INVISIBLE = dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff\u00ad", "")
_SAME = str.maketrans({**_QUOTES, **_MINUS, **_INVISIBLE})
_MOST_MARKS = 30


def folded(text: str) -> str:
    """Text in which quotes, minus signs and composed letters have one spelling. Case is kept, and `casefold()` of
    the result keeps every position, so that matches in one are matches in the other.

    >>> folded("It isn’t −3 straße").casefold()
    "it isn't -3 strasse"
    """
    text = text.translate(_SAME)
    if text.isascii():
        return text
    text = unicodedata.normalize("NFC", without_mark_floods(text))
    return "".join(character if len(character.casefold()) == 1 else character.casefold() for character in text)


def without_mark_floods(text: str) -> str:
    """At most 30 accents on one letter: normalising a flood of them takes quadratic time.

    >>> len(without_mark_floods("a" + chr(0x301) * 99))
    31
    """
    kept: list[str] = []
    run = 0
    for character in text:
        run = run + 1 if unicodedata.combining(character) else 0
        if run <= _MOST_MARKS:
            kept.append(character)
    return "".join(kept)
