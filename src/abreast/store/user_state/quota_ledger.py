"""The quota ledger: the requests of each account, over all runs, stores and processes of this user.

A quota belongs to an account, not to a store, so the ledger is in the user's state folder.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from abreast.errors import StoreError
from abreast.store.sqlite import driver
from abreast.store.user_state.folders import state_folder

_TABLES = """
CREATE TABLE IF NOT EXISTS uses (use INTEGER PRIMARY KEY AUTOINCREMENT, account TEXT NOT NULL, used_at REAL NOT NULL);
CREATE INDEX IF NOT EXISTS uses_by_account ON uses(account, used_at);
"""


class Ledger:
    """Tickets in a time window. Processes never share a ticket."""

    def __init__(self, path: Path | None = None, clock: Callable[[], float] = time.time) -> None:
        self.path = path or state_folder() / "quota.db"
        self._clock = clock
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = driver.open_plain(self.path)
            self._connection.execute(_TABLES)
        except (OSError, driver.Error) as error:
            raise StoreError(
                f"{self.path}: the quota ledger cannot be opened ({error})",
                "set ABREAST_STATE to a writable folder",
            ) from None

    def used(self, account: str, window_s: float) -> int:
        """Number of tickets that are used in the window."""
        since = self._clock() - window_s
        rows = self._connection.execute(
            "SELECT COUNT(*) FROM uses WHERE account = ? AND used_at > ?", (account, since)
        ).fetchall()
        return int(str(rows[0][0]))

    def take(self, account: str, most: int, window_s: float) -> tuple[int | None, float]:
        """Take a ticket: returns it and 0, or None and the seconds until one is free."""
        self._connection.execute("BEGIN IMMEDIATE")  # excludes other processes
        try:
            now = self._clock()
            times: list[Any] = self._connection.execute(
                "SELECT used_at FROM uses WHERE account = ? AND used_at > ? ORDER BY used_at DESC LIMIT ?",
                (account, now - window_s, most),
            ).fetchall()
            if len(times) >= most:
                return None, max(0.001, float(times[-1][0]) + window_s - now)
            insert = "INSERT INTO uses (account, used_at) VALUES (?, ?) RETURNING use"
            rows: list[Any] = self._connection.execute(insert, (account, now)).fetchall()
            return rows[0][0], 0.0
        finally:
            self._connection.execute("COMMIT")

    def give_back(self, ticket: int) -> None:
        self._connection.execute("DELETE FROM uses WHERE use = ?", (ticket,))

    def close(self) -> None:
        self._connection.close()
