"""Detect renamed names: `lr` became `learning_rate`, but `top_k` did not become `top_p`.

Two names are the same if their words are: in another spelling, abbreviated, in another order, or with a typo. A missing
word is accepted only if the values are the same. Words that differ in meaning (`min_tokens` and `max_tokens`) often
look alike, so similar letters hardly count.

If the types of both values are known, names may also share only their subject: `model_name` became `model`, and
`embedding_dim` became `embedding_size`, if no other name has that subject.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import Any

MOST_PAIRS = 10_000  # with more pairs, only names that differ in spelling are compared
SUBJECT = 4  # letters of a word that is a subject: `embedding`, but not `max` or `num`
LONGEST = 100  # characters of a name that is split into words

Values = Mapping[str, Collection[Any]]
"""The values that each name had."""

_SAME = (  # abbreviations that are not prefixes of their words
    ("n", "num", "number", "nr"),
    ("avg", "average", "mean"),
    ("cfg", "config", "configuration"),
    ("ctx", "context"),
    ("idx", "index"),
    ("img", "image"),
    ("len", "length"),
    ("lr", "learningrate"),
    ("msg", "message"),
    ("pct", "percent", "percentage"),
    ("src", "source"),
    ("std", "stddev", "deviation"),
    ("sz", "size"),
    ("tgt", "target"),
    ("txt", "text"),
)
_GROUP = {word: number for number, words in enumerate(_SAME) for word in words}
_WORDS_OF_TWO = re.compile("am|an|as|at|by|do|go|id|if|in|is|it|me|my|no|of|ok|on|or|so|to|up|us|we")
_COMMON_VALUES = (None, True, False, 0, 1, "")


def renames(
    old: Iterable[str],
    new: Iterable[str],
    old_values: Values | None = None,
    new_values: Values | None = None,
    new_kinds: Mapping[str, str] | None = None,
) -> list[tuple[str, str]]:
    """Pairs of a removed name and the added one that replaces it; each name at most once.

    `new_kinds` says whether names without values yet will be numbers or texts.

    >>> renames(["lr", "top_k", "seed"], ["learning_rate", "top_p", "seed"])
    [('lr', 'learning_rate')]
    >>> renames(["tokens"], ["max_tokens"]), renames(["tokens"], ["max_tokens"], {"tokens": [64]}, {"max_tokens": [64]})
    ([], [('tokens', 'max_tokens')])
    """
    old, new = dict.fromkeys(old), dict.fromkeys(new)
    common = set(old) & set(new)
    removed, added = ([name for name in names if name not in common] for names in (old, new))
    before, after = old_values or {}, new_values or {}
    candidates = []
    for old_name, new_name in _possible_pairs(removed, added):
        strength = _strength(old_name, new_name, before.get(old_name), after.get(new_name))
        if strength:
            candidates.append((-strength, removed.index(old_name), added.index(new_name)))
    pairs: dict[str, str] = {}
    for _, old_index, new_index in sorted(candidates):
        if removed[old_index] not in pairs and added[new_index] not in pairs.values():
            pairs[removed[old_index]] = added[new_index]
    kinds = {name: _common_kind(values) for name, values in after.items()} | dict(new_kinds or {})
    rest = [name for name in removed if name not in pairs], [name for name in added if name not in pairs.values()]
    pairs |= _same_subject(*rest, common, before, after, kinds)
    return sorted(pairs.items(), key=lambda pair: removed.index(pair[0]))


def _same_subject(
    removed: list[str], added: list[str], common: set[str], before: Values, after: Values, kinds: Mapping[str, str]
) -> Iterable[tuple[str, str]]:
    """Pairs of names that begin with the same word, which no other name begins with, and have similar values."""
    others = [words[0] for name in common if (words := words_of(name))]
    by_subject: dict[str, tuple[list[str], list[str]]] = {}
    for side, names in enumerate((removed, added)):
        for name in names:
            if len(name) <= LONGEST and (words := words_of(name)):
                by_subject.setdefault(words[0], ([], []))[side].append(name)
    for subject, (old_names, new_names) in by_subject.items():
        if len(subject) < SUBJECT or subject in others or len(old_names) != 1 or len(new_names) != 1:
            continue
        (old,), (new,) = old_names, new_names
        kind = _common_kind(before.get(old, ()))
        is_typed = kind in ("number", "text") and kind == kinds.get(new)
        if is_typed and _differ_at_end(words_of(old), words_of(new)) and _are_alike(before[old], after.get(new, ())):
            yield old, new


def _differ_at_end(old: tuple[str, ...], new: tuple[str, ...]) -> bool:
    """Whether names of one subject differ in one word at the end; similar-looking words are different."""
    if old[: len(new)] == new or new[: len(old)] == old:
        return abs(len(old) - len(new)) == 1
    short, long = sorted((old[-1], new[-1]), key=len)
    looks_alike = len(long) - len(short) <= 1 and sum(a != b for a, b in zip(short, long, strict=False)) <= 1
    return old[:-1] == new[:-1] and not looks_alike


def _common_kind(values: Collection[Any]) -> str:
    kinds = {_kind(value) for value in values if value is not None}
    return kinds.pop() if len(kinds) == 1 else ""


def _are_alike(before: Collection[Any], after: Collection[Any]) -> bool:
    """Whether values may have one distribution: numbers of similar magnitude, or some equal texts."""
    if not after:
        return True
    if _common_kind(before) == "text":
        return bool({*before} & {*after})
    old, new = ([abs(value) for value in values if value] for values in (before, after))
    return not old or not new or (max(new) <= 10 * max(old) and max(old) <= 10 * max(new))


def _possible_pairs(removed: list[str], added: list[str]) -> Iterable[tuple[str, str]]:
    if len(removed) * len(added) <= MOST_PAIRS:
        return itertools.product(removed, added)
    by_spelling = {_squashed(name): name for name in reversed(added)}
    return ((name, by_spelling[_squashed(name)]) for name in removed if _squashed(name) in by_spelling)


def _strength(old: str, new: str, before: Collection[Any] | None, after: Collection[Any] | None) -> int:
    """The certainty of a rename; 0 if the names mean different things."""
    same_values = _are_same_values(before, after)
    if _squashed(old) and _squashed(old) == _squashed(new):
        return 8 + same_values
    if before and after and not {_kind(value) for value in before} & {_kind(value) for value in after}:
        return 0
    old_words, new_words = words_of(old), words_of(new)
    if not old_words or not new_words or max(len(old), len(new)) > LONGEST:
        return 0
    if _are_synonymous(old_words, new_words):
        return 6 + same_values
    if len(old_words) > 1 and sorted(old_words) == sorted(new_words) and min(map(len, old_words)) > 2:
        return 4 + same_values
    shorter, longer = sorted((old_words, new_words), key=len)
    return 2 if same_values and len(shorter) < len(longer) and _is_subsequence(shorter, longer) else 0


def _are_same_values(before: Collection[Any] | None, after: Collection[Any] | None) -> bool:
    """Whether both had the same values, and not only common ones."""
    if not before or not after:
        return False
    old, new = {repr(value) for value in before}, {repr(value) for value in after}
    return old == new and not old <= {repr(value) for value in _COMMON_VALUES}


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "flag"
    if isinstance(value, int | float):
        return "number"
    return "none" if value is None else "text" if isinstance(value, str) else "thing"


def _is_subsequence(shorter: tuple[str, ...], longer: tuple[str, ...]) -> bool:
    """Whether all words of one name, at least one of them long, are in the other, in order."""
    words = iter(longer)
    return any(len(word) > 2 for word in shorter) and all(
        any(_is_same_word(word, other) for other in words) for word in shorter
    )


@lru_cache(maxsize=4096)
def words_of(name: str) -> tuple[str, ...]:
    """Split a name into words, whatever its spelling.

    >>> words_of("maxTokens"), words_of("n_layers"), words_of("HTTPTimeout"), words_of("x1")
    (('max', 'tokens'), ('n', 'layers'), ('http', 'timeout'), ('x1',))
    """
    separated = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name)
    separated = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1 \2", separated)
    return tuple(word.lower() for word in re.split(r"[\W_]+", separated) if word)


def _squashed(name: str) -> str:
    """The name without case and separators, except separators between digits."""
    return re.sub(r"[^\w.]+|_", "", re.sub(r"(?<=\d)[\W_]+(?=\d)", ".", name.lower()))


def _are_synonymous(old: tuple[str, ...], new: tuple[str, ...]) -> bool:
    """Compare word by word; a word may be the initials of several, or several written as one."""
    if not old or not new:
        return not old and not new
    if _is_same_word(old[0], new[0]) and _are_synonymous(old[1:], new[1:]):
        return True
    return _begins_with_abbreviation(old, new) or _begins_with_abbreviation(new, old)


def _begins_with_abbreviation(short: tuple[str, ...], long: tuple[str, ...]) -> bool:
    """Whether the first word of one name abbreviates several of the other, and the rest is the same."""
    return any(
        _abbreviates(short[0], long[:count]) and _are_synonymous(short[1:], long[count:])
        for count in range(2, len(long) + 1)
    )


def _abbreviates(word: str, words: tuple[str, ...]) -> bool:
    if word == _squashed("_".join(words)):
        return True
    return word == "".join(part[0] for part in words) and word.isalpha() and not _WORDS_OF_TWO.fullmatch(word)


def _is_same_word(first: str, second: str) -> bool:
    """Whether two words are the same: abbreviated, plural, or with a typo; numbers must agree."""
    if first == second:
        return True
    if re.findall(r"\d+", first) != re.findall(r"\d+", second):
        return False
    if first in _GROUP and _GROUP[first] == _GROUP.get(second):
        return True
    short, long = sorted((first, second), key=len)
    if len(short) >= 3 and (long == f"{short}s" or (len(long) >= len(short) + 3 and long.startswith(short))):
        return True
    if len(short) >= 3 and short == re.sub("(?<=.)[aeiou]", "", long):
        return True
    return len(short) >= 6 and first[0] == second[0] and _is_typo(short, long)


def _is_typo(short: str, long: str) -> bool:
    """Whether a typo explains the difference; not at the end, where words change meaning."""
    at = next((index for index, letter in enumerate(short) if letter != long[index]), len(short))
    if at >= len(short) - 1:
        return False
    if len(long) == len(short) + 1:
        return short[at:] == long[at + 1 :]
    if len(long) != len(short):
        return False
    swapped = short[:at] + short[at + 1 : at + 2] + short[at] + short[at + 2 :]
    return short[at + 1 :] == long[at + 1 :] or swapped == long
