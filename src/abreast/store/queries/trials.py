"""Queries for trials: outcomes, times, costs and attempts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from abreast.store.dialect import placeholders
from abreast.store.queries.base import (
    CASE,
    HAS_OUTCOME,
    PAYLOAD,
    VARIANT,
    Array,
    Matches,
    QueryGroup,
    as_columns,
    count_if,
)

TOKENS = ("input", "output", "cache_read", "cache_write")
_COLUMNS: dict[str, type] = {
    "position": int,
    "variant": int,
    "repeat": int,
    "block": int,
    "status": str,
    "error_kind": str,
    "error_blame": str,
    "service_s": float,
    "queue_s": float,
    "backoff_s": float,
    "cost_usd": float,
    "reused": bool,
    "included": bool,
    **{f"{name}_tokens": float for name in TOKENS},
}
_SOURCES = {
    "block": "COALESCE(block, -1)",
    "reused": "reused_from IS NOT NULL",
    "included": "COALESCE(cost_basis, '') = 'included'",
}
_OK, _SKIPPED = "t.status = 'ok'", "t.status = 'skipped'"
_INFRASTRUCTURE = "(t.status = 'error' AND t.error_blame <> 'variant')"
_EXECUTED = "t.reused_from IS NULL AND t.status IN ('ok', 'error')"


class TrialQueries(QueryGroup):
    def prediction_rows(self, run: str) -> tuple[list[str], Iterator[tuple[Any, ...]]]:
        """Column names and the rows of a run in the view `predictions`."""
        names = self._column(self._dialect.column_names("predictions"))
        return names, self._store.stream(f"SELECT * FROM predictions WHERE run = ?{self._by_start}", (run,))

    @property
    def _by_start(self) -> str:
        return "" if self._dialect.reads_in_order else " ORDER BY started_at NULLS FIRST"

    def trial_columns(self, run_id: int) -> dict[str, Array]:
        """The trials of a run as columns, in plan order."""
        fields = ", ".join(_SOURCES.get(name, name) for name in _COLUMNS)
        rows = self._store.chunks(f"SELECT {fields} FROM trials WHERE run_id = ? ORDER BY position", (run_id,))
        return as_columns(rows, _COLUMNS)

    def trials(self, run_id: int) -> dict[int, dict[str, Any]]:
        """Outcome, cost and tokens of each trial, reused or not, by position."""
        rows = self._store.dicts(
            "SELECT position, status, error_kind, error_blame, error, service_s, model, cost_usd, attempts, "
            f"reused_from, {', '.join(f'{name}_tokens' for name in TOKENS)} FROM trials WHERE run_id = ? "
            "ORDER BY position",
            (run_id,),
        )
        return {row["position"]: row for row in rows}

    def trial_state(self, run_id: int) -> tuple[int, int | None]:
        """The number of stored trials, and a number that changes whenever one is written."""
        ((count, last),) = self._store.rows("SELECT COUNT(*), MAX(seq) FROM trials WHERE run_id = ?", (run_id,))
        return count, last

    def trial_places(self, run_id: int, positions: Iterable[int]) -> list[tuple[str, int, int]]:
        """Case id, variant and repeat of these trials."""
        query = f"SELECT c.id, t.variant, t.repeat FROM trials t JOIN {CASE} WHERE t.run_id = ? AND t.position = ?"
        return [row for position in positions for row in self._store.rows(query, (run_id, position))]

    def trial_origins(self, run_id: int, variant: int) -> Iterator[tuple[int, int, str, int]]:
        """Position and repeat of each trial of a variant, the run that made its answer, and the occurrence there."""
        return self._store.stream(
            "SELECT t.position, t.repeat, COALESCE(t.reused_from, r.run), t.occurrence FROM trials t "
            "JOIN runs r ON r.run_id = t.run_id WHERE t.run_id = ? AND t.variant = ? ORDER BY t.position",
            (run_id, variant),
        )

    def logged_trials(
        self, run_id: int, case: str | None, variant: str | None, only_errors: bool, most: int
    ) -> list[dict[str, Any]]:
        """The first trials with all their texts, optionally of one case, one variant, or with errors."""
        chosen = {"c.id = ?": case, "v.name = ?": variant, "t.status = ?": "error" if only_errors else None}
        conditions = {condition: value for condition, value in chosen.items() if value is not None}
        return self._store.dicts(
            "SELECT t.position, c.id AS case_id, v.name AS variant, t.repeat, t.status, t.error_kind, t.error_blame, "
            "t.error, t.error_detail, t.attempts, t.queue_s, t.backoff_s, t.service_s, t.in_flight, t.reused_from, "
            f"p.prompt, p.answer, p.data, p.raw_response FROM trials t JOIN {CASE} JOIN {VARIANT} "
            f"LEFT JOIN {PAYLOAD} WHERE {' AND '.join(['t.run_id = ?', *conditions])} ORDER BY t.position LIMIT ?",
            (run_id, *conditions.values(), most),
        )

    def full_trials(self, run_id: int, variant: int) -> Iterator[dict[str, Any]]:
        """All trials of a variant with their texts and cases, in plan order."""
        columns = (
            *("position", "repeat", "status", "error_kind", "error_blame", "error", "error_detail", "model"),
            *("latency_s", "service_s", "cost_usd", "started_at", "finished_at", "reasoning_tokens"),
            *(f"{name}_tokens" for name in TOKENS),
        )
        names = (*columns, "case_id", "input", "expected", "tags", "prompt", "answer", "raw_response")
        rows = self._store.stream(
            f"SELECT {', '.join(f't.{name}' for name in columns)}, c.id, c.input, c.expected, c.tags, p.prompt, "
            f"p.answer, p.raw_response FROM trials t JOIN {CASE} LEFT JOIN {PAYLOAD} "
            "WHERE t.run_id = ? AND t.variant = ? ORDER BY t.position",
            (run_id, variant),
        )
        return (dict(zip(names, row, strict=True)) for row in rows)

    def failed_attempts(self, run_id: int, position: int) -> list[dict[str, Any]]:
        """The attempts of a trial that were retried."""
        return self._store.dicts(
            "SELECT attempt, error_kind, error_blame, error, service_s, waited_s FROM attempts "
            "WHERE run_id = ? AND position = ? ORDER BY attempt",
            (run_id, position),
        )

    def predictions(self, run: str, case: str | None = None) -> list[dict[str, Any]]:
        """Rows of the view `predictions`: of a run, or of one case by repeat and variant."""
        of_case = self._by_start if case is None else " AND case_id = ? ORDER BY repeat, variant"
        parameters = (run,) if case is None else (run, case)
        return self._store.dicts(f"SELECT * FROM predictions WHERE run = ?{of_case}", parameters)

    # -- errors and models -----------------------------------------------------------------------------------------

    def first_error(self, run_id: int, variant: int | None = None) -> tuple[str, str, str | None]:
        """Kind, message and detail of the first failed trial, of one variant or of the run."""
        of_variant = "" if variant is None else " AND variant = ?"
        ((kind, message, detail),) = self._store.rows(
            f"SELECT error_kind, error, error_detail FROM trials WHERE run_id = ? AND status = 'error'{of_variant} "
            "ORDER BY position LIMIT 1",
            (run_id,) if variant is None else (run_id, variant),
        )
        return kind, message, detail

    def error_counts(self, run_id: int) -> list[tuple[int, str, int]]:
        return self._store.rows(
            "SELECT variant, error_kind, COUNT(*) FROM trials WHERE run_id = ? AND status = 'error' "
            "GROUP BY variant, error_kind ORDER BY variant, error_kind",
            (run_id,),
        )

    def models(self, run_id: int, only_ok: bool = False) -> dict[int, list[str]]:
        """The models by variant, of all trials or only successful ones."""
        ok = " AND status = 'ok'" if only_ok else ""
        models: dict[int, list[str]] = {}
        for variant, model in self._store.rows(
            f"SELECT DISTINCT variant, model FROM trials WHERE run_id = ? AND model IS NOT NULL{ok} "
            "ORDER BY variant, model",
            (run_id,),
        ):
            models.setdefault(variant, []).append(model)
        return models

    def new_models(self, run_id: int, most: int) -> list[tuple[int, str]]:
        """Variant and model of the first trials with new answers."""
        return self._store.rows(
            "SELECT DISTINCT variant, model FROM (SELECT variant, model FROM trials WHERE run_id = ? "
            "AND reused_from IS NULL AND model IS NOT NULL ORDER BY position LIMIT ?) t",
            (run_id, most),
        )

    def trials_without_model(self, run_id: int, variant: int, most: int) -> Matches:
        condition = "t.variant = ? AND t.status = 'ok' AND t.model IS NULL"
        return self._matches(run_id, condition, (variant,), most)

    # -- totals ----------------------------------------------------------------------------------------------------

    def variant_totals(self, run_id: int) -> dict[int, dict[str, Any]]:
        """Counts and ranges for each variant, in one pass over the trials."""
        counts = ", ".join(
            f"COUNT(CASE WHEN t.status = 'ok' THEN t.{name} END) AS {name}"
            for name in ("cost_usd", "input_tokens", "output_tokens", "model")
        )
        rows = self._store.dicts(
            f"SELECT t.variant, COUNT(*) AS trials, {count_if(_OK)} AS ok, "
            f"{count_if(HAS_OUTCOME)} AS outcomes, {count_if(_INFRASTRUCTURE)} AS infrastructure, "
            f"COUNT(t.reused_from) AS reused, {counts}, "
            "MIN(CASE WHEN t.reused_from IS NULL THEN t.started_at END) AS begun, "
            "MAX(CASE WHEN t.reused_from IS NULL THEN t.started_at END) AS last_begun, "
            "MIN(CASE WHEN t.status = 'ok' THEN t.model END) AS a_model, "
            "MAX(CASE WHEN t.status = 'ok' THEN t.model END) AS another_model, "
            "MIN(CASE WHEN t.cost_usd IS NOT NULL THEN t.cost_basis END) AS a_basis, "
            "MAX(CASE WHEN t.cost_usd IS NOT NULL THEN t.cost_basis END) AS another_basis "
            "FROM trials t WHERE t.run_id = ? GROUP BY t.variant ORDER BY t.variant",
            (run_id,),
        )
        return {row["variant"]: row for row in rows}

    def last_sequence(self) -> int:
        """The row number of the last written trial."""
        return int(self._scalar("SELECT COALESCE(MAX(seq), 0) FROM trials"))

    def use_by_variant(self, targets: Sequence[str], after: int) -> list[tuple[Any, ...]]:
        """For each variant with one of these targets: digest, target, and number of trials with a new outcome written
        after row number `after`; then count and sum of input tokens, output tokens, dollars and seconds."""
        sums = ", ".join(
            f"COUNT(t.{name}), COALESCE(SUM(t.{name}), 0.0)"
            for name in ("input_tokens", "output_tokens", "cost_usd", "service_s")
        )
        return self._store.rows(
            f"SELECT v.digest, v.target, COUNT(*), {sums} FROM trials t JOIN {VARIANT} "
            f"WHERE t.seq > ? AND v.target IN ({placeholders(targets)}) AND t.reused_from IS NULL AND {HAS_OUTCOME} "
            "GROUP BY v.digest, v.target",
            (after, *targets),
        )

    # -- blocks and times ------------------------------------------------------------------------------------------

    def unbalanced_blocks(self, run_id: int, variants: int) -> list[tuple[int, str]]:
        """Blocks in which only some variants have an outcome, and the reason: `failed`, `skipped` or `missing`."""
        return self._store.rows(
            f"SELECT t.position / ? AS block, CASE WHEN {count_if(_INFRASTRUCTURE)} > 0 THEN 'failed' "
            f"WHEN {count_if(_SKIPPED)} > 0 THEN 'skipped' ELSE 'missing' END FROM trials t "
            f"WHERE t.run_id = ? GROUP BY 1 HAVING {count_if(HAS_OUTCOME)} BETWEEN 1 AND ? ORDER BY 1",
            (variants, run_id, variants - 1),
        )

    def execution_times(self, run_id: int) -> Array:
        """A row per executed trial: position, start, end and row number."""
        import numpy as np

        rows = self._store.stream(
            f"SELECT t.position, t.started_at, t.finished_at, t.seq FROM trials t WHERE t.run_id = ? AND {_EXECUTED} "
            "ORDER BY t.position",
            (run_id,),
        )
        return np.fromiter(chain.from_iterable(rows), dtype=np.float64).reshape(-1, 4)

    def impossible_times(self, run_id: int, earliest: float, latest: float, most: int) -> dict[str, Matches]:
        """Trials with impossible times: `negative`, `reversed` (end before start), `too_long` (service time longer than
        start to end), `early` (start before `earliest`) or `late` (end after `latest`)."""
        durations = ("latency_s", "queue_s", "backoff_s", "service_s")
        between = "t.finished_at - t.started_at"
        conditions = {
            "negative": (f"({' OR '.join(f't.{name} < -0.001' for name in durations)})", ()),
            "reversed": ("t.finished_at < t.started_at - 0.001", ()),
            "too_long": (
                f"t.finished_at >= t.started_at - 0.001 AND t.service_s > {between} + 1.0 "
                f"AND t.service_s > {between} + 0.1 * t.service_s",
                (),
            ),
            "early": ("t.started_at < ?", (earliest,)),
            "late": ("t.finished_at > ?", (latest,)),
        }
        (counts,) = self._store.rows(
            f"SELECT {', '.join(count_if(condition) for condition, _ in conditions.values())} FROM trials t "
            f"WHERE t.run_id = ? AND {_EXECUTED}",
            (*(value for _, values in conditions.values() for value in values), run_id),
        )
        return {
            name: self._matches(run_id, f"{_EXECUTED} AND {condition}", values, most)
            for (name, (condition, values)), count in zip(conditions.items(), counts, strict=True)
            if count
        }
