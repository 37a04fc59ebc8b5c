"""The files behind an open SQLite connection.

A file that is deleted or replaced stays readable for the process that has it open, so nothing is lost if that process
notices and saves a copy. Only `os.stat` looks at the files here: closing any other descriptor of a SQLite file would
drop the locks of this process.
"""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import count
from pathlib import Path

import apsw

Identity = tuple[int, int]
PAGE = 4096  # bytes; no store is smaller


class OpenedFile:
    """Remembers which files a connection opened."""

    def __init__(self, connection: apsw.Connection, path: Path) -> None:
        self._connection = connection
        self.path = path.absolute()
        self._name = os.fspath(self.path)
        self._log = connection.filename_wal
        memory = self._log.removesuffix("-wal") + "-shm"
        self._companions = {name: _identity(name) for name in (self._log, memory)}
        self._identity = _identity(self._name)
        self._size = 0

    def find_change(self, with_log: bool = True) -> str:
        """What happened to the files since they were opened, as in `results.db was deleted`; empty if nothing."""
        try:
            status = os.stat(self._name)  # noqa: PTH116 - before every commit
        except OSError:
            return f"{self.path.name} was deleted"
        if (status.st_dev, status.st_ino) != self._identity:
            return f"{self.path.name} was replaced by another file"
        if status.st_size < PAGE <= self._size:  # VACUUM makes it smaller too, but leaves a page
            return f"{self.path.name} was emptied"
        self._size = status.st_size
        if with_log and _identity(self._log) != self._companions[self._log]:
            return f"{Path(self._log).name} was deleted"
        return ""

    def save_copy(self) -> Path:
        """Write everything that was committed to a new file next to the old one."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        copy = _free_name(self.path)
        try:
            self._connection.execute("VACUUM INTO ?", (os.fspath(copy),))
        except BaseException:
            copy.unlink(missing_ok=True)
            raise
        return copy

    def abandon(self) -> None:
        """Close the connection without touching a file that is not ours any more.

        A log that is left over would be applied to whatever file takes the old name, so it is removed.
        """
        self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        is_replaced = _identity(self._name) != self._identity
        left_over = [name for name, known in self._companions.items() if known and _identity(name) == known]
        self._connection.close()
        for name in left_over if is_replaced else ():
            with suppress(OSError):
                Path(name).unlink()


def _free_name(path: Path) -> Path:
    """`results.recovered.db`, or with a number if that exists."""
    stem = path.name.split(".")[0] or path.name
    names = (path.with_name(f"{stem}.recovered{number if number > 1 else ''}.db") for number in count(1))
    return next(name for name in names if not name.exists())


def _identity(name: str) -> Identity | None:
    try:
        status = os.stat(name)  # noqa: PTH116 - before every commit
    except OSError:
        return None
    return status.st_dev, status.st_ino
