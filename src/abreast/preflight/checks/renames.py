"""Which names were renamed: `lr` is `learning_rate`, but `top_k` is not `top_p`.

Two names are one if they say the same words: written otherwise, abbreviated, with another order, or with one slip of
the pen. A word that is merely missing is believed only where the values are the same. Words that differ in meaning
(`min_tokens` and `max_tokens`) look alike just as much, so likeness of letters counts for next to nothing.

Where the values of both are known, at least by their type, a name may also keep its subject and say something else of
it: `model_name` is `model`, and `embedding_dim` is `embedding_size`, if nothing else is about that subject.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import Any

MOST_PAIRS = 10_000  # looked at one by one; beyond, only names that differ in their writing
SUBJECT = 4  # letters of a word that is a subject: `embedding`, but not `max` or `num`
LONGEST = 100  # characters of a name that is taken apart

Values = Mapping[str, Collection[Any]]
"""The values that each name had."""

_SAME = (  # abbreviations that are no beginnings of their words
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
_TELL_NOTHING = (None, True, False, 0, 1, "")


def renames(
    old: Iterable[str],
    new: Iterable[str],
    old_values: Values | None = None,
    new_values: Values | None = None,
    new_kinds: Mapping[str, str] | None = None,
) -> list[tuple[str, str]]:
    """Pairs of an old name that is gone and a new one that stands for it; each name at most once.

    `new_kinds` says of names without values yet whether they will be numbers or texts.

    >>> renames(["lr", "top_k", "seed"], ["learning_rate", "top_p", "seed"])
    [('lr', 'learning_rate')]
    >>> renames(["tokens"], ["max_tokens"]), renames(["tokens"], ["max_tokens"], {"tokens": [64]}, {"max_tokens": [64]})
    ([], [('tokens', 'max_tokens')])
    """
    before, after = list(dict.fromkeys(old)), list(dict.fromkeys(new))
    kept = set(before) & set(after)
    gone = [name for name in before if name not in kept]
    come = [name for name in after if name not in kept]
    before_values, after_values = old_values or {}, new_values or {}
    candidates = []
    for one, other in _worth_a_look(gone, come):
        strength = _strength(one, other, before_values.get(one), after_values.get(other))
        if strength:
            candidates.append((-strength, gone.index(one), come.index(other)))
    by_old: dict[str, str] = {}
    by_new: dict[str, str] = {}
    for _, one_at, other_at in sorted(candidates):
        one, other = gone[one_at], come[other_at]
        if one not in by_old and other not in by_new:
            by_old[one], by_new[other] = other, one
    left = [name for name in gone if name not in by_old]
    right = [name for name in come if name not in by_new]
    kinds = {name: _common_kind(values) for name, values in after_values.items()} | dict(new_kinds or {})
    by_old |= _same_subject(left, right, kept, before_values, after_values, kinds)
    return sorted(by_old.items(), key=lambda pair: gone.index(pair[0]))


def _same_subject(
    gone: list[str], come: list[str], kept: set[str], before: Values, after: Values, kinds: Mapping[str, str]
) -> Iterable[tuple[str, str]]:
    """Pairs of names that begin with the same word, which no other name begins with, and hold alike values."""
    others = [words[0] for name in kept if (words := words_of(name))]
    by_subject: dict[str, tuple[list[str], list[str]]] = {}
    for side, names in enumerate((gone, come)):
        for name in names:
            if len(name) <= LONGEST and (words := words_of(name)):
                by_subject.setdefault(words[0], ([], []))[side].append(name)
    for subject, (old, new) in by_subject.items():
        if len(subject) < SUBJECT or subject in others or len(old) != 1 or len(new) != 1:
            continue
        (one,), (other,) = old, new
        kind = _common_kind(before.get(one, ()))
        is_typed = kind in ("number", "text") and kind == kinds.get(other)
        if is_typed and _says_otherwise(one, other) and _are_alike(before[one], after.get(other, ())):
            yield one, other


def _says_otherwise(one: str, other: str) -> bool:
    """Whether two names of one subject differ in one word at the end; similar-looking words are different."""
    left, right = words_of(one), words_of(other)
    if left[: len(right)] == right or right[: len(left)] == left:
        return abs(len(left) - len(right)) == 1
    short, long = sorted((left[-1], right[-1]), key=len)
    looks_alike = len(long) - len(short) <= 1 and sum(a != b for a, b in zip(short, long, strict=False)) <= 1
    return left[:-1] == right[:-1] and not looks_alike


def _common_kind(values: Collection[Any]) -> str:
    kinds = {_kind(value) for value in values if value is not None}
    return kinds.pop() if len(kinds) == 1 else ""


def _are_alike(before: Collection[Any], after: Collection[Any]) -> bool:
    """Whether values may have one distribution: numbers of similar magnitude, or some equal texts."""
    if not after:
        return True
    if _common_kind(before) == "text":
        return bool({*before} & {*after})
    left, right = ([abs(value) for value in values if value] for values in (before, after))
    return not left or not right or (max(right) <= 10 * max(left) and max(left) <= 10 * max(right))


def _worth_a_look(gone: list[str], come: list[str]) -> Iterable[tuple[str, str]]:
    if len(gone) * len(come) <= MOST_PAIRS:
        return ((one, other) for one in gone for other in come)
    written: dict[str, str] = {}
    for name in come:
        written.setdefault(_squashed(name), name)
    return ((one, written[_squashed(one)]) for one in gone if _squashed(one) in written)


def _strength(one: str, other: str, before: Collection[Any] | None, after: Collection[Any] | None) -> int:
    """0 if the names are different things, else how certain the rename is."""
    same_values = _are_same(before, after)
    if _squashed(one) and _squashed(one) == _squashed(other):
        return 8 + same_values
    if before and after and not {_kind(value) for value in before} & {_kind(value) for value in after}:
        return 0
    left, right = words_of(one), words_of(other)
    if not left or not right or max(len(one), len(other)) > LONGEST:
        return 0
    if _says_the_same(left, right):
        return 6 + same_values
    if len(left) > 1 and sorted(left) == sorted(right) and min(map(len, left)) > 2:
        return 4 + same_values
    shorter, longer = sorted((left, right), key=len)
    if same_values and len(shorter) < len(longer) and _are_among(shorter, longer):
        return 2
    return 0


def _are_same(before: Collection[Any] | None, after: Collection[Any] | None) -> bool:
    """Whether both had the same values, and not only common ones."""
    if not before or not after:
        return False
    left, right = {repr(value) for value in before}, {repr(value) for value in after}
    return left == right and not left <= {repr(value) for value in _TELL_NOTHING}


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "flag"
    if isinstance(value, int | float):
        return "number"
    return "none" if value is None else "text" if isinstance(value, str) else "thing"


def _are_among(shorter: tuple[str, ...], longer: tuple[str, ...]) -> bool:
    """Whether all words of one name, at least one of them long, are in the other, in order."""
    left = iter(longer)
    return any(len(word) > 2 for word in shorter) and all(
        any(_is_same(word, other) for other in left) for word in shorter
    )


@lru_cache(maxsize=4096)
def words_of(name: str) -> tuple[str, ...]:
    """The words of a name, however it is written.

    >>> words_of("maxTokens"), words_of("n_layers"), words_of("HTTPTimeout"), words_of("x1")
    (('max', 'tokens'), ('n', 'layers'), ('http', 'timeout'), ('x1',))
    """
    apart = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name)
    apart = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1 \2", apart)
    return tuple(word.lower() for word in re.split(r"[\W_]+", apart) if word)


def _squashed(name: str) -> str:
    """The name without case and separators, except separators between digits."""
    apart = re.sub(r"(?<=\d)[\W_]+(?=\d)", ".", name.lower())
    return re.sub(r"[^\w.]+|_", "", apart)


def _says_the_same(left: tuple[str, ...], right: tuple[str, ...]) -> bool:
    """Compare word by word; a word may be the initials of several, or several written as one."""
    if not left or not right:
        return not left and not right
    if _is_same(left[0], right[0]) and _says_the_same(left[1:], right[1:]):
        return True
    return _begins(left, right) or _begins(right, left)


def _begins(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether the first word of one name stands for several of the other, and the rest is the same."""
    return any(
        _stands_for(one[0], other[:count]) and _says_the_same(one[1:], other[count:])
        for count in range(2, len(other) + 1)
    )


