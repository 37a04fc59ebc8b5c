"""Values as they stand in files: how they are shown in messages, and which of them can be kept."""

from __future__ import annotations

import datetime
import decimal
import json
import math
import re
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

At = tuple[str | int, ...]
"""A path of keys and indexes: `("limits", "timeout", "base")`."""

DEEPEST = 100  # levels of nesting
LONGEST_NUMBER = 10_000  # bits; about 3,000 digits
_HALF = re.compile(r"[\ud800-\udfff]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def shown(value: Any, longest: int = 60) -> str:
    """A value in one short line, as a reader of JSON would write it.

    >>> shown(None), shown(True), shown({"min": 0}), shown("three")
    ('nothing', 'true', '{"min": 0}', '"three"')
    """
    if value is None:
        return "nothing"
    try:
        text = json.dumps(value, ensure_ascii=False)
        text = text if text.isprintable() else json.dumps(value)
    except (TypeError, ValueError, RecursionError):  # not plain data, too long a number, or it contains itself
        text = _described(value)
    return text if len(text) <= longest else text[: longest - 3] + "..."


def _described(value: Any) -> str:
    try:
        return repr(value)
    except (ValueError, RecursionError):
        return f"{kind_of(value)} that cannot be shown"


def kind_of(value: Any) -> str:
    """What a value is, in words.

    >>> kind_of([]), kind_of(3), kind_of({})
    ('a list', 'a number', 'a mapping')
    """
    if value is None:
        return "nothing"
    for kind, word in (
        (bool, "true or false"),
        (int | float, "a number"),
        (str, "text"),
        (Mapping, "a mapping"),
        (list | tuple, "a list"),
    ):
        if isinstance(value, kind):
            return word
    return f"a {type(value).__name__}"


def shown_path(path: Path) -> str:
    """A path as short as it can be said from here."""
    try:
        text = str(path.absolute().relative_to(Path.cwd()))
    except (ValueError, OSError, RuntimeError):
        text = str(path)
    return text if text.isprintable() else ascii(text)


def bad_name(text: str) -> str:
    """Why this cannot be a name of something; empty if it can."""
    if not text or text.isspace():
        return "is empty"
    if len(text) > 200:
        return f"is longer than 200 characters ({len(text):,})"
    if text.isascii() and text.isprintable():
        return ""
    if _CONTROL.search(text):
        return "contains a character that cannot be seen (a line break, a tab or the like)"
    return "contains half a character (a lone surrogate)" if _HALF.search(text) else ""


def flaw(value: Any) -> tuple[At, str] | None:
    """The first thing in plain data that cannot be kept, and where; what is not plain data is passed over.

    >>> flaw({"a": [1, float("nan")]})
    (('a', 1), 'is NaN, which is not a number; leave it out, or write null')
    """
    left: list[tuple[At, Any]] = [((), value)]
    while left:
        at, item = left.pop()
        if len(at) > DEEPEST:
            return at[:1], f"contains itself, or is nested more than {DEEPEST} levels deep"
        wrong = _flaw_of_one(item)
        if wrong:
            return at, wrong
        if isinstance(item, Mapping):
            for key in item:
                if not isinstance(key, str):
                    return at, f'has the key {shown(key)}, which is not text; write it in quotes: "{shown(key)}"'
                if bad_name(key):
                    return at, f"has the key {shown(key)}, which {bad_name(key)}"
            left.extend(((*at, key), item[key]) for key in reversed(list(item)))
        elif isinstance(item, list | tuple):
            left.extend(((*at, index), item[index]) for index in reversed(range(len(item))))
    return None


def _flaw_of_one(item: Any) -> str:
    if isinstance(item, str):
        return "contains half a character (a lone surrogate)" if not item.isascii() and _HALF.search(item) else ""
    if isinstance(item, float) and not math.isfinite(item):
        if math.isnan(item):
            return "is NaN, which is not a number; leave it out, or write null"
        return "is infinite; write a number that is not"
    if isinstance(item, int) and item.bit_length() > LONGEST_NUMBER:
        return "is a number of more than 3,000 digits; write it in quotes"
    return ""


def is_plain(*values: Any) -> bool:
    """Whether JSON keeps these exactly as they are.

    >>> is_plain({"a": [1, None]}, "text"), is_plain((1, 2)), is_plain({1: "a"})
    (True, False, False)
    """
    left = [value for value in values if type(value) is not str]
    while left:
        item = left.pop()
        if type(item) is list:
            left.extend(item)
        elif type(item) is dict:
            if any(type(key) is not str for key in item):
                return False
            left.extend(item.values())
        elif item is not None and type(item) not in (str, int, float, bool):
            return False
    return True


def plain(value: Any) -> Any:
    """Dates, decimals and the like of TOML and parquet, as YAML and JSON would have them.

    >>> plain({"day": datetime.date(2026, 1, 2), "price": decimal.Decimal("1.5")})
    {'day': '2026-01-02', 'price': 1.5}
    """
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return str(value) if isinstance(value, uuid.UUID | datetime.timedelta) else value
