"""What a check says: one sentence, one fix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Level = Literal["pass", "note", "warn", "fail"]

NAMED = 3  # things named before the rest is counted


@dataclass(frozen=True, slots=True)
class Finding:
    """`pass` and `note` go on; `warn` goes on unless `--strict`; `fail` executes nothing. `details` are for who asks;
    what is said `aside` stands in `check`, not before every run."""

    check: str
    level: Level
    message: str
    fix: str = ""
    details: tuple[str, ...] = ()
    aside: bool = False


def listed(names: Sequence[str], most: int = NAMED) -> str:
    """Names in a sentence.

    >>> listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c", "d", "e"])
    ('a', 'a and b', 'a, b, c and 2 others')
    """
    rest = len(names) - most
    if rest > 0:
        return f"{', '.join(names[:most])} and {rest:,} other{'s' if rest > 1 else ''}"
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)


def many(number: int, noun: str) -> str:
    """`1 case`, `12 cases`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
