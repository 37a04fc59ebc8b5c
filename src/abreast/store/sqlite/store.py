"""A store in a SQLite file."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import apsw

from abreast.errors import BadInput, StoreError
from abreast.store.base import StoreVanished, TrackedWriter, WriterConnection, changed_table
from abreast.store.sqlite import driver
from abreast.store.sqlite.isolation.client import RemoteConnection
from abreast.store.sqlite.isolation.sharing import SQLiteConnection
from abreast.store.sqlite.shared_connection import SQLiteTrackedWriter, file_identity
from abreast.store.sqlite.writer_connection import SQLiteWriterConnection
from abreast.store.store import Store
from abreast.store.user_state.drivers import temporary_folder
from abreast.store.user_tables.assets import AssetFolder, Assets

CHECK_S = 0.1


class SQLiteStore(Store):
    engine = "sqlite"

    def __init__(self, address: str) -> None:
        self.path = Path(address)
        super().__init__(address, self.path.parent)
        self._reader: SQLiteConnection | None = None
        self._reader_file: object = None  # identity of the file that `_reader` reads
        self._reader_log: object = None  # identity of its write-ahead log
        self._is_in_snapshot = False
        self._is_changed = False
        self._last_state: object = None  # when `wait_for_change` last returned True

    @property
    def journal(self) -> Path:
        """The file that holds the rows."""
        return self.path

    def anchor(self) -> None:
        self.path = self.path.absolute()
        self.address, self.folder = str(self.path), self.path.parent

    def identity(self) -> object:
        try:
            status = self.journal.stat()
        except OSError:  # no such file
            return self.path.resolve()
        return status.st_dev, status.st_ino

    @property
    def assets(self) -> Assets:
        return AssetFolder(self.path)

    def exists(self) -> bool:
        return driver.is_made(self.journal)

    def is_missing(self) -> bool:
        return not self.path.is_file() and not self.journal.is_file()

    def close(self) -> None:
        self._close_reader()
        if self._is_changed:
            self._is_changed = False
            driver.complete(self.journal)

    def explaining(self) -> AbstractContextManager[None]:
        return driver.explained(self.journal)

    def open_reader(self) -> SQLiteConnection:
        return driver.open_for_reading(self.journal)

    def reading(self) -> SQLiteConnection:
        name = str(self.journal)
        file = self._reader_file if self._is_in_snapshot else file_identity(name)
        if self._reader is None or driver.must_reopen(self._reader) or file != self._reader_file:
            self._close_reader()
            if self._reader_file is not None and file != self._reader_file:
                self._refuse_log_of_replaced_file()
            self._reader = self.open_reader()
            self._reader_file, self._reader_log = file_identity(name), file_identity(f"{name}-wal")
        return self._reader

    def _refuse_log_of_replaced_file(self) -> None:
        """Raise if the log still belongs to the file that was replaced: SQLite would apply it to the new file."""
        log = self.journal.with_name(f"{self.journal.name}-wal")
        if file_identity(str(log)) == self._reader_log and log.is_file() and log.stat().st_size:
            raise StoreError(
                f"{self.journal}: replaced while a run was writing to it", "wait until the run has stopped"
            )

    def _close_reader(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    @contextmanager
    def snapshot(self, in_place: bool = True) -> Iterator[SQLiteConnection]:
        with ExitStack() as stack:
            stack.enter_context(self.explaining())
            connection = self.reading() if in_place else stack.enter_context(self._unchanged())
            stack.enter_context(driver.transaction(connection, driver.READ))
            self._is_in_snapshot = True
            try:
                yield connection
            finally:
                self._is_in_snapshot = False

    @contextmanager
    def _unchanged(self) -> Iterator[SQLiteConnection]:
        """Open a reader without migrating the file itself."""
        self.exists()  # raises for files of other programs
        with ExitStack() as stack:
            path = self.journal
            if driver.is_older(path):
                path = driver.copy(path, stack.enter_context(temporary_folder()) / path.name)
            yield stack.enter_context(closing(driver.open_for_reading(path)))

    @contextmanager
    def change(self) -> Iterator[SQLiteConnection]:
        with self.explaining(), driver.writing(self.journal) as connection, driver.transaction(connection):
            yield connection
        self._is_changed = True

    def open_writer(
        self, on_moved: Callable[[StoreVanished], None], on_outage: Callable[[StoreError | None], None]
    ) -> WriterConnection:
        return SQLiteWriterConnection(self.journal, on_moved)

    def open_tracked_writer(self) -> TrackedWriter:
        return SQLiteTrackedWriter.open(self.journal)

    def wait_for_change(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while True:
            with self.explaining():
                connection = self.reading()
                ((version,),) = connection.execute("PRAGMA data_version").fetchall()
            state = (id(connection), version)  # versions of two connections cannot be compared
            if state != self._last_state:
                self._last_state = state
                return True
            if time.monotonic() >= deadline:
                return False
            time.sleep(CHECK_S)

    def sql(self, query: str, write: bool = False) -> tuple[list[str], list[tuple[Any, ...]]]:
        write = write or self.deletable_table(query) is not None
        self.reading()  # this reader stays open during the query; closing it checkpoints the file
        with driver.writing(self.journal) if write else closing(driver.open_read_only(self.journal)) as connection:
            if re.search(r"\bdb\s*\.", query, re.IGNORECASE):
                connection.execute("ATTACH ? AS db", (driver.file_uri(self.journal, read_only=not write),))
            if not write:
                connection.set_authorizer(_refuse_other_files)
            try:
                return _run_query(connection, query)
            except (apsw.ReadOnlyError, apsw.AuthError) as error:
                raise BadInput("this query would change the store", "use `abreast sql --write STORE QUERY`") from error
            except (apsw.Error, UnicodeError) as error:
                view = changed_table(query) if "it is a view" in str(error) else None
                raise BadInput(f"sql: {error}", f"use tracked_{view} for tracked rows" if view else "") from error


def _refuse_other_files(operation: int, *_: object) -> int:
    """Deny ATTACH: with `VACUUM INTO`, which uses it, even a read-only connection could create files."""
    return apsw.SQLITE_DENY if operation == apsw.SQLITE_ATTACH else apsw.SQLITE_OK


def _run_query(connection: apsw.Connection | RemoteConnection, query: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Run a query and return the column names and rows of its last statement."""
    if isinstance(connection, RemoteConnection):
        result: tuple[list[str], list[tuple[Any, ...]]] = connection.run(_run_query, query)
        return result
    cursor = connection.cursor()
    names: list[str] = []
    rows: list[tuple[Any, ...]] = []

    def begin_statement(current: apsw.Cursor, _sql: str, _bindings: object) -> bool:
        rows.clear()
        try:
            names[:] = [column[0] for column in current.get_description()]
        except apsw.ExecutionCompleteError:  # a statement without columns
            names.clear()
        return True

    cursor.exec_trace = begin_statement
    for row in cursor.execute(query):
        rows.append(row)
    return names, rows
