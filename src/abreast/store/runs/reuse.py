"""Reuse of answers from earlier runs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from abreast.store import schema
from abreast.store.base import Connection, Database
from abreast.store.dialect import placeholders
from abreast.store.runs import leases


class StoredOutcome(NamedTuple):
    """An outcome that can be reused, with the parts of its case that a target may have seen."""

    input_digest: str
    case_digest: str
    case_id: str
    tags: str
    group: str | None
    repeat: int
    occurrence: int
    run_id: int
    position: int
    failed: bool


class Reuse(NamedTuple):
    """A trial that reuses the answer of trial `source` of an earlier run."""

    position: int
    case_digest: str
    variant: int
    repeat: int
    occurrence: int
    block: int
    run_id: int
    source: int
    failed: bool = False


class ReusableAnswers(Database):
    def outcomes_of(self, variant_digest: str, failures_too: bool = True) -> Iterator[StoredOutcome]:
        """Yield every reusable outcome of a variant; the newest original comes last, so that a dictionary keeps it."""
        rows = self.stream(
            "SELECT c.input_digest, c.digest, c.id, c.tags, c.case_group, t.repeat, t.occurrence, t.run_id, "
            "t.position, t.status = 'error' FROM variants v "
            "JOIN trials t ON t.run_id = v.run_id AND t.variant = v.variant "
            "JOIN cases c ON c.digest = t.case_digest "
            "WHERE v.digest = ? AND t.status IN ('ok', 'error', 'skipped') "
            "AND NOT (t.status = 'error' AND (t.error_blame <> 'variant' OR NOT ?)) "
            "ORDER BY t.reused_from IS NULL, t.seq",
            (variant_digest, failures_too),
        )
        return (StoredOutcome(*row) for row in rows)

    def any_retried_failures(self, run_ids: Sequence[int]) -> bool:
        unique_ids = tuple(sorted(set(run_ids)))
        specs = self.rows(f"SELECT spec FROM runs WHERE run_id IN ({placeholders(unique_ids)})", unique_ids)
        return any(json.loads(spec).get("options", {}).get("retry_failed") for (spec,) in specs)

    def reusable(self, experiment: str | None = None) -> list[dict[str, Any]]:
        """Number of reusable answers by experiment and variant."""
        return self.dicts(
            "SELECT r.experiment, v.name AS variant, v.target, COUNT(*) AS answers, COUNT(DISTINCT r.run) AS runs, "
            "SUM(t.cost_usd) AS cost_usd FROM variants v JOIN runs r ON r.run_id = v.run_id "
            "JOIN trials t ON t.run_id = v.run_id AND t.variant = v.variant "
            "WHERE v.digest <> '' AND t.reused_from IS NULL AND t.status IN ('ok', 'error') "
            "AND NOT (t.status = 'error' AND t.error_blame = 'infrastructure') "
            f"{'AND r.experiment = ?' if experiment is not None else ''} "
            "GROUP BY r.experiment, v.name, v.target ORDER BY 1, 2, 3",
            () if experiment is None else (experiment,),
        )

    def forget(self, experiment: str | None = None) -> int:
        """Make all stored answers unusable for reuse, except those of active runs. The rows stay."""
        count = sum(int(row["answers"]) for row in self.reusable(experiment))
        with self.change() as connection:
            runs = connection.execute("SELECT run_id, experiment, owner, heartbeat_at FROM runs").fetchall()
            ended = [
                (run_id,)
                for run_id, name, owner, heartbeat_at in runs
                if experiment in (None, name) and not leases.is_alive(owner, heartbeat_at, self.now())
            ]
            connection.executemany("UPDATE variants SET digest = '' WHERE run_id = ?", ended)
        return count


def copy_answers(connection: Connection, run_id: int, reuses: Sequence[Reuse], scores: Sequence[str]) -> None:
    """Copy answers from earlier runs into a run: trial, payload, artifacts, and scores if the case is the same."""
    if not reuses:
        return
    names = Reuse._fields[:-1]  # without `failed`
    types = {"case_digest": "TEXT"}
    columns = ", ".join(f"{name} {connection.dialect.type_name(types.get(name, 'BIGINT'))}" for name in names)
    connection.execute(f"CREATE TEMP TABLE reuse ({columns})")
    connection.executemany(f"INSERT INTO reuse VALUES ({placeholders(names)})", (reuse[:-1] for reuse in reuses))
    own = {name: f"u.{name}" for name in ("position", "case_digest", "variant", "repeat", "occurrence", "block")}
    own |= {"run_id": str(run_id), "reused_from": "COALESCE(o.reused_from, r.run)"}  # the run that made the answer
    same_case = (
        "JOIN trials t ON t.run_id = u.run_id AND t.position = u.source AND t.case_digest = u.case_digest "
        f"WHERE o.name IN ({placeholders(scores) or 'NULL'})"
    )
    for table in ("trials", "payloads", "artifacts", "scores"):
        columns = ", ".join(schema.TABLES[table])
        chosen = ", ".join(own.get(name, f"o.{name}") for name in schema.TABLES[table])
        connection.execute(
            f"INSERT INTO {table} ({columns}) SELECT {chosen} FROM reuse u JOIN runs r ON r.run_id = u.run_id "
            f"JOIN {table} o ON o.run_id = u.run_id AND o.position = u.source {same_case if table == 'scores' else ''}",
            tuple(scores) if table == "scores" else (),
        )
    connection.execute("DROP TABLE reuse")
