"""Queries for the changes of a run since a revision, for pages that follow it.

`Store.revision` marks how far a run has been read. Take it before reading: then a change may be read twice, but none is
missed. A row that replaces another is a change, with the same key.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from abreast.errors import BadInput
from abreast.store.queries.base import CASE, QueryGroup
from abreast.store.queries.runs import StoredEvent
from abreast.store.runs.controls import Control

MOST_CHANGES = 5_000  # if there are more, read the run again


class Revision(NamedTuple):
    """The last row number in each table; for controls, the number of requests and answers."""

    trials: int = 0
    scores: int = 0
    judgements: int = 0
    events: int = 0
    controls: int = 0

    def __str__(self) -> str:
        return "-".join(map(str, self))

    @classmethod
    def parse(cls, text: str) -> Revision:
        """
        >>> Revision.parse("12-30-0-5-2").scores
        30
        """
        parts = text.split("-")
        if len(parts) != len(cls._fields) or not all(part.isascii() and part.isdigit() for part in parts):
            raise BadInput(f"invalid revision {text[:100]!r}", "read the run from the beginning")
        return cls(*(min(int(part[:20]), 2**63 - 1) for part in parts))

    def reaches(self, other: Revision) -> bool:
        """Whether this one includes all rows of the other; if not, an older copy of the store has taken its place.

        >>> Revision(2, 2).reaches(Revision(1, 2)), Revision(2, 1).reaches(Revision(1, 2))
        (True, False)
        """
        return all(mine >= theirs for mine, theirs in zip(self, other, strict=True))


class ChangeQueries(QueryGroup):
    """Each method returns at most `most` rows, the oldest first."""

    def revision(self, run_id: int) -> Revision:
        last = ", ".join(
            f"COALESCE((SELECT MAX(seq) FROM {table} WHERE run_id = ? AND seq > 0), 0)"
            for table in Revision._fields[:-1]
        )
        (row,) = self._store.rows(
            f"SELECT {last}, (SELECT COUNT(*) + COUNT(outcome) FROM controls WHERE run_id = ?)",
            (run_id,) * len(Revision._fields),
        )
        return Revision(*row)

    def trials_since(self, run_id: int, revision: str, most: int = MOST_CHANGES) -> list[dict[str, Any]]:
        """Trials, without their texts; the key is `position`."""
        return self._store.dicts(
            "SELECT t.seq, t.position, c.id AS case_id, t.variant, t.repeat, t.block, t.status, t.error_kind, "
            "t.error_blame, t.error, t.model, t.queue_s, t.backoff_s, t.service_s, t.attempts, t.in_flight, "
            "t.input_tokens, t.output_tokens, t.cache_read_tokens, t.cache_write_tokens, t.cost_usd, "
            f"t.cost_basis, t.reused_from, t.started_at, t.finished_at FROM trials t JOIN {CASE} "
            "WHERE t.run_id = ? AND t.seq > ? ORDER BY t.seq LIMIT ?",
            (run_id, Revision.parse(revision).trials, most),
        )

    def scores_since(self, run_id: int, revision: str, most: int = MOST_CHANGES) -> list[dict[str, Any]]:
        """Scores and labels, without their explanations; the key is `position` and `name`."""
        return self._store.dicts(
            "SELECT position, name, value, version FROM scores WHERE run_id = ? AND seq > ? ORDER BY seq LIMIT ?",
            (run_id, Revision.parse(revision).scores, most),
        )

    def judgements_since(self, run_id: int, revision: str, most: int = MOST_CHANGES) -> list[dict[str, Any]]:
        """Replies of judges, without their texts; the key is `position`, `scorer` and `item`."""
        return self._store.dicts(
            "SELECT position, scorer, item, status, error_kind, model, input_tokens, output_tokens, cost_usd, "
            "cost_basis, started_at, service_s, reused_from FROM judgements WHERE run_id = ? AND seq > ? "
            "ORDER BY seq LIMIT ?",
            (run_id, Revision.parse(revision).judgements, most),
        )

    def events_since(self, run_id: int, revision: str, most: int = MOST_CHANGES) -> list[StoredEvent]:
        rows = self._store.rows(
            "SELECT happened_at, kind, detail FROM events WHERE run_id = ? AND seq > ? ORDER BY seq LIMIT ?",
            (run_id, Revision.parse(revision).events, most),
        )
        return [StoredEvent(happened_at, kind, json.loads(detail)) for happened_at, kind, detail in rows]

    def controls_since(self, run_id: int, revision: str) -> list[Control]:
        """All controls of the run if one was requested or answered; the key is `number`."""
        is_changed = self.revision(run_id).controls != Revision.parse(revision).controls
        return self._store.controls(run_id) if is_changed else []
