"""Bringing a DuckDB file up to its journal: everything after the file's own watermark is appended."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from abreast.errors import StoreError
from abreast.store import schema, views
from abreast.store.base import OPEN_FOR_S, Connection
from abreast.store.dialect import literal, quote
from abreast.store.duckdb.dialect import CELL_TYPES, DUCKDB
from abreast.store.sqlite import driver
from abreast.store.user_tables import tracked_rows

FORMAT = "v1.2.0"  # so that older DuckDB clients can open the file
CHUNK = 20_000

_REFRESHED = ("runs", "variants", "columns", "tracked_tables", "tracked_columns", "tracked_caches")
_FOLLOWED = tuple(name for name in schema.TABLES if name not in (*_REFRESHED, "deletions"))


@contextlib.contextmanager
def opened(path: Path, read_only: bool, patience_s: float = OPEN_FOR_S) -> Iterator[duckdb.DuckDBPyConnection]:
    """The DuckDB file, once nobody else has it."""
    deadline = time.monotonic() + patience_s
    config: dict[str, Any] = {"storage_compatibility_version": FORMAT}
    while True:
        try:
            connection = duckdb.connect(str(path), read_only=read_only, config=config)
            break
        except duckdb.Error as error:
            # Held by another process, or by this very one with other settings.
            held = "Could not set lock" in str(error) or isinstance(error, duckdb.ConnectionException)
            if not held:
                raise explain(path, error) from error
            if time.monotonic() > deadline:
                raise StoreError(
                    f"{path}: another process holds it open ({str(error).split('held in ')[-1].split('.')[0]}); "
                    "nothing is lost, the journal has every row",
                    "close it there and try again",
                ) from error
            time.sleep(0.02)
    try:
        yield connection
    finally:
        connection.close()


def explain(path: Path, error: duckdb.Error) -> StoreError:
    """Somebody else's file is left alone; ours can be made again."""
    reason = str(error).split(": ", 1)[-1].splitlines()[0]
    if path.is_file() and is_duckdb(path):
        return StoreError(f"{path}: {reason}", "if it is damaged, move it away: it is made again from its journal")
    return StoreError(f"{path}: {reason}", "name another store with --store")


def is_duckdb(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(12)[8:] == b"DUCK"


class _Turns:
    """Threads of one process share a DuckDB file that is open: one at a time brings it up to date."""

    def __init__(self) -> None:
        self._begin()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._begin)  # whoever held it is not there

    def _begin(self) -> None:
        self.lock = threading.RLock()  # a signal handler may need it again


_turns = _Turns()


def materialise(journal: Path, path: Path, patience_s: float = OPEN_FOR_S) -> None:
    """Bring the DuckDB file up to the journal: all new rows in one transaction, then close it."""
    source = driver.open_for_reading(journal)
    try:
        with _turns.lock, opened(path, read_only=False, patience_s=patience_s) as connection:
            _catch_up(source, connection)
    except (duckdb.Error, driver.Error, OSError) as error:
        raise StoreError(
            f"{path}: could not be brought up to date ({str(error).splitlines()[0]}); nothing is lost, "
            f"{journal.name} has every row",
            "free some space or close it elsewhere; any abreast command makes up for it",
        ) from error
    finally:
        source.close()


def _catch_up(source: Connection, connection: duckdb.DuckDBPyConnection) -> None:
    source.execute("BEGIN")  # one moment of the journal for all tables
    connection.execute("BEGIN")
    for table, columns in schema.TABLES.items():
        body = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        connection.execute(f"CREATE TABLE IF NOT EXISTS {table} ({body})")
    _add_missing_columns(connection)
    connection.execute("CREATE TABLE IF NOT EXISTS watermarks (name TEXT, seq BIGINT)")
    marks = dict(connection.execute("SELECT name, seq FROM watermarks").fetchall())
    deleted = _follow_deletions(source, connection, marks)
    for table in _REFRESHED:
        connection.execute(f"DELETE FROM {table}")
        names = ", ".join(schema.TABLES[table])
        _append(connection, table, source.execute(f"SELECT {names} FROM {table}").fetchall())
    for table in _FOLLOWED:
        _follow(source, connection, table, marks)
    if deleted:  # not before: a run that came since may refer to them
        connection.execute("DELETE FROM cases WHERE digest NOT IN (SELECT case_digest FROM trials)")
    _follow_tracked(source, connection, marks)
    connection.execute("DELETE FROM watermarks")
    if marks:
        connection.executemany("INSERT INTO watermarks VALUES (?, ?)", list(marks.items()))
    for statement in views.create_views(DUCKDB, *views.view_columns(source)):
        connection.execute(statement)
    connection.execute("COMMIT")
    source.execute("COMMIT")


def _add_missing_columns(connection: duckdb.DuckDBPyConnection) -> None:
    """A file that an older abreast made gets the columns that came since."""
    for table, columns in schema.TABLES.items():
        found = _columns(connection, table)
        for name, kind in columns.items():
            if name not in found:
                connection.execute(f"ALTER TABLE {table} ADD COLUMN {name} {kind}")


def _columns(connection: duckdb.DuckDBPyConnection, table: str) -> dict[str, str]:
    """The columns of a table and their types; `duckdb_columns()` would look into every view first."""
    rows = connection.execute(f"PRAGMA table_info({literal(quote(table))})").fetchall()
    return {name: kind for _, name, kind, *_ in rows}


