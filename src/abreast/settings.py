"""Settings by name: each is taken and checked; an unknown one is an error.

>>> settings = Settings('variant "short"', {"temperature": 0.5})
>>> settings.take("temperature", 1.0, lambda value: 0 <= value <= 2, "a number from 0 to 2")
0.5
>>> settings.done()
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable, Mapping
from typing import Any

from abreast.errors import BadInput, suggestion

DEEPEST = 50  # levels of nested values
LONGEST_VALUE = 500  # characters of a refused value in a message


class Settings:
    """The settings that a user wrote for one thing; `where` prefixes errors."""

    noun = "setting"

    def __init__(self, where: str, values: Mapping[str, Any]) -> None:
        self.where = where
        self.values = dict(values)
        self.remaining = dict(values)
        self.names: list[str] = []

    def take(self, key: str, default: Any, check: Callable[[Any], bool], expects: str) -> Any:
        """The value of `key`, checked; `expects` completes "must be ..."."""
        self.names.append(key)
        value = self.remaining.pop(key, default)
        if key in self.values and not _holds(check, value):
            raise BadInput(f"{self.where}: {key} must be {expects}, got {_describe(value)}")
        return value

    def done(self) -> None:
        """Refuse settings that were not taken."""
        for key in self.remaining:
            raise BadInput(f'{self.where}: unknown {self.noun} "{key}"{suggestion(str(key), self.names)}')


def _holds(check: Callable[[Any], bool], value: Any) -> bool:
    """Whether a value passes a check. A check that raises counts as failed."""
    try:
        return check(value)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return False


def _describe(value: Any) -> str:
    """A value in a message, cut if it is long."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a number with thousands of digits, or deeply nested lists
        text = reprlib.repr(value) if not isinstance(value, int) else "a number with too many digits"
    return text if len(text) <= LONGEST_VALUE else text[:LONGEST_VALUE] + "..."


def is_text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def is_texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(item, str) for item in value)


def is_json(value: Any, deepest: int = DEEPEST) -> bool:
    """Whether JSON can represent a value: no dates, no infinite numbers, not too deeply nested.

    >>> is_json({"a": [1, None]}), is_json(float("inf")), is_json({1, 2})
    (True, False, False)
    """
    if value is None or isinstance(value, str | bool):
        return True
    if isinstance(value, int | float):
        return math.isfinite(value)  # raises for a number that is too large
    if deepest and isinstance(value, list | tuple):
        return all(is_json(item, deepest - 1) for item in value)
    if deepest and isinstance(value, Mapping):
        return all(isinstance(key, str | int) and is_json(item, deepest - 1) for key, item in value.items())
    return False


def is_encodable(value: str) -> bool:
    r"""Whether a text can be passed to a program: no lone surrogates, no NUL.

    >>> is_encodable("ä"), is_encodable("\ud800"), is_encodable("a\0")
    (True, False, False)
    """
    try:
        return b"\0" not in value.encode()
    except UnicodeEncodeError:
        return False


def is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 2**53  # as JSON can represent it


def is_mapping_of_texts(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(text, str) for pair in value.items() for text in pair)
