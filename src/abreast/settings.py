"""Settings by name: each is taken out and checked, and what is left over is an error.

>>> settings = Settings('variant "short"', {"temperature": 0.5})
>>> settings.take("temperature", 1.0, lambda value: 0 <= value <= 2, "a number from 0 to 2")
0.5
>>> settings.done()
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from abreast.errors import BadInput, suggestion


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
        if key in self.given and not check(value):
            raise BadInput(f"{self.where}: {key} must be {expects}, got {value!r}")
        return value

    def done(self) -> None:
        """Refuse what nothing took."""
        for key in self.left:
            raise BadInput(f'{self.where}: unknown {self.what} "{key}"{suggestion(str(key), self.known)}')


def is_text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def is_texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(item, str) for item in value)
