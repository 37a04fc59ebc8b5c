"""Updating a DuckDB file from its journal: appends the rows after the watermark that the file stores."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
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

FORMAT = "v1.2.0"  # older DuckDB clients can open it
CHUNK = 20_000

_REFRESHED = ("runs", "variants", "controls", "columns", "tracked_tables", "tracked_columns", "tracked_caches")
_FOLLOWED = tuple(name for name in schema.TABLES if name not in (*_REFRESHED, "deletions"))


@contextlib.contextmanager
def opened(path: Path, read_only: bool, patience_s: float = OPEN_FOR_S) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open the DuckDB file, after waiting for other processes to close it."""
    deadline = time.monotonic() + patience_s
    config: dict[str, Any] = {"storage_compatibility_version": FORMAT}
    while True:
        try:
            connection = duckdb.connect(str(path), read_only=read_only, config=config)
            break
        except duckdb.Error as error:
            # Locked by another process, or open in this one with other settings.
            is_locked = "Could not set lock" in str(error) or isinstance(error, duckdb.ConnectionException)
            if not is_locked:
                raise explain(path, error) from error
            if time.monotonic() > deadline:
                raise StoreError(
                    f"{path}: open in another process ({str(error).split('held in ')[-1].split('.')[0]}); "
                    "no row is lost, the journal has them all",
                    "close it there and try again",
                ) from error
            time.sleep(0.02)
    try:
        yield connection
    finally:
        connection.close()


def explain(path: Path, error: duckdb.Error) -> StoreError:
    reason = str(error).split(": ", 1)[-1].splitlines()[0]
    if path.is_file() and is_duckdb(path):
        return StoreError(f"{path}: {reason}", "move it away if it is damaged; it is recreated from its journal")
    return StoreError(f"{path}: {reason}", "name another store with --store")


def is_duckdb(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(12)[8:] == b"DUCK"


_lock = threading.RLock()  # one thread at a time updates a file; a signal handler may enter it again


def _reset_lock() -> None:
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_reset_lock)


def materialise(journal: Path, path: Path, patience_s: float = OPEN_FOR_S) -> None:
    """Append all new rows of the journal to the DuckDB file, in one transaction."""
    source = driver.open_for_reading(journal)
    try:
        with _lock, opened(path, read_only=False, patience_s=patience_s) as connection:
            _catch_up(source, connection)
    except (duckdb.Error, driver.Error, OSError) as error:
        raise StoreError(
            f"{path}: cannot be updated ({str(error).splitlines()[0]}); no row is lost, {journal.name} has them all",
            "free some space or close it elsewhere; the next abreast command updates it",
        ) from error
    finally:
        source.close()


def _catch_up(source: Connection, connection: duckdb.DuckDBPyConnection) -> None:
    source.execute("BEGIN")  # a snapshot of the journal for all tables
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
        rows = source.execute(f"SELECT {names} FROM {table}").fetchall()
        _insert_batch(connection, table, schema.TABLES[table], rows)
    for table in _FOLLOWED:
        _follow(source, connection, table, marks)
    if deleted:  # not earlier, because a new run may use them
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
    for table, columns in schema.TABLES.items():
        existing = _columns(connection, table)
        for name, kind in columns.items():
            if name not in existing:
                connection.execute(f"ALTER TABLE {table} ADD COLUMN {name} {kind}")


def _columns(connection: duckdb.DuckDBPyConnection, table: str) -> dict[str, str]:
    """Return the columns of a table and their types. `duckdb_columns()` would bind every view first."""
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
    key = [name.strip() for name in schema.UNIQUE.get(table, "").split(",") if name]
    cursor = source.execute(
        f"SELECT seq, {', '.join(names)} FROM {table} WHERE seq > ? ORDER BY seq", (marks.get(table, 0),)
    )
    while rows := list(islice(cursor, CHUNK)):
        marks[table] = rows[-1][0]
        _insert_batch(connection, table, schema.TABLES[table], [row[1:] for row in rows], key)


