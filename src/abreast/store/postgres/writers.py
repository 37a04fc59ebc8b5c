"""Connections that write while a run or a tracker is active, and survive the loss of the connection."""

from __future__ import annotations

import random
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Self

import psycopg
from psycopg import errors

from abreast.errors import StoreError
from abreast.store.base import Closed, Connection, TrackedWriter, WriterConnection
from abreast.store.postgres import database
from abreast.store.postgres.connection import CONNECT_S, PostgresConnection, explanation
from abreast.store.postgres.database import CHANGES, NOW

if TYPE_CHECKING:
    from abreast.store.postgres.store import PostgresStore

PATIENCE_S = 900.0  # longest outage; meanwhile results wait in memory, and no trial starts
LAST_PATIENCE_S = 30.0  # longest outage once the run is ending
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 5.0  # between two attempts to connect
IDLE_S = 10  # longest pause in a transaction; then the server ends the session, whose client is lost, and its locks
CLOCK_S = 10.0  # how long a reading of the server's clock is extrapolated with this machine's
MOST_CONFLICTS = 10
# The last two: it waited for another transaction longer than the administrator allows.
_CONFLICTS = (errors.SerializationFailure, errors.DeadlockDetected, errors.QueryCanceled, errors.LockNotAvailable)
NOTIFY_S = 0.1  # the shortest time between two notifications
# In one round trip. Changes no row if the transaction with this number was committed and its reply lost.
_BEGIN = (
    "BEGIN; INSERT INTO last_commits VALUES ('{}', {}) "
    "ON CONFLICT (writer) DO UPDATE SET number = EXCLUDED.number WHERE last_commits.number < EXCLUDED.number"
)


class PostgresWriterConnection(WriterConnection):
    """Commits to the database; reconnects if the connection is lost, and stores nothing twice.

    Each transaction first stores its number, and waits there for an earlier attempt that the server has not ended yet.
    (A transaction ID would not show whether it was committed: a server that was killed may assign the ID again.)
    """

    unstorable = (
        *(TypeError, ValueError, OverflowError, psycopg.DataError, psycopg.IntegrityError, psycopg.ProgrammingError),
        *(psycopg.NotSupportedError, errors.ProgramLimitExceeded),
    )

    def __init__(
        self, store: PostgresStore, connection: PostgresConnection, on_outage: Callable[[StoreError | None], None]
    ) -> None:
        self._store, self._connection, self._on_outage = store, connection, on_outage
        self._writer, self._number = secrets.token_hex(8), 0
        self._hurry = threading.Event()
        self._deadline = float("inf")  # for reconnecting, once the run is ending
        self._clock_offset, self._clock_read_at = 0.0, float("-inf")
        self._notified_at = float("-inf")
        self._timer: threading.Timer | None = None

    @classmethod
    def open(cls, store: PostgresStore, on_outage: Callable[[StoreError | None], None]) -> Self:
        return cls(store, _connect(store), on_outage)

    def now(self) -> float:
        elapsed = time.monotonic() - self._clock_read_at
        if elapsed > CLOCK_S:
            with suppress(psycopg.Error):
                ((now,),) = self._connection.execute(f"SELECT {NOW}").fetchall()
                self._clock_read_at = time.monotonic()
                self._clock_offset = now - self._clock_read_at
        return time.monotonic() + self._clock_offset

    def commit(self, work: Callable[[Connection], None]) -> None:
        conflicts = 0
        while True:
            connection = self._reconnect() if self._connection.is_lost else self._connection
            try:
                with connection.transaction(_BEGIN.format(self._writer, self._number)):
                    if connection.changes():
                        work(connection)
                        self._notify(connection)
                self._number += 1
                break
            except _CONFLICTS:
                conflicts += 1
                if conflicts == MOST_CONFLICTS:
                    raise
            except psycopg.Error as error:
                if not connection.is_lost and not isinstance(error, errors.ReadOnlySqlTransaction):
                    raise
                connection.close()
        if connection.views_are_stale:
            with suppress(psycopg.Error):  # the rows are stored; the next writer tries again
                database.update_views(connection)

    def _notify(self, connection: PostgresConnection) -> None:
        """Wake readers, at most once per `NOTIFY_S`; the next heartbeat makes up for skipped notifications."""
        now = time.monotonic()
        if now - self._notified_at >= NOTIFY_S:
            connection.execute(f"NOTIFY {CHANGES}")
            self._notified_at = now

    def _reconnect(self) -> PostgresConnection:
        """Reconnect, with growing pauses."""
        deadline, pause, is_reported = time.monotonic() + PATIENCE_S, FIRST_PAUSE_S, False
        while True:
            try:
                self._connection = _connect(self._store)
                break
            except psycopg.Error as error:
                if time.monotonic() > min(deadline, self._deadline):
                    raise
                if not is_reported:
                    is_reported = True
                    self._on_outage(self.explain(error))
                self._pause(pause * random.uniform(0.5, 1.0))
                pause = min(LONGEST_PAUSE_S, 2 * pause)
        self._clock_read_at = float("-inf")
        if is_reported:
            self._on_outage(None)
        return self._connection

    def _pause(self, seconds: float) -> None:
        if self._hurry.is_set() or self._hurry.wait(seconds):
            time.sleep(min(seconds, 1.0))

    def hurry(self) -> None:
        if not self._hurry.is_set():
            self._deadline = time.monotonic() + LAST_PATIENCE_S
            self._hurry.set()
            self._timer = threading.Timer(max(0.0, LAST_PATIENCE_S - CONNECT_S), self._disconnect)
            self._timer.daemon = True
            self._timer.start()

    def _disconnect(self) -> None:
        self._connection.disconnect()

    def explain(self, error: Exception) -> StoreError:
        return explanation(self._store.address, error)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self._connection.is_lost:
            with suppress(psycopg.Error):
                database.update_views(self._connection)
                self._connection.execute("DELETE FROM last_commits WHERE writer = ?", (self._writer,))
        self._connection.close()


def _connect(store: PostgresStore) -> PostgresConnection:
    """Connect for writing. Raises if the server became a standby: it accepts no rows."""
    connection = store.connect_for_writing(is_typed=True)
    try:
        if connection.execute("SHOW transaction_read_only").fetchall() == [("on",)]:
            raise errors.ReadOnlySqlTransaction("the server is read-only")
        connection.execute(f"SET idle_in_transaction_session_timeout TO '{IDLE_S}s'")
    except BaseException:
        connection.close()
        raise
    return connection


class PostgresTrackedWriter(TrackedWriter):
    """Commits without waiting for the server's disk, which is synced within a second; `flush` waits."""

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
            except (psycopg.OperationalError, psycopg.InterfaceError, errors.UndefinedTable) as error:
                if self._connection.is_lost or isinstance(error, errors.UndefinedTable):
                    self._connection.close()
                    raise Closed(f"{self._store.address}: the connection was lost, or the store was removed") from error
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
                with self._connection.transaction():  # its log record follows those of all earlier commits
                    self._connection.execute("SET LOCAL synchronous_commit = on")
                    self._connection.execute("SELECT pg_current_xact_id()")
                    self._connection.execute(f"NOTIFY {CHANGES}")

    def close(self) -> None:
        with self._lock:
            if not self._connection.is_lost:
                with suppress(StoreError):
                    self.flush()
                self._connection.close()
