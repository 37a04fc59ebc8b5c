"""Settings by name: each is taken out and checked, and what is left over is an error.

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

DEEPEST = 50  # of a value in values
LONGEST_SHOWN = 500  # characters of a value that is refused


class Settings:
    """What a user wrote for one thing; `where` begins every message about it."""

    what = "setting"

    def __init__(self, where: str, given: Mapping[str, Any]) -> None:
        self.where = where
        self.given = dict(given)
        self.left = dict(given)
        self.known: list[str] = []

    def take(self, key: str, default: Any, check: Callable[[Any], bool], expects: str) -> Any:
        """The value of `key`, checked; `expects` completes "must be ..."."""
        self.known.append(key)
        value = self.left.pop(key, default)
        if key in self.given and not _holds(check, value):
            raise BadInput(f"{self.where}: {key} must be {expects}, got {_shown(value)}")
        return value

    def done(self) -> None:
        """Refuse what nothing took."""
        for key in self.left:
            raise BadInput(f'{self.where}: unknown {self.what} "{key}"{suggestion(str(key), self.known)}')


def _holds(check: Callable[[Any], bool], value: Any) -> bool:
    """Whether a check says yes; a value that it cannot even look at is none that it takes."""
    try:
        return check(value)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return False


def _shown(value: Any) -> str:
    """A value in a message: not all of a very long one."""
    try:
        shown = repr(value)
    except (ValueError, RecursionError):  # a number of thousands of digits, lists in lists in lists
        shown = reprlib.repr(value) if not isinstance(value, int) else "a number of too many digits"
    return shown if len(shown) <= LONGEST_SHOWN else shown[:LONGEST_SHOWN] + "..."


def is_text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def is_texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(item, str) for item in value)


def is_json(value: Any, deepest: int = DEEPEST) -> bool:
    """Whether JSON can say it: no dates, no infinite numbers, and not endlessly deep.

    >>> is_json({"a": [1, None]}), is_json(float("inf")), is_json({1, 2})
    (True, False, False)
    """
    if value is None or isinstance(value, str | bool):
        return True
    if isinstance(value, int | float):
        return math.isfinite(value)  # a number that is too large for this raises
    if deepest and isinstance(value, list | tuple):
        return all(is_json(each, deepest - 1) for each in value)
    if deepest and isinstance(value, Mapping):
        return all(isinstance(key, str | int) and is_json(each, deepest - 1) for key, each in value.items())
    return False


def is_encodable(value: str) -> bool:
    r"""Whether a program can be given this text: no lone surrogates, no NUL.

    >>> is_encodable("ä"), is_encodable("\ud800"), is_encodable("a\0")
    (True, False, False)
    """
    try:
        return b"\0" not in value.encode()
    except UnicodeEncodeError:
        return False


def is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 2**53  # as JSON can say it


def is_mapping_of_texts(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(text, str) for pair in value.items() for text in pair)
