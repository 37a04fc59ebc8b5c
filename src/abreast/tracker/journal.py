"""The way of a process's rows into a store.

A call of `write` returns when its rows are committed: every reader sees them, in whatever process, and they survive the
end of this one however it ends. A thread then takes all that was committed to the disk itself, over and over while
there is something new, so that what a power cut could take is the last few milliseconds; `flush` waits for it.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self, TypeVar

from abreast.errors import StoreError
from abreast.plan.names import new_name
from abreast.store import Store, open_store
from abreast.store.base import OPEN_FOR_S, Connection, TrackedWriter
from abreast.store.user_state.drivers import driver_folder
from abreast.store.user_tables import tracked_rows
from abreast.store.user_tables.cells import TypedCell
from abreast.tracker.process import Shared

Answer = TypeVar("Answer")
MOST_NAMES = 64  # looked for at a time
CLOSING_S = 10.0  # how long the last write waits for others that write the DuckDB file, such as workers of a pool
FOLLOW_S = 0.5  # how far a DuckDB file is behind, at most, while rows come


class Journal:
    """Writes the rows of all trackers of one store in this process."""

    def __init__(self, store: Store, writer: TrackedWriter, follower: _Follower | None) -> None:
        self.store = store
        self._writer = writer
        self._follower = follower
        self._known: dict[str, tracked_rows.TrackedTable] = {}
        self._late: deque[tuple[str, Sequence[Mapping[str, TypedCell]]]] = deque()
        self._writing = False
        self._caches: set[Path] = set()
        self._names: set[str] = set()  # that trackers of this process have, or will
        self._free: deque[str] = deque()
        self._wanted = 1
        self.is_current = writer.is_current

    @classmethod
    def open(cls, path: str, engine: str | None) -> Self:
        store = open_store(path, engine)
        store.exists()  # refuses files of others
        writer = store.open_tracked_writer()
        if not store.derives_files or _journals.is_ending:
            return cls(store, writer, None)
        follower = _Follower(store)
        follower.start()
        return cls(store, writer, follower)

    def write(self, table: str, rows: Sequence[Mapping[str, TypedCell]]) -> None:
        """Commit these rows, all or none."""
        with self._writer.using() as connection:
            self._late.append((table, rows))
            if not self._writing:  # else this is a handler of a signal, in the middle of another write
                self._writing = True
                try:
                    while self._late:
                        self._write(connection, *self._late.popleft())
                        self._writer.committed()
                finally:
                    self._writing = False
        if self._follower is not None:
            self._follower.written()

    def _write(self, connection: Connection, table: str, rows: Sequence[Mapping[str, TypedCell]]) -> None:
        if len(rows) == 1 and tracked_rows.insert_one(connection, self._known, table, rows[0]):
            return
        try:
            with self._writer.transaction():
                tracked_rows.insert(connection, self._known, table, rows)
        except BaseException:
            self._known.clear()
            raise

    def has_table(self, table: str) -> bool:
        """Whether anything was ever written into the table."""
        if table in self._known:
            return True
        with self._writer.using() as connection:
            return tracked_rows.find(connection, table) is not None

    def has(self, table: str, row_id: str) -> bool:
        with self._writer.using() as connection:
            return tracked_rows.has_row(connection, table, row_id)

    def free_name(self) -> str:
        """A name that nothing has, here or in the store. Several are looked for together, more the more are used."""
        while True:
            try:
                return self._free.pop()
            except IndexError:
                self._find_names()

    def _find_names(self) -> None:
        with self._writer.using() as connection:
            self._wanted = min(2 * self._wanted, MOST_NAMES)
            while len(self._free) < self._wanted:
                name = new_name(self._names)
                self._names.add(name)
                if not tracked_rows.is_track_id_used(connection, name):
                    self._free.append(name)

    def note_cache(self, folder: Path) -> None:
        """Remember where results of this store are cached, for commands that delete rows."""
        if folder in self._caches:
            return
        path = os.path.relpath(folder.resolve(), self.store.path.resolve().parent)
        with self._writer.using() as connection:
            tracked_rows.note_cache(connection, path)
        self._caches.add(folder)

    def flush(self) -> None:
        """Take every row to the disk, and into a DuckDB file unless another process has that open."""
        self._writer.flush()
        if self._follower is not None:
            self._follower.catch_up()

    def pause(self) -> None:
        """Close what will be opened again at once."""
        self._writer.close()
        if self._follower is not None and self._follower.stop():
            _behind.add(self.store.path)

    def close(self) -> None:
        try:
            if self.is_current():
                self._writer.flush()
        finally:
            self._writer.close()
        if self._follower is not None and self._follower.stop():
            self._follower.catch_up(CLOSING_S)


class _Follower:
    """Lets a DuckDB file follow its journal while rows come."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._one_at_a_time = threading.Lock()
        self._new = threading.Event()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name="abreast-duckdb", daemon=True)

    def start(self) -> None:
        if self._store.path in _behind:
            _behind.discard(self._store.path)
            self._new.set()
        self._thread.start()

    def written(self) -> None:
        if not self._new.is_set():
            self._new.set()

    def catch_up(self, patience_s: float = OPEN_FOR_S) -> None:
        if self._one_at_a_time.acquire(timeout=patience_s):
            try:
                if self._new.is_set():
                    self._new.clear()
                    self._store.materialise(patience_s)
            except StoreError:  # the file is open elsewhere: the next round catches up
                self._new.set()
            finally:
                self._one_at_a_time.release()

    def _work(self) -> None:
        rest = FOLLOW_S
        while True:
            self._new.wait()
            if self._closing.wait(rest):
                return
            began = time.monotonic()
            self.catch_up()
            rest = max(FOLLOW_S, 4 * (time.monotonic() - began))  # a fifth of the time at most

    def stop(self) -> bool:
        pending = self._new.is_set()
        self._closing.set()
        self._new.set()
        self._thread.join()
        return pending


_behind: set[Path] = set()  # DuckDB files of journals that were closed for a moment
_journals: Shared[Journal] = Shared()


def absolute(path: str | os.PathLike[str]) -> str:
    """Where it is, for a program that works in another folder later."""
    try:
        return os.path.abspath(path)  # noqa: PTH100 - twice as fast as a Path, and this is done for each tracker
    except OSError as error:
        raise StoreError(f"{path}: the folder this program works in is gone", "name it by its whole path") from error


def use(path: str, engine: str | None, act: Callable[[Journal], Answer]) -> Answer:
    return _journals.use(path, lambda: Journal.open(path, engine), act)


IN_MEMORY = ":memory:"


def temporary_store(owner: object) -> str:
    """A path for a new store, whose folder is removed with its owner, or when this process ends."""
    import tempfile  # late: it imports much

    _journals.close_removed()
    folder = tempfile.mkdtemp(prefix="memory-", dir=driver_folder())
    weakref.finalize(owner, _remove, folder, os.getpid())
    return os.path.join(folder, "memory.db")  # noqa: PTH118 - a plain text is what is wanted


def _remove(folder: str, process: int) -> None:
    import shutil  # late: it imports much

    if os.getpid() == process:  # a forked process has a tracker of the same store
        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):  # another store is in it
            Path(folder).parent.rmdir()
