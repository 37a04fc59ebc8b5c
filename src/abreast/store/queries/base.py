"""What all groups of questions share: the store that answers, and the joins of its tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from abreast.store.store import Store

CASE = "cases c ON c.digest = t.case_digest"
VARIANT = "variants v ON v.run_id = t.run_id AND v.variant = t.variant"
PAYLOAD = "payloads p ON p.run_id = t.run_id AND p.position = t.position"
HAS_OUTCOME = "(t.status = 'ok' OR (t.status = 'error' AND t.error_blame = 'variant'))"
"""Skipped trials and those that infrastructure spoiled have no outcome that can be compared."""
AT_ONCE = 500  # values of one IN: engines allow a limited number of parameters


class Matches(NamedTuple):
    """How many trials match, and the positions of the first of them."""

    total: int
    positions: tuple[int, ...]


class QueryGroup:
    """Questions about one subject."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def _matches(self, run_id: int, condition: str, parameters: Sequence[object], most: int) -> Matches:
        rows = self._store.rows(
            f"SELECT COUNT(*) OVER (), t.position FROM trials t WHERE t.run_id = ? AND {condition} LIMIT ?",
            (run_id, *parameters, most),
        )
        return Matches(rows[0][0] if rows else 0, tuple(row[1] for row in rows))


def count_if(condition: str) -> str:
    """The number of rows for which a condition holds."""
    return f"COUNT(CASE WHEN {condition} THEN 1 END)"


def placeholders(values: Sequence[object]) -> str:
    """As many as there are values, for IN."""
    return ", ".join("?" * len(values))


def in_batches(positions: Iterable[int]) -> Iterator[list[int]]:
    rest = iter(positions)
    while batch := list(islice(rest, AT_ONCE)):
        yield batch
