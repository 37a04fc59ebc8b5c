"""A SQLite file that a process keeps open, for all its threads.

It may be removed, or replaced by another file, at any time. So every use checks before and after that the files are
still those that were opened.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import apsw

from abreast.store.base import Closed
from abreast.store.sqlite import driver
from abreast.store.sqlite.isolation.sharing import SharedFile, SQLiteConnection


def open_for_tracking(path: Path) -> SQLiteConnection:
    """A connection for many small writes, whose commits do not wait for the disk."""
    connection = driver.open_for_writing(path)
    connection.execute("PRAGMA synchronous=NORMAL")
    connection.execute("PRAGMA wal_autocheckpoint=4000")
    connection.set_busy_handler(_wait_for_others)
    return connection


def _wait_for_others(prior: int) -> bool:
    """Called while another process writes. SQLite's own waiting grows to a tenth of a second, which starves some."""
    time.sleep(0.0002 if prior < 20 else 0.002)
    return prior < driver.BUSY_MS // 2


class Held:
    """One file: whoever uses it has it alone."""

    def __init__(self, path: Path, connection: SQLiteConnection) -> None:
        self._connection = connection
        self._lock = threading.RLock()  # a handler of a signal may come in between
        self._closed = False
        self._path = path
        self._name = os.fspath(path)
        self._file = _identity(self._name)
        with driver.explained(path):
            self._log = os.open(connection.filename_wal, os.O_RDONLY)

    def is_current(self) -> bool:
        """Whether it is open, and still what its path names."""
        return self._is_whole() and not driver.must_reopen(self._connection) and _identity(self._name) == self._file

    def _is_whole(self) -> bool:
        return not self._closed and os.fstat(self._log).st_nlink > 0

    @contextmanager
    def using(self) -> Iterator[SQLiteConnection]:
        with self._lock, driver.explained(self._path):
            if not self.is_current():
                raise Closed(f"{self._path}: closed")
            try:
                with driver.alone(self._connection):
                    yield self._connection
            except SharedFile:
                raise Closed(f"{self._path}: must be opened in the helper process") from None
            if not self._is_whole():
                raise Closed(f"{self._path}: its log was removed meanwhile")

    def pause(self) -> None:
        """Close it, for a moment."""
        self.close()

    def close(self) -> None:
        with self._lock, suppress(apsw.Error):
            if self._closed:
                return
            is_there, is_whole = _identity(self._name) == self._file, self._is_whole()
            self._closed = True
            if not is_there or not is_whole:  # a log of this name is another's: it must neither be used nor removed
                self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
                if not is_there:  # moved away: with all its rows
                    self._connection.execute("PRAGMA wal_checkpoint")
            self._connection.close()
            os.close(self._log)


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - of every row
    except OSError:
        return None
    return found.st_dev, found.st_ino
