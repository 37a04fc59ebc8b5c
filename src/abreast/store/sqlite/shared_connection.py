"""A SQLite file that all threads of a process share.

The file may be removed or replaced at any time, so every use checks before and after that it is still the same.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

import apsw

from abreast.errors import StoreError
from abreast.store.base import Closed, TrackedWriter
from abreast.store.sqlite import driver
from abreast.store.sqlite.isolation.sharing import SharedFile, SQLiteConnection

_sync = getattr(os, "fdatasync", os.fsync)
REST_S = 0.005  # between two syncs, unless a thread waits


class SharedConnection:
    """A connection that one thread at a time uses."""

    def __init__(self, path: Path, connection: SQLiteConnection, log: int) -> None:
        self._connection = connection
        self._lock = threading.RLock()  # a signal handler may use it too
        self._closed = False
        self._path = path
        self._name = os.fspath(path)
        self._file = file_identity(self._name)
        self._log = log  # a descriptor of the write-ahead log

    @classmethod
    def share(cls, path: Path, connection: SQLiteConnection) -> Self:
        with driver.explained(path):
            return cls(path, connection, os.open(connection.filename_wal, os.O_RDONLY))

    def is_current(self) -> bool:
        """Whether it is open, and its path still names the same file."""
        return self._has_log() and not driver.must_reopen(self._connection) and self._is_in_place()

    def _has_log(self) -> bool:
        return not self._closed and os.fstat(self._log).st_nlink > 0

    def _is_in_place(self) -> bool:
        return file_identity(self._name) == self._file

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
            if not self._has_log():
                raise Closed(f"{self._path}: its log was removed")

    def pause(self) -> None:
        """Close it; it will be reopened soon."""
        self.close()

    def close(self) -> None:
        with self._lock, suppress(apsw.Error):
            if self._closed:
                return
            is_in_place, has_log = self._is_in_place(), self._has_log()
            self._closed = True
            if not is_in_place or not has_log:  # SQLite must not use or remove a log that may be another file's
                self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
                if not is_in_place:  # moved away, with all its rows
                    self._connection.execute("PRAGMA wal_checkpoint")
            log = self._connection.filename_wal
            self._connection.close()
            is_replaced = not is_in_place and has_log and file_identity(self._name) is not None
            if is_replaced and file_identity(log) == _identity(os.fstat(self._log)):
                Path(log).unlink(missing_ok=True)  # else SQLite would apply it to the other file
            os.close(self._log)


class SQLiteTrackedWriter(SharedConnection, TrackedWriter):
    """Commits do not wait for the disk; a thread syncs the log whenever it has grown."""

    def __init__(self, path: Path, connection: SQLiteConnection, log: int) -> None:
        super().__init__(path, connection, log)
        self._state_lock = threading.RLock()  # entered directly: Ctrl-C while entering a Condition leaves it locked
        self._state = threading.Condition(self._state_lock)
        self._written = self._synced = self._waiting = 0
        self._failure: OSError | None = None
        self._closing = self._idle = False
        self._thread: threading.Thread | None = None

    @classmethod
    def open(cls, path: Path) -> Self:
        connection = driver.open_for_writing(path)
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("PRAGMA wal_autocheckpoint=4000")
        connection.set_busy_handler(_wait_for_others)
        return cls.share(path, connection)

    @contextmanager
    def transaction(self) -> Iterator[SQLiteConnection]:
        with self.using() as connection, driver.transaction(connection):
            yield connection

    def committed(self) -> None:
        with self._state_lock:
            self._written += 1
            if self._thread is None:
                self._thread = threading.Thread(target=self._sync_log, name="abreast-disk", daemon=True)
                self._thread.start()
            if self._idle:
                self._state.notify_all()

    def flush(self) -> None:
        if not self._closed:  # closing flushes too
            self._wait_for_disk()
            driver.complete(self._path)

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            try:
                self._wait_for_disk()
            finally:
                with self._state_lock:
                    self._closing = True
                    self._state.notify_all()
                if self._thread is not None:
                    self._thread.join()
                super().close()

    def _wait_for_disk(self) -> None:
        with self._state_lock:
            aim = self._written
            self._waiting += 1
            self._state.notify_all()
            self._state.wait_for(lambda: self._synced >= aim or self._failure is not None)
            self._waiting -= 1
            if self._failure is not None:
                raise StoreError(f"{self._name}-wal: the disk reports an error ({self._failure})", "check the disk")

    def _sync_log(self) -> None:
        try:
            while True:
                with self._state_lock:
                    self._idle = True
                    self._state.wait_for(lambda: self._written > self._synced or self._closing)
                    self._idle = False
                    aim = self._written
                    if aim == self._synced:
                        return
                _sync(self._log)
                with self._state_lock:
                    self._synced = aim
                    self._state.notify_all()
                    if not self._waiting:  # let more rows share the next sync
                        self._state.wait_for(lambda: self._waiting or self._closing, REST_S)
        except OSError as error:
            with self._state_lock:
                self._failure = error
                self._state.notify_all()


def _wait_for_others(prior: int) -> bool:
    """Busy handler: SQLite's own waits grow to 0.1 s, which starves some processes."""
    time.sleep(0.0002 if prior < 20 else 0.002)
    return prior < driver.BUSY_MS // 2


def file_identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)  # noqa: PTH116 - for every row
    except OSError:
        return None
    return _identity(status)


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
