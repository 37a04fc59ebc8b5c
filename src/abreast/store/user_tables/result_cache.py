"""The cache of `Tracker(cache=...)`: pickled results by key, in a file in a folder of the user.

Each result names the row that it was first stored in, and is deleted with that row.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

from abreast.redaction import find_secret
from abreast.store.address import is_url
from abreast.store.sqlite import driver
from abreast.store.sqlite.shared_connection import SharedConnection
from abreast.text import printable

FILE = "abreast-cache.db"
_TABLE = (
    "CREATE TABLE IF NOT EXISTS results (key TEXT PRIMARY KEY, track_id TEXT, row_id TEXT, store TEXT, "
    "table_name TEXT, stored_at REAL, result BLOB) WITHOUT ROWID"
)


class Hit(NamedTuple):
    """A result, and the row that it was first stored in. `store` is its `name_of_store`."""

    track_id: str
    row_id: str
    store: str
    table: str
    result: Any


class Cache(SharedConnection):
    """The results in one folder, shared by all threads of this process."""

    @classmethod
    def open(cls, folder: Path) -> Self:
        path = folder / FILE
        with driver.explained(path):
            folder.mkdir(parents=True, exist_ok=True)
            connection = driver.open_plain(path)  # results lost in a power failure will be computed again
            connection.execute(_TABLE)
        return cls.share(path, connection)

    @property
    def folder(self) -> Path:
        return self._path.parent

    def get(self, key: str) -> Hit | None:
        with self.using() as connection:
            rows: list[Any] = connection.execute(
                "SELECT track_id, row_id, store, table_name, result FROM results WHERE key = ?", (key,)
            ).fetchall()
        for track_id, row_id, store, table, result in rows:
            with contextlib.suppress(Exception):  # its class no longer exists, so it is computed again
                return Hit(track_id, row_id, store, table, pickle.loads(result))
        return None

    def put(self, key: str, hit: Hit) -> None:
        try:
            content = pickle.dumps(hit.result, protocol=5)
            if secret := find_secret(content):
                raise ValueError(f"it contains the value of {secret}")
        except Exception as error:  # noqa: BLE001 - a user's object may raise anything
            name = key.rpartition(":")[0]
            warn_once(name, f"a result of {name} cannot be cached ({error})")
            return
        with self.using() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO results VALUES (?, ?, ?, ?, ?, ?, ?)", (key, *hit[:4], time.time(), content)
            )

    def forget(self, key: str) -> None:
        with self.using() as connection:
            connection.execute("DELETE FROM results WHERE key = ?", (key,))

    def keys(self) -> list[str]:
        """All keys, the oldest first."""
        with self.using() as connection:
            return [str(row[0]) for row in connection.execute("SELECT key FROM results ORDER BY stored_at")]

    def entries(self) -> list[dict[str, Any]]:
        """All entries without their results, the oldest first."""
        with self.using() as connection:
            return connection.dicts(
                "SELECT key, track_id, row_id, store, table_name, stored_at, LENGTH(result) AS size FROM results "
                "ORDER BY stored_at, key",
            )

    def forget_tracked(self, track_id: str) -> int:
        """Delete the results of one tracker. Returns their number."""
        with self.using() as connection:
            connection.execute("DELETE FROM results WHERE track_id = ?", (track_id,))
            return connection.changes()

    def rows_of(self, address: str) -> list[tuple[str, str]]:
        """Table and row id of the rows of a store that results were first stored in."""
        with self.using() as connection:
            rows: list[Any] = connection.execute(
                "SELECT table_name, row_id FROM results WHERE store = ?", (name_of_store(address, self.folder),)
            ).fetchall()
        return rows

    def forget_rows(self, address: str, rows: Sequence[str]) -> None:
        with self.using() as connection, driver.transaction(connection):
            connection.executemany(
                "DELETE FROM results WHERE row_id = ? AND store = ?",
                [(row, name_of_store(address, self.folder)) for row in rows],
            )


def name_of_store(address: str, folder: Path) -> str:
    """The path of a store relative to the cache folder, so that both can be moved together, or its URL."""
    return address if is_url(address) else os.path.relpath(Path(address).resolve(), folder.resolve())


def name_of_cache(folder: Path, address: str) -> str:
    """The path of a cache folder relative to the folder of a store; absolute if the store has a URL."""
    full = folder.resolve()
    return str(full) if is_url(address) else os.path.relpath(full, Path(address).resolve().parent)


_warned: set[str] = set()


def warn_once(name: str, message: str) -> None:
    if name not in _warned:
        _warned.add(name)
        warnings.warn(printable(message), stacklevel=5)