def _follow_deletions(source: Connection, connection: duckdb.DuckDBPyConnection, marks: dict[str, int]) -> bool:
    rows = source.execute(
        "SELECT seq, run_id FROM deletions WHERE seq > ? ORDER BY seq", (marks.get("deletions", 0),)
    ).fetchall()
    for seq, run_id in rows:
        for table in schema.OF_A_RUN:
            connection.execute(f"DELETE FROM {table} WHERE run_id = ?", [run_id])
        marks["deletions"] = seq
    return bool(rows)


def _follow(source: Connection, connection: duckdb.DuckDBPyConnection, table: str, marks: dict[str, int]) -> None:
    names = list(schema.TABLES[table])
    cursor = source.execute(
        f"SELECT seq, {', '.join(names)} FROM {table} WHERE seq > ? ORDER BY seq", (marks.get(table, 0),)
    )
    while rows := list(islice(cursor, CHUNK)):
        marks[table] = rows[-1][0]
        _append(connection, table, [row[1:] for row in rows])


def _follow_tracked(source: Connection, connection: duckdb.DuckDBPyConnection, marks: dict[str, int]) -> None:
    """Tables of users: new columns are added, new rows appended; if rows went or changed, all of them come again."""
    tables = list(tracked_rows.tables(source))
    if not tables:
        return
    made = "SELECT table_name FROM duckdb_tables() WHERE database_name = current_database() AND schema_name = 'main'"
    there = {name for (name,) in connection.execute(made).fetchall()}
    changes = dict(source.execute("SELECT relation, changes FROM tracked_tables").fetchall())
    for table in tables:
        relation, counter = table.relation, f"{table.relation} changes"
        kinds = {"seq": "BIGINT"} | {name: CELL_TYPES[kind] for name, kind in table.columns.values()}
        known = _columns(connection, relation) if relation in there else {}
        changed = marks.get(counter, 0) != changes[relation]
        anew = changed or _differ(known, kinds)
        kinds |= _mixed(source, relation, kinds, since=0 if anew else marks.get(relation, 0))
        if changed or _differ(known, kinds):
            connection.execute(f"DROP TABLE IF EXISTS {quote(relation)}")
            known, marks[relation] = {}, 0
        marks[counter] = changes[relation]
        columns = ", ".join(f"{quote(name)} {kind}" for name, kind in kinds.items())
        connection.execute(f"CREATE TABLE IF NOT EXISTS {quote(relation)} ({columns})")
        for name in (name for name in kinds if known and name not in known):
            connection.execute(f"ALTER TABLE {quote(relation)} ADD COLUMN {quote(name)} {kinds[name]}")
        cursor = source.execute(
            f"SELECT {', '.join(map(quote, kinds))} FROM {quote(relation)} WHERE seq > ? ORDER BY seq",
            (marks.get(relation, 0),),
        )
        while rows := list(islice(cursor, CHUNK)):
            marks[relation] = rows[-1][0]
            batch = [_array(kind, column) for kind, column in zip(kinds.values(), zip(*rows, strict=True), strict=True)]
            connection.register("batch", {f"c{at}": column for at, column in enumerate(batch)})
            chosen = ", ".join(f"c{at} AS {quote(name)}" for at, name in enumerate(kinds))
            connection.execute(f"INSERT INTO {quote(relation)} BY NAME SELECT {chosen} FROM batch")
            connection.unregister("batch")


_HELD = {"BIGINT": "'integer'", "BOOLEAN": "'integer'", "DOUBLE": "'integer', 'real'"}


def _mixed(source: Connection, relation: str, kinds: Mapping[str, str], since: int) -> dict[str, str]:
    """The columns in which somebody's SQL put what their type cannot hold: they become texts."""
    asked = {name: _HELD[kind] for name, kind in kinds.items() if kind in _HELD}
    sums = (f"SUM(typeof({quote(name)}) NOT IN ({types}, 'null'))" for name, types in asked.items())
    (counts,) = source.execute(f"SELECT {', '.join(sums)} FROM {quote(relation)} WHERE seq > ?", (since,)).fetchall()
    return {name: "VARCHAR" for name, number in zip(asked, counts, strict=True) if number}


def _differ(known: Mapping[str, str], kinds: Mapping[str, str]) -> bool:
    return any(known.get(name, kind) != kind for name, kind in kinds.items())


def _append(connection: duckdb.DuckDBPyConnection, table: str, rows: list[tuple[Any, ...]]) -> None:
    if not rows:
        return
    kinds = schema.TABLES[table]
    batch = {
        name: _array(kind, values) for (name, kind), values in zip(kinds.items(), zip(*rows, strict=True), strict=True)
    }
    connection.register("batch", batch)
    if table in schema.UNIQUE and table not in _REFRESHED:
        same = " AND ".join(
            f"{table}.{name.strip()} = batch.{name.strip()}" for name in schema.UNIQUE[table].split(",")
        )
        connection.execute(f"DELETE FROM {table} USING batch WHERE {same}")
    connection.execute(f"INSERT INTO {table} BY NAME SELECT * FROM batch")
    connection.unregister("batch")


def _array(kind: str, values: tuple[Any, ...]) -> Any:
    if kind == "DOUBLE":  # DuckDB reads NaN as NULL here
        return np.array([np.nan if value is None else value for value in values], dtype=float)
    if kind in ("BIGINT", "BOOLEAN"):
        mask = [value is None for value in values]
        dtype = np.int64 if kind == "BIGINT" else np.bool_
        return np.ma.masked_array([0 if value is None else value for value in values], mask=mask, dtype=dtype)
    if kind == "BLOB":
        return np.array([*values, None], dtype=object)[:-1]
    if kind == "VARCHAR":  # of users: a column of texts may hold a number
        return np.array([value if value is None else str(value) for value in values], dtype=object)
    return np.array(values, dtype=object)