def _stands_for(word: str, some: tuple[str, ...]) -> bool:
    if word == _squashed("_".join(some)):
        return True
    return word == "".join(each[0] for each in some) and word.isalpha() and not _WORDS_OF_TWO.fullmatch(word)


def _is_same(one: str, other: str) -> bool:
    """Whether two words are the same: abbreviated, plural, or with a typo; numbers must agree."""
    if one == other:
        return True
    if re.findall(r"\d+", one) != re.findall(r"\d+", other):
        return False
    if one in _GROUP and _GROUP[one] == _GROUP.get(other):
        return True
    short, long = sorted((one, other), key=len)
    if len(short) >= 3 and (long == f"{short}s" or (len(long) >= len(short) + 3 and long.startswith(short))):
        return True
    if len(short) >= 3 and short == re.sub("(?<=.)[aeiou]", "", long):
        return True
    return len(short) >= 6 and one[0] == other[0] and _is_a_slip(short, long)


def _is_a_slip(short: str, long: str) -> bool:
    """Whether a typo explains the difference; not at the end, where words change meaning."""
    at = next((place for place, letter in enumerate(short) if letter != long[place]), len(short))
    if at >= len(short) - 1:
        return False
    if len(long) == len(short) + 1:
        return short[at:] == long[at + 1 :]
    if len(long) != len(short):
        return False
    swapped = short[:at] + short[at + 1 : at + 2] + short[at] + short[at + 2 :]
    return short[at + 1 :] == long[at + 1 :] or swapped == long
