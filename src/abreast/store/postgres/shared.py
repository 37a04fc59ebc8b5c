"""Data other than runs that the users of a database share: trackers' objects and account quotas."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from abreast.store.base import NoConnection, RowTooLarge
from abreast.store.postgres.connection import PostgresConnection
from abreast.store.postgres.database import NOW
from abreast.store.user_state.quota_ledger import Ledger
from abreast.store.user_tables.assets import Asset, Assets

if TYPE_CHECKING:
    from abreast.store.postgres.store import PostgresStore

REPLY_S = 0.5  # the longest time that a caller waits
LARGEST_ASSET = 500_000_000  # bytes; the server ends the connection if they and their text do not fit in 1 GB


class DatabaseAssets(Assets):
    def __init__(self, store: PostgresStore) -> None:
        self._store = store

    def entries(self) -> list[Asset]:
        if not self._store.exists():
            return []
        query = "SELECT digest, octet_length(content), stored_at FROM assets ORDER BY stored_at, digest"
        return [Asset(*row) for row in self._store.rows(query)]

    def read(self, digest: str) -> bytes | None:
        rows = self._store.rows("SELECT content FROM assets WHERE digest = ?", (digest,))
        return rows[0][0] if rows else None

    def write(self, digest: str, content: bytes) -> None:
        if len(content) > LARGEST_ASSET:
            size, most = len(content) // 1_000_000, LARGEST_ASSET // 1_000_000
            message = f"{self._store.address}: an object has {size:,} MB, more than the {most:,} that it can store"
            raise RowTooLarge(message, "save the object as a file, and track its path")
        with self._store.explaining(), closing(self._store.connect_for_writing()) as connection:
            connection.execute(f"INSERT INTO assets VALUES (?, ?, {NOW}) ON CONFLICT DO NOTHING", (digest, content))

    def delete(self, digest: str) -> bool:
        with self._store.explaining(), closing(self._store.connect_for_writing()) as connection:
            connection.execute("DELETE FROM assets WHERE digest = ?", (digest,))
            return connection.changes() > 0


class DatabaseLedger(Ledger):
    """Counts calls by the database's clock, for everyone who uses the account with this database.

    Statements run in a thread, because callers cannot wait for a server that does not reply. A ticket whose reply is
    lost stays used, so that the quota is never exceeded.
    """

    def __init__(self, store: PostgresStore) -> None:
        self._store = store
        self._connection: PostgresConnection | None = None
        self._thread = ThreadPoolExecutor(1, "abreast-quota")
        self._pending: Future[tuple[int | None, float]] | None = None

    def used(self, account: str, window_s: float) -> int:
        if not self._store.exists():
            return 0
        query = f"SELECT COUNT(*) FROM quota_uses WHERE account = ? AND used_at > {NOW} - ?"
        return int(self._store.rows(query, (account, window_s))[0][0])

    def take(self, account: str, most: int, window_s: float) -> tuple[int | None, float]:
        if self._pending is None:
            self._pending = self._thread.submit(self._take, account, most, window_s)
        if wait([self._pending], REPLY_S).not_done:
            raise NoConnection(f"{self._store.address}: no reply")  # the next call returns the result
        pending, self._pending = self._pending, None
        return pending.result()

    def _take(self, account: str, most: int, window_s: float) -> tuple[int | None, float]:
        with self._using() as connection, connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(hashtext('quota of abreast'), hashtext(?))", (account,))
            ((now,),) = connection.execute(f"SELECT {NOW}").fetchall()
            times = connection.execute(
                "SELECT used_at FROM quota_uses WHERE account = ? AND used_at > ? ORDER BY used_at DESC LIMIT ?",
                (account, now - window_s, most),
            ).fetchall()
            if len(times) >= most:
                return None, max(0.001, times[-1][0] + window_s - now)
            insert = "INSERT INTO quota_uses (account, used_at) VALUES (?, ?) RETURNING use"
            return connection.execute(insert, (account, now)).fetchall()[0][0], 0.0

    def give_back(self, ticket: int) -> None:
        self._thread.submit(self._give_back, ticket)

    def _give_back(self, ticket: int) -> None:
        with self._using() as connection:
            connection.execute("DELETE FROM quota_uses WHERE use = ?", (ticket,))

    @contextmanager
    def _using(self) -> Iterator[PostgresConnection]:
        with self._store.explaining():
            if self._connection is None or not self._connection.is_usable():
                self._connection = self._store.connect_for_writing()
            yield self._connection

    def close(self) -> None:
        if self._pending is not None and not self._pending.cancel():
            self._pending.add_done_callback(self._give_back_unused)
        closing = self._thread.submit(self._close)
        if wait([closing], REPLY_S).not_done and self._connection is not None:
            self._connection.disconnect()
        self._pending = None

    def _give_back_unused(self, pending: Future[tuple[int | None, float]]) -> None:
        if not pending.exception() and (ticket := pending.result()[0]) is not None:
            self._give_back(ticket)

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
