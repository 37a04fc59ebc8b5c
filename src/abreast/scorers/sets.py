"""`set`: which of the expected items an answer lists, and what it lists besides."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from abreast.model import Answer, Case, Score
from abreast.scorers.base import NO_EXPECTED, Overlap, clipped, returned_value, short
from abreast.scorers.parsing.answer_text import folded
from abreast.scorers.parsing.json_text import MISSING, find_list, parsed
from abreast.scorers.parsing.mismatch import difference

_MOST_ITEMS = 10_000
_BULLET = re.compile(r"[ \t]*(?:[-*+•·–][ \t]+|\(?\d{1,4}[.)][ \t]+)")
_LEAD = re.compile(r"[^:\n]{0,200}:(?=\s|$)")
_EDGES = " \t\r\n\"'`*_"
_TRAILING = ".,;:!?"
_NOTHING = {"", "none", "nothing", "n/a", "empty", "[]", "{}", "()", "∅", "no items", "null"}


class SetOverlap(Overlap):
    """Precision, recall and F1 of the listed items. Two empty sets agree; one empty set scores 0 in all three.

    Items come from a list that a Python target returned, a JSON list, or the text split at lines, commas, semicolons
    and "and"; an expected item that contains one of these is found whole.

    >>> from abreast.scorers import build
    >>> from abreast.model import Answer, Case
    >>> scores = build("set", {}).score(Case("c", "?", expected=["a", "b"]), Answer("The items are: a, c"))
    >>> [(score.name, score.value) for score in scores]
    [('set_f1', 0.5), ('set_precision', 0.5), ('set_recall', 0.5)]
    """

    def score(self, case: Case, answer: Answer) -> tuple[Score, ...]:
        if case.expected is None:
            return self.fill(None, NO_EXPECTED)
        wanted = items_of(case.expected, frozenset())
        text, note = clipped(answer.text)
        value = returned_value(answer)
        found = items_of(text if value is None else value, wanted)
        counts = len(found & wanted), len(found - wanted), len(wanted - found)
        return self.scores(*counts, _why(found, wanted) + note)


def items_of(value: Any, expected: frozenset[str]) -> frozenset[str]:
    """The items of a list or a text. Of a text, what is in `expected` is not split further.

    >>> sorted(items_of("1. `A.py`\\n2. b.py", frozenset()))
    ['a.py', 'b.py']
    """
    if isinstance(value, list | tuple | set | frozenset):
        return frozenset(_item(item) for item in list(value)[:_MOST_ITEMS])
    if not isinstance(value, str):
        return frozenset([_item(value)])
    listed = _listed(value)
    if listed is not MISSING:
        return items_of(listed, expected)
    if _normalised(value) in _NOTHING - expected:
        return frozenset()
    pieces = (item for line in _lines(value) for item in _split(line, expected))
    return frozenset(item for item, _ in zip(pieces, range(_MOST_ITEMS), strict=False) if item)


def _listed(text: str) -> Any:
    """A JSON list, also as the only list of a JSON object."""
    whole = parsed(text)
    if isinstance(whole, dict):
        lists = [item for item in whole.values() if isinstance(item, list)]
        return lists[0] if len(lists) == 1 else MISSING
    return find_list(text)


def _lines(text: str) -> list[str]:
    lines = [line for line in text.replace("```", "\n").splitlines() if line.strip()]
    bullets = [match.end() if (match := _BULLET.match(line)) else 0 for line in lines]
    if any(bullets):  # what stands around a list is prose
        return [line[end:] for line, end in zip(lines, bullets, strict=True) if end]
    lead = _LEAD.match(lines[0]) if lines else None
    if lead and (len(lines) > 1 or lines[0][lead.end() :].strip()):
        lines[0] = lines[0][lead.end() :]
    return [line.strip().removeprefix("[").removesuffix("]") if _is_bracketed(line) else line for line in lines]


def _is_bracketed(line: str) -> bool:
    return line.strip().startswith("[") and line.strip().endswith("]")


def _split(piece: str, expected: frozenset[str]) -> Iterable[str]:
    for separator in (r"[;,]|\t", r"\s(?:and|&)\s|(?<![^\s])and\s"):
        if _normalised(piece) in expected:
            break
        parts = re.split(separator, piece, flags=re.IGNORECASE)
        if len(parts) > 1:
            return [item for part in parts for item in _split(part, expected)]
    return [_normalised(piece)]


def _item(value: Any) -> str:
    if isinstance(value, str):
        return _normalised(value)
    try:
        return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str).casefold()
    except (TypeError, ValueError, RecursionError):
        return short(value)


def _normalised(text: str) -> str:
    """Case, quotes, markup, spaces and trailing punctuation do not matter."""
    return " ".join(folded(text).casefold().split()).strip(_EDGES).rstrip(_EDGES + _TRAILING)


def _why(found: frozenset[str], wanted: frozenset[str]) -> str:
    why = f"{len(found & wanted)} of {len(wanted)} expected items found"
    missing, unexpected = wanted - found, found - wanted
    for name, items in (("missing", missing), ("unexpected", unexpected)):
        if items:
            why += f"; {name}: {short(', '.join(sorted(items)[:10]))}"
    return why + (difference(*unexpected, *missing) if len(missing) == len(unexpected) == 1 else "")
