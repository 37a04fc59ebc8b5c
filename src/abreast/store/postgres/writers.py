"""Connections that write while a run or a tracker is active, and survive the loss of the connection."""

from __future__ import annotations

import os
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Self

import psycopg
from psycopg import errors

from abreast.errors import StoreError
from abreast.store.base import Closed, Connection, TrackedWriter, WriterConnection
from abreast.store.postgres import database
from abreast.store.postgres.connection import PostgresConnection, explanation
from abreast.store.postgres.database import CHANGES, NOW

if TYPE_CHECKING:
    from abreast.store.postgres.store import PostgresStore

PATIENCE_S = 900.0  # with a server that cannot be reached; results wait in memory, and no trial starts
LAST_PATIENCE_S = 30.0  # the same when the run ends
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 5.0  # between two attempts to connect
CLOCK_S = 10.0  # how long a reading of the server's clock is continued with that of this machine
MOST_CONFLICTS = 10
NOTIFY_S = 0.1  # the shortest time between two notifications
_END_SESSION = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = ? AND backend_start::text = ?"


class PostgresWriterConnection(WriterConnection):
    """Commits to the database. If the connection is lost, connects again and continues: nothing is lost or stored twice.

    Whether a commit whose reply was lost has happened is known from the identity of its transaction.
    """

    unstorable = (
        *(TypeError, ValueError, OverflowError, psycopg.DataError, psycopg.IntegrityError, psycopg.ProgrammingError),
        *(psycopg.NotSupportedError, errors.ProgramLimitExceeded),
    )

    def __init__(
        self, store: PostgresStore, connection: PostgresConnection, on_outage: Callable[[StoreError | None], None]
    ) -> None:
        self._store, self._connection, self._on_outage = store, connection, on_outage
        self._session = _session(connection)
        self._hurry = threading.Event()
        self._clock_offset, self._clock_read_at = 0.0, float("-inf")
        self._notified_at = float("-inf")
        self._timer: threading.Timer | None = None

    @classmethod
    def open(cls, store: PostgresStore, on_outage: Callable[[StoreError | None], None]) -> Self:
        return cls(store, store.connect_for_writing(is_typed=True), on_outage)

    def now(self) -> float:
        elapsed = time.monotonic() - self._clock_read_at
        if elapsed > CLOCK_S:
            with suppress(psycopg.Error):
                ((now,),) = self._connection.execute(f"SELECT {NOW}").fetchall()
                self._clock_read_at = time.monotonic()
                self._clock_offset = now - self._clock_read_at
        return time.monotonic() + self._clock_offset

    def commit(self, work: Callable[[Connection], None]) -> None:
        identity: str | None = None  # of a transaction that may have been committed
        conflicts = 0
        while True:
            connection = self._connection
            try:
                if connection.is_lost:
                    connection = self._reconnect()
                if identity is None or not self._was_committed(identity):
                    with connection.transaction():
                        ((identity,),) = connection.execute("SELECT pg_current_xact_id()::text").fetchall()
                        work(connection)
                        self._notify(connection)
                if connection.views_are_stale:
                    database.update_views(connection)
                return
            except (errors.SerializationFailure, errors.DeadlockDetected):
                conflicts, identity = conflicts + 1, None
                if conflicts == MOST_CONFLICTS:
                    raise
            except (psycopg.OperationalError, psycopg.InterfaceError, errors.ReadOnlySqlTransaction) as error:
                if not connection.is_lost and not isinstance(error, errors.ReadOnlySqlTransaction):
                    raise
                connection.close()

    def _notify(self, connection: PostgresConnection) -> None:
        """Wake readers. A notification that is left out is made up for by the next heartbeat."""
        now = time.monotonic()
        if now - self._notified_at >= NOTIFY_S:
            connection.execute(f"NOTIFY {CHANGES}")
            self._notified_at = now

    def _reconnect(self) -> PostgresConnection:
        """Connect again, with growing pauses. The server ends what it still has of the lost connection, whose locks
        would be in the way."""
        began, pause, is_reported = time.monotonic(), FIRST_PAUSE_S, False
        while True:
            try:
                with closing(self._store.connect()) as connection:
                    connection.execute(_END_SESSION, self._session)
                self._connection = self._store.connect_for_writing(is_typed=True)
                break
            except (psycopg.Error, StoreError) as error:
                patience = LAST_PATIENCE_S if self._hurry.is_set() else PATIENCE_S
                if time.monotonic() - began > patience:
                    raise
                if not is_reported:
                    is_reported = True
                    self._on_outage(self.explain(error))
                self._pause(pause * random.uniform(0.5, 1.0))
                pause = min(LONGEST_PAUSE_S, 2 * pause)
        self._session = _session(self._connection)
        self._clock_read_at = float("-inf")
        if is_reported:
            self._on_outage(None)
        return self._connection

    def _pause(self, seconds: float) -> None:
        if self._hurry.is_set() or self._hurry.wait(seconds):
            time.sleep(min(seconds, 1.0))

    def _was_committed(self, identity: str) -> bool:
        """Whether a transaction was committed although its connection was lost."""
        with closing(self._store.connect()) as connection:
            while True:
                ((status,),) = connection.execute("SELECT pg_xact_status(?)", (identity,)).fetchall()
                if status != "in progress":
                    return bool(status == "committed")
                time.sleep(0.05)  # until its session has ended

    def hurry(self) -> None:
        """Soon give up a server that cannot be reached or does not reply: the run has ended."""
        self._hurry.set()
        self._timer = threading.Timer(LAST_PATIENCE_S, self._disconnect)
        self._timer.daemon = True
        self._timer.start()

    def _disconnect(self) -> None:
        with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(self._connection.raw.fileno())) as stalled:
            stalled.shutdown(socket.SHUT_RDWR)

    def explain(self, error: Exception) -> StoreError:
        return explanation(self._store.address, error)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self._connection.is_lost:
            with suppress(psycopg.Error):
                database.update_views(self._connection)
        self._connection.close()


