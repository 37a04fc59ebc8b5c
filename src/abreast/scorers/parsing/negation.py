"""Find phrases in a text, and whether they are negated, as in "not falling"."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

_WINDOW_AFTER = 80
_MOST_TOKENS = 24
_FURTHEST = 8
"""The reach of a negation in words, as in "I do not believe that the overall trend is falling"."""

_VERBS = r"is|are|was|were|do|does|did|can|could|would|should|will|has|have|had|seems?|appears?|looks?"
_CONTRACTED = (
    r"[^\W\d_]{2,7}n't|(?:is|are|was|were|does|do|did|wo|would|could|should|has|have|had|ca|ai)nt|can\s?not|cannot"
)
_TOKEN = re.compile(
    rf"""
      (?P<harmless> \bnot\s+(?:only|just|merely|simply|surprising(?:ly)?)\b
        | \bno\s+(?:doubt|question|wonder|surprise|matter|less|fewer)\b
        | \bwithout\s+(?:a\s+|any\s+)?(?:doubt|question)\b | \bnothing\s+(?:but|other\s+than)\b )
    | (?P<narrow> \b(?:rather\s+than|instead\s+of|(?:as\s+)?opposed\s+to|far\s+from|without|excluding|non(?=[-\s]))\b )
    | (?P<interjection> \bno\s+(?:it|the|this|that|i|we|they|there|actually|its|it's)\b )
    | (?P<negator> \b(?:{_CONTRACTED}|not|never|no|none|nobody|nothing|neither|nor|hardly|unlikely
        |(?:rule[sd]?|ruling)\s+out|(?:lack|absence)\s+of|fail(?:s|ed)?\s+to)\b )
    | (?P<stop> [;:!?—…)] | \.(?!\w) | (?<!not)(?<!n't)\n | \s[-–]\s | (?<!not\s)\(
        | \b(?:but|however|yet|whereas|while|although|though|because|since|so|therefore|thus|hence|which|then|as)\b
        | \b(?:instead|rather)\b
        | \band\s+(?=(?:it|is|are|was|now|has|the|they|this|that|there|we|i|so|thus|instead|rather)\b) )
    | (?P<comma> ,)
    | (?P<word> [^\W_]+(?:'[^\W_]+)*)
    """,
    re.VERBOSE | re.IGNORECASE,
)
_DENIED_AFTER = re.compile(
    rf"""
    ["'*_`)\]]{{0,4}}\s{{0,3}}
    (?: (?:{_VERBS})\s+(?:(?:clearly|definitely|probably|certainly|simply|really|very|most)\s+)?
          (?:not|never|unlikely|ruled\s+out|wrong|incorrect|false|impossible|excluded)\b
          (?!\s+(?:only|just|merely|simply|in\s+doubt|surprising))
      | (?:{_CONTRACTED})\b(?!\s+(?:only|just|merely|simply|in\s+doubt))
      | can\s+be\s+(?:ruled\s+out|excluded)\b
      | \?["'*_\s]{{0,6}}(?:no|nope|not|never)\b(?!\s+(?:doubt|question))
      | [:=–—-]{{1,2}}\s{{0,3}}(?:no|false|not)\b(?=[*_"'\s]{{0,4}}(?:$|[\n,.;]))
    )
    """,
    re.VERBOSE | re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"[;:!?\n]|\.(?!\w)")
_NARROW_STOP = {"it", "is", "are", "was", "were", "they", "there", "we", "this", "has", "have", "shows"}
_OR = re.compile(r"\b(?:or|nor)\b", re.IGNORECASE)
_LIST_BREAKERS = re.compile(r"\b(?:it|is|are|was|but|they|we|there)\b", re.IGNORECASE)

# Scripts without spaces between words, or with attached endings: their words have no boundaries to match.
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]")


@dataclass(frozen=True, slots=True)
class PhraseMatch:
    """An occurrence of a phrase."""

    phrase: str
    start: int
    end: int
    negated: bool


class Phrases:
    """Finds phrases as whole words, longest first, ignoring case. Phrases and texts must have been passed to `fold`.

    >>> [(match.phrase, match.negated) for match in Phrases(["rising", "falling"]).mentions("not falling; rising")]
    [('falling', True), ('rising', False)]
    """

    def __init__(self, phrases: Iterable[str], patterns: dict[str, str] | None = None) -> None:
        """`patterns` overrides the regular expression of some phrases."""
        self._phrases = sorted({phrase.casefold() for phrase in phrases if phrase.strip()}, key=len, reverse=True)
        special = patterns or {}
        groups = "|".join(f"({special.get(phrase) or whole_word(phrase)})" for phrase in self._phrases)
        self._pattern = re.compile(groups, re.IGNORECASE) if groups else None

    def mentions(self, text: str) -> Iterator[PhraseMatch]:
        """Yield the occurrences in order."""
        if self._pattern is None:
            return
        negations = Negations(text)
        for match in self._pattern.finditer(text):
            start, end = match.span()
            phrase = self._phrases[(match.lastindex or 1) - 1]
            yield PhraseMatch(phrase, start, end, negations.deny(start, end))


def whole_word(phrase: str) -> str:
    """Return a pattern for a phrase as a whole word: not `C` in `C++`, not `5` in `-5` or `1.5`.

    >>> [bool(re.search(whole_word("c"), text)) for text in ["c, d", "c++", "abc"]]
    [True, False, False]
    """
    words = phrase.split()
    body = r"\s+".join(re.escape(word) for word in words)
    return _left_edge(words[0][0]) + body + _right_edge(words[-1][-1])


class Negations:
    """The negations of a text; checking many phrases is cheap.

    >>> negations = Negations("It is not falling but rising")
    >>> negations.deny(10, 17), negations.deny(22, 28)
    (True, False)
    """

    def __init__(self, text: str) -> None:
        self._text = text

    @cached_property
    def _tokens(self) -> list[tuple[int, str, str]]:
        """The end, kind and text of every token."""
        return [(match.end(), match.lastgroup or "", match.group()) for match in _TOKEN.finditer(self._text)]

    @cached_property
    def _ends(self) -> list[int]:
        return [end for end, _, _ in self._tokens]

    def deny(self, start: int, end: int, through: frozenset[str] | None = None) -> bool:
        """Whether the phrase at `text[start:end]` is negated, before or after it.

        A negation reaches to the end of its clause; with `through`, only over these words.
        """
        if _DENIED_AFTER.match(self._text, end, end + _WINDOW_AFTER):
            return True
        passed: list[str] = []
        index = bisect.bisect_right(self._ends, start)
        for at, kind, word in reversed(self._tokens[max(0, index - _MOST_TOKENS) : index]):
            if kind == "negator":
                return True
            if kind == "narrow":
                return len(passed) <= 3 and not _NARROW_STOP.intersection(passed)
            if kind in ("harmless", "interjection", "stop") or (kind == "comma" and not self._in_list(at, end)):
                return False
            if kind == "word":
                passed.append(word.casefold())
                if len(passed) > _FURTHEST or (through is not None and passed[-1] not in through):
                    return False
        return False

    def _in_list(self, comma: int, end: int) -> bool:
        """Whether the comma continues a negated list: "not up, down or flat" negates all three, "not up, down" one."""
        rest = self._text[comma : end + _WINDOW_AFTER]
        ending = _SENTENCE_END.search(rest)
        rest = rest[: ending.start()] if ending else rest
        conjunction = _OR.search(rest)
        return conjunction is not None and not _LIST_BREAKERS.search(rest[: conjunction.start()])


def _left_edge(first: str) -> str:
    if _UNSPACED.match(first):
        return ""
    if first.isdigit():
        return r"(?<!\w)(?<![.-])(?<!\d,)"
    if first.isalnum():
        # One or two underscores may be markup, unless a letter precedes them.
        return r"(?<![^\W_])(?<![^\W_]_)(?<![^\W_]__)"
    return rf"(?<![^\W_])(?<!{re.escape(first)})"


def _right_edge(last: str) -> str:
    if _UNSPACED.match(last):
        return ""
    if last.isdigit():
        return r"(?!\w)(?![.,]\d)"
    if last.isalnum():
        return r"(?![^\W_])(?!_{1,2}[^\W_])(?![\u0300-\u036f]|\+\+|\#)"
    return rf"(?![^\W_])(?!{re.escape(last)})"
