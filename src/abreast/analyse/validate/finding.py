"""What a check says: one sentence, one fix, and whom it concerns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Literal

Level = Literal["serious", "note"]

SHOWN = 5  # ids named in a finding
FEWEST = 10  # cases from which on being all alike says something
FEWEST_ALIKE = 5  # of a kind: fewer may be chance
MANY = 0.05  # of the cases: what more than this share does shows in a verdict


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to explain; it concerns `count` cases, trials or variants, of which `ids` are the first."""

    check: str
    level: Level
    message: str
    fix: str
    concerns: str
    count: int
    ids: tuple[str, ...]


def finding(
    check: str, level: Level, message: str, fix: str, concerns: str, count: int, ids: Iterable[str] = ()
) -> Finding:
    """What concerns `count` cases, trials, rows or variants; the first of their `ids` are named."""
    named = tuple(islice(ids, SHOWN))
    return Finding(check=check, level=level, message=message, fix=fix, concerns=concerns, count=count, ids=named)


def of_cases(check: str, level: Level, message: str, fix: str, ids: list[str]) -> Finding:
    return finding(check, level, message, fix, "cases", len(ids), ids)


def of_trials(check: str, level: Level, message: str, fix: str, count: int, ids: Iterable[str] = ()) -> Finding:
    return finding(check, level, message, fix, "trials", count, ids)


def of_variants(check: str, level: Level, message: str, fix: str, names: Iterable[str]) -> Finding:
    found = tuple(names)
    return finding(check, level, message, fix, "variants", len(found), found)


def listed(words: Iterable[str], most: int = SHOWN) -> str:
    found = list(words)
    return ", ".join(found[:most]) + (" and others" if len(found) > most else "")
