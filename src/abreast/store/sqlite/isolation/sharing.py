"""Detection of files that another SQLite library in this process has open.

Python raises an audit event before `sqlite3` opens a file. The hook here waits until this process does not write to the
file, and marks it as shared; from then on only the helper process uses it. Libraries that raise no event (DuckDB's
SQLite extension, an `ATTACH` in an open connection) are detected by their file descriptor, the next time this process
opens the store.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import apsw

from abreast.store.sqlite.dialect import SQLITE

DESCRIPTORS = "/dev/fd"
JUST_OPENED_S = 1.0  # a file may have been announced but not opened yet


class SharedFile(Exception):
    """Another library has the file open; connect through the helper process."""


class _FileRegistry:
    """The files of this process by real path. A forked child, which has no connections, starts a new one."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.shared: set[str] = set()
        self.announced: dict[str, float] = {}
        self.connections: Counter[str] = Counter()
        self.gates: dict[str, threading.RLock] = {}


_state = _FileRegistry()
_parked: list[apsw.Connection] = []


def is_shared(file: str) -> bool:
    return file in _state.shared


def gate_of(file: str) -> threading.RLock:
    """The lock to hold while writing to the file, and while another library starts to open it."""
    with _state.lock:
        return _state.gates.setdefault(file, threading.RLock())


@contextmanager
def use(file: str, gate: threading.RLock) -> Iterator[None]:
    """Keep other libraries from opening the file. Raises `SharedFile` if one already has."""
    with gate:
        if file in _state.shared:
            raise SharedFile(file)
        yield


class SQLiteConnection(apsw.Connection):
    """A connection of apsw, as the store needs it."""

    dialect = SQLITE

    def dicts(self, sql: str, parameters: tuple[Any, ...] = (), /) -> list[dict[str, Any]]:
        cursor = self.cursor()
        names: list[str] = []

        def read_names(current: apsw.Cursor, row: Any) -> Any:
            if not names:  # only while a row is read, because a cursor without rows has no description
                names.extend(column[0] for column in current.get_description())
            return row

        cursor.row_trace = read_names
        return [dict(zip(names, row, strict=True)) for row in cursor.execute(sql, parameters)]


class LocalConnection(SQLiteConnection):
    """A connection in this process. Raises `SharedFile` if another library has the file open."""

    def __init__(self, path: Path, address: str, flags: int) -> None:
        self.file = os.path.realpath(path)
        self.gate = gate_of(self.file)
        with _state.lock:
            check_descriptors(self.file)
            _state.connections[self.file] += 1
        try:
            super().__init__(address, flags=flags)
        except BaseException:
            self._uncount()
            raise

    def close(self, force: bool = False) -> None:
        """Close it; leave it open and idle if closing would drop the locks of another library."""
        if is_shared(self.file):
            _parked.append(self)
        else:
            super().close(force)
            self._uncount()

    def _uncount(self) -> None:
        with _state.lock:
            _state.connections[self.file] -= 1


def check_descriptors(file: str) -> None:
    """Raise `SharedFile` if another library has the file open. The first open detects one that raised no event."""
    state = _state
    with state.lock:
        if file not in state.shared and not state.connections[file]:
            announced = state.announced.get(file)
            is_recent = announced is not None and time.monotonic() - announced < JUST_OPENED_S
            if is_recent or _is_open(file):
                state.shared.add(file)
        if file in state.shared:
            raise SharedFile(file)


def _is_open(file: str) -> bool:
    """Whether a descriptor of this process refers to the file."""
    with suppress(OSError):
        identity = Path(file).stat()
        for descriptor in Path(DESCRIPTORS).iterdir():
            with suppress(OSError):
                if os.path.samestat(os.fstat(int(descriptor.name)), identity):
                    return True
    return False


def _on_audit_event(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "sqlite3.connect":
        with suppress(Exception):  # an error here must not fail the caller's sqlite3.connect
            _share(_real_path(arguments[0]))


def _real_path(database: Any) -> str:
    """The real path of the file that `sqlite3.connect` opens, which may be a URI."""
    name = os.fsdecode(database)
    if name.startswith("file:"):
        name = unquote(name.removeprefix("file:").partition("?")[0].partition("#")[0])
        if name.startswith("//"):
            name = "/" + name[2:].partition("/")[2]
    return os.path.realpath(name)


def _share(file: str) -> None:
    """Mark a file as shared if this process uses it, once no write is in progress."""
    state = _state
    with state.lock:
        state.announced[file] = time.monotonic()
        gate = state.gates.get(file)
    if gate is not None:
        with gate, state.lock:
            if state.connections[file]:
                state.shared.add(file)


def _reset_in_child() -> None:
    global _state
    _state = _FileRegistry()


sys.addaudithook(_on_audit_event)
os.register_at_fork(after_in_child=_reset_in_child)
