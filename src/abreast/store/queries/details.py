"""Queries for the details of one trial. Its texts, which may be large, are read in pieces."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from abreast.store.queries.base import CASE, PAYLOAD, VARIANT, QueryGroup
from abreast.store.schema import LABEL_VERSION

_TEXTS = {
    "prompt": "p.prompt",
    "answer": "p.answer",
    "expected": "c.expected",
    "data": "p.data",
    "raw_response": "p.raw_response",
}
TEXTS = tuple(_TEXTS)


class TextPiece(NamedTuple):
    """Some bytes of a text, and the size of the whole text in bytes."""

    content: bytes
    size: int


class OldLabel(NamedTuple):
    name: str
    value: float | None
    explanation: str
    replaced_at: float


class DetailQueries(QueryGroup):
    def trial(self, run_id: int, position: int) -> dict[str, Any] | None:
        """One trial without its texts, of which the sizes in bytes are in `sizes`; None if it is not stored."""
        rows = self._store.dicts(
            "SELECT t.*, c.id AS case_id, c.tags, c.case_group, v.name AS variant_name, v.target, v.params, "
            f"{', '.join(f'octet_length({source}) AS size_of_{name}' for name, source in _TEXTS.items())} "
            f"FROM trials t JOIN {CASE} JOIN {VARIANT} LEFT JOIN {PAYLOAD} WHERE t.run_id = ? AND t.position = ?",
            (run_id, position),
        )
        for trial in rows:
            trial["tags"], trial["params"] = json.loads(trial["tags"]), json.loads(trial["params"])
            trial["sizes"] = {name: trial.pop(f"size_of_{name}") for name in _TEXTS}
            return trial
        return None

    def trial_text(self, run_id: int, position: int, name: str, start: int, most: int) -> TextPiece | None:
        """At most `most` bytes of one of `TEXTS`, from `start` on; None if there is no such text."""
        source = _TEXTS[name]
        rows = self._store.rows(
            f"SELECT {self._dialect.byte_range(source, '?')}, octet_length({source}) FROM trials t JOIN {CASE} "
            f"LEFT JOIN {PAYLOAD} WHERE t.run_id = ? AND t.position = ?",
            (start + 1, most, run_id, position),
        )
        return TextPiece(bytes(rows[0][0]), rows[0][1]) if rows and rows[0][0] is not None else None

    def artifact_piece(self, run_id: int, position: int, name: str, start: int, most: int) -> TextPiece | None:
        """At most `most` bytes of an artifact, from `start` on; None if it does not exist."""
        rows = self._store.rows(
            f"SELECT {self._dialect.byte_range('content', '?')}, octet_length(content) FROM artifacts "
            "WHERE run_id = ? AND position = ? AND name = ?",
            (start + 1, most, run_id, position, name),
        )
        return TextPiece(bytes(rows[0][0]), rows[0][1]) if rows else None

    def trials_between(self, run_id: int, positions: range, score: str | None) -> list[dict[str, Any]]:
        """Outcome and one score of the trials at these positions, such as those of a case."""
        return self._store.dicts(
            "SELECT t.position, t.variant, t.repeat, t.status, t.error_kind, t.reused_from, s.value AS score "
            "FROM trials t LEFT JOIN scores s ON s.run_id = t.run_id AND s.position = t.position AND s.name = ? "
            "WHERE t.run_id = ? AND t.position >= ? AND t.position < ? ORDER BY t.position",
            (score, run_id, positions.start, positions.stop),
        )

    def neighbours(self, run_id: int, position: int) -> tuple[int | None, int | None]:
        """The positions of the stored trials before and after this one."""
        ((before, after),) = self._store.rows(
            "SELECT (SELECT MAX(position) FROM trials WHERE run_id = ? AND position < ?), "
            "(SELECT MIN(position) FROM trials WHERE run_id = ? AND position > ?)",
            (run_id, position) * 2,
        )
        return before, after

    def attempts_of(self, run_id: int, position: int) -> list[dict[str, Any]]:
        """The attempts of a trial that were retried, with their times and costs."""
        return self._store.dicts(
            "SELECT attempt, started_at, service_s, error_kind, error_blame, error, waited_s, cost_usd FROM attempts "
            "WHERE run_id = ? AND position = ? ORDER BY attempt, started_at",
            (run_id, position),
        )

    def judgements_of(self, run_id: int, position: int, most: int) -> list[dict[str, Any]]:
        """The last reply of each judge about an answer, for each item, with at most `most` bytes of each text."""
        rows = self._store.dicts(
            "SELECT scorer, item, status, error_kind, error, model, cost_usd, reused_from, "
            f"{self._dialect.byte_range('prompt')} AS prompt, {self._dialect.byte_range('answer')} AS answer "
            "FROM judgements j WHERE run_id = ? AND position = ? AND NOT EXISTS "
            "(SELECT 1 FROM judgements k WHERE k.run_id = j.run_id AND k.position = j.position "
            "AND k.scorer = j.scorer AND k.item = j.item AND k.seq > j.seq) ORDER BY scorer, item",
            (most, most, run_id, position),
        )
        for row in rows:
            row |= {name: bytes(row[name] or b"").decode(errors="ignore") for name in ("prompt", "answer")}
        return rows

    def answer_positions(self, run_id: int) -> list[int]:
        """The positions of all answers, in plan order."""
        return self._column("SELECT position FROM trials WHERE run_id = ? AND status = 'ok' ORDER BY position", run_id)

    def labelled_names(self, run_id: int, position: int) -> set[str]:
        """The names under which people labelled an answer."""
        query = "SELECT name FROM scores WHERE run_id = ? AND position = ? AND version = ?"
        return set(self._column(query, run_id, position, LABEL_VERSION))

    def old_labels(self, run_id: int, position: int) -> list[OldLabel]:
        """The labels of an answer that were replaced, the newest first."""
        rows = self._store.rows(
            "SELECT name, value, COALESCE(explanation, ''), replaced_at FROM old_scores WHERE run_id = ? "
            "AND position = ? AND version = ? ORDER BY replaced_at DESC, name",
            (run_id, position, LABEL_VERSION),
        )
        return [OldLabel(*row) for row in rows]
