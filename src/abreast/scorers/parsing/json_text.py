"""Finding JSON in what a model wrote: the whole text, a fenced block, or somewhere in the prose."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from typing import Any, Final

MISSING: Final = object()
"""No JSON: None would be `null`."""

ANSWER_KEYS = ("answer", "final_answer", "result", "value", "prediction")

_MOST_ATTEMPTS = 100
_OBJECT = re.compile(r'\{\s*["}]')
_LIST = re.compile(r'\[\s*"')  # a list in prose must start with a string: "[1]" is a footnote
_DECODER = json.JSONDecoder()


def parsed(text: str) -> Any:
    """The value of a JSON text, or MISSING.

    >>> parsed('{"a": 1}'), parsed("hello") is MISSING
    ({'a': 1}, True)
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError):  # not JSON, digits beyond the interpreter's limit, or nesting beyond its stack
        return MISSING


def find_object(text: str) -> Any:
    """The first JSON object, or MISSING.

    >>> find_object('Sure {here}: {"a": {"b": 2}}. Bye')
    {'a': {'b': 2}}
    """
    return _find(text, dict, _OBJECT)


def find_objects(text: str) -> list[dict[str, Any]]:
    """Every JSON object: the whole text if it is one, else those in fenced blocks and in the prose.

    >>> find_objects('First {"a": 1}, then {"a": 2}.')
    [{'a': 1}, {'a': 2}]
    """
    whole = parsed(text)
    if isinstance(whole, dict):
        return [whole]
    found = itertools.chain(map(parsed, _fenced(text)), _embedded(text, _OBJECT))
    return [value for value in found if isinstance(value, dict)]


def find_list(text: str) -> Any:
    """The first JSON list, or MISSING.

    >>> find_list('As in [1]: ["a", "b"]')
    ['a', 'b']
    """
    return _find(text, list, _LIST)


def answers_in(found: Any, keys: tuple[str, ...] = ANSWER_KEYS) -> list[Any]:
    """What an object holds under the keys that name an answer.

    >>> answers_in({"reason": "so", "Answer": 5})
    [5]
    """
    if not isinstance(found, dict):
        return []
    return [value for key, value in found.items() if str(key).strip().lower() in keys]


def _find(text: str, wanted: type, start: re.Pattern[str]) -> Any:
    for candidate in (text, *_fenced(text)):
        value = parsed(candidate)
        if isinstance(value, wanted):
            return value
    return next((value for value in _embedded(text, start) if isinstance(value, wanted)), MISSING)


def _fenced(text: str) -> Iterator[str]:
    for block in text.split("```", 2 * _MOST_ATTEMPTS)[1::2]:
        first, newline, rest = block.partition("\n")
        yield rest if newline and first.strip().isalnum() else block


def _embedded(text: str, start: re.Pattern[str]) -> Iterator[Any]:
    # Each attempt may read to the end of the text, so their number is limited.
    for attempt, match in enumerate(start.finditer(text)):
        if attempt == _MOST_ATTEMPTS:
            return
        try:
            yield _DECODER.raw_decode(text, match.start())[0]
        except (ValueError, RecursionError):
            continue