def _session(connection: PostgresConnection) -> tuple[int, str]:
    """The identity of a connection on the server."""
    query = "SELECT pid, backend_start::text FROM pg_stat_get_activity(pg_backend_pid())"
    (session,) = connection.execute(query).fetchall()
    return session  # type: ignore[no-any-return]


class PostgresTrackedWriter(TrackedWriter):
    """Commits do not wait for the disk of the server, which syncs them within a second; `flush` waits for it."""

    def __init__(self, store: PostgresStore, connection: PostgresConnection) -> None:
        self._store, self._connection = store, connection
        self._lock = threading.RLock()  # a signal handler may use it too

    @classmethod
    def open(cls, store: PostgresStore) -> Self:
        connection = store.connect_for_writing()
        connection.execute("SET synchronous_commit = off")
        return cls(store, connection)

    def is_current(self) -> bool:
        try:
            with self._lock:
                return not self._connection.is_lost and database.version_of(self._connection, "") > 0
        except (psycopg.Error, StoreError):
            return False

    @contextmanager
    def using(self) -> Iterator[PostgresConnection]:
        with self._lock, self._store.explaining():
            if self._connection.is_lost:
                raise Closed(f"{self._store.address}: closed")
            try:
                yield self._connection
            except (psycopg.OperationalError, psycopg.InterfaceError, errors.InvalidSchemaName) as error:
                if self._connection.is_lost or isinstance(error, errors.InvalidSchemaName):
                    self._connection.close()
                    raise Closed(f"{self._store.address}: the connection was lost") from error
                raise

    @contextmanager
    def transaction(self) -> Iterator[PostgresConnection]:
        with self.using() as connection:
            with connection.transaction():
                yield connection
            database.update_views(connection)

    def flush(self) -> None:
        with self._lock, self._store.explaining():
            if not self._connection.is_lost:
                with self._connection.transaction():  # whose record in the log follows those of all earlier commits
                    self._connection.execute("SET LOCAL synchronous_commit = on")
                    self._connection.execute("SELECT pg_current_xact_id()")
                    self._connection.execute(f"NOTIFY {CHANGES}")

    def close(self) -> None:
        with self._lock:
            if not self._connection.is_lost:
                with suppress(StoreError):
                    self.flush()
                self._connection.close()
