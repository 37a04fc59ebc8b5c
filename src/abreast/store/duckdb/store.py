"""A DuckDB store: a native DuckDB file, materialised from a SQLite journal next to it.

DuckDB lets only one process at a time open a file. So runs write to the journal, and every few seconds the new rows are
appended to the DuckDB file: others can read it in between, and a process that keeps it open never delays a run.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb

from abreast.errors import BadInput, StoreError
from abreast.store.base import OPEN_FOR_S, changed_table
from abreast.store.dialect import literal
from abreast.store.duckdb.materialisation import explain, is_duckdb, materialise, opened
from abreast.store.sqlite.isolation.sharing import SQLiteConnection
from abreast.store.sqlite.store import SQLiteStore
from abreast.store.user_state.drivers import temporary_folder

FLUSH_EVERY_S = 3.0


class DuckDBStore(SQLiteStore):
    """A SQLite store, the journal, with a DuckDB file made from it."""

    engine = "duckdb"
    derives_files = True

    @property
    def journal(self) -> Path:
        return self.path.with_name(self.path.name + ".journal")

    def exists(self) -> bool:
        if self.path.is_dir():
            raise StoreError(f"{self.path}: is a folder", "name another file with --store")
        if self.path.is_file() and self.path.stat().st_size and not self.journal.is_file():
            if not is_duckdb(self.path):
                raise StoreError(f"{self.path}: not a DuckDB file", "name another file with --store")
            raise StoreError(
                f"{self.path}: its journal {self.journal.name} is missing, so the store is read-only (`abreast sql`)",
                "put the journal back next to it, or name another store with --store",
            )
        return super().exists()

    def is_read_only(self) -> bool:
        return not self.journal.is_file()

    def open_reader(self) -> SQLiteConnection:
        self.exists()
        return super().open_reader()

    def sql(self, query: str, write: bool = False) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Run a user's query in DuckDB's SQL; statements that change stored rows run in the journal, in SQLite's."""
        if self.is_read_only():
            return _run_query(self.path, query, write)
        if (write and self._changes_journal(query)) or self.deletable_table(query):
            result = super().sql(query, True)
            with contextlib.suppress(StoreError):  # open in another process: the next query updates it
                self.materialise()
            return result
        if write:  # tables that users made in the file itself
            self.materialise()
            return _run_query(self.path, query, write)
        with contextlib.suppress(StoreError):
            self.materialise()
            return _run_query(self.path, query)
        # The file cannot be updated (open elsewhere, on a read-only disk, damaged); a copy of the journal can be read.
        with temporary_folder() as folder:
            copy = folder / self.path.name
            materialise(self.journal, copy)
            return _run_query(copy, query)

    def _changes_journal(self, query: str) -> bool:
        table = changed_table(query)
        names = self.rows(self.reading().dialect.relations)
        return table is not None and any(name.lower() == table.lower() for (name,) in names)

    def materialise(self, patience_s: float = OPEN_FOR_S) -> None:
        materialise(self.journal, self.path, patience_s)

    @contextlib.contextmanager
    def following(self) -> Iterator[None]:
        stop = threading.Event()

        def follow() -> None:
            while not stop.wait(FLUSH_EVERY_S):
                with contextlib.suppress(StoreError):  # open in another process: the next round updates it
                    materialise(self.journal, self.path, patience_s=1.0)

        thread = threading.Thread(target=follow, name="abreast-duckdb", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


def _run_query(path: Path, query: str, write: bool = False) -> tuple[list[str], list[tuple[Any, ...]]]:
    with opened(path, read_only=False) if write else _attached(path) as connection:
        try:
            result: Any = connection.execute(query)
            if result is None:  # only spaces and comments
                return [], []
            names = [column[0] for column in result.description or []]
            return names, result.fetchall()
        except duckdb.InvalidInputException as error:
            if "read-only" in str(error):
                raise BadInput("this query would change the store", "use `abreast sql --write STORE QUERY`") from error
            raise BadInput(f"sql: {error}") from error
        except duckdb.Error as error:
            raise BadInput(f"sql: {error}") from error


@contextlib.contextmanager
def _attached(path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Attach the file read-only as `db`, so that `db.predictions` and `predictions` are the same."""
    connection = duckdb.connect()
    try:
        _attach(connection, path)
        connection.execute("USE db")
        connection.execute("SET enable_external_access = false")
        yield connection
    finally:
        connection.close()


def _attach(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    deadline = time.monotonic() + OPEN_FOR_S
    while True:
        try:
            connection.execute(f"ATTACH {literal(str(path))} AS db (READ_ONLY)")
            return
        except duckdb.Error as error:
            if time.monotonic() > deadline:
                raise explain(path, error) from error
            with opened(path, read_only=True):  # waits for other processes, and explains other errors
                pass
            time.sleep(0.02)
