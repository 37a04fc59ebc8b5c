"""Queries for scores and human labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from abreast.store.dialect import placeholders
from abreast.store.queries.base import CASE, VARIANT, Array, Matches, QueryGroup, as_columns
from abreast.store.schema import LABEL_VERSION

_SCORE = "scores s ON s.run_id = t.run_id AND s.position = t.position AND s.name = ?"
_BY_SCORERS = "version IS DISTINCT FROM ?"  # excludes labels


class StoredLabel(NamedTuple):
    position: int
    name: str
    value: float | None
    explanation: str


class ScoreQueries(QueryGroup):
    def score_columns(self, run_id: int, label: str = "") -> dict[str, Array]:
        """Position, name and value of all scores, without labels other than those of this name."""
        rows = self._store.chunks(
            f"SELECT position, name, value FROM scores WHERE run_id = ? AND ({_BY_SCORERS} OR name = ?) "
            "ORDER BY position, name",
            (run_id, LABEL_VERSION, label),
        )
        return as_columns(rows, {"position": int, "name": str, "value": float})

    def score_summaries(self, run_id: int, label: str = "") -> list[tuple[Any, ...]]:
        """Name, count, minimum and maximum of each score, number outside [0, 1], and the reason for a missing value."""
        return self._store.rows(
            "SELECT name, COUNT(value), MIN(value), MAX(value), COUNT(CASE WHEN value < 0 OR value > 1 THEN 1 END), "
            "MIN(CASE WHEN value IS NULL THEN explanation END) FROM scores "
            f"WHERE run_id = ? AND ({_BY_SCORERS} OR name = ?) GROUP BY name ORDER BY name",
            (run_id, LABEL_VERSION, label),
        )

    def scores_of(self, run_id: int, position: int) -> list[dict[str, Any]]:
        """The scores and labels of one trial."""
        query = "SELECT name, value, explanation FROM scores WHERE run_id = ? AND position = ? ORDER BY name"
        return self._store.dicts(query, (run_id, position))

    def scores_of_variant(self, run_id: int, variant: int) -> Iterator[tuple[int, str, float | None, str]]:
        """Position, name, value and explanation of all scores and labels of a variant, in plan order."""
        return self._store.stream(
            "SELECT s.position, s.name, s.value, s.explanation FROM scores s "
            "JOIN trials t ON t.run_id = s.run_id AND t.position = s.position "
            "WHERE s.run_id = ? AND t.variant = ? ORDER BY s.position, s.name",
            (run_id, variant),
        )

    def scores_of_case(self, run_id: int, case: str) -> list[dict[str, Any]]:
        """The scores and labels of the trials of one case."""
        return self._store.dicts(
            "SELECT v.name AS variant, t.repeat, s.name, s.value, s.explanation FROM scores s "
            f"JOIN trials t ON t.run_id = s.run_id AND t.position = s.position JOIN {CASE} JOIN {VARIANT} "
            "WHERE s.run_id = ? AND c.id = ? ORDER BY s.position, s.name",
            (run_id, case),
        )

    def scored_trials(self, run_id: int, variant: int, score: str | None) -> Iterator[tuple[Any, ...]]:
        """Case, repeat, status, kind of error, blame, error, seconds (unless reused), score and explanation of the
        trials of a variant, in plan order."""
        return self._store.stream(
            "SELECT c.id, t.repeat, t.status, t.error_kind, t.error_blame, t.error, "
            "CASE WHEN t.reused_from IS NULL THEN t.service_s END, s.value, s.explanation "
            f"FROM trials t JOIN {CASE} LEFT JOIN {_SCORE} WHERE t.run_id = ? AND t.variant = ? ORDER BY t.position",
            (score, run_id, variant),
        )

    def outcomes(
        self, run_id: int, score: str, version: str
    ) -> Iterator[tuple[int, str, str | None, float | None, bool, bool]]:
        """Position, status, blame and score of each trial, whether it has a score of this version, and whether the
        answer was reused."""
        return self._store.stream(
            "SELECT t.position, t.status, t.error_blame, s.value, s.position IS NOT NULL, t.reused_from IS NOT NULL "
            f"FROM trials t LEFT JOIN {_SCORE} AND s.version = ? WHERE t.run_id = ? ORDER BY t.position",
            (score, version, run_id),
        )

    def wrong_answers(self, run_id: int, score: str | None) -> Iterator[tuple[int, str | None, int]]:
        """Number of answers with a score below 1, by variant and explanation."""
        return self._store.stream(
            f"SELECT t.variant, s.explanation, COUNT(*) FROM trials t JOIN {_SCORE} WHERE t.run_id = ? "
            "AND t.status = 'ok' AND COALESCE(s.value, 0) < 1 GROUP BY t.variant, s.explanation "
            "ORDER BY t.variant, s.explanation NULLS FIRST",
            (score, run_id),
        )

    def missing_score(self, run_id: int, score: str | None) -> tuple[str | None, str] | None:
        """The most frequent explanation of a score without a value, and one of its cases."""
        rows = self._store.rows(
            "SELECT s.explanation, MIN(c.id) FROM scores s JOIN trials t ON t.run_id = s.run_id "
            f"AND t.position = s.position JOIN {CASE} WHERE s.run_id = ? AND s.name = ? AND s.value IS NULL "
            "GROUP BY s.explanation ORDER BY COUNT(*) DESC, s.explanation NULLS FIRST LIMIT 1",
            (run_id, score),
        )
        return rows[0] if rows else None

    def trials_scored_outside(self, run_id: int, score: str, most: int) -> Matches:
        """Trials whose score is below 0 or above 1."""
        condition = (
            "EXISTS (SELECT 1 FROM scores s WHERE s.run_id = t.run_id AND s.position = t.position AND s.name = ? "
            "AND (s.value < 0 OR s.value > 1))"
        )
        return self._matches(run_id, condition, (score,), most)

    def trials_without_score(self, run_id: int, score: str, most: int) -> Matches:
        condition = (
            "t.status = 'ok' AND NOT EXISTS (SELECT 1 FROM scores s WHERE s.run_id = t.run_id "
            "AND s.position = t.position AND s.name = ? AND s.value IS NOT NULL)"
        )
        return self._matches(run_id, condition, (score,), most)

    def scorer_versions(self, run_id: int, score: str) -> list[str]:
        query = "SELECT DISTINCT version FROM scores WHERE run_id = ? AND name = ? ORDER BY version"
        return self._column(query, run_id, score)

    def first_scorer_versions(self, run_id: int) -> dict[str, str]:
        """Scorer versions of the scores of the first scored trial, by score."""
        rows = self._store.rows(
            f"SELECT name, version FROM scores WHERE run_id = ? AND {_BY_SCORERS} "
            f"AND position = (SELECT MIN(position) FROM scores WHERE run_id = ? AND {_BY_SCORERS}) ORDER BY name",
            (run_id, LABEL_VERSION) * 2,
        )
        return dict(rows)

    def labels(self, run_id: int, name: str | None = None) -> list[StoredLabel]:
        """The labels of a run, under all names or one."""
        rows = self._store.rows(
            "SELECT position, name, value, COALESCE(explanation, '') FROM scores WHERE run_id = ? AND version = ? "
            "ORDER BY position, name",
            (run_id, LABEL_VERSION),
        )
        return [StoredLabel(*row) for row in rows if name in (None, row[1])]

    def unjudged(self, run_id: int, scores: Sequence[str], version: str, only_usable: bool) -> list[int]:
        """Positions of the answers that lack one of these scores in this version, or if `only_usable`, its value."""
        usable = "AND s.value IS NOT NULL" if only_usable else ""
        query = (
            "SELECT t.position FROM trials t WHERE t.run_id = ? AND t.status = 'ok' AND (SELECT COUNT(*) FROM scores s "
            f"WHERE s.run_id = t.run_id AND s.position = t.position AND s.name IN ({placeholders(scores)}) "
            f"AND s.version = ? {usable}) < ? ORDER BY t.position"
        )
        return self._column(query, run_id, *scores, version, len(scores))

    def count_unscored(self, trials: Iterable[tuple[int, int]], score: str, version: str) -> int:
        """The number of these trials (run and position) that lack this score in this version."""
        by_run: dict[int, set[int]] = {}
        for run_id, position in trials:
            by_run.setdefault(run_id, set()).add(position)
        query = "SELECT position FROM scores WHERE run_id = ? AND name = ? AND version = ?"
        return sum(
            len(positions.difference(self._column(query, run_id, score, version)))
            for run_id, positions in by_run.items()
        )
