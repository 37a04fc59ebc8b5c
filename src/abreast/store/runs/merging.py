"""Merging stores: no row is lost or duplicated, in whatever order and however often they are merged.

A tracked row is identified by its `row_id`. A run is identified by its start and its plan, not by its name: a copy that
was continued is the same run, and a different run with the same name gets a new name. Of two versions of a trial, the
one with a final outcome wins; then that of the run that was continued more often; then the earlier one.

The sources are read in one snapshot each and not changed; the target is changed in one transaction.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from abreast.errors import BadInput, suggestion
from abreast.store import schema
from abreast.store.base import Connection
from abreast.store.dialect import Mode, placeholders, quote
from abreast.store.rows import to_json
from abreast.store.runs import leases
from abreast.store.store import RUNNING, Store
from abreast.store.user_tables import tracked_rows
from abreast.store.user_tables.tables import columns_mentioning
from abreast.store.views import JOINED, add_columns

CHUNK = 5_000
Row = tuple[Any, ...]
_ScoreKey = tuple[int, str]  # key of a score: the position of its trial, and its name


@dataclass(slots=True)
class Merged:
    """The result of merging one store."""

    source: str  # address of that store
    runs: list[str] = field(default_factory=list)  # added runs, by their names in the target
    continued: list[str] = field(default_factory=list)  # runs in both stores that changed in the target
    renamed: dict[str, str] = field(default_factory=dict)  # name in the source → name in the target
    trials: int = 0
    rows: dict[str, int] = field(default_factory=dict)  # tracked rows by table
    columns: dict[str, int] = field(default_factory=dict)  # new columns by table

    def __bool__(self) -> bool:
        return bool(self.runs or self.continued or self.rows or self.columns)


def merge(target: Store, sources: Sequence[Store], only: Sequence[str] | None = None) -> list[Merged]:
    """Copy everything, or only these tracked tables, into a store, atomically. Creates the store if necessary."""
    with contextlib.ExitStack() as stack:
        opened = [(source, stack.enter_context(source.snapshot(in_place=False))) for source in sources]
        for source, connection in opened:
            _check_tables(source, connection, only)
        target.exists()  # refuses files of other programs
        results = []
        with target.change() as target_connection:
            for source, connection in opened:
                merged = Merged(source.address)
                if only is None:
                    target_runs = _runs(target, target_connection)
                    _merge_runs(_runs(source, connection), target_runs, connection, target_connection, merged)
                _merge_tables(connection, target_connection, merged, only)
                results.append(merged)
    target.close()
    return results


def copy_assets(target: Store, sources: Sequence[Store], only: Sequence[str] | None = None) -> None:
    """Copy the objects that rows of the sources, or of these tables, refer to."""
    for source in sources:
        used = columns_mentioning(source, list(source.assets), only)
        target.assets.copy(source.assets, [digest for digest, columns in used.items() if columns])


# -- tables of users -----------------------------------------------------------------------------------------------


def _check_tables(store: Store, connection: Connection, only: Sequence[str] | None) -> None:
    tables = tracked_rows.names(connection)
    for name in only or ():
        if name not in tables:
            message = f'{store.address}: no tracked table "{name}"{suggestion(name, tables)}'
            fix = f"see `abreast ls {store.quoted_address}`"
            if name in JOINED:
                fix = "omit --table to copy the rows of whole runs"
            raise BadInput(message, fix)


def _merge_tables(source: Connection, target: Connection, merged: Merged, only: Sequence[str] | None) -> None:
    cache: dict[str, tracked_rows.TrackedTable] = {}
    for source_table in tracked_rows.tables(source):
        if only is not None and source_table.name not in only:
            continue
        old = tracked_rows.find(target, source_table.name)
        types = {key: kind for key, (_, kind) in source_table.columns.items()}
        target_table = tracked_rows.prepare(target, cache, source_table.name, types)
        if new := len(target_table.columns) - (len(old.columns) if old else 0):
            merged.columns[source_table.name] = new
        _fill_row_ids(target, target_table)
        before = target.total_changes()
        columns, rows = _rows_for_target(source_table, target_table, _rows(source, source_table))
        statement = f"INSERT INTO {quote(target_table.relation)} ({', '.join(map(quote, columns))})"
        target.executemany(f"{statement} VALUES ({placeholders(columns)}) ON CONFLICT DO NOTHING", rows)
        if target.total_changes() > before:
            merged.rows[source_table.name] = target.total_changes() - before


def _rows(connection: Connection, table: tracked_rows.TrackedTable, where: str = "1 = 1") -> Iterator[Row]:
    """Yield all rows. One without a row_id (inserted by a user's SQL) gets one that is derived from its content."""
    columns = ", ".join(quote(column) for column, _ in table.columns.values())
    index = list(table.columns).index("row_id")
    new_ids: set[str] = set()
    rows: Iterator[Any] = connection.execute(
        f"SELECT {columns} FROM {quote(table.relation)} WHERE {where} ORDER BY seq"
    )
    for row in rows:
        if row[index] is not None:
            yield row
            continue
        row_id = _derive_row_id(connection, table, row, new_ids)
        new_ids.add(row_id)
        yield (*row[:index], row_id, *row[index + 1 :])


def _derive_row_id(connection: Connection, table: tracked_rows.TrackedTable, row: Row, used: set[str]) -> str:
    content = repr(sorted((key, value) for key, value in zip(table.columns, row, strict=True) if value is not None))
    query, number = f"SELECT 1 FROM {quote(table.relation)} WHERE row_id = ?", 0
    while True:
        row_id = hashlib.sha256(f"{number} {content}".encode()).hexdigest()[:16]
        if row_id not in used and not connection.execute(query, (row_id,)).fetchall():
            return row_id
        number += 1


def _fill_row_ids(connection: Connection, table: tracked_rows.TrackedTable) -> None:
    """Fill in missing row_ids, with those that other stores derive for the same rows."""
    relation, index = quote(table.relation), list(table.columns).index("row_id")
    numbers = [row[0] for row in connection.execute(f"SELECT seq FROM {relation} WHERE row_id IS NULL ORDER BY seq")]
    row_ids = [row[index] for row in _rows(connection, table, "row_id IS NULL")]
    connection.executemany(f"UPDATE {relation} SET row_id = ? WHERE seq = ?", list(zip(row_ids, numbers, strict=True)))


def _rows_for_target(
    source: tracked_rows.TrackedTable, target: tracked_rows.TrackedTable, rows: Iterable[Row]
) -> tuple[list[str], Iterable[Row]]:
    """Return the target columns and the rows for them; values without a column go into `more_columns`."""
    keys = list(source.columns)
    if all(key in target.columns for key in keys):
        return [target.columns[key][0] for key in keys], rows
    shared = [key for key in keys if key in target.columns and key != tracked_rows.MORE]
    return [target.columns[key][0] for key in (*shared, tracked_rows.MORE)], (
        (*(row[key] for key in shared), _extra_json(target, row))
        for row in (dict(zip(keys, row, strict=True)) for row in rows)
    )


def _extra_json(target: tracked_rows.TrackedTable, row: Mapping[str, Any]) -> str | None:
    extra = {key: value for key, value in row.items() if key not in target.columns and value is not None}
    extra |= json.loads(row.get(tracked_rows.MORE) or "{}")
    return to_json(extra) if extra else None


# -- runs ----------------------------------------------------------------------------------------------------------


def _runs(store: Store, connection: Connection) -> list[dict[str, Any]]:
    """Every run, the oldest first, with `is_executed`."""
    runs = connection.dicts("SELECT * FROM runs ORDER BY created_at, run_id")
    return [{**run, "is_executed": store.is_executed(run["owner"], run["heartbeat_at"])} for run in runs]


def _merge_runs(
    source_runs: Sequence[dict[str, Any]],
    target_runs: Sequence[dict[str, Any]],
    source: Connection,
    target: Connection,
    merged: Merged,
) -> None:
    add_columns(target, [schema.Column(*row) for row in source.execute("SELECT kind, name, type FROM columns")])
    cases = ", ".join(schema.TABLES["cases"])
    target.executemany(schema.insert(target.dialect, "cases", "ignore"), source.execute(f"SELECT {cases} FROM cases"))
    target_by_identity = {_identity(run): run for run in target_runs}
    names = _names(source_runs, target_by_identity)
    existing = {run["run"] for run in target_runs}
    merged.renamed = {old: new for old, new in names.items() if new != old and new not in existing}
    for run in source_runs:
        twin = target_by_identity.get(_identity(run))
        if twin is None:
            merged.trials += _add_run(source, target, run, names)
            merged.runs.append(names[run["run"]])
        else:
            changes, before = target.total_changes(), merged.trials
            merged.trials += _RunMerge(source, target, run, twin, names).merge()
            if target.total_changes() > changes or merged.trials > before:
                merged.continued.append(names[run["run"]])


def _identity(run: Mapping[str, Any]) -> tuple[Any, ...]:
    """The values that identify a run in all stores."""
    return run["created_at"], run["experiment"], run["fingerprint"], run["seed"]


def _names(source_runs: Sequence[Mapping[str, Any]], target_runs: Mapping[Any, Mapping[str, Any]]) -> dict[str, str]:
    """Return the name of each source run in the target: its own, or with a number if another run has that name."""
    names: dict[str, str] = {}
    used = {run["run"] for run in target_runs.values()}
    for run in source_runs:
        name, number = run["run"], 1
        if _identity(run) in target_runs:
            names[name] = target_runs[_identity(run)]["run"]
            continue
        while name in used or (number > 1 and any(name == other["run"] for other in source_runs)):
            number += 1
            name = f"{run['run']}-{number}"
        names[run["run"]] = name
        used.add(name)
    return names


def _add_run(source: Connection, target: Connection, run: Mapping[str, Any], names: Mapping[str, str]) -> int:
    """Copy a run that the target does not have. Returns the number of trials."""
    columns = [name for name in schema.TABLES["runs"] if name != "run_id"]
    values = {**run, **_ended(run), "run": names[run["run"]]}
    statement = f"{schema.insert(target.dialect, 'runs')} RETURNING run_id"
    ((run_id,),) = target.execute(statement, tuple(values[name] for name in columns)).fetchall()
    trials = 0
    for table in schema.OF_A_RUN:
        rows = _of_run(source, table, run["run_id"], names)
        while chunk := list(islice(rows, CHUNK)):
            target.executemany(_insert(target, table, "insert"), [(run_id, *row) for row in chunk])
            trials += len(chunk) if table == "trials" else 0
    return trials


def _ended(run: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of a copied run that say that no process executes it."""
    if run["status"] != RUNNING:
        return {"owner": None}
    reason = "copied while it was being executed" if run["is_executed"] else "its process died"
    return {"owner": None, "status": "incomplete", "reason": reason}


def _of_run(connection: Connection, table: str, run_id: int, names: Mapping[str, str] | None = None) -> Iterator[Row]:
    """Yield the rows of a run without `run_id`, in the order of writing. `names` maps run names to new ones."""
    columns = _columns(table)
    rows: Any = connection.execute(f"SELECT {', '.join(columns)} FROM {table} WHERE run_id = ? ORDER BY seq", (run_id,))
    if table != "trials" or not names:
        return iter(rows)
    index = columns.index("reused_from")
    return ((*row[:index], names.get(row[index], row[index]), *row[index + 1 :]) for row in rows)


def _columns(table: str) -> list[str]:
    return [name for name in schema.TABLES[table] if name != "run_id"]


def _insert(connection: Connection, table: str, mode: Mode) -> str:
    return schema.insert(connection.dialect, table, mode, counts=False)


class _RunMerge:
    """Merges a source run into the same run of the target."""

    def __init__(
        self,
        source: Connection,
        target: Connection,
        source_run: Mapping[str, Any],
        target_run: Mapping[str, Any],
        names: Mapping[str, str],
    ) -> None:
        self._source, self._target, self._names = source, target, names
        self._source_run, self._target_run = source_run, target_run
        self._source_id, self._target_id = int(source_run["run_id"]), int(target_run["run_id"])

    def merge(self) -> int:
        """Returns the number of trials that were added or replaced."""
        if self._target_run["is_executed"]:
            fix = "wait for it or stop it, then merge again"
            raise leases.active_error(self._target_run["run"], self._target_run["owner"], fix)
        is_ahead = _progress(self._source, self._source_run) > _progress(self._target, self._target_run)
        trials, unchanged = self._compare_trials()
        self._put("variants", _of_run(self._source, "variants", self._source_id), "ignore")
        self._put("trials", trials.values(), "replace")
        for table in ("payloads", "artifacts"):
            keys = [(self._target_id, position) for position in trials]
            self._target.executemany(f"DELETE FROM {table} WHERE run_id = ? AND position = ?", keys)
            rows = _of_run(self._source, table, self._source_id)
            self._put(table, (row for row in rows if row[0] in trials), "ignore")
        # All judgements were paid for.
        self._put("judgements", _of_run(self._source, "judgements", self._source_id), "ignore")
        has_deleted = self._merge_scores(trials.keys(), unchanged)
        for table in ("attempts", "logged_metrics", "events", "controls"):
            self._put(table, self._missing(table, _of_run(self._source, table, self._source_id)), "insert")
        self._update_run(is_ahead)
        if has_deleted:
            _renumber(self._target, self._target_id)
        return len(trials)

    def _put(self, table: str, rows: Iterable[Row], mode: Mode) -> None:
        self._target.executemany(_insert(self._target, table, mode), ((self._target_id, *row) for row in rows))

    def _missing(self, table: str, rows: Iterable[Row]) -> list[Row]:
        """Return the rows that the target lacks, each as often as it is missing."""
        existing = Counter(map(_comparable, _of_run(self._target, table, self._target_id)))
        missing = []
        for row in rows:
            if existing[_comparable(row)]:
                existing[_comparable(row)] -= 1
            else:
                missing.append(row)
        return missing

    def _compare_trials(self) -> tuple[dict[int, Row], set[int]]:
        """Return the trials to copy, and the positions of the trials that are equal in both stores."""
        columns = _columns("trials")

        def rank(row: Row, run: Mapping[str, Any]) -> tuple[Any, ...]:
            trial = dict(zip(columns, row, strict=True))
            is_final = trial["status"] in ("ok", "skipped") or (
                trial["status"] == "error" and trial["error_blame"] == "variant"
            )
            return is_final, run["epoch"], -(trial["finished_at"] or 0.0)

        target_rows = {row[0]: row for row in _of_run(self._target, "trials", self._target_id)}
        copied: dict[int, Row] = {}
        equal: set[int] = set()
        for row in _of_run(self._source, "trials", self._source_id, self._names):
            old = target_rows.get(row[0])
            if old is not None and _is_same(old, row):
                equal.add(row[0])
            elif old is None or rank(row, self._source_run) > rank(old, self._target_run):
                copied[row[0]] = row
        return copied, equal

    def _merge_scores(self, copied: Collection[int], equal: Collection[int]) -> bool:
        """Copy the scores of copied trials. Of a trial that both have, those of the later scoring win, and the others
        move to `old_scores`, as after `rescore`. Returns whether scores were deleted.
        """
        source_scores, source_times = _scores(self._source, self._source_id)
        target_scores, target_times = _scores(self._target, self._target_id)
        new_rows: list[Row] = []
        deleted: list[_ScoreKey] = []
        replaced: set[Row] = set()
        for key in {**source_scores, **target_scores}:
            new, old = source_scores.get(key), target_scores.get(key)
            is_taken = key[0] in copied
            if key[0] in equal and not (new and old and _is_same(new, old)):
                source_time, target_time = source_times.get(key, 0.0), target_times.get(key, 0.0)
                is_taken = source_time > target_time or (source_time == target_time and old is None)
                loser, replaced_at = (old, source_time) if is_taken else (new, target_time)
                if loser and replaced_at:
                    replaced.add((*key, *loser, replaced_at))
            if is_taken and new:
                new_rows.append((*key, *new))
            elif is_taken and old:
                deleted.append(key)
        self._put("scores", new_rows, "replace")
        self._target.executemany(
            "DELETE FROM scores WHERE run_id = ? AND position = ? AND name = ?",
            [(self._target_id, *key) for key in deleted],
        )
        old_scores = Counter(_of_run(self._source, "old_scores", self._source_id)) | Counter(replaced)
        self._put("old_scores", self._missing("old_scores", old_scores.elements()), "insert")
        return bool(deleted)

    def _update_run(self, is_ahead: bool) -> None:
        """Take the state of the run that was continued more often, finished later, or scored later."""
        source, target = self._source_run, self._target_run
        values = {
            "label": target["label"] or source["label"],
            "simulated": max(target["simulated"], source["simulated"]),
        }
        if is_ahead:
            copied = ("status", "reason", "primary_score", "baseline", "spec", "provenance", "planned_trials")
            values |= {name: source[name] for name in (*copied, "epoch", "finished_at")}
            values |= {"label": source["label"] or target["label"], **_ended(source)}
        changed = {name: value for name, value in values.items() if value != target[name]}
        if changed:
            assigned = ", ".join(f"{name} = ?" for name in changed)
            self._target.execute(f"UPDATE runs SET {assigned} WHERE run_id = ?", (*changed.values(), self._target_id))


def _is_same(row: Row, other: Row) -> bool:
    return row == other or _comparable(row) == _comparable(other)


def _comparable(row: Row) -> Row:
    """Convert the row to the values that every engine returns alike."""
    return tuple([value.replace("\0", "␀") if type(value) is str else value for value in row])


def _scores(connection: Connection, run_id: int) -> tuple[dict[_ScoreKey, Row], dict[_ScoreKey, float]]:
    """Return the scores of a run, and when scores of another version were last replaced."""
    scores = {(row[0], row[1]): row[2:] for row in _of_run(connection, "scores", run_id)}
    rows: Any = connection.execute(
        "SELECT position, name, MAX(replaced_at) FROM old_scores WHERE run_id = ? GROUP BY position, name", (run_id,)
    )
    return scores, {(position, name): replaced_at for position, name, replaced_at in rows}


def _progress(connection: Connection, run: Mapping[str, Any]) -> tuple[Any, ...]:
    query = "SELECT COALESCE(MAX(replaced_at), 0) FROM old_scores WHERE run_id = ?"
    ((rescored_at,),) = connection.execute(query, (run["run_id"],)).fetchall()
    return run["epoch"], run["finished_at"] or 0.0, rescored_at


def _renumber(connection: Connection, run_id: int) -> None:
    """Write the rows of a run again after some were deleted, so that a DuckDB file drops and copies the run."""
    connection.execute(schema.insert(connection.dialect, "deletions"), (run_id, 0.0))
    for table in schema.OF_A_RUN:
        rows = list(_of_run(connection, table, run_id))
        connection.execute(f"DELETE FROM {table} WHERE run_id = ?", (run_id,))
        connection.executemany(_insert(connection, table, "insert"), [(run_id, *row) for row in rows])
