"""`label`: read the one class that an answer names, by its name or a synonym, without negating it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from abreast.errors import BadInput
from abreast.model import Answer
from abreast.scorers.base import LONGEST_PROSE, Mark, ScorerSettings, SingleColumn, clipped, short, texts_of
from abreast.scorers.parsing.answer_text import fold, marker_ends, spoken_words
from abreast.scorers.parsing.json_text import ANSWER_KEYS, answers_in, find_object
from abreast.scorers.parsing.negation import PhraseMatch, Phrases
from abreast.scorers.text import normalized
from abreast.settings import is_text, is_texts

_MOST_MARKERS = 50
_LONGEST_SEGMENT = 300
_NOUNS = spoken_words(
    "series option choice class group answer variant model sample label category line curve dataset set item candidate "
    "method arm type case plan version response system assistant letter column row plot panel point"
)
_FILLER = frozenset(
    [*_NOUNS, *spoken_words("is are was be the a an that it trend clearly most likely probably not but rather")]
)
_PLAIN_ANSWERS = {"yes", "no", "true", "false"}
_LEAD = re.compile(r"[\s*_`\"'#>]{0,20}([^\W\d_]+)(?=[*_`\"']{0,4}\s{0,3}(?:[,.:;!\n—–-]|$))")
# What follows the name "A"; what follows the article is a noun or an adjective.
_AFTER_A = (
    "is|has|was|and|or|because|since|as|with|but|than|vs|versus|does|had|would|will|seems|appears|shows|wins|in|on|at|to|"
    "by|over|performs|rises|falls|exceeds|outperforms|looks|gives|can|could|should|might|may|for|if|when|while|not|which"
)


class Label(SingleColumn):
    """Right if the answer names the expected class and no other. `classes` is a list, or maps classes to synonyms.

    >>> from abreast.scorers import build
    >>> from abreast.model import Answer, Case
    >>> scorer = build("label", {"classes": {"rising": ["up", "increasing"], "falling": ["down"]}})
    >>> scorer.score(Case("c", "?", expected="rising"), Answer("Not falling: it goes up."))[0].value
    1.0
    """

    def __init__(self, settings: ScorerSettings) -> None:
        classes = settings.take("classes", None, _is_classes, "a list of names, or a mapping of names to synonyms")
        if classes is None:
            raise BadInput(
                'scorer "label": classes is required', "set it, for example label: {classes: [rising, falling]}"
            )
        self._classes = _classes_by_phrase(classes)
        self._by_words = {words: name for phrase, name in self._classes.items() if (words := normalized(phrase))}
        special = {phrase: pattern for phrase in self._classes if (pattern := _strict_pattern(phrase))}
        self._phrases = Phrases(self._classes, special)
        super().__init__(settings)

    def mark(self, expected: Any, answer: Answer) -> Mark:
        name = None if isinstance(expected, list | tuple | set) else self._find_class(texts_of(expected)[0])
        if name is None:
            return None, f"the expected value {short(expected)} is none of the classes {short(self._names())}"
        text, note = clipped(answer.text, LONGEST_PROSE)
        names, source = self._read(fold(text))
        if len(names) == 1:
            return float(names[0] == name), f"read {short(names[0])} ({source}), expected {short(name)}{note}"
        if names:
            return 0.0, f"names several classes ({source}): {short(names)}, expected {short(name)}{note}"
        return 0.0, f"names no class, expected {short(name)}{note}"

    def classes_in(self, text: str) -> list[str]:
        """Return the classes that an answer names; one if it is clear."""
        return self._read(fold(clipped(text, LONGEST_PROSE)[0]))[0]

    def _names(self) -> list[str]:
        return list(dict.fromkeys(self._classes.values()))

    def _find_class(self, text: str) -> str | None:
        """Return the class that has this text as its name or synonym."""
        return self._classes.get(_key(text)) or self._by_words.get(normalized(text))

    def _read(self, text: str) -> tuple[list[str], str]:
        """Return the classes named by the most certain source that names any, and that source."""
        if name := self._find_class(text.strip()):
            return [name], "the whole answer"
        values = answers_in(find_object(text), (*ANSWER_KEYS, "label", "class"))
        if values:  # even if they name no class: the rest of the object is not the answer
            return self._in_values(values), "in the JSON object"
        mentions = list(self._phrases.mentions(text))
        if marked := self._find_marked(text, mentions):
            return marked, "marked as the answer"
        if lead := self._lead(text):
            return [lead], "the first word"
        return self._distinct(mentions), "mentioned"

    def _in_values(self, values: list[Any]) -> list[str]:
        flat = [value for value in values if not isinstance(value, dict | list)]
        return list(dict.fromkeys(name for value in texts_of(flat) for name in self._read(value)[0]))

    def _find_marked(self, text: str, mentions: list[PhraseMatch]) -> list[str]:
        ends = marker_ends(text)[-_MOST_MARKERS:]
        return list(dict.fromkeys(name for end in ends for name in self._in_segment(text, end, mentions)))

    def _in_segment(self, text: str, start: int, mentions: list[PhraseMatch]) -> list[str]:
        """Return the classes in the rest of the line after a marker, or in the next line if the rest is empty."""
        segment = re.compile(r"[\s*_`:]*[^\n]*").match(text[start : start + _LONGEST_SEGMENT])
        end = start + (segment.end() if segment else 0)
        inside = [mention for mention in mentions if start <= mention.start and mention.end <= end]
        names = self._distinct(inside)
        direct = next((mention for mention in inside if self._class_of(mention)), None)
        if len(names) < 2 or direct is None or not _is_filler(text[start : direct.start], inside):
            return names
        after = next((mention for mention in inside if mention.start >= direct.end), None)
        joined = after is not None and _joins(text[direct.end : after.start], text[after.end : end])
        return names if joined else self._distinct([direct])

    def _lead(self, text: str) -> str | None:
        match = _LEAD.match(text)
        word = match.group(1).casefold() if match else ""
        return self._classes.get(word) if word in _PLAIN_ANSWERS else None

    def _distinct(self, mentions: list[PhraseMatch]) -> list[str]:
        names = (self._class_of(mention) for mention in mentions)
        return list(dict.fromkeys(name for name in names if name))

    def _class_of(self, mention: PhraseMatch) -> str | None:
        """Return the class of a phrase. If "not significant" is a class, a negated "significant" names it."""
        if not mention.negated:
            return self._classes[mention.phrase]
        opposites = (f"{word}{mention.phrase}" for word in ("not ", "no ", "non-", "non ", "non"))
        return next((self._classes[phrase] for phrase in opposites if phrase in self._classes), None)


def _classes_by_phrase(classes: Any) -> dict[str, str]:
    table = classes if isinstance(classes, Mapping) else {name: [] for name in classes}
    by_phrase: dict[str, str] = {}
    for name, synonyms in table.items():
        for phrase in (name, *([synonyms] if isinstance(synonyms, str) else synonyms or [])):
            other = by_phrase.setdefault(_key(phrase), name)
            if not _key(phrase):
                raise BadInput(f'scorer "label": a name of class {name!r} is empty')
            if other != name:
                raise BadInput(f'scorer "label": {phrase!r} belongs to both {other!r} and {name!r}')
    return by_phrase


def _key(phrase: str) -> str:
    return " ".join(fold(phrase).casefold().split())


def _strict_pattern(phrase: str) -> str | None:
    """Return a stricter pattern for ambiguous names: single letters, and "no"."""
    if phrase == "no":
        return r"(?<![^\W_])no(?=[*_`\"')\s]{0,4}(?:$|[(,.;:!?\n—–-]))"
    if len(phrase) != 1 or not phrase.isascii() or not phrase.isalpha():
        return None
    nouns = "|".join(rf"(?<=\b{noun}\s)" for noun in _NOUNS)
    after_noun = rf"(?:{nouns}){phrase}(?![\w'-])"
    enclosed = rf"(?:(?<=[(\[{{\"'`*]){phrase}(?=[)\]}}\"'`*])|(?:^|(?<=\s)){phrase}(?=\)))"
    closing = "|".join(rf"(?<={word}\s)" for word in ("is", "be", ":", "=", "choose", "pick", "say", "or", "and"))
    last = rf"(?:{closing}){phrase}(?=[*_`\"')\s]{{0,4}}(?:$|[.,;!?]))"
    return "|".join([after_noun, enclosed, last, *_capital(phrase)])


def _capital(letter: str) -> list[str]:
    """Return a pattern for a single capital, except the pronoun and the article."""
    if letter == "i":
        return []
    article = rf"(?!\s+(?!(?:{_AFTER_A})\b)[a-z])" if letter == "a" else ""
    return [rf"(?-i:(?<![\w.'-]){letter.upper()}(?!\w|[.'-]\w){article})"]


def _is_filler(gap: str, inside: list[PhraseMatch]) -> bool:
    denied = {word for mention in inside if mention.negated for word in mention.phrase.split()}
    return (_FILLER | denied).issuperset(spoken_words(gap))


def _joins(gap: str, rest: str) -> bool:
    """Whether two classes are one answer, as in "rising or falling", but not in "B, A is lower"."""
    words = spoken_words(gap)
    if words:
        return {"or", "and", "to", "vs", "versus", "then", *_NOUNS}.issuperset(words)
    if "/" in gap:
        return True
    return "," in gap and not re.match(r"\s*[^\W\d_]", re.sub(r"^\s*(?:or|and)\b", "", rest))


def _is_classes(value: Any) -> bool:
    if isinstance(value, Mapping):
        return bool(value) and all(is_text(name) and _is_synonyms(words) for name, words in value.items())
    return is_texts(value) and all(item.strip() for item in value)


def _is_synonyms(value: Any) -> bool:
    return value is None or value == [] or is_text(value) or is_texts(value)
