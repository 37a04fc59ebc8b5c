"""The ledger of quotas: what an account has used, over all runs, stores and processes of this user.

A quota belongs to the account, not to a store, so its file lies with the user's state.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from abreast.errors import StoreError

_TABLES = """
CREATE TABLE IF NOT EXISTS uses (use INTEGER PRIMARY KEY AUTOINCREMENT, account TEXT NOT NULL, used_at REAL NOT NULL);
CREATE INDEX IF NOT EXISTS uses_by_account ON uses(account, used_at);
"""


def state_folder() -> Path:
    """`$ABREAST_STATE`, else the user's state folder. Raises RuntimeError if the user has no home."""
    chosen = os.environ.get("ABREAST_STATE")
    if chosen:
        return Path(chosen).absolute()
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "abreast"


def cache_folder() -> Path:
    """`$ABREAST_CACHE`, else the user's cache folder: what can be made again. Raises RuntimeError if the user has no
    home."""
    chosen = os.environ.get("ABREAST_CACHE")
    if chosen:
        return Path(chosen).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "abreast"


class Ledger:
    """Tickets out of a window: taken one at a time, so that two processes never share the last one."""

    def __init__(self, path: Path | None = None, clock: Callable[[], float] = time.time) -> None:
        self.path = path or state_folder() / "quota.db"
        self._clock = clock
        from abreast.store.sqlite import driver  # late: it imports this module

        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = driver.open_plain(self.path)
            self._connection.execute(_TABLES)
        except (OSError, driver.Error) as error:
            raise StoreError(
                f"{self.path}: the ledger of quotas cannot be opened ({error})",
                "set ABREAST_STATE to a folder of yours",
            ) from None

    def used(self, account: str, window_s: float) -> int:
        """How many of the window are used now."""
        since = self._clock() - window_s
        rows = self._connection.execute(
            "SELECT COUNT(*) FROM uses WHERE account = ? AND used_at > ?", (account, since)
        ).fetchall()
        return int(str(rows[0][0]))

    def take(self, account: str, most: int, window_s: float) -> tuple[int | None, float]:
        """A ticket and 0, or None and the seconds until one is free again."""
        self._connection.execute("BEGIN IMMEDIATE")  # nobody else counts or takes meanwhile
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
        """A ticket that was not used after all."""
        self._connection.execute("DELETE FROM uses WHERE use = ?", (ticket,))

    def close(self) -> None:
        self._connection.close()
