"""The store: runs, their rows, and the questions the rest of the product asks of them.

The SQLite file is the truth, whatever the engine: a DuckDB store is the same tables, materialised from a journal
that lies beside it.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from abreast.errors import BadInput, StoreError, suggestion
from abreast.redaction import redact
from abreast.store import lease, run_names, schema
from abreast.store.queries import Queries
from abreast.store.rows import Row, to_json
from abreast.store.sqlite import driver
from abreast.store.sqlite.isolation.client import as_remote
from abreast.store.user_tables import logged_metrics, tracked_rows
from abreast.store.writer import Lease, add_columns
from abreast.text import storable

RUNNING = "running"
OPEN_FOR_S = 2.0  # how long to wait for a file that another process has open


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
    judged: Sequence[str] = ()  # scores that are not taken over with an answer: the judgements behind them are


class StoredOutcome(NamedTuple):
    """An outcome that could be reused, and what of its case a target may have seen."""

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
    """A trial of this run that takes over the answer of an earlier one."""

    position: int
    case_digest: str
    variant: int
    repeat: int
    occurrence: int
    block: int
    run_id: int
    source: int
    failed: bool = False


class Store:
    """One store, open for as long as it is used as a context manager or until `close`."""

    engine = "sqlite"

    def __init__(self, path: Path) -> None:
        self.path = path
        self._reader: apsw.Connection | None = None
        self._is_changed = False

    @property
    def journal(self) -> Path:
        """The SQLite file that holds the truth."""
        return self.path

    def anchor(self) -> None:
        """Make a relative path absolute: functions of the user may change the working folder."""
        self.path = self.path.absolute()

    @property
    def queries(self) -> Queries:
        """Named questions about what is stored."""
        return Queries(self)

    def exists(self) -> bool:
        """Whether a run has ever begun here; refuses files of others."""
        return driver.is_made(self.journal)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        if self._is_changed:
            self._is_changed = False
            driver.complete(self.journal)

    # -- reading ---------------------------------------------------------------------------------------------------

    def _open_reader(self) -> apsw.Connection:
        return driver.open_for_reading(self.journal)

    def reading(self) -> apsw.Connection:
        """A connection to the truth that can change nothing."""
        if self._reader is None or driver.must_reopen(self._reader):
            self.close()
            self._reader = self._open_reader()
        return self._reader

    def rows(self, sql: str, parameters: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """The answer to a question about the truth, as tuples."""
        with driver.explained(self.journal):
            return self.reading().execute(sql, parameters).fetchall()

    def dicts(self, sql: str, parameters: tuple[Any, ...] = ()) -> list[dict[str, Any]]:
        """The same, as dictionaries."""
        with driver.explained(self.journal):
            return driver.rows_as_dicts(self.reading(), sql, parameters)

    def each(self, sql: str, parameters: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
        """The same row by row, for what is too large to hold; on a connection of its own."""
        connection = self._open_reader()
        try:
            with driver.explained(self.journal):
                yield from connection.execute(sql, parameters)
        finally:
            connection.close()

    def chunks(self, sql: str, parameters: tuple[Any, ...] = (), size: int = 10_000) -> Iterator[list[tuple[Any, ...]]]:
        """The same so many rows at a time: for what is read whole, a third faster than row by row."""
        connection = self._open_reader()
        try:
            with driver.explained(self.journal):
                found = connection.execute(sql, parameters)
                while chunk := list(islice(found, size)):
                    yield chunk
        finally:
            connection.close()

    def sql(self, query: str, write: bool = False) -> tuple[list[str], list[tuple[Any, ...]]]:
        """A user's own query in the store's own SQL; `db.predictions` is `predictions`."""
        write = write or self.tracked_that_loses(query) is not None
        self.reading()  # stays open until the query has ended: it completes the file, which a query cannot
        with driver.writing(self.journal) if write else closing(driver.open_read_only(self.journal)) as connection:
            if re.search(r"\bdb\s*\.", query, re.IGNORECASE):
                connection.execute("ATTACH ? AS db", (driver.address(self.journal, read_only=not write),))
            if not write:
                connection.set_authorizer(_no_other_file)
            try:
                return _run_query(connection, query)
            except (apsw.ReadOnlyError, apsw.AuthError) as error:
                raise BadInput("this query would change the store", "abreast sql --write STORE QUERY") from error
            except (apsw.Error, UnicodeError) as error:
                view = changed_table(query) if "it is a view" in str(error) else None
                raise BadInput(f"sql: {error}", f"what trackers wrote is in tracked_{view}" if view else "") from error

    def tracked_that_loses(self, query: str) -> str | None:
        """The table of the user's own that this one DELETE is about: plain enough to need no further word."""
        is_delete = query.lstrip()[:6].lower() == "delete" and ";" not in query.rstrip().rstrip(";")
        table = changed_table(query) if is_delete else None
        known = {name.lower(): name for name in tracked_rows.names(self.reading())} if table else {}
        return known.get(table.lower()) if table else None

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
        """One run by its name, its label, `latest`, `previous`, or a prefix that only one name has."""
        _, run = run_names.find_run([self], name)
        row = self.dicts(
            "SELECT r.*, (SELECT COUNT(*) FROM trials t WHERE t.run_id = r.run_id) AS stored_trials "
            "FROM runs r WHERE run = ?",
            (run,),
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

    def final_positions(self, run_id: int, failures_too: bool = True) -> list[int]:
        """Trials whose outcome stands: everything but infrastructure errors and what was cancelled.

        Without `failures_too` the variants' own failures do not stand either.
        """
        ((found,),) = self.rows(  # as one text: there may be a million
            "SELECT GROUP_CONCAT(position) FROM trials WHERE run_id = ? AND status <> 'cancelled' "
            "AND NOT (status = 'error' AND (error_blame <> 'variant' OR NOT ?))",
            (run_id, failures_too),
        )
        return [int(number) for number in found.split(",")] if found else []

    def own_failures(self, run_id: int) -> list[tuple[int, str]]:
        """Positions of the trials that failed by their variant's fault, each with the kind of error."""
        return self.rows(
            "SELECT position, error_kind FROM trials WHERE run_id = ? AND status = 'error' AND error_blame = 'variant'",
            (run_id,),
        )

    def answered(self, run_id: int) -> frozenset[int]:
        """Variants that gave at least one answer in this run."""
        answers = "SELECT DISTINCT variant FROM trials WHERE run_id = ? AND status = 'ok' AND reused_from IS NULL"
        return frozenset(variant for (variant,) in self.rows(answers, (run_id,)))

    def last_stop(self, run_id: int) -> str | None:
        """The kind of reason for which an execution of this run stopped last, if one did."""
        stops = self.rows(
            "SELECT detail FROM events WHERE run_id = ? AND kind = 'stop' ORDER BY happened_at", (run_id,)
        )
        return json.loads(stops[-1][0])["reason"] if stops else None

    def spent(self, run_id: int, variants: int) -> list[tuple[int, float, int, float]]:
        """What a run has taken so far, by variant: trials with a known cost, dollars, with known tokens, tokens."""
        found = {
            row[0]: row[1:]
            for row in self.rows(
                "SELECT variant, COUNT(cost_usd), TOTAL(CASE WHEN cost_basis <> 'included' THEN cost_usd END), "
                "COUNT(COALESCE(input_tokens, output_tokens)), "
                "TOTAL(COALESCE(input_tokens, 0) + COALESCE(output_tokens, 0)) FROM trials "
                "WHERE run_id = ? AND reused_from IS NULL GROUP BY variant",
                (run_id,),
            )
        }
        failed = self.spent_in_vain(run_id, variants)
        known = [found.get(variant, (0, 0.0, 0, 0.0)) for variant in range(variants)]
        return [(number, paid + more, *rest) for (number, paid, *rest), more in zip(known, failed, strict=True)]

    def spent_in_vain(self, run_id: int, variants: int) -> list[float]:
        """Dollars by variant that attempts cost which were made again: they are no part of any trial's cost."""
        found = dict(
            self.rows(
                "SELECT position % ?2, TOTAL(cost_usd) FROM attempts WHERE run_id = ?1 AND cost_usd > 0 GROUP BY 1",
                (run_id, max(1, variants)),
            )
        )
        return [found.get(variant, 0.0) for variant in range(variants)]

    def spent_on_judges(self, run_id: int, scorers: Sequence[str]) -> list[tuple[int, float, int, float]]:
        """The same for each of these judges, by its name; what was reused was paid before."""
        found = {
            row[0]: row[1:]
            for row in self.rows(
                "SELECT scorer, COUNT(cost_usd), TOTAL(CASE WHEN cost_basis <> 'included' THEN cost_usd END), "
                "COUNT(COALESCE(input_tokens, output_tokens)), "
                "TOTAL(COALESCE(input_tokens, 0) + COALESCE(output_tokens, 0)) FROM judgements "
                "WHERE run_id = ? AND reused_from IS NULL GROUP BY scorer",
                (run_id,),
            )
        }
        return [found.get(scorer, (0, 0.0, 0, 0.0)) for scorer in scorers]

    def outcomes_of(self, variant_digest: str, failures_too: bool = True) -> Iterator[StoredOutcome]:
        """Every outcome worth reusing of this very contender; the newest original last: a dictionary keeps it."""
        rows = self.each(
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

    # -- writing ---------------------------------------------------------------------------------------------------

    @contextmanager
    def change(self) -> Iterator[apsw.Connection]:
        """One transaction on the truth."""
        with (
            driver.explained(self.journal),
            driver.writing(self.journal) as connection,
            driver.transaction(connection),
        ):
            yield connection
        self._is_changed = True

    def begin(
        self, new: NewRun, cases: Iterable[Row] = (), reuses: Sequence[Reuse] = (), beside_its_like: bool = False
    ) -> Lease:
        """Enter a new run, take its lease, and take over the answers of earlier runs: all at once or not at all.

        The same plan is not executed twice at a time, unless that is what was asked for (`beside_its_like`).
        """
        now, owner = time.time(), lease.new_owner()
        values = {
            "run": new.run,
            "experiment": new.experiment,
            "status": RUNNING,
            "reason": None,
            "debug": int(new.debug),
            "simulated": int(new.simulated),
            "label": new.label and redact(new.label),
            "fingerprint": new.fingerprint,
            "planned_trials": new.planned_trials,
            "primary_score": new.primary_score,
            "baseline": new.baseline,
            "seed": new.seed,
            "created_at": now,
            "finished_at": None,
            "spec": to_json(new.spec),
            "provenance": to_json(new.provenance),
            "owner": owner,
            "epoch": 1,
            "heartbeat_at": now,
        }
        with self.change() as connection:
            if not beside_its_like:
                _refuse_twin(connection, new)
            connection.execute(
                schema.insert("runs"), tuple(_clean(values[name]) for name in schema.TABLES["runs"] if name != "run_id")
            )
            run_id = connection.last_insert_rowid()
            connection.executemany(schema.insert("variants"), [(run_id, *map(_clean, row)) for row in new.variants])
            add_columns(connection, new.columns)
            connection.executemany(schema.insert("cases", "INSERT OR IGNORE"), cases)
            scores = [column.name for column in new.columns if column.kind == "score"]
            _adopt(connection, run_id, reuses, [name for name in scores if name not in new.judged])
        lease.take(owner)
        return Lease(run_id, new.run, 1, owner)

    def claim(self, run: str, executes: bool = True) -> Lease:
        """Take over a run whose owner is gone; refuse while it lives. Who only scores leaves its status alone."""
        owner = lease.new_owner()
        with self.change() as connection:
            found: list[Any] = connection.execute(
                "SELECT run_id, owner, heartbeat_at, epoch FROM runs WHERE run = ?", (run,)
            ).fetchall()
            if not found:
                raise StoreError(f"{run} was deleted a moment ago", f"abreast runs --store {self.path}")
            run_id, other, heartbeat_at, epoch = found[0]
            if lease.is_alive(other, heartbeat_at):
                raise _executed_by(run, other)
            connection.execute(
                "UPDATE runs SET owner = ?, epoch = ?, heartbeat_at = ? WHERE run_id = ?",
                (owner, epoch + 1, time.time(), run_id),
            )
            if executes:
                _keep_last_attempts(connection, run_id)
                connection.execute(
                    "UPDATE runs SET status = ?, reason = NULL, finished_at = NULL WHERE run_id = ?", (RUNNING, run_id)
                )
        lease.take(owner)
        return Lease(run_id, run, epoch + 1, owner)

    def replace_scores(
        self,
        run_id: int,
        versions: Mapping[str, str],
        fresh: Sequence[Row],
        primary: str | None,
        scorers: Mapping[str, Any],
    ) -> None:
        """Put these scores in the place of those that other versions of the scorers gave; keep the old ones aside.

        `scorers` replaces what the run's spec says of its scorers."""
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
            connection.execute(
                "UPDATE runs SET primary_score = ?, spec = json_patch(spec, ?) WHERE run_id = ?",
                (primary, to_json(scorers), run_id),
            )
            add_columns(connection, [schema.Column("score", column, "real") for column in versions])
        self.close()

    def add_labels(self, run_id: int, rows: Sequence[Row], sample: tuple[str, Mapping[str, Any]] | None) -> None:
        """Store score rows that people gave, and the event that records their sample, all or none; a label that
        changes is kept aside, and scores of scorers stay as they are."""
        names = ", ".join(schema.TABLES["scores"])
        where = "run_id = ? AND position = ? AND name = ?"
        with self.change() as connection:
            if not connection.execute("SELECT 1 FROM runs WHERE run_id = ?", (run_id,)).fetchall():
                raise StoreError("the run was deleted a moment ago", f"abreast runs --store {self.path}")
            connection.executemany(
                f"INSERT INTO old_scores ({names}, replaced_at) SELECT {names}, ? FROM scores WHERE {where} "
                "AND value IS NOT NULL AND value IS NOT ?",
                [(time.time(), *row[:4]) for row in rows],
            )
            connection.executemany(schema.insert("scores", "INSERT OR REPLACE"), rows)
            add_columns(
                connection, [schema.Column("score", name, "real") for name in dict.fromkeys(r[2] for r in rows)]
            )
            if sample is not None:
                connection.execute(schema.insert("events"), (run_id, time.time(), sample[0], to_json(sample[1])))
        self.close()

    def log_metrics(self, run: str, variant: str | None, segment: str, values: Mapping[str, Any]) -> None:
        """A row of a user's own in `metrics`, for a variant or for the run as a whole; it stays as long as the run."""
        data, segment = logged_metrics.checked(values), logged_metrics.checked_segment(segment)
        name = self.run(run)["run"]
        with self.change() as connection:
            found: list[Any] = connection.execute("SELECT run_id FROM runs WHERE run = ?", (name,)).fetchall()
            if not found:
                raise StoreError(f"{name} was deleted a moment ago", f"abreast runs --store {self.path}")
            run_id = found[0][0]
            index = None if variant is None else _variant_index(connection, run_id, name, variant)
            columns = logged_metrics.columns_for(data)
            _refuse_too_many(connection, columns)
            add_columns(connection, columns)
            connection.execute(schema.insert("logged_metrics"), (run_id, index, segment, time.time(), to_json(data)))
        self.close()

    def revise(
        self,
        held: Lease,
        primary: str | None,
        baseline: str,
        spec: Mapping[str, Any],
        lock: Mapping[str, Any] | None = None,
    ) -> None:
        """A run goes on under a spec whose scorers, primary or baseline may have changed meanwhile.

        `lock` says whether it still keeps to the locked plan.
        """
        with self.change() as connection:
            new, old = (f"json_extract({source}, '$.origin_digest')" for source in ("?1", "spec"))
            kept = (
                "json_set(?1, '$.options.retry_failed', json_extract(spec, '$.options.retry_failed'), "
                f"'$.origin_digest', COALESCE({new}, {old}))"
            )
            connection.execute(
                f"UPDATE runs SET primary_score = ?2, baseline = ?3, spec = {kept} WHERE run_id = ?4",
                (to_json(spec), primary, baseline, held.run_id),
            )
            if lock is not None:
                connection.execute(
                    "UPDATE runs SET provenance = json_set(provenance, '$.lock', json(?)) WHERE run_id = ?",
                    (to_json(lock), held.run_id),
                )

    def mark_simulated(self, run_id: int) -> None:
        """For good: something that only pretends had a part in this run."""
        with self.change() as connection:
            connection.execute("UPDATE runs SET simulated = 1 WHERE run_id = ?", (run_id,))

    def sources_retried(self, run_ids: Sequence[int]) -> bool:
        """Whether in one of these runs failures were rolled again on purpose."""
        wanted = to_json(sorted(set(run_ids)))
        return bool(
            self.rows(
                "SELECT 1 FROM runs WHERE run_id IN (SELECT value FROM json_each(?)) "
                "AND json_extract(spec, '$.options.retry_failed') LIMIT 1",
                (wanted,),
            )
        )

    def note_retried_failures(self, held: Lease) -> None:
        """For good: the variants' own failures were rolled again on purpose, and reports must say so."""
        with self.change() as connection:
            connection.execute(
                "UPDATE runs SET spec = json_set(spec, '$.options.retry_failed', json('true')) WHERE run_id = ?",
                (held.run_id,),
            )

    def finish(self, held: Lease, status: str, reason: str | None) -> None:
        """Give the lease back and say how the run ended."""
        with self.change() as connection:
            connection.execute(
                "UPDATE runs SET status = ?, reason = ?, finished_at = ?, owner = NULL WHERE run_id = ? AND epoch = ?",
                (status, reason, time.time(), held.run_id, held.epoch),
            )
        self.let_go(held)
        self.close()

    def give_back(self, held: Lease) -> None:
        """Give the lease back of a run that was only scored."""
        with self.change() as connection:
            connection.execute("UPDATE runs SET owner = NULL WHERE run_id = ? AND epoch = ?", (held.run_id, held.epoch))
        self.let_go(held)
        self.close()

    def let_go(self, held: Lease) -> None:
        """This process executes the run no more, whether or not that could be written."""
        lease.let_go(held.owner)

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
        """Let nothing be reused of what is stored now. The rows stay, and so does what a run at work needs."""
        count = sum(int(row["answers"]) for row in self.reusable(experiment))
        with self.change() as connection:
            found: list[Any] = connection.execute("SELECT run_id, experiment, owner, heartbeat_at FROM runs").fetchall()
            over = [
                (run_id,)
                for run_id, name, owner, heartbeat_at in found
                if experiment in (None, name) and not lease.is_alive(owner, heartbeat_at)
            ]
            connection.executemany("UPDATE variants SET digest = '' WHERE run_id = ?", over)
        return count

    def label(self, run: str, label: str | None) -> None:
        """Name what a run measured, such as a version; None takes the label away."""
        with self.change() as connection:
            connection.execute("UPDATE runs SET label = ? WHERE run = ?", (label and redact(storable(label)), run))
        self.materialise()

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

    def materialise(self, patience_s: float = OPEN_FOR_S) -> None:
        """Bring derived files up to date. SQLite has none."""


_CHANGE = re.compile(
    r"\s*(?:delete\s+from|update|insert(?:\s+or\s+\w+)?\s+into|replace\s+into)\s+"
    r"(?:(?:db|main)\s*\.\s*)?(?:\"(?P<quoted>[^\"]+)\"|(?P<plain>\w+))",
    re.IGNORECASE,
)


def changed_table(query: str) -> str | None:
    """The table whose rows a statement changes.

    >>> changed_table('DELETE FROM db.predictions WHERE x = 1'), changed_table("select 1")
    ('predictions', None)
    """
    found = _CHANGE.match(query)
    return found and (found["quoted"] or found["plain"])


def _clean(value: Any) -> Any:
    return storable(value) if isinstance(value, str) else value


def _variant_index(connection: apsw.Connection, run_id: int, run: str, variant: str) -> int:
    rows: list[Any] = connection.execute("SELECT name, variant FROM variants WHERE run_id = ?", (run_id,)).fetchall()
    known: dict[str, int] = dict(rows)
    if not isinstance(variant, str) or variant not in known:
        raise BadInput(f'log: {run} has no variant "{variant}"{suggestion(str(variant), known)}')
    return known[variant]


def _refuse_too_many(connection: apsw.Connection, columns: Sequence[schema.Column]) -> None:
    known = {str(row[0]) for row in connection.execute("SELECT name FROM columns WHERE kind = 'metric'")}
    if len(known | {column.name for column in columns}) > schema.MOST_LOGGED:
        raise BadInput(
            f"log: metrics would have more than {schema.MOST_LOGGED:,} columns of logged names",
            "log many values under one name, as a mapping: it is kept as JSON",
        )


def _executed_by(run: str, owner: str) -> StoreError:
    return StoreError(
        f"{run} is being executed by {lease.describe(owner)}", f"wait for it, or look: abreast show {run}"
    )


def _refuse_twin(connection: apsw.Connection, new: NewRun) -> None:
    twins: list[Any] = connection.execute(
        "SELECT run, owner, heartbeat_at FROM runs WHERE experiment = ? AND fingerprint = ? AND debug = ? "
        "AND status = ?",
        (_clean(new.experiment), new.fingerprint, int(new.debug), RUNNING),
    ).fetchall()
    for run, owner, heartbeat_at in twins:
        if lease.is_alive(owner, heartbeat_at):
            raise _executed_by(run, owner)


def _keep_last_attempts(connection: apsw.Connection, run_id: int) -> None:
    """What failed by infrastructure or was cancelled is executed again and its row replaced; the attempt is kept."""
    connection.execute(
        "INSERT INTO attempts (run_id, position, attempt, started_at, service_s, error_kind, error_blame, error, "
        "waited_s, cost_usd) SELECT run_id, position, attempts, started_at, service_s, error_kind, error_blame, error, "
        "0.0, CASE WHEN cost_basis <> 'included' THEN cost_usd END "
        "FROM trials t WHERE run_id = ? AND status IN ('error', 'cancelled') AND error_blame <> 'variant' "
        "AND NOT EXISTS (SELECT 1 FROM attempts a WHERE a.run_id = t.run_id AND a.position = t.position "
        "AND a.attempt >= t.attempts)",
        (run_id,),
    )


def _adopt(connection: apsw.Connection, run_id: int, reuses: Sequence[Reuse], scores: Sequence[str]) -> None:
    """Answers of earlier runs: the row, its payload, and these scores if they were given for the very same case."""
    if not reuses:
        return
    names = ", ".join(Reuse._fields)
    connection.execute(f"CREATE TEMP TABLE reuse ({names})")
    connection.executemany(f"INSERT INTO reuse ({names}) VALUES ({', '.join('?' * len(Reuse._fields))})", reuses)
    own = {name: f"u.{name}" for name in ("position", "case_digest", "variant", "repeat", "occurrence", "block")}
    own |= {"run_id": str(run_id), "reused_from": "COALESCE(o.reused_from, r.run)"}  # who made it, not who passed it on
    for table in ("trials", "payloads", "artifacts", "scores"):
        columns = list(schema.TABLES[table])
        chosen = ", ".join(own.get(name, f"o.{name}") for name in columns)
        only = (
            "JOIN trials t ON t.run_id = u.run_id AND t.position = u.source AND t.case_digest = u.case_digest "
            "WHERE o.name IN (SELECT value FROM json_each(?))"
            if table == "scores"
            else ""
        )
        connection.execute(
            f"INSERT OR REPLACE INTO {table} ({', '.join(columns)}) SELECT {chosen} FROM reuse u "
            f"JOIN runs r ON r.run_id = u.run_id "
            f"JOIN {table} o ON o.run_id = u.run_id AND o.position = u.source {only}",
            (json.dumps(list(scores)),) if only else (),
        )


def _settle_status(row: dict[str, Any]) -> None:
    if row["status"] == RUNNING and not lease.is_alive(row["owner"], row["heartbeat_at"]):
        row["status"], row["reason"] = "incomplete", "its process ended without a word"


def _no_other_file(operation: int, *_: object) -> int:
    """A reader could still make files: `VACUUM INTO` attaches one."""
    return apsw.SQLITE_DENY if operation == apsw.SQLITE_ATTACH else apsw.SQLITE_OK


def _run_query(connection: apsw.Connection, query: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Column names and rows of the last statement."""
    remote = as_remote(connection)
    if remote is not None:
        answer: tuple[list[str], list[tuple[Any, ...]]] = remote.run(_run_query, query)
        return answer
    cursor = connection.cursor()
    names: list[str] = []
    rows: list[tuple[Any, ...]] = []

    def begun(current: apsw.Cursor, _sql: str, _bindings: object) -> bool:
        rows.clear()
        try:
            names[:] = [column[0] for column in current.get_description()]
        except apsw.ExecutionCompleteError:  # a statement without columns
            names.clear()
        return True

    cursor.exec_trace = begun
    for row in cursor.execute(query):
        rows.append(row)
    return names, rows
