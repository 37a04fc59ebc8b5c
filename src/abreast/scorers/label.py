"""`label`: the one class an answer names, by its name or a synonym, unless it denies it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from abreast.errors import BadInput
from abreast.model import Answer
from abreast.scorers.base import LONGEST_PROSE, Mark, ScorerSettings, SingleColumn, clipped, short, texts_of
from abreast.scorers.parsing.answer_text import folded, marker_ends, spoken_words
from abreast.scorers.parsing.json_text import ANSWER_KEYS, answers_in, find_object
from abreast.scorers.parsing.negation import Mention, Phrases
from abreast.scorers.text import normalised
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
    """Right if the answer names the expected class and no other. `classes` maps each class to its synonyms, or lists
    the classes.

    >>> from abreast.scorers import build
    >>> from abreast.model import Answer, Case
    >>> scorer = build("label", {"classes": {"rising": ["up", "increasing"], "falling": ["down"]}})
    >>> scorer.score(Case("c", "?", expected="rising"), Answer("Not falling: it goes up."))[0].value
    1.0
    """

    def __init__(self, settings: ScorerSettings) -> None:
        classes = settings.take("classes", None, _is_classes, "a list of names, or a mapping of names to synonyms")
        if classes is None:
            raise BadInput('scorer "label": classes is required', "Example: label: {classes: [rising, falling]}")
        self._classes = _by_phrase(classes)
        self._by_words = {words: name for phrase, name in self._classes.items() if (words := normalised(phrase))}
        special = {phrase: pattern for phrase in self._classes if (pattern := _special(phrase))}
        self._phrases = Phrases(self._classes, special)
        super().__init__(settings)

    def mark(self, expected: Any, answer: Answer) -> Mark:
        wanted = self._named(texts_of(expected)[0]) if not isinstance(expected, list | tuple | set) else None
        if wanted is None:
            return None, f"the expected value {short(expected)} is none of the classes {short(self._names())}"
        text, note = clipped(answer.text, LONGEST_PROSE)
        found, where = self._read(folded(text))
        if len(found) == 1:
            return float(found[0] == wanted), f"read {short(found[0])} ({where}), expected {short(wanted)}{note}"
        if found:
            return 0.0, f"names several classes ({where}): {short(found)}, expected {short(wanted)}{note}"
        return 0.0, f"names no class, expected {short(wanted)}{note}"

    def classes_in(self, text: str) -> list[str]:
        """The classes that an answer names: one, if it is clear."""
        return self._read(folded(clipped(text, LONGEST_PROSE)[0]))[0]

    def _names(self) -> list[str]:
        return list(dict.fromkeys(self._classes.values()))

    def _named(self, text: str) -> str | None:
        """The class whose name or synonym this text is, word for word."""
        return self._classes.get(_key(text)) or self._by_words.get(normalised(text))

    def _read(self, text: str) -> tuple[list[str], str]:
        """The classes named at the surest place that names any, and that place."""
        if whole := self._named(text.strip()):
            return [whole], "the whole answer"
        values = answers_in(find_object(text), (*ANSWER_KEYS, "label", "class"))
        if values:  # also if they name no class: what else the object says is not the answer
            return self._in_values(values), "in the JSON object"
        mentions = list(self._phrases.mentions(text))
        if marked := self._marked(text, mentions):
            return marked, "marked as the answer"
        if lead := self._lead(text):
            return [lead], "the first word"
        return self._distinct(mentions), "mentioned"

    def _in_values(self, values: list[Any]) -> list[str]:
        flat = [value for value in values if not isinstance(value, dict | list)]
        return list(dict.fromkeys(name for value in texts_of(flat) for name in self._read(value)[0]))

    def _marked(self, text: str, mentions: list[Mention]) -> list[str]:
        found: list[str] = []
        for end in marker_ends(text)[-_MOST_MARKERS:]:
            found += self._in_segment(text, end, mentions)
        return list(dict.fromkeys(found))

    def _in_segment(self, text: str, start: int, mentions: list[Mention]) -> list[str]:
        """The classes in the rest of the line after a marker, or in the next line if the rest is empty."""
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

    def _distinct(self, mentions: list[Mention]) -> list[str]:
        names = (self._class_of(mention) for mention in mentions)
        return list(dict.fromkeys(name for name in names if name))

    def _class_of(self, mention: Mention) -> str | None:
        """The class a mention stands for. If "not significant" is a class, a denied "significant" names it."""
        if not mention.negated:
            return self._classes[mention.phrase]
        opposites = (f"{word}{mention.phrase}" for word in ("not ", "no ", "non-", "non ", "non"))
        return next((self._classes[phrase] for phrase in opposites if phrase in self._classes), None)


def _by_phrase(classes: Any) -> dict[str, str]:
    table = classes if isinstance(classes, Mapping) else {name: [] for name in classes}
    found: dict[str, str] = {}
    for name, synonyms in table.items():
        for phrase in (name, *([synonyms] if isinstance(synonyms, str) else synonyms or [])):
            other = found.setdefault(_key(phrase), name)
            if not _key(phrase):
                raise BadInput(f'scorer "label": a name of class {name!r} is empty')
            if other != name:
                raise BadInput(f'scorer "label": {phrase!r} belongs to both {other!r} and {name!r}')
    return found


def _key(phrase: str) -> str:
    return " ".join(folded(phrase).casefold().split())


def _special(phrase: str) -> str | None:
    """A stricter pattern for words that are also something else: single letters, and "no"."""
    if phrase == "no":
        return r"(?<![^\W_])no(?=[*_`\"')\s]{0,4}(?:$|[(,.;:!?\n—–-]))"
    if len(phrase) != 1 or not phrase.isascii() or not phrase.isalpha():
        return None
    nouns = "|".join(rf"(?<=\b{noun}\s)" for noun in _NOUNS)
    named = rf"(?:{nouns}){phrase}(?![\w'-])"
    enclosed = rf"(?:(?<=[(\[{{\"'`*]){phrase}(?=[)\]}}\"'`*])|(?:^|(?<=\s)){phrase}(?=\)))"
    closing = "|".join(rf"(?<={word}\s)" for word in ("is", "be", ":", "=", "choose", "pick", "say", "or", "and"))
    last = rf"(?:{closing}){phrase}(?=[*_`\"')\s]{{0,4}}(?:$|[.,;!?]))"
    return "|".join([named, enclosed, last, *_capital(phrase)])


def _capital(letter: str) -> list[str]:
    """A capital by itself is a name, except the pronoun and the article."""
    if letter == "i":
        return []
    article = rf"(?!\s+(?!(?:{_AFTER_A})\b)[a-z])" if letter == "a" else ""
    return [rf"(?-i:(?<![\w.'-]){letter.upper()}(?!\w|[.'-]\w){article})"]


def _is_filler(gap: str, inside: list[Mention]) -> bool:
    denied = {word for mention in inside if mention.negated for word in mention.phrase.split()}
    return (_FILLER | denied).issuperset(spoken_words(gap))


def _joins(gap: str, rest: str) -> bool:
    """Whether "rising or falling", "A, B" name two classes as one answer; in "B, A is lower" they do not."""
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
