"""The connection of a writer, and the identity of its files.

A deleted or replaced file stays readable for the process that has it open, so nothing is lost if the process notices
and saves a copy. The files are checked by `os.stat` only: closing another descriptor of a SQLite file would drop the
locks of this process.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path

import apsw

from abreast.errors import StoreError
from abreast.store.base import Closed, Connection, StoreVanished, WriterConnection
from abreast.store.sqlite import driver
from abreast.store.sqlite.isolation.sharing import SharedFile, SQLiteConnection
from abreast.store.sqlite.shared_connection import file_identity

PAGE = 4096  # bytes, the smallest size of a store


class SQLiteWriterConnection(WriterConnection):
    """Commits to a file; if it is deleted or replaced, saves a copy and continues there."""

    unstorable = (TypeError, ValueError, OverflowError, apsw.TooBigError, apsw.ConstraintError, apsw.MismatchError)

    def __init__(self, path: Path, on_moved: Callable[[StoreVanished], None]) -> None:
        self._on_moved = on_moved
        self._open(path)

    def _open(self, path: Path) -> None:
        self._path = path
        self._connection = driver.open_for_writing(path)
        self._file = OpenedFile(self._connection, path)

    def commit(self, work: Callable[[Connection], None]) -> None:
        try:
            self._commit(work)
        except Closed:  # the helper process was killed
            self._commit(work)

    def _commit(self, work: Callable[[Connection], None]) -> None:
        while True:
            self._check_file()
            if driver.must_reopen(self._connection):
                self._connection.close()
                self._open(self._path)
            with suppress(SharedFile), driver.alone(self._connection):
                with driver.transaction(self._connection):
                    work(self._connection)
                return

    def _check_file(self) -> None:
        """Continue in a copy if the path no longer names the open file; raise if it cannot be copied."""
        # Another SQLite library in this process may have removed the log of a connection that must be reopened.
        change = self._file.find_change(with_log=not driver.must_reopen(self._connection))
        if not change:
            return
        problem = f"{change} while the run was writing to it"
        try:
            copy = self._file.save_copy()
        except (apsw.Error, OSError, StoreError) as error:
            reason = self.explain(error).message.removeprefix(f"{self._path}: ")
            raise StoreVanished(f"{problem}, and its rows could not be copied: {reason}") from error
        self._file.abandon()
        self._open(copy)
        self._on_moved(StoreVanished(f"{problem}; all stored rows were saved to {copy}", copy=copy))

    def explain(self, error: Exception) -> StoreError:
        return driver.explanation(self._path, error)

    def close(self) -> None:
        self._connection.close()


class OpenedFile:
    """The identity of the files that a connection opened."""

    def __init__(self, connection: SQLiteConnection, path: Path) -> None:
        self._connection = connection
        self.path = path.absolute()
        self._name = os.fspath(self.path)
        self._log = connection.filename_wal
        memory = self._log.removesuffix("-wal") + "-shm"
        self._companions = {name: file_identity(name) for name in (self._log, memory)}
        self._identity = file_identity(self._name)
        self._size = 0

    def find_change(self, with_log: bool = True) -> str:
        """Describe a change of the files, such as `results.db was deleted`; empty if there is none."""
        try:
            status = os.stat(self._name)  # noqa: PTH116 - before every commit
        except OSError:
            return f"{self.path.name} was deleted"
        if (status.st_dev, status.st_ino) != self._identity:
            return f"{self.path.name} was replaced by another file"
        if status.st_size < PAGE <= self._size:  # VACUUM also shrinks it, but leaves a page
            return f"{self.path.name} was emptied"
        self._size = status.st_size
        if with_log and file_identity(self._log) != self._companions[self._log]:
            return f"{Path(self._log).name} was deleted"
        return ""

    def save_copy(self) -> Path:
        """Write everything committed to a new file next to the old one."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        copy = _free_name(self.path)
        try:
            self._connection.execute("VACUUM INTO ?", (os.fspath(copy),))
        except BaseException:
            copy.unlink(missing_ok=True)
            raise
        return copy

    def abandon(self) -> None:
        """Close the connection without touching the file that replaced ours.

        Removes our leftover log, which SQLite would apply to the new file of that name.
        """
        self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        is_replaced = file_identity(self._name) != self._identity
        leftover = [name for name, identity in self._companions.items() if identity and file_identity(name) == identity]
        self._connection.close()
        for name in leftover if is_replaced else ():
            with suppress(OSError):
                Path(name).unlink()


def _free_name(path: Path) -> Path:
    """`results.recovered.db`, or with a number if that exists."""
    stem = path.name.split(".")[0] or path.name
    names = (path.with_name(f"{stem}.recovered{number if number > 1 else ''}.db") for number in count(1))
    return next(name for name in names if not name.exists())
