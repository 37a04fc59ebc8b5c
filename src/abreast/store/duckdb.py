"""A DuckDB store: a native DuckDB file that any DuckDB client opens, materialised from a journal beside it.

DuckDB lets one process at a time have a file open. So the run journals into SQLite, and every few seconds opens the
DuckDB file, appends what is new after the file's own watermark, and closes it again: others can read in between, and
whoever holds the file open for long delays only the file, never the run.
"""

from __future__ import annotations

import contextlib
import tempfile
import threading
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import apsw
import duckdb
import numpy as np

from abreast.errors import BadInput, StoreError
from abreast.store import schema, sqlite
from abreast.store.store import Store

FORMAT = "v1.2.0"  # so that older DuckDB clients can open the file
OPEN_FOR_S = 2.0  # a flush takes a tenth of a second; who has the file open longer holds up nobody
FLUSH_EVERY_S = 3.0
CHUNK = 20_000

_FOLLOWED = tuple(name for name in schema.TABLES if name not in ("runs", "variants", "columns", "deletions"))
_REFRESHED = ("runs", "variants", "columns")


class DuckDBStore(Store):
    """The same store with a DuckDB file in front."""

    engine = "duckdb"

    @property
    def journal(self) -> Path:
        return self.path.with_name(self.path.name + ".journal")

    def exists(self) -> bool:
        if self.path.is_dir():
            raise StoreError(f"{self.path}: is a folder", "name another file with --store")
        if self.path.is_file() and self.path.stat().st_size and not self.journal.is_file():
            if not _is_duckdb(self.path):
                raise StoreError(f"{self.path}: not a DuckDB file", "name another file with --store")
            raise StoreError(
                f"{self.path}: its journal {self.journal.name} is missing; it can be read with abreast sql, but no run "
                "can go on in it",
                "put the journal back beside it, or name another store with --store",
            )
        return super().exists()

    def _open_reader(self) -> apsw.Connection:
        self.exists()
        return super()._open_reader()

    def sql(self, query: str, write: bool = False) -> tuple[list[str], list[tuple[Any, ...]]]:
        if not self.journal.is_file():
            return _asked(self.path, query, write)
        try:
            self.materialise()
            return _asked(self.path, query, write)
        except StoreError:
            if write:
                raise
        # The file cannot be brought up to date: held open elsewhere, on a read-only disk, damaged. The journal can.
        with tempfile.TemporaryDirectory(prefix="abreast-") as folder:
            copy = Path(folder) / self.path.name
            materialise(self.journal, copy)
            return _asked(copy, query, write)

    def materialise(self) -> None:
        materialise(self.journal, self.path)


