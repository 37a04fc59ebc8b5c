"""Find JSON in the text of an answer: the whole text, a fenced block, or within prose."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from typing import Any, Final

MISSING: Final = object()
"""There is no JSON; None would be `null`."""

ANSWER_KEYS = ("answer", "final_answer", "result", "value", "prediction")

_MOST_ATTEMPTS = 100
_OBJECT = re.compile(r'\{\s*["}]')
_LIST = re.compile(r'\[\s*"')  # a list in prose must start with a string: "[1]" is a footnote
_DECODER = json.JSONDecoder()


def parse_json(text: str) -> Any:
    """Parse a JSON text; MISSING if it is not JSON.

    >>> parse_json('{"a": 1}'), parse_json("hello") is MISSING
    ({'a': 1}, True)
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError):  # not JSON, digits beyond the interpreter's limit, or nesting beyond its stack
        return MISSING


def find_object(text: str) -> Any:
    """Return the first JSON object, or MISSING.

    >>> find_object('Sure {here}: {"a": {"b": 2}}. Bye')
    {'a': {'b': 2}}
    """
    return _find(text, dict, _OBJECT)


def find_objects(text: str) -> list[dict[str, Any]]:
    """Return the whole text if it is a JSON object, else the objects in fenced blocks and prose.

    >>> find_objects('First {"a": 1}, then {"a": 2}.')
    [{'a': 1}, {'a': 2}]
    """
    value = parse_json(text)
    if isinstance(value, dict):
        return [value]
    values = itertools.chain(map(parse_json, _find_fenced(text)), _find_embedded(text, _OBJECT))
    return [value for value in values if isinstance(value, dict)]


def find_list(text: str) -> Any:
    """Return the first JSON list, or MISSING.

    >>> find_list('As in [1]: ["a", "b"]')
    ['a', 'b']
    """
    return _find(text, list, _LIST)


def answers_in(value: Any, keys: tuple[str, ...] = ANSWER_KEYS) -> list[Any]:
    """Return the values that an object has under keys that name an answer.

    >>> answers_in({"reason": "so", "Answer": 5})
    [5]
    """
    items = value.items() if isinstance(value, dict) else ()
    return [item for key, item in items if str(key).strip().lower() in keys]


def _find(text: str, kind: type, start: re.Pattern[str]) -> Any:
    for candidate in (text, *_find_fenced(text)):
        value = parse_json(candidate)
        if isinstance(value, kind):
            return value
    return next((value for value in _find_embedded(text, start) if isinstance(value, kind)), MISSING)


def _find_fenced(text: str) -> Iterator[str]:
    for block in text.split("```", 2 * _MOST_ATTEMPTS)[1::2]:
        first, newline, rest = block.partition("\n")
        yield rest if newline and first.strip().isalnum() else block


def _find_embedded(text: str, start: re.Pattern[str]) -> Iterator[Any]:
    # Each attempt may read to the end of the text, so their number is limited.
    for attempt, match in enumerate(start.finditer(text)):
        if attempt == _MOST_ATTEMPTS:
            return
        try:
            yield _DECODER.raw_decode(text, match.start())[0]
        except (ValueError, RecursionError):
            continue
