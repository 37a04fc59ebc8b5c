"""Queries for artifacts of trials: diffs, files and the state of a workspace."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from abreast.model import STATE
from abreast.store.queries.base import CASE, PAYLOAD, VARIANT, QueryGroup

_VISIBLE = f"FROM artifacts WHERE run_id = ? AND name <> '{STATE}'"


class ArtifactSize(NamedTuple):
    """An artifact by name; `size` in bytes."""

    position: int
    name: str
    size: int


class ChainLink(NamedTuple):
    """A trial of a chain with carried-over workspaces; `problem` says why its `state` cannot be used."""

    status: str
    error_kind: str | None
    carried_from: str | None
    before: str | None
    after: str | None
    problem: str | None
    state: str | None


class ArtifactQueries(QueryGroup):
    def count_artifacts(self, run_id: int) -> int:
        """The number of artifacts that are shown to users."""
        return int(self._scalar(f"SELECT COUNT(*) {_VISIBLE}", run_id))

    def artifact_sizes(self, run_id: int, most: int, positions: range | None = None) -> list[ArtifactSize]:
        """The first artifacts that are shown to users, of all trials or of these positions."""
        among = "" if positions is None else "AND position >= ? AND position < ? "
        rows = self._store.rows(
            f"SELECT position, name, octet_length(content) {_VISIBLE} {among}ORDER BY position, name LIMIT ?",
            (run_id, *(() if positions is None else (positions.start, positions.stop)), most),
        )
        return [ArtifactSize(*row) for row in rows]

    def artifact(self, run_id: int, position: int, name: str) -> str:
        query = "SELECT content FROM artifacts WHERE run_id = ? AND position = ? AND name = ?"
        return str(self._scalar(query, run_id, position, name))

    def artifact_begin(
        self, run_id: int, position: int, name: str, most: int
    ) -> tuple[bytes, int, Mapping[str, Any]] | None:
        """The first bytes of an artifact, its size, and the returned values of its trial; None if it does not exist."""
        rows = self._store.rows(
            f"SELECT {self._dialect.byte_range('t.content')}, octet_length(t.content), p.data "
            f"FROM artifacts t LEFT JOIN {PAYLOAD} WHERE t.run_id = ? AND t.position = ? AND t.name = ?",
            (most, run_id, position, name),
        )
        return (rows[0][0], rows[0][1], json.loads(rows[0][2] or "{}")) if rows else None

    def artifacts_of_case(self, run_id: int, case: str | None) -> list[dict[str, Any]]:
        """The artifacts of one case or of all cases, with their content."""
        return self._store.dicts(
            "SELECT c.id AS case_id, v.name AS variant, t.repeat, o.name, o.content FROM artifacts o "
            f"JOIN trials t ON t.run_id = o.run_id AND t.position = o.position JOIN {CASE} JOIN {VARIANT} "
            f"WHERE o.run_id = ?{'' if case is None else ' AND c.id = ?'} ORDER BY o.position, o.name",
            (run_id,) if case is None else (run_id, case),
        )

    def chain_links(self, run_id: int, position: int | None = None) -> Iterator[tuple[int, ChainLink]]:
        """Chain links by position: of all trials without their `state`, or of one trial with it."""
        state = f"LEFT JOIN artifacts a ON a.run_id = t.run_id AND a.position = t.position AND a.name = '{STATE}' "
        rows = self._store.stream(
            f"SELECT t.position, t.status, t.error_kind, p.data, {'NULL' if position is None else 'a.content'} "
            f"FROM trials t LEFT JOIN {PAYLOAD} {'' if position is None else state}"
            f"WHERE t.run_id = ?{'' if position is None else ' AND t.position = ?'} ORDER BY t.position",
            (run_id,) if position is None else (run_id, position),
        )
        for link_position, status, kind, text, content in rows:
            data = json.loads(text or "{}")
            yield (
                link_position,
                ChainLink(
                    status=status,
                    error_kind=kind,
                    carried_from=data.get("carried_from"),
                    before=data.get("state_before"),
                    after=data.get("state_after"),
                    problem=data.get("not_carried"),
                    state=content,
                ),
            )
