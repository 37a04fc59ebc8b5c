"""The quota ledger: the calls to each account, over all runs and processes.

A quota belongs to an account, not to a run or a store. So the ledger is in the user's state folder, unless the store is
a database that a team shares.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from abreast.errors import StoreError
from abreast.store.user_state.folders import state_folder

if TYPE_CHECKING:
    from abreast.store.base import Connection

_TABLES = """
CREATE TABLE IF NOT EXISTS uses (use INTEGER PRIMARY KEY AUTOINCREMENT, account TEXT NOT NULL, used_at REAL NOT NULL);
CREATE INDEX IF NOT EXISTS uses_by_account ON uses(account, used_at);
"""


class Ledger(ABC):
    """Tickets in a time window. Processes never share a ticket."""

    @abstractmethod
    def used(self, account: str, window_s: float) -> int:
        """Number of tickets that are used in the window. Creates nothing."""

    @abstractmethod
    def take(self, account: str, most: int, window_s: float) -> tuple[int | None, float]:
        """Take a ticket: returns it and 0, or None and the seconds until one is free."""

    @abstractmethod
    def give_back(self, ticket: int) -> None:
        """Make an unused ticket available again."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection. The ledger can be used again."""


class FileLedger(Ledger):
    """The ledger of this user, in a SQLite file."""

    def __init__(self, path: Path | None = None, clock: Callable[[], float] = time.time) -> None:
        self.path = path or state_folder() / "quota.db"
        self._clock = clock
        self._connection: Connection | None = None

    def used(self, account: str, window_s: float) -> int:
        if not self.path.exists():
            return 0
        since = self._clock() - window_s
        query = "SELECT COUNT(*) FROM uses WHERE account = ? AND used_at > ?"
        return int(str(self._open().execute(query, (account, since)).fetchall()[0][0]))

    def take(self, account: str, most: int, window_s: float) -> tuple[int | None, float]:
        connection = self._open()
        connection.execute("BEGIN IMMEDIATE")  # excludes other processes
        try:
            now = self._clock()
            times: list[Any] = connection.execute(
                "SELECT used_at FROM uses WHERE account = ? AND used_at > ? ORDER BY used_at DESC LIMIT ?",
                (account, now - window_s, most),
            ).fetchall()
            if len(times) >= most:
                return None, max(0.001, float(times[-1][0]) + window_s - now)
            insert = "INSERT INTO uses (account, used_at) VALUES (?, ?) RETURNING use"
            rows: list[Any] = connection.execute(insert, (account, now)).fetchall()
            return rows[0][0], 0.0
        finally:
            connection.execute("COMMIT")

    def give_back(self, ticket: int) -> None:
        self._open().execute("DELETE FROM uses WHERE use = ?", (ticket,))

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _open(self) -> Connection:
        from abreast.store.sqlite import driver

        if self._connection is None:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                connection = driver.open_plain(self.path)
                connection.execute(_TABLES)
            except (OSError, driver.Error) as error:
                raise StoreError(
                    f"{self.path}: the quota ledger cannot be opened ({error})",
                    "set ABREAST_STATE to a writable folder",
                ) from None
            self._connection = connection
        return self._connection
