"""Typed access to JSON of providers and programs, which may contain anything anywhere."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from abreast import text
from abreast.text import parse_json

MOST_TOKENS = 2**53


def parsed(content: bytes | str) -> Any:
    """Parse JSON; None if it is invalid.

    >>> parsed(b'{"a": 1}'), parsed("not"), parsed(b"[" * 100_000)
    ({'a': 1}, None, None)
    """
    try:
        return parse_json(content)
    except (ValueError, RecursionError):
        return None


def mapping(value: Any) -> Mapping[str, Any]:
    """Return the mapping; an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def mappings(value: Any) -> list[Mapping[str, Any]]:
    """Return the mappings in a list; none for anything else."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def storable(value: Any) -> str | None:
    r"""Text that can be stored, without lone surrogates; None for anything else.

    >>> storable("a\ud800"), storable(5)
    ('a?', None)
    """
    return text.storable(value) if isinstance(value, str) else None


def count(value: Any) -> int | None:
    """Return a number of tokens or calls; None for anything else.

    >>> count(7), count(-1), count("7"), count(True), count(10**30)
    (7, None, None, None, None)
    """
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_TOKENS else None


def dollars(value: Any) -> float | None:
    """Return a cost; None for anything else.

    >>> dollars(0.5), dollars(float("inf")), dollars("1"), dollars(10**400)
    (0.5, None, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        cost = float(value)
    except OverflowError:
        return None
    return cost if math.isfinite(cost) and cost >= 0 else None
