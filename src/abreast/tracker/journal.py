"""Writing the rows of all trackers of a process to a store.

`write` returns when its rows are committed: readers in all processes see them, and they survive a crash of this one. A
thread then syncs them to disk, so that a power failure loses a few milliseconds at most; `flush` waits for the sync.
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
from abreast.plan.run_names import new_name
from abreast.store import Store, open_store
from abreast.store.base import OPEN_FOR_S, Connection, TrackedWriter
from abreast.store.user_state.drivers import driver_folder
from abreast.store.user_tables import tracked_rows
from abreast.store.user_tables.cells import TypedCell
from abreast.store.user_tables.result_cache import name_of_cache
from abreast.tracker.process import Shared

Answer = TypeVar("Answer")
MOST_NAMES = 64  # names to reserve at a time
CLOSING_S = 10.0  # how long the last write waits for other writers of the DuckDB file, such as workers of a pool
FOLLOW_S = 0.5  # the shortest time between two updates of a DuckDB file


class Journal:
    """Writes the rows of all trackers of one store in this process."""

    def __init__(self, store: Store, writer: TrackedWriter, follower: _Follower | None) -> None:
        self.store = store
        self._writer = writer
        self._follower = follower
        self._tables: dict[str, tracked_rows.TrackedTable] = {}
        self._queue: deque[tuple[str, Sequence[Mapping[str, TypedCell]]]] = deque()
        self._writing = False
        self._noted_caches: set[Path] = set()
        self._names: set[str] = set()  # used or reserved in this process
        self._free_names: deque[str] = deque()
        self._batch_size = 1
        self.is_current = writer.is_current

    @classmethod
    def open(cls, path: str, engine: str | None) -> Self:
        store = open_store(path, engine)
        with store:  # leaves no connection open, which a forked child would share
            store.exists()  # refuses files of other programs
        writer = store.open_tracked_writer()
        follower = _Follower(store) if store.derives_files and not _journals.is_ending else None
        if follower is not None:
            follower.start()
        return cls(store, writer, follower)

    def write(self, table: str, rows: Sequence[Mapping[str, TypedCell]]) -> None:
        """Commit these rows atomically."""
        with self._writer.using() as connection:
            self._queue.append((table, rows))
            if not self._writing:  # otherwise this is a signal handler that interrupts another write
                self._writing = True
                try:
                    while self._queue:
                        self._write(connection, *self._queue.popleft())
                        self._writer.committed()
                finally:
                    self._writing = False
        if self._follower is not None:
            self._follower.notify()

    def _write(self, connection: Connection, table: str, rows: Sequence[Mapping[str, TypedCell]]) -> None:
        if len(rows) == 1 and tracked_rows.insert_one(connection, self._tables, table, rows[0]):
            return
        try:
            with self._writer.transaction():
                tracked_rows.insert(connection, self._tables, table, rows)
        except BaseException:
            self._tables.clear()
            raise

    def has_table(self, table: str) -> bool:
        if table in self._tables:
            return True
        with self._writer.using() as connection:
            return tracked_rows.find(connection, table) is not None

    def has(self, table: str, row_id: str) -> bool:
        with self._writer.using() as connection:
            return tracked_rows.has_row(connection, table, row_id)

    def free_name(self) -> str:
        """Return an unused name. Names are reserved in growing batches."""
        while True:
            try:
                return self._free_names.pop()
            except IndexError:
                self._reserve_names()

    def _reserve_names(self) -> None:
        with self._writer.using() as connection:
            self._batch_size = min(2 * self._batch_size, MOST_NAMES)
            while len(self._free_names) < self._batch_size:
                name = new_name(self._names)
                self._names.add(name)
                if not tracked_rows.is_track_id_used(connection, name):
                    self._free_names.append(name)

    def note_cache(self, folder: Path) -> None:
        """Record a folder with cached results of this store, for commands that delete rows."""
        if folder in self._noted_caches:
            return
        with self._writer.using() as connection:
            tracked_rows.note_cache(connection, name_of_cache(folder, self.store.address))
        self._noted_caches.add(folder)

    def flush(self) -> None:
        """Sync all rows to disk, and to a DuckDB file unless another process has it open."""
        self._writer.flush()
        if self._follower is not None:
            self._follower.catch_up()

    def pause(self) -> None:
        """Close temporarily; the next use opens it again."""
        self._writer.close()
        if self._follower is not None and self._follower.stop():
            _outdated.add(self.store.address)

    def close(self) -> None:
        try:
            if self.is_current():
                self._writer.flush()
        finally:
            self._writer.close()
        if self._follower is not None and self._follower.stop():
            self._follower.catch_up(CLOSING_S)


class _Follower:
    """Updates a DuckDB file in a thread while rows are written."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._new = threading.Event()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name="abreast-duckdb", daemon=True)

    def start(self) -> None:
        if self._store.address in _outdated:
            _outdated.discard(self._store.address)
            self._new.set()
        self._thread.start()

    def notify(self) -> None:
        if not self._new.is_set():
            self._new.set()

    def catch_up(self, patience_s: float = OPEN_FOR_S) -> None:
        if self._lock.acquire(timeout=patience_s):
            try:
                if self._new.is_set():
                    self._new.clear()
                    self._store.materialise(patience_s)
            except StoreError:  # open elsewhere: the next round updates it
                self._new.set()
            finally:
                self._lock.release()

    def _work(self) -> None:
        rest = FOLLOW_S
        while True:
            self._new.wait()
            if self._closing.wait(rest):
                return
            began = time.monotonic()
            self.catch_up()
            rest = max(FOLLOW_S, 4 * (time.monotonic() - began))  # at most a fifth of the time

    def stop(self) -> bool:
        pending = self._new.is_set()
        self._closing.set()
        self._new.set()
        self._thread.join()
        return pending


_outdated: set[str] = set()  # DuckDB files that were not updated when their journal was paused
_journals: Shared[Journal] = Shared()


def use(path: str, engine: str | None, act: Callable[[Journal], Answer]) -> Answer:
    return _journals.use(path, lambda: Journal.open(path, engine), act)


IN_MEMORY = ":memory:"


def temporary_store(owner: object) -> str:
    """Return a path for a new store, which is removed with its owner or when this process ends."""
    import tempfile  # late: it imports much

    _journals.close_removed()
    folder = tempfile.mkdtemp(prefix="memory-", dir=driver_folder())
    weakref.finalize(owner, _remove, folder, os.getpid())
    return os.path.join(folder, "memory.db")  # noqa: PTH118 - a str is needed


def _remove(folder: str, process: int) -> None:
    import shutil  # late: it imports much

    if os.getpid() == process:  # a forked child has a tracker of the same store
        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):  # it contains another store
            Path(folder).parent.rmdir()
