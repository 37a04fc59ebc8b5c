"""Queries for the grid of cases and variants: rows stored after a row number, as columns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from abreast.store.queries.base import CASE, Array, QueryGroup, as_columns
from abreast.store.schema import LABEL_VERSION

_TRIALS: dict[str, type] = {
    "position": int,
    "status": str,
    "error_kind": str,
    "error_blame": str,
    "service_s": float,
    "cost_usd": float,
    "is_new": bool,
    "is_billed": bool,
}
_SOURCES = {
    "is_new": "reused_from IS NULL",
    "is_billed": "reused_from IS NULL AND COALESCE(cost_basis, '') <> 'included'",
}


class GridQueries(QueryGroup):
    def grid_trials(self, run_id: int, after: int) -> dict[str, Array]:
        fields = ", ".join(_SOURCES.get(name, name) for name in _TRIALS)
        query = f"SELECT {fields} FROM trials WHERE run_id = ? AND seq > ? ORDER BY seq"
        return as_columns(self._chunks(query, (run_id, after), after), _TRIALS)

    def grid_scores(self, run_id: int, after: int, label: str) -> dict[str, Array]:
        """Position, name and value of scores, without labels other than those of this name."""
        query = (
            "SELECT position, name, value FROM scores WHERE run_id = ? AND seq > ? "
            "AND (version IS DISTINCT FROM ? OR name = ?) ORDER BY seq"
        )
        rows = self._chunks(query, (run_id, after, LABEL_VERSION, label), after)
        return as_columns(rows, {"position": int, "name": str, "value": float})

    def grid_cases(self, run_id: int, per_case: int, after: int) -> Iterable[tuple[int, str, str]]:
        """Index, id and tags (as JSON) of the cases with a trial that was stored after a row number."""
        if not after:
            return self._store.queries.cases(run_id, per_case, "id", "tags")
        query = (
            f"SELECT DISTINCT t.position / ?, c.id, c.tags FROM trials t JOIN {CASE} WHERE t.run_id = ? AND t.seq > ?"
        )
        return self._store.rows(query, (per_case, run_id, after))

    def text_matches(self, run_id: int, text: str, after: int) -> list[tuple[int, int, bool]]:
        """Row number and position of the prompts and answers stored after a row number, and whether they contain a
        text. Upper and lower case of ASCII letters are the same."""
        contains = " OR ".join(f"{self._dialect.find_text}(LOWER({name}), ?) > 0" for name in ("prompt", "answer"))
        text = "".join(letter.lower() if letter.isascii() else letter for letter in text)
        return self._store.rows(
            f"SELECT seq, position, COALESCE({contains}, FALSE) FROM payloads WHERE run_id = ? AND seq > ?",
            (text, text, run_id, after),
        )

    def _chunks(self, query: str, parameters: tuple[Any, ...], after: int) -> Iterable[list[tuple[Any, ...]]]:
        if not after:
            return self._store.chunks(query, parameters)
        rows = self._store.rows(query, parameters)  # few, so no separate connection
        return [rows] if rows else []
