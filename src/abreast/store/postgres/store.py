"""A store in a PostgreSQL database, in the schema `abreast`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from typing import Any

import psycopg
from psycopg import errors

from abreast.errors import BadInput, StoreError
from abreast.store import schema
from abreast.store.base import StoreVanished, TrackedWriter, WriterConnection, changed_table
from abreast.store.postgres import database
from abreast.store.postgres.connection import PostgresConnection, connect, explained
from abreast.store.postgres.database import CHANGES, NOW
from abreast.store.postgres.shared import DatabaseAssets, DatabaseLedger
from abreast.store.postgres.writers import PostgresTrackedWriter, PostgresWriterConnection
from abreast.store.store import Store
from abreast.store.user_state.quota_ledger import Ledger
from abreast.store.user_tables.assets import Assets

_SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"
_DB = re.compile(r"""('(?:[^']|'')*'|"(?:[^"]|"")*")|\bdb\s*\.\s*(?=["\w])""", re.IGNORECASE)


class PostgresStore(Store):
    engine = "postgres"

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self._url = address
        self._reader: PostgresConnection | None = None
        self._is_checked = False  # this object has checked the version
        self._listener: PostgresConnection | None = None

    @property
    def assets(self) -> Assets:
        return DatabaseAssets(self)

    def quota_ledger(self) -> Ledger:
        return DatabaseLedger(self)

    def identity(self) -> object:
        """Identity of the database, even if its server has several names."""
        with self.explaining():
            query = "SELECT system_identifier::text, current_database() FROM pg_control_system()"
            return self._session().execute(query).fetchall()[0]

    def now(self) -> float:
        with self.explaining():
            return float(self._session().execute(f"SELECT {NOW}").fetchall()[0][0])

    def exists(self) -> bool:
        with self.explaining():
            return database.version_of(self._session(), self.address) != 0

    def close(self) -> None:
        for connection in (self._reader, self._listener):
            if connection is not None:
                connection.close()
        self._reader = self._listener = None
        self._is_checked = False

    def explaining(self) -> AbstractContextManager[None]:
        return explained(self.address)

    def _session(self) -> PostgresConnection:
        """The connection for reading; works even if there is no store yet."""
        if self._reader is None or not self._reader.is_usable():
            self._reader = connect(self._url)
        return self._reader

    def _check(self, connection: PostgresConnection) -> None:
        """Migrate an older store; raise if there is none."""
        if not self._is_checked:
            version = database.version_of(connection, self.address)
            if not version:
                raise StoreError(
                    f"{self.address}: there is no store in this database", "run `abreast run SPEC`, or use --store"
                )
            if version < schema.VERSION:
                database.connect_for_writing(self._url, self.address).close()
            elif not database.are_views_current(connection):  # a reader was in the way when columns were added
                with suppress(psycopg.Error):  # a read-only role leaves it to others
                    database.connect_for_writing(self._url, self.address).close()
            self._is_checked = True

    def reading(self) -> PostgresConnection:
        with self.explaining():
            connection = self._session()
            self._check(connection)
            return connection

    def open_reader(self) -> PostgresConnection:
        with self.explaining():
            connection = connect(self._url)
            try:
                self._check(connection)
                connection.execute(_SNAPSHOT)
            except BaseException:
                connection.close()
                raise
            connection.streams = True
            return connection

    @contextmanager
    def snapshot(self, in_place: bool = True) -> Iterator[PostgresConnection]:
        with self.explaining():
            if not in_place:
                with closing(self.open_reader()) as connection:
                    yield connection
                return
            connection = self.reading()
            with connection.transaction(_SNAPSHOT):
                yield connection

    @contextmanager
    def change(self) -> Iterator[PostgresConnection]:
        with self.explaining(), closing(self.connect_for_writing()) as connection:
            with connection.transaction():
                database.lock_changes(connection)
                yield connection
                connection.execute(f"NOTIFY {CHANGES}")
            database.update_views(connection)

    def connect_for_writing(self, is_typed: bool = False) -> PostgresConnection:
        return database.connect_for_writing(self._url, self.address, is_typed)

    def open_writer(
        self, on_moved: Callable[[StoreVanished], None], on_outage: Callable[[StoreError | None], None]
    ) -> WriterConnection:
        with self.explaining():
            return PostgresWriterConnection.open(self, on_outage)

    def open_tracked_writer(self) -> TrackedWriter:
        with self.explaining():
            return PostgresTrackedWriter.open(self)

    def wait_for_change(self, seconds: float) -> bool:
        with self.explaining():
            if self._listener is None or self._listener.is_lost:
                self._listener = connect(self._url)
                self._listener.execute(f"LISTEN {CHANGES}")
                return True  # something may have changed before
            return any(True for _ in self._listener.raw.notifies(timeout=seconds, stop_after=1))

    def sql(self, query: str, write: bool = False) -> tuple[list[str], list[tuple[Any, ...]]]:
        write = write or self.deletable_table(query) is not None
        text = _DB.sub(lambda match: match[1] or "", query)
        with self.explaining(), closing(self.connect_for_writing() if write else connect(self._url)) as connection:
            self._check(connection)
            try:
                with connection.transaction("BEGIN" if write else _SNAPSHOT):
                    return _run_query(connection, text, write)
            except errors.ReadOnlySqlTransaction as error:
                raise BadInput("this query would change the store", "use `abreast sql --write STORE QUERY`") from error
            except psycopg.Error as error:
                if connection.is_lost:
                    raise
                view = changed_table(query) if isinstance(error, errors.ObjectNotInPrerequisiteState) else None
                fix = f"use tracked_{view} for tracked rows" if view else ""
                raise BadInput(f"sql: {_message(error)}", fix) from error


def _message(error: psycopg.Error) -> str:
    if "multiple commands" in str(error):
        return "only a query with --write may have several statements"
    return str(error).partition("\nCONTEXT:")[0].partition("\nDETAIL:")[0]


def _run_query(connection: PostgresConnection, query: str, write: bool) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Run a query and return the column names and rows of its last statement. A read-only query is a single statement,
    because a further one could end the read-only transaction."""
    cursor = connection.raw.cursor()
    cursor.execute(query, prepare=None if write else True)
    names: list[str] = []
    rows: list[tuple[Any, ...]] = []
    while True:
        if cursor.description is not None:
            names, rows = [column.name for column in cursor.description], cursor.fetchall()
        if not cursor.nextset():
            return names, rows
