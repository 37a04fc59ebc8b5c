"""`text`: the answer has the expected words, ignoring case, punctuation, Markdown and articles."""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise
from typing import Any

from abreast.model import Answer
from abreast.scorers.base import LONGEST_TEXT, Mark, SingleColumn, clipped, texts_of
from abreast.scorers.parsing.answer_text import fold, without_mark_floods
from abreast.scorers.parsing.mismatch import mismatch_any

_SUPERSCRIPT = re.compile("([⁰¹²³⁴⁵⁶⁷⁸⁹]+)")
_FRACTION = re.compile("(?<=[0-9])([¼½¾⅐-⅞])")
_LINE_START = re.compile(r"^[ \t]*(?:[-*+•>]|#{1,6})[ \t]+", re.MULTILINE)
_EMPHASIS = re.compile(r"\*{2,3}(?!\d)|(?<!\d)\*{2,3}|~~|`+")
_NOISE = re.compile(
    r"""
      (?<!\w)_+ | _+(?!\w)                        # emphasis; inside a name it stays
    | (?<!\w)\*(?=\S) | (?<=\S)\*(?!\w)           # emphasis; between two words it is a product
    | (?<![0-9])[,:](?!\S) | (?<![0-9])[,:](?=\S) | (?<=[0-9])[,:](?![0-9])   # kept inside 1,5 and 10:30
    | \.(?!\w)                                    # kept in 1.5, a.py and .NET
    | (?<![0-9])-(?![0-9]) | (?<=[^\W\d])-(?=[0-9]) | (?<=[0-9])-(?![0-9])     # kept in -3 and 10-12
    | (?<!\w)/(?!\w) | \\ | !(?!=)
    | [;?"()\[\]{}|…–—]
    """,
    re.VERBOSE,
)
_ARTICLES = {"a", "an", "the"}


class Text(SingleColumn):
    """Right if the words are the same. A list of strings means any of them.

    >>> from abreast.scorers import build
    >>> from abreast.model import Answer, Case
    >>> build("text", {}).score(Case("c", "?", expected="Eiffel Tower"), Answer("**The Eiffel tower.**"))[0].value
    1.0
    """

    def mark(self, expected: Any, answer: Answer) -> Mark:
        text, note = clipped(answer.text)
        words = normalized(text)
        expected_words = [normalized(item) for item in texts_of(expected)]
        return float(words in expected_words), f"read {mismatch_any(words, expected_words)}{note}"


def normalized(text: str) -> str:
    """Reduce a text to its words; signs and points within numbers and names stay.

    >>> normalized("**The** answer: C++!"), normalized("-1.5"), normalized("a.py")
    ('answer c++', '-1.5', 'a.py')
    """
    text = _SUPERSCRIPT.sub(r"^\1", text)  # otherwise NFKC turns 10² into 102
    text = _FRACTION.sub(r" \1", text)
    text = unicodedata.normalize("NFKC", without_mark_floods(text))[: 2 * LONGEST_TEXT]  # one sign may become 18
    text = fold(text).casefold()
    text = _EMPHASIS.sub("", _LINE_START.sub("", text)).replace("'", "")
    words = _NOISE.sub(" ", text).split()
    return " ".join(word for word, after in pairwise([*words, ""]) if not _is_article(word, after))


def _is_article(word: str, after: str) -> bool:
    # "option a" ends with a name, not with an article.
    return word in _ARTICLES and after[:1].isalpha()
