"""Mentions of words and phrases in a text, and whether they are denied: "not falling" does not say falling."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_WINDOW_BEFORE = 160
_WINDOW_AFTER = 80
_FURTHEST = 8
"""How many words a negation reaches over: "I do not believe that the overall trend is falling"."""

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
_LIST_BREAKERS = re.compile(r"\b(?:it|is|are|was|but|they|we|there)\b", re.IGNORECASE)

# Scripts written without spaces, or with endings glued on: a word in them has no edge to look for.
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]")


@dataclass(frozen=True, slots=True)
class Mention:
    """One place where a phrase stands."""

    phrase: str
    start: int
    end: int
    negated: bool


class Phrases:
    """Phrases to look for as whole words, longest first, whatever the case. Give and search `folded` text.

    >>> [(each.phrase, each.negated) for each in Phrases(["rising", "falling"]).mentions("not falling; rising")]
    [('falling', True), ('rising', False)]
    """

    def __init__(self, phrases: Iterable[str], patterns: dict[str, str] | None = None) -> None:
        """`patterns` replaces the regular expression of some phrases by a stricter one."""
        self._phrases = sorted({phrase.casefold() for phrase in phrases if phrase.strip()}, key=len, reverse=True)
        special = patterns or {}
        groups = "|".join(f"({special.get(phrase) or whole_word(phrase)})" for phrase in self._phrases)
        self._pattern = re.compile(groups, re.IGNORECASE) if groups else None

    def mentions(self, text: str, negation: bool = True) -> list[Mention]:
        """Every mention in the order of the text."""
        if self._pattern is None:
            return []
        found = []
        for match in self._pattern.finditer(text):
            denied = negation and negated(text, match.start(), match.end())
            found.append(Mention(self._phrases[(match.lastindex or 1) - 1], match.start(), match.end(), denied))
        return found


def whole_word(phrase: str) -> str:
    """A regular expression for a phrase that stands for itself: not `C` in `C++`, not `5` in `-5` or `1.5`.

    >>> [bool(re.search(whole_word("c"), text)) for text in ["c, d", "c++", "abc"]]
    [True, False, False]
    """
    words = phrase.split()
    body = r"\s+".join(re.escape(word) for word in words)
    return _left_edge(words[0][0]) + body + _right_edge(words[-1][-1])


def negated(text: str, start: int, end: int, through: frozenset[str] | None = None) -> bool:
    """Whether the mention at `text[start:end]` is denied, before it or after it.

    A negation reaches to the end of its clause; with `through`, only over these words.

    >>> text = "It is not falling but rising"
    >>> negated(text, 10, 17), negated(text, 22, 28)
    (True, False)
    """
    after = text[end : end + _WINDOW_AFTER]
    if _DENIED_AFTER.match(after):
        return True
    return _negated_before(text[max(0, start - _WINDOW_BEFORE) : start], after, through)


def _negated_before(before: str, after: str, through: frozenset[str] | None) -> bool:
    passed: list[str] = []
    for token in reversed(list(_TOKEN.finditer(before))):
        kind = token.lastgroup
        if kind == "negator":
            return True
        if kind == "narrow":
            return len(passed) <= 3 and not _NARROW_STOP.intersection(passed)
        if kind == "comma" and not _in_negated_list(before[token.end() :] + after):
            return False
        if kind in ("harmless", "interjection", "stop"):
            return False
        if kind == "word":
            passed.append(token.group().casefold())
            if len(passed) > _FURTHEST or (through is not None and passed[-1] not in through):
                return False
    return False


def _in_negated_list(rest: str) -> bool:
    # "not up, down or flat" denies all three; "not up, down" denies the first.
    ending = _SENTENCE_END.search(rest)
    rest = rest[: ending.start()] if ending else rest
    found = re.search(r"\b(?:or|nor)\b", rest, re.IGNORECASE)
    return found is not None and not _LIST_BREAKERS.search(rest[: found.start()])


def _left_edge(first: str) -> str:
    if _UNSPACED.match(first):
        return ""
    if first.isdigit():
        return r"(?<!\w)(?<![.-])(?<!\d,)"
    if first.isalnum():
        # One or two underscores may be markup, unless a letter stands before them.
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