def _follow_tracked(source: Connection, connection: duckdb.DuckDBPyConnection, marks: dict[str, int]) -> None:
    """Add new columns and rows to the tracked tables; copy a table again if rows were deleted or changed."""
    tables = list(tracked_rows.tables(source))
    if not tables:
        return
    query = "SELECT table_name FROM duckdb_tables() WHERE database_name = current_database() AND schema_name = 'main'"
    existing = {name for (name,) in connection.execute(query).fetchall()}
    changes = dict(source.execute("SELECT relation, changes FROM tracked_tables").fetchall())
    for table in tables:
        relation, counter = table.relation, f"{table.relation} changes"
        kinds = {"seq": "BIGINT"} | {name: CELL_TYPES[kind] for name, kind in table.columns.values()}
        columns = _columns(connection, relation) if relation in existing else {}
        is_changed = marks.get(counter, 0) != changes[relation]
        since = 0 if is_changed or _differ(columns, kinds) else marks.get(relation, 0)
        kinds |= _mixed(source, relation, kinds, since)
        if is_changed or _differ(columns, kinds):
            connection.execute(f"DROP TABLE IF EXISTS {quote(relation)}")
            columns, marks[relation] = {}, 0
        marks[counter] = changes[relation]
        definition = ", ".join(f"{quote(name)} {kind}" for name, kind in kinds.items())
        connection.execute(f"CREATE TABLE IF NOT EXISTS {quote(relation)} ({definition})")
        for name in (name for name in kinds if columns and name not in columns):
            connection.execute(f"ALTER TABLE {quote(relation)} ADD COLUMN {quote(name)} {kinds[name]}")
        cursor = source.execute(
            f"SELECT {', '.join(map(quote, kinds))} FROM {quote(relation)} WHERE seq > ? ORDER BY seq",
            (marks.get(relation, 0),),
        )
        while rows := list(islice(cursor, CHUNK)):
            marks[relation] = rows[-1][0]
            _insert_batch(connection, relation, kinds, rows)


_STORED_TYPES = {"BIGINT": "'integer'", "BOOLEAN": "'integer'", "DOUBLE": "'integer', 'real'"}


def _mixed(source: Connection, relation: str, kinds: Mapping[str, str], since: int) -> dict[str, str]:
    """The columns with values that their type cannot hold (written by a user's SQL); they become VARCHAR."""
    checked = {name: _STORED_TYPES[kind] for name, kind in kinds.items() if kind in _STORED_TYPES}
    sums = (f"SUM(typeof({quote(name)}) NOT IN ({types}, 'null'))" for name, types in checked.items())
    (counts,) = source.execute(f"SELECT {', '.join(sums)} FROM {quote(relation)} WHERE seq > ?", (since,)).fetchall()
    return {name: "VARCHAR" for name, number in zip(checked, counts, strict=True) if number}


def _differ(columns: Mapping[str, str], kinds: Mapping[str, str]) -> bool:
    return any(columns.get(name, kind) != kind for name, kind in kinds.items())


def _insert_batch(
    connection: duckdb.DuckDBPyConnection,
    table: str,
    kinds: Mapping[str, str],
    rows: list[tuple[Any, ...]],
    key: Sequence[str] = (),
) -> None:
    """Insert rows into a table with these columns, in place of rows with the same values in the columns `key`."""
    if not rows:
        return
    names = {name: f"c{index}" for index, name in enumerate(kinds)}  # names that need no quotes
    columns = zip(*rows, strict=True)
    batch = {
        name: _array(kind, values) for name, kind, values in zip(names.values(), kinds.values(), columns, strict=True)
    }
    connection.register("batch", batch)
    if key:
        is_same = " AND ".join(f"{quote(table)}.{quote(name)} = batch.{names[name]}" for name in key)
        connection.execute(f"DELETE FROM {quote(table)} USING batch WHERE {is_same}")
    selected = ", ".join(f"{name} AS {quote(column)}" for column, name in names.items())
    connection.execute(f"INSERT INTO {quote(table)} BY NAME SELECT {selected} FROM batch")
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
    if kind == "VARCHAR":  # a text column of a tracked table may hold numbers
        return np.array([value if value is None else str(value) for value in values], dtype=object)
    return np.array(values, dtype=object)
