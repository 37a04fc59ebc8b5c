"""Connections that live in a helper process."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from abreast.errors import StoreError
from abreast.store.base import Closed
from abreast.store.sqlite.dialect import SQLITE

if TYPE_CHECKING:
    import socket
    import subprocess
    from multiprocessing.connection import Connection as Channel

ENDS_WITHIN_S = 10.0
_connections: weakref.WeakSet[RemoteConnection] = weakref.WeakSet()


class RemoteConnection:
    """A connection in the helper process, with the parts of `SQLiteConnection` that the store uses."""

    dialect = SQLITE

    def __init__(self, channel: Channel, path: Path, opening: Callable[[Path], Any] | None = None) -> None:
        self._channel = channel
        self._path = path
        self._opening = opening
        self._lock = threading.RLock()
        self._is_waiting = False
        self._spare: RemoteConnection | None = None  # for a signal handler in the middle of a call
        _connections.add(self)

    @property
    def is_closed(self) -> bool:
        return self._channel.closed

    def run(self, function: str | Callable[..., Any], *arguments: Any) -> Any:
        with self._lock:
            if self._is_waiting and self._opening is not None:
                if self._spare is None:
                    self._spare = connect(self._opening, self._path)
                return self._spare.run(function, *arguments)
            succeeded, result = self._request(function, arguments)
        if succeeded:
            return result
        raise result

    def _request(self, function: str | Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[bool, Any]:
        try:
            self._is_waiting = True
            self._channel.send((function, arguments))
            succeeded, result = self._channel.recv()
            return succeeded, result
        except BaseException as error:  # also Ctrl-C: a response that is read later would be the wrong one
            self.abandon()
            if isinstance(error, EOFError | OSError):
                raise Closed(f"{self._path}: the helper process ended") from error
            raise
        finally:
            self._is_waiting = False
            if self._spare is not None:
                self._spare.close()
                self._spare = None

    def abandon(self) -> None:
        """Close the channel; the helper rolls back an open transaction."""
        self._channel.close()

    def execute(self, sql: str, parameters: Any = ()) -> RemoteCursor:
        return RemoteCursor(self, *self.run("execute", sql, parameters))

    def executemany(self, sql: str, rows: Iterable[Any]) -> None:
        self.run("executemany", sql, list(rows))

    def __getattr__(self, method: str) -> Callable[..., Any]:
        """Return any other method of `SQLiteConnection`, which is called in the helper."""
        return partial(self.run, "call", method)

    @property
    def in_transaction(self) -> bool:
        return bool(self.run("read", "in_transaction"))

    @property
    def filename_wal(self) -> str:
        return str(self.run("read", "filename_wal"))

    def close(self) -> None:
        if not self._channel.closed:
            with suppress(Closed):
                self.run("close")
            self._channel.close()


class RemoteCursor:
    """The rows of a statement; rows after the first chunk are fetched when needed."""

    def __init__(self, connection: RemoteConnection, rows: list[tuple[Any, ...]], cursor: int | None) -> None:
        self._connection, self._cursor = connection, cursor
        self._rows = iter(rows)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return self

    def __next__(self) -> tuple[Any, ...]:
        while True:
            for row in self._rows:
                return row
            if self._cursor is None:
                raise StopIteration
            rows, self._cursor = self._connection.run("fetch", self._cursor)
            self._rows = iter(rows)

    def fetchall(self) -> list[tuple[Any, ...]]:
        return list(self)


class _HelperProcess:
    """The helper process, started when first needed; it ends with this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def connect(self) -> Channel:
        """Open a channel to the helper."""
        import socket  # late: a helper is rarely needed
        from multiprocessing.connection import Connection as Channel

        own_end, helper_end = socket.socketpair()
        with helper_end, self._lock:
            for _ in range(2):
                if self._control is None:
                    self._control = self._start()
                try:
                    socket.send_fds(self._control, [b"\0"], [helper_end.fileno()])
                    return Channel(own_end.detach())
                except OSError:  # it was killed
                    self._stop()
        own_end.close()
        raise StoreError("the helper process that writes the store exits at once", "see its message above")

    def _start(self) -> socket.socket:
        import socket
        import subprocess

        if not sys.executable:
            raise StoreError(
                "another SQLite library in this process has the store open, and `sys.executable` is not set",
                "set `sys.executable`, or open the store in another process",
            )
        own_end, helper_end = socket.socketpair()
        with helper_end:
            script = (
                f"import sys; sys.path[:] = {sys.path!r}; "
                f"from abreast.store.sqlite.isolation.server import main; main({helper_end.fileno()})"
            )
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", script],
                stdin=subprocess.DEVNULL,
                env={name: value for name, value in os.environ.items() if not name.startswith("ABREAST_")},
                pass_fds=[helper_end.fileno()],
                start_new_session=True,  # Ctrl-C is for this process, which then closes its connections
            )
        return own_end

    def _stop(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            import subprocess

            with suppress(subprocess.TimeoutExpired):
                self._process.wait(ENDS_WITHIN_S)
            self._process = None

    def end(self) -> None:
        with self._lock:
            self._stop()

    def forget(self) -> None:
        """Drop the helper in a forked child: it belongs to the parent."""
        if self._process is not None:
            self._process.returncode = 0
            self._process = None
        self._lock = threading.Lock()
        self._stop()
        for connection in list(_connections):
            connection.abandon()


_helper = _HelperProcess()
atexit.register(_helper.end)
os.register_at_fork(after_in_child=_helper.forget)


def connect(opening: Callable[[Path], Any], path: Path) -> RemoteConnection:
    """Open a connection in the helper process with a module-level function."""
    connection = RemoteConnection(_helper.connect(), path, opening)
    connection.run("connect", opening, path.absolute())
    return connection


def run(function: Callable[..., Any], *arguments: Any) -> Any:
    connection = RemoteConnection(_helper.connect(), Path())
    try:
        return connection.run("evaluate", function, arguments)
    finally:
        connection.close()
