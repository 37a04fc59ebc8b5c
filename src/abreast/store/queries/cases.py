"""Queries for the cases of a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, NamedTuple

from abreast.store.queries.base import CASE, QueryGroup


class StoredCase(NamedTuple):
    """A stored case; `position` is that of its first trial."""

    position: int
    id: str
    digest: str
    group: str | None


class CaseQueries(QueryGroup):
    @property
    def _cases_of_run(self) -> str:
        """SQL for each case once, by its first trial. In this order each case is looked up only once."""
        join = self._dialect.ordered_join
        return (
            "(SELECT MIN(position) AS position FROM trials WHERE run_id = ? GROUP BY position / ?) m "
            f"{join} trials t ON t.run_id = ? AND t.position = m.position {join} {CASE}"
        )

    def cases(self, run_id: int, per_case: int, *columns: str) -> Iterator[tuple[Any, ...]]:
        """The index and these columns of each stored case, in plan order; `input_size` in characters."""
        chosen = ", ".join("LENGTH(c.input)" if name == "input_size" else f"c.{name}" for name in columns)
        query = f"SELECT m.position / ?, {chosen} FROM {self._cases_of_run} ORDER BY m.position"
        return chain.from_iterable(self._store.chunks(query, (per_case, run_id, per_case, run_id)))

    def cases_of_shared_inputs(self, run_id: int, per_case: int) -> list[tuple[Any, ...]]:
        """Input digest, tags, id, expected answer and group of the cases that share their input with another case."""
        shared = f"SELECT c.input_digest FROM {self._cases_of_run} GROUP BY c.input_digest HAVING COUNT(*) > 1"
        of_run = (run_id, per_case, run_id)
        if not self._exists(shared, *of_run):
            return []
        return self._store.rows(
            f"SELECT c.input_digest, c.tags, c.id, c.expected, c.case_group FROM {self._cases_of_run} "
            f"WHERE c.input_digest IN ({shared}) ORDER BY m.position",
            of_run * 2,
        )

    def stored_cases(self, run_id: int) -> list[StoredCase]:
        """The stored cases of a run whose plan is unknown."""
        rows = self._store.rows(
            "SELECT t.position, c.id, c.digest, c.case_group FROM (SELECT case_digest, MIN(position) AS position "
            f"FROM trials WHERE run_id = ? GROUP BY case_digest) t JOIN {CASE} ORDER BY t.case_digest",
            (run_id,),
        )
        return [StoredCase(*row) for row in rows]

    def case_turns(self, run_id: int, repeats: int) -> list[tuple[str, str, int | None, int]]:
        """Id, input digest, index in the order of starts, and number of outcomes of each case, in that order."""
        return self._store.rows(
            "SELECT c.id, c.input_digest, MIN(t.block) / ?, COUNT(CASE WHEN t.status <> 'cancelled' THEN 1 END) "
            f"FROM trials t JOIN {CASE} WHERE t.run_id = ? GROUP BY t.case_digest, c.id, c.input_digest "
            "ORDER BY 3 NULLS FIRST, t.case_digest",
            (repeats, run_id),
        )

    def case_ids(self, run_id: int, per_case: int, indexes: Iterable[int]) -> tuple[str, ...]:
        return tuple(
            row[0]
            for index in indexes
            for row in self._store.rows(
                f"SELECT c.id FROM trials t JOIN {CASE} WHERE t.run_id = ? AND t.position BETWEEN ? AND ? LIMIT 1",
                (run_id, index * per_case, (index + 1) * per_case - 1),
            )
        )

    def count_blocks(self, run_id: int, size: int) -> int:
        """The number of blocks of `size` successive trials that have a stored trial: cases, or their repeats."""
        return int(self._scalar("SELECT COUNT(DISTINCT position / ?) FROM trials WHERE run_id = ?", size, run_id))

    def has_tagged_cases(self) -> bool:
        """Whether any case in the store has tags."""
        return self._exists("SELECT 1 FROM cases WHERE tags <> '{}'")

    def has_grouped_cases(self) -> bool:
        """Whether any case in the store has a group."""
        return self._exists("SELECT 1 FROM cases WHERE case_group IS NOT NULL")