def _is_duckdb(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(12)[8:] == b"DUCK"


def _asked(path: Path, query: str, write: bool) -> tuple[list[str], list[tuple[Any, ...]]]:
    settings: dict[str, Any] = {} if write else {"enable_external_access": False}
    with opened(path, read_only=not write, settings=settings) as connection:
        try:
            result: Any = connection.execute(query)
            if result is None:  # nothing but spaces and comments
                return [], []
            names = [column[0] for column in result.description or []]
            return names, result.fetchall()
        except duckdb.InvalidInputException as error:
            if "read-only" in str(error):
                raise BadInput("this query would change the store", "abreast sql --write STORE QUERY") from error
            raise BadInput(f"sql: {error}") from error
        except duckdb.Error as error:
            raise BadInput(f"sql: {error}") from error


@contextlib.contextmanager
def opened(
    path: Path, read_only: bool, settings: dict[str, Any] | None = None, patience_s: float = OPEN_FOR_S
) -> Iterator[duckdb.DuckDBPyConnection]:
    """The DuckDB file, once nobody else has it."""
    deadline = time.monotonic() + patience_s
    config: dict[str, Any] = {"storage_compatibility_version": FORMAT, **(settings or {})}
    while True:
        try:
            connection = duckdb.connect(str(path), read_only=read_only, config=config)
            break
        except duckdb.Error as error:
            # Held by another process, or by this very one with other settings.
            held = "Could not set lock" in str(error) or isinstance(error, duckdb.ConnectionException)
            if not held:
                raise StoreError(f"{path}: {_first_line(error)}", _way_out(path)) from error
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


def _first_line(error: duckdb.Error) -> str:
    return str(error).split(": ", 1)[-1].splitlines()[0]


def _way_out(path: Path) -> str:
    """Somebody else's file is left alone; ours can be made again."""
    if path.is_file() and _is_duckdb(path):
        return "if it is damaged, move it away: it is made again from its journal"
    return "name another store with --store"


def materialise(journal: Path, path: Path, patience_s: float = OPEN_FOR_S) -> None:
    """Bring the DuckDB file up to the journal: all new rows in one transaction, then close it."""
    source = sqlite.open_for_reading(journal)
    try:
        with opened(path, read_only=False, patience_s=patience_s) as connection:
            _catch_up(source, connection)
    except (duckdb.Error, apsw.Error, OSError) as error:
        raise StoreError(
            f"{path}: could not be brought up to date ({str(error).splitlines()[0]}); nothing is lost, "
            f"{journal.name} has every row",
            "free some space or close it elsewhere; any abreast command makes up for it",
        ) from error
    finally:
        source.close()


def _catch_up(source: apsw.Connection, connection: duckdb.DuckDBPyConnection) -> None:
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
    connection.execute("DELETE FROM watermarks")
    if marks:
        connection.executemany("INSERT INTO watermarks VALUES (?, ?)", list(marks.items()))
    for statement in schema.create_views(
        "duckdb", [schema.Column(*row) for row in source.execute("SELECT kind, name, type FROM columns")]
    ):
        connection.execute(statement)
    connection.execute("COMMIT")
    source.execute("COMMIT")


def _add_missing_columns(connection: duckdb.DuckDBPyConnection) -> None:
    """A file that an older abreast made gets the columns that came since."""
    found = set(connection.execute("SELECT table_name, column_name FROM duckdb_columns()").fetchall())
    for table, columns in schema.TABLES.items():
        for name, kind in columns.items():
            if (table, name) not in found:
                connection.execute(f"ALTER TABLE {table} ADD COLUMN {name} {kind}")


def _follow_deletions(source: apsw.Connection, connection: duckdb.DuckDBPyConnection, marks: dict[str, int]) -> bool:
    rows: list[Any] = source.execute(
        "SELECT seq, run_id FROM deletions WHERE seq > ? ORDER BY seq", (marks.get("deletions", 0),)
    ).fetchall()
    for seq, run_id in rows:
        for table in schema.OF_A_RUN:
            connection.execute(f"DELETE FROM {table} WHERE run_id = ?", [run_id])
        marks["deletions"] = seq
    return bool(rows)


def _follow(source: apsw.Connection, connection: duckdb.DuckDBPyConnection, table: str, marks: dict[str, int]) -> None:
    names = list(schema.TABLES[table])
    cursor = source.execute(
        f"SELECT seq, {', '.join(names)} FROM {table} WHERE seq > ? ORDER BY seq", (marks.get(table, 0),)
    )
    while rows := list(islice(cursor, CHUNK)):
        marks[table] = rows[-1][0]
        _append(connection, table, [row[1:] for row in rows])


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
    if kind == "BIGINT":
        mask = [value is None for value in values]
        return np.ma.masked_array([0 if value is None else value for value in values], mask=mask, dtype=np.int64)
    return np.array(values, dtype=object)


class Follower:
    """Materialises every few seconds while a run writes, in a thread of its own."""

    def __init__(self, store: DuckDBStore) -> None:
        self._store = store
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="abreast-duckdb", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        while not self._stop.wait(FLUSH_EVERY_S):
            with contextlib.suppress(StoreError):  # somebody has the file open: the next round makes up for it
                materialise(self._store.journal, self._store.path, patience_s=1.0)

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
