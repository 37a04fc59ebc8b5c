"""Convert numbers in words to digits."""

from __future__ import annotations

import re

_UNITS = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_VALUES = {word: value for value, word in enumerate(_UNITS)} | {word: 20 + 10 * at for at, word in enumerate(_TENS)}
_SCALES = {"hundred": 100, "thousand": 1000, "million": 1_000_000}
_SETS = {"half a dozen": 6, "a dozen": 12, "a pair of": 2, "a couple of": 2, "a single": 1}

_WORD = "|".join(sorted([*_VALUES, *_SCALES], key=len, reverse=True))
_RUN = re.compile(
    rf"(?<![\w-])(?:a\s(?=hundred|thousand|million))?(?:{_WORD})(?:(?:-|\s(?:and\s)?)(?:{_WORD})\b){{0,12}}+(?![\w-])",
    re.IGNORECASE,
)
_SET = re.compile(rf"\b(?:{'|'.join(_SETS)})\b", re.IGNORECASE)


def in_digits(text: str) -> str:
    """Replace numbers in words by digits.

    >>> in_digits("Ninety-four values, a dozen spikes, one thousand two hundred steps")
    '94 values, 12 spikes, 1200 steps'
    """
    text = _SET.sub(lambda match: str(_SETS[match.group().casefold()]), text)
    return _RUN.sub(lambda match: str(_value(match.group())), text)


def _value(words: str) -> int:
    total = current = 0
    for word in re.findall("[a-z]+", words.casefold()):
        if word in _VALUES:
            current += _VALUES[word]
        elif word == "hundred":
            current = 100 * max(current, 1)
        elif word in _SCALES:
            total, current = total + _SCALES[word] * max(current, 1), 0
    return total + current
