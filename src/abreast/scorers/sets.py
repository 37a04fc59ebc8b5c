"""The `set` scorer: precision and recall of the items that an answer lists."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from abreast.model import Answer, Case, Score
from abreast.scorers.base import NO_EXPECTED, Overlap, clipped, returned_value, short
from abreast.scorers.parsing.answer_text import fold
from abreast.scorers.parsing.json_text import MISSING, find_list, parse_json
from abreast.scorers.parsing.mismatch import describe_difference

_MOST_ITEMS = 10_000
_BULLET = re.compile(r"[ \t]*(?:[-*+•·–][ \t]+|\(?\d{1,4}[.)][ \t]+)")
_LEAD = re.compile(r"[^:\n]{0,200}:(?=\s|$)")
_EDGES = " \t\r\n\"'`*_"
_TRAILING = ".,;:!?"
_NOTHING = {"", "none", "nothing", "n/a", "empty", "[]", "{}", "()", "∅", "no items", "null"}


class SetOverlap(Overlap):
    """Precision, recall and F1 of the listed items: 1 if both sets are empty, 0 if only one is.

    Items come from a list that a Python target returned, a JSON list, or the text split at lines, commas, semicolons
    and "and"; expected items are not split.

    >>> from abreast.scorers import build
    >>> from abreast.model import Answer, Case
    >>> scores = build("set", {}).score(Case("c", "?", expected=["a", "b"]), Answer("The items are: a, c"))
    >>> [(score.name, score.value) for score in scores]
    [('set_f1', 0.5), ('set_precision', 0.5), ('set_recall', 0.5)]
    """

    def score(self, case: Case, answer: Answer) -> tuple[Score, ...]:
        if case.expected is None:
            return self.fill(None, NO_EXPECTED)
        expected = items_of(case.expected, frozenset())
        text, note = clipped(answer.text)
        value = returned_value(answer)
        items = items_of(text if value is None else value, expected)
        counts = len(items & expected), len(items - expected), len(expected - items)
        return self.scores(*counts, _explain(items, expected) + note)


def items_of(value: Any, expected: frozenset[str]) -> frozenset[str]:
    """Return the items of a list or a text; parts of a text that are in `expected` are not split.

    >>> sorted(items_of("1. `A.py`\\n2. b.py", frozenset()))
    ['a.py', 'b.py']
    """
    if isinstance(value, list | tuple | set | frozenset):
        return frozenset(_item(item) for item in list(value)[:_MOST_ITEMS])
    if not isinstance(value, str):
        return frozenset([_item(value)])
    listed = _find_items(value)
    if listed is not MISSING:
        return items_of(listed, expected)
    if _normalize(value) in _NOTHING - expected:
        return frozenset()
    pieces = (item for line in _lines(value) for item in _split(line, expected))
    return frozenset(item for item, _ in zip(pieces, range(_MOST_ITEMS), strict=False) if item)


def _find_items(text: str) -> Any:
    """Return the JSON list in a text, or the only list in a JSON object; `MISSING` if there is none."""
    value = parse_json(text)
    if isinstance(value, dict):
        lists = [item for item in value.values() if isinstance(item, list)]
        return lists[0] if len(lists) == 1 else MISSING
    return find_list(text)


def _lines(text: str) -> list[str]:
    lines = [line for line in text.replace("```", "\n").splitlines() if line.strip()]
    bullets = [match.end() if (match := _BULLET.match(line)) else 0 for line in lines]
    if any(bullets):  # ignore the prose around a list
        return [line[end:] for line, end in zip(lines, bullets, strict=True) if end]
    lead = _LEAD.match(lines[0]) if lines else None
    if lead and (len(lines) > 1 or lines[0][lead.end() :].strip()):
        lines[0] = lines[0][lead.end() :]
    return [line.strip().removeprefix("[").removesuffix("]") if _is_bracketed(line) else line for line in lines]


def _is_bracketed(line: str) -> bool:
    return line.strip().startswith("[") and line.strip().endswith("]")


def _split(piece: str, expected: frozenset[str]) -> Iterable[str]:
    for separator in (r"[;,]|\t", r"\s(?:and|&)\s|(?<![^\s])and\s"):
        if _normalize(piece) in expected:
            break
        parts = re.split(separator, piece, flags=re.IGNORECASE)
        if len(parts) > 1:
            return [item for part in parts for item in _split(part, expected)]
    return [_normalize(piece)]


def _item(value: Any) -> str:
    if isinstance(value, str):
        return _normalize(value)
    try:
        return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str).casefold()
    except (TypeError, ValueError, RecursionError):
        return short(value)


def _normalize(text: str) -> str:
    """Remove case, quotes, markup, extra spaces and trailing punctuation."""
    return " ".join(fold(text).casefold().split()).strip(_EDGES).rstrip(_EDGES + _TRAILING)


def _explain(items: frozenset[str], expected: frozenset[str]) -> str:
    why = f"{len(items & expected)} of {len(expected)} expected items found"
    missing, unexpected = expected - items, items - expected
    for label, names in (("missing", missing), ("unexpected", unexpected)):
        if names:
            why += f"; {label}: {short(', '.join(sorted(names)[:10]))}"
    return why + (describe_difference(*unexpected, *missing) if len(missing) == len(unexpected) == 1 else "")
