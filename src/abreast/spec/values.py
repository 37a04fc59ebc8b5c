"""Values from files: their form in messages, and whether they can be stored."""

from __future__ import annotations

import datetime
import decimal
import json
import math
import re
import uuid
from collections.abc import Mapping
from typing import Any

KeyPath = tuple[str | int, ...]
"""A path of keys and indexes: `("limits", "timeout", "base")`."""

DEEPEST = 100  # levels of nesting
LONGEST_NUMBER = 10_000  # bits; about 3,000 digits
_HALF = re.compile(r"[\ud800-\udfff]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def quote(value: Any, longest: int = 60) -> str:
    """Format a value in one short line, as in JSON.

    >>> quote(None), quote(True), quote({"min": 0}), quote("three")
    ('nothing', 'true', '{"min": 0}', '"three"')
    """
    if value is None:
        return "nothing"
    try:
        text = json.dumps(value, ensure_ascii=False)
        text = text if text.isprintable() else json.dumps(value)
    except (TypeError, ValueError, RecursionError):  # not plain data, a huge number, or recursive
        try:
            text = repr(value)
        except (ValueError, RecursionError):
            text = f"{kind_of(value)} that cannot be shown"
    return text if len(text) <= longest else text[: longest - 3] + "..."


def kind_of(value: Any) -> str:
    """The type of a value, in words.

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


def name_problem(text: str) -> str:
    """Explain why a text cannot be a name; empty if it can."""
    if not text or text.isspace():
        return "is empty"
    if len(text) > 200:
        return f"is longer than 200 characters ({len(text):,})"
    if text.isascii() and text.isprintable():
        return ""
    if _CONTROL.search(text):
        return "contains an invisible character (such as a line break or tab)"
    return "contains half a character (a lone surrogate)" if _HALF.search(text) else ""


def find_unstorable(value: Any) -> tuple[KeyPath, str] | None:
    """Find the first part of plain data that cannot be stored: its key path and the problem. Other objects are skipped.

    >>> find_unstorable({"a": [1, float("nan")]})
    (('a', 1), 'is NaN, which is not a number; omit it, or write null')
    """
    pending: list[tuple[KeyPath, Any]] = [((), value)]
    while pending:
        at, item = pending.pop()
        if len(at) > DEEPEST:
            return at[:1], f"contains itself, or is nested more than {DEEPEST} levels deep"
        if problem := _problem_of(item):
            return at, problem
        if isinstance(item, Mapping):
            for key in item:
                if not isinstance(key, str):
                    return (at, f'has the key {quote(key)}, which is not text; write it in quotes: "{quote(key)}"')
                if name_problem(key):
                    return at, f"has the key {quote(key)}, which {name_problem(key)}"
            pending.extend(((*at, key), item[key]) for key in reversed(list(item)))
        elif isinstance(item, list | tuple):
            pending.extend(((*at, index), item[index]) for index in reversed(range(len(item))))
    return None


def _problem_of(item: Any) -> str:
    if isinstance(item, str):
        return "contains half a character (a lone surrogate)" if not item.isascii() and _HALF.search(item) else ""
    if isinstance(item, float) and not math.isfinite(item):
        if math.isnan(item):
            return "is NaN, which is not a number; omit it, or write null"
        return "is infinite; write a finite number"
    if isinstance(item, int) and item.bit_length() > LONGEST_NUMBER:
        return "is a number of more than 3,000 digits; write it in quotes"
    return ""


def is_plain(*values: Any) -> bool:
    """Whether JSON keeps these values exactly.

    >>> is_plain({"a": [1, None]}, "text"), is_plain((1, 2)), is_plain({1: "a"})
    (True, False, False)
    """
    pending = [value for value in values if type(value) is not str]
    while pending:
        item = pending.pop()
        if type(item) is list:
            pending.extend(item)
        elif type(item) is dict:
            if any(type(key) is not str for key in item):
                return False
            pending.extend(item.values())
        elif item is not None and type(item) not in (str, int, float, bool):
            return False
    return True


def plain(value: Any) -> Any:
    """Convert dates, decimals and the like in a value from TOML or parquet, as in YAML and JSON.

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
