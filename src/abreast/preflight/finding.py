"""Findings of checks: one sentence and one fix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Level = Literal["pass", "note", "warn", "fail"]

NAMED = 3  # names listed before the rest is counted


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of a check: `fail` stops the run, `warn` stops it with `--strict`.

    `check --verbose` prints `details`; findings with `is_check_only` are printed by `check`, but not before every run.
    """

    check: str
    level: Level
    message: str
    fix: str = ""
    details: tuple[str, ...] = ()
    is_check_only: bool = False


def listed(names: Sequence[str], most: int = NAMED) -> str:
    """Names in a sentence.

    >>> listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c", "d", "e"])
    ('a', 'a and b', 'a, b, c and 2 others')
    """
    rest = len(names) - most
    if rest > 0:
        return f"{', '.join(names[:most])} and {rest:,} other{'s' if rest > 1 else ''}"
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)


def summarised(check: str, level: Level, sentences: Sequence[str], fix: str = "") -> Finding:
    """A finding with the first of several sentences as its message, and all of them as details."""
    return Finding(check, level, first_of(sentences), fix, tuple(sentences) if len(sentences) > 1 else ())


def first_of(sentences: Sequence[str]) -> str:
    """The first sentence, and how many more there are.

    >>> first_of(["no key"]), first_of(["no key", "no program"])
    ('no key', 'no key (and 1 more)')
    """
    return sentences[0] + (f" (and {len(sentences) - 1:,} more)" if len(sentences) > 1 else "")
