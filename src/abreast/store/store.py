"""The store: runs, their rows, and the questions the rest of the product asks of them.

The SQLite file is the truth, whatever the engine: a DuckDB store is the same tables, materialised from a journal
that lies beside it.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from abreast.errors import BadInput, StoreError, suggestion
from abreast.store import lease, schema, sqlite
from abreast.store.rows import Row, to_json
from abreast.store.writer import Lease, add_columns

RUNNING = "running"


@dataclass(frozen=True, slots=True)
class NewRun:
    """What is known of a run before its first trial."""

    run: str
    experiment: str
    debug: bool
    simulated: bool
    label: str | None
    fingerprint: str
    planned_trials: int
    primary_score: str | None
    baseline: str
    seed: int
    spec: Mapping[str, Any]
    provenance: Mapping[str, Any]
    variants: Sequence[Row]  # without run_id, as in schema.TABLES
    columns: Sequence[schema.Column]


class Reuse(NamedTuple):
    """A trial of this run that takes over the answer of an earlier one."""

    position: int
    case_digest: str
    variant: int
    repeat: int
    occurrence: int
    run_id: int
    source: int


class Store:
    """One store, open for as long as it is used as a context manager or until `close`."""

    engine = "sqlite"

    def __init__(self, path: Path) -> None:
        self.path = path
        self._reader: apsw.Connection | None = None

    @property
    def journal(self) -> Path:
        """The SQLite file that holds the truth."""
        return self.path

    def exists(self) -> bool:
        return self.journal.is_file()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    # -- reading ---------------------------------------------------------------------------------------------------

    def rows(self, sql: str, parameters: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """The answer to a question about the truth, as tuples."""
        if self._reader is None:
            self._reader = sqlite.open_for_reading(self.journal)
        with sqlite.explained(self.journal):
            return self._reader.execute(sql, parameters).fetchall()

    def dicts(self, sql: str, parameters: tuple[Any, ...] = ()) -> list[dict[str, Any]]:
        """The same, as dictionaries."""
        if self._reader is None:
            self._reader = sqlite.open_for_reading(self.journal)
        with sqlite.explained(self.journal):
            return sqlite.rows_as_dicts(self._reader, sql, parameters)

    def each(self, sql: str, parameters: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
        """The same row by row, for what is too large to hold; on a connection of its own."""
        connection = sqlite.open_for_reading(self.journal)
        try:
            yield from connection.execute(sql, parameters)
        finally:
            connection.close()

    def sql(self, query: str, write: bool = False) -> tuple[list[str], list[tuple[Any, ...]]]:
        """A user's own query in the store's own SQL."""
        connection = sqlite.open_for_writing(self.journal) if write else sqlite.open_for_reading(self.journal)
        try:
            return _run_query(connection, query)
        except apsw.ReadOnlyError as error:
            raise BadInput("this query would change the store", "abreast sql --write STORE QUERY") from error
        except apsw.Error as error:
            raise BadInput(f"sql: {error}") from error
        finally:
            connection.close()

    def columns(self) -> list[schema.Column]:
        return [schema.Column(*row) for row in self.rows("SELECT kind, name, type FROM columns ORDER BY kind, name")]

    def runs(self) -> list[dict[str, Any]]:
        """Every run, the oldest first, with how many of its trials have a row. A dead owner's run is incomplete."""
        rows = self.dicts(
            "SELECT r.*, (SELECT COUNT(*) FROM trials t WHERE t.run_id = r.run_id) AS stored_trials "
            "FROM runs r ORDER BY r.run_id"
        )
        for row in rows:
            _settle_status(row)
        return rows

    def run(self, name: str) -> dict[str, Any]:
        """One run by its name; `latest` or the start of a name will do if only one begins so."""
        names = [row[0] for row in self.rows("SELECT run FROM runs ORDER BY run_id")]
        if name == "latest" and names:
            name = names[-1]
        matching = [known for known in names if known == name] or [known for known in names if known.startswith(name)]
        if len(matching) != 1:
            hint = suggestion(name, names) if not matching else f" (several begin so: {', '.join(matching[:5])})"
            raise BadInput(f'{self.path}: no run "{name}"{hint}', f"abreast runs --store {self.path}")
        row = self.dicts(
            "SELECT r.*, (SELECT COUNT(*) FROM trials t WHERE t.run_id = r.run_id) AS stored_trials "
            "FROM runs r WHERE run = ?",
            (matching[0],),
        )[0]
        _settle_status(row)
        return row

    def unfinished(self, experiment: str, fingerprint: str) -> str | None:
        """The last run of this very plan, if it is not complete."""
        rows = self.dicts(
            "SELECT run, status, owner, heartbeat_at FROM runs WHERE experiment = ? AND fingerprint = ? "
            "ORDER BY run_id DESC LIMIT 1",
            (experiment, fingerprint),
        )
        for row in rows:
            _settle_status(row)
            if row["status"] in ("incomplete", RUNNING):
                return str(row["run"])
        return None

    def final_positions(self, run_id: int) -> list[int]:
        """Trials whose outcome stands: everything but infrastructure errors and what was cancelled."""
        return [
            row[0]
            for row in self.rows(
                "SELECT position FROM trials WHERE run_id = ? AND status <> 'cancelled' "
                "AND NOT (status = 'error' AND error_blame = 'infrastructure')",
                (run_id,),
            )
        ]

    def outcomes_of(self, variant_digest: str) -> Iterator[tuple[str, str, int, int, int, int]]:
        """Every outcome worth reusing of this very contender, as (input digest, case digest, repeat, occurrence,
        run id, position).

        The newest original comes last, so that a dictionary built from them keeps it.
        """
        yield from self.each(
            "SELECT c.input_digest, c.digest, t.repeat, t.occurrence, t.run_id, t.position FROM variants v "
            "JOIN trials t ON t.run_id = v.run_id AND t.variant = v.variant "
            "JOIN cases c ON c.digest = t.case_digest "
            "WHERE v.digest = ? AND t.status IN ('ok', 'error') "
            "AND NOT (t.status = 'error' AND t.error_blame = 'infrastructure') "
            "ORDER BY t.reused_from IS NULL, t.seq",
            (variant_digest,),
        )

    # -- writing ---------------------------------------------------------------------------------------------------

    @contextmanager
    def change(self) -> Iterator[apsw.Connection]:
        """One transaction on the truth."""
        with sqlite.explained(self.journal):
            connection = sqlite.open_for_writing(self.journal)
            try:
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                connection.execute("COMMIT")
            finally:
                connection.close()

    def begin(self, new: NewRun) -> Lease:
        """Enter a new run and take its lease."""
        now, mark = time.time(), _new_mark(new.run)
        values = {
            "run": new.run,
            "experiment": new.experiment,
            "status": RUNNING,
            "reason": None,
            "debug": int(new.debug),
            "simulated": int(new.simulated),
            "label": new.label,
            "fingerprint": new.fingerprint,
            "planned_trials": new.planned_trials,
            "primary_score": new.primary_score,
            "baseline": new.baseline,
            "seed": new.seed,
            "created_at": now,
            "finished_at": None,
            "spec": to_json(new.spec),
            "provenance": to_json(new.provenance),
            "owner": lease.this_process(mark),
            "epoch": 1,
            "heartbeat_at": now,
        }
        with self.change() as connection:
            connection.execute(
                schema.insert("runs"), tuple(values[name] for name in schema.TABLES["runs"] if name != "run_id")
            )
            run_id = connection.last_insert_rowid()
            connection.executemany(schema.insert("variants"), [(run_id, *row) for row in new.variants])
            add_columns(connection, new.columns)
        return Lease(run_id, new.run, 1, mark)

    def claim(self, run: str) -> Lease:
        """Take over a run whose owner is gone; refuse while it lives."""
        mark = _new_mark(run)
        with self.change() as connection:
            row: Any = connection.execute(
                "SELECT run_id, owner, heartbeat_at, epoch FROM runs WHERE run = ?", (run,)
            ).fetchall()[0]
            if lease.is_alive(row[1], row[2]):
                raise StoreError(
                    f"{run} is being executed by {lease.describe(row[1])}", f"wait for it, or look: abreast show {run}"
                )
            connection.execute(
                "UPDATE runs SET owner = ?, epoch = ?, heartbeat_at = ?, status = ?, reason = NULL, finished_at = NULL "
                "WHERE run_id = ?",
                (lease.this_process(mark), row[3] + 1, time.time(), RUNNING, row[0]),
            )
            return Lease(row[0], run, row[3] + 1, mark)

    def abandoned(self) -> list[str]:
        """The marks of runs whose process on this machine died without giving its lease back."""
        found = self.rows("SELECT owner, heartbeat_at FROM runs WHERE owner IS NOT NULL")
        marks = [lease.mark_of(owner) for owner, heartbeat_at in found if not lease.is_alive(owner, heartbeat_at)]
        return [mark for mark in marks if mark is not None]

    def replace_scores(
        self, run_id: int, versions: Mapping[str, str], fresh: Sequence[Row], primary: str | None
    ) -> None:
        """Put these scores in the place of those that other versions of the scorers gave; keep the old ones aside."""
        names = ", ".join(schema.TABLES["scores"])
        with self.change() as connection:
            for column, version in versions.items():
                where = "run_id = ? AND name = ? AND version <> ?"
                connection.execute(
                    f"INSERT INTO old_scores ({names}, replaced_at) SELECT {names}, ? FROM scores WHERE {where}",
                    (time.time(), run_id, column, version),
                )
                connection.execute(f"DELETE FROM scores WHERE {where}", (run_id, column, version))
            connection.executemany(schema.insert("scores", "INSERT OR REPLACE"), fresh)
            connection.execute("UPDATE runs SET primary_score = ? WHERE run_id = ?", (primary, run_id))
            add_columns(connection, [schema.Column("score", column, "real") for column in versions])
        self.close()

    def adopt(self, held: Lease, cases: Iterable[Row], reuses: Iterable[Reuse]) -> int:
        """Take over answers of earlier runs: the row, its payload and its scores (re-scored if a scorer changed)."""
        with self.change() as connection:
            connection.executemany(schema.insert("cases", "INSERT OR IGNORE"), cases)
            connection.execute(
                "CREATE TEMP TABLE reuse (position INTEGER, case_digest TEXT, variant INTEGER, repeat INTEGER, "
                "occurrence INTEGER, run_id INTEGER, source INTEGER)"
            )
            connection.executemany(
                "INSERT INTO reuse VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    (
                        item.position,
                        item.case_digest,
                        item.variant,
                        item.repeat,
                        item.occurrence,
                        item.run_id,
                        item.source,
                    )
                    for item in reuses
                ),
            )
            same = {"run_id": "?", "position": "u.position", "case_digest": "u.case_digest", "variant": "u.variant"}
            own = {**same, "repeat": "u.repeat", "occurrence": "u.occurrence", "reused_from": "r.run"}
            for table in ("trials", "payloads", "scores"):
                names = list(schema.TABLES[table])
                chosen = ", ".join(own.get(name, f"o.{name}") for name in names)
                connection.execute(
                    f"INSERT OR REPLACE INTO {table} ({', '.join(names)}) SELECT {chosen} FROM reuse u "
                    f"JOIN runs r ON r.run_id = u.run_id "
                    f"JOIN {table} o ON o.run_id = u.run_id AND o.position = u.source",
                    (held.run_id,),
                )
            found: Any = connection.execute("SELECT COUNT(*) FROM reuse").fetchall()[0][0]
            return int(found)

    def finish(self, held: Lease, status: str, reason: str | None) -> None:
        """Give the lease back and say how the run ended."""
        with self.change() as connection:
            connection.execute(
                "UPDATE runs SET status = ?, reason = ?, finished_at = ?, owner = NULL WHERE run_id = ? AND epoch = ?",
                (status, reason, time.time(), held.run_id, held.epoch),
            )

    def reusable(self, experiment: str | None = None) -> list[dict[str, Any]]:
        """How many answers of each contender can be reused."""
        return self.dicts(
            "SELECT r.experiment, v.name AS variant, v.target, COUNT(*) AS answers, COUNT(DISTINCT r.run) AS runs, "
            "SUM(t.cost_usd) AS cost_usd FROM variants v JOIN runs r ON r.run_id = v.run_id "
            "JOIN trials t ON t.run_id = v.run_id AND t.variant = v.variant "
            "WHERE v.digest <> '' AND t.reused_from IS NULL AND t.status IN ('ok', 'error') "
            "AND NOT (t.status = 'error' AND t.error_blame = 'infrastructure') "
            "AND (?1 IS NULL OR r.experiment = ?1) GROUP BY r.experiment, v.name, v.target ORDER BY 1, 2",
            (experiment,),
        )

    def forget(self, experiment: str | None = None) -> int:
        """Let nothing be reused of what is stored now. The rows stay."""
        count = sum(int(row["answers"]) for row in self.reusable(experiment))
        with self.change() as connection:
            connection.execute(
                "UPDATE variants SET digest = '' WHERE run_id IN "
                "(SELECT run_id FROM runs WHERE status <> ?1 AND (?2 IS NULL OR experiment = ?2))",
                (RUNNING, experiment),
            )
        return count

    def delete(self, runs: Sequence[str]) -> int:
        """Remove runs with everything that is theirs, and cases nothing refers to any more."""
        with self.change() as connection:
            removed = 0
            for run in runs:
                row: Any = connection.execute(
                    "SELECT run_id, owner, heartbeat_at FROM runs WHERE run = ?", (run,)
                ).fetchall()
                if not row:
                    continue
                if lease.is_alive(row[0][1], row[0][2]):
                    raise StoreError(f"{run} is being executed by {lease.describe(row[0][1])}", "stop it first")
                for table in schema.OF_A_RUN:
                    connection.execute(f"DELETE FROM {table} WHERE run_id = ?", (row[0][0],))
                    removed += connection.changes() if table == "trials" else 0
                connection.execute("DELETE FROM runs WHERE run_id = ?", (row[0][0],))
                connection.execute(schema.insert("deletions"), (row[0][0], time.time()))
            connection.execute("DELETE FROM cases WHERE digest NOT IN (SELECT case_digest FROM trials)")
        return removed

    def materialise(self) -> None:
        """Bring derived files up to date. SQLite has none."""


def _new_mark(run: str) -> str:
    return f"{run}-{secrets.token_hex(4)}"


def _settle_status(row: dict[str, Any]) -> None:
    if row["status"] == RUNNING and not lease.is_alive(row["owner"], row["heartbeat_at"]):
        row["status"], row["reason"] = "incomplete", "its process ended without a word"


def _run_query(connection: apsw.Connection, query: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    cursor = connection.cursor()
    names: list[str] = []

    def note(current: apsw.Cursor, _sql: str, _bindings: object) -> bool:
        names[:] = [column[0] for column in current.get_description()] if current.is_readonly else []
        return True

    cursor.exec_trace = note
    return names, cursor.execute(query).fetchall()
