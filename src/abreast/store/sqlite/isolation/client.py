"""Connections that a helper process holds for this one."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from abreast.errors import StoreError
from abreast.store.base import Closed
from abreast.store.sqlite.dialect import SQLITE
from abreast.store.sqlite.isolation import server

if TYPE_CHECKING:
    import socket
    import subprocess
    from multiprocessing.connection import Connection as Channel

ENDS_WITHIN_S = 10.0
_connections: weakref.WeakSet[RemoteConnection] = weakref.WeakSet()


class RemoteConnection:
    """What the store uses of `SQLiteConnection`, for a connection in the helper process."""

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

    def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function of a module in the helper, with its connection as the first argument."""
        with self._lock:
            if self._is_waiting and self._opening is not None:
                if self._spare is None:
                    self._spare = connect(self._opening, self._path)
                return self._spare.run(function, *arguments)
            succeeded, answer = self._ask(function, arguments)
        if succeeded:
            return answer
        raise answer

    def _ask(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[bool, Any]:
        try:
            self._is_waiting = True
            self._channel.send((function, arguments))
            succeeded, answer = self._channel.recv()
            return succeeded, answer
        except BaseException as error:  # also Ctrl-C: an answer that is read later would be the wrong one
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
        """Close the channel; the helper rolls back what is not committed."""
        self._channel.close()

    def execute(self, sql: str, parameters: Any = ()) -> RemoteCursor:
        return RemoteCursor(self, *self.run(server.execute, sql, parameters))

    def executemany(self, sql: str, rows: Iterable[Any]) -> None:
        self.run(server.executemany, sql, list(rows))

    def dicts(self, sql: str, parameters: tuple[Any, ...] = (), /) -> list[dict[str, Any]]:
        return list(self.run(server.call, "dicts", sql, parameters))

    def pragma(self, name: str) -> Any:
        return self.run(server.call, "pragma", name)

    def changes(self) -> int:
        return int(self.run(server.call, "changes"))

    def total_changes(self) -> int:
        return int(self.run(server.call, "total_changes"))

    def config(self, *arguments: int) -> Any:
        return self.run(server.call, "config", *arguments)

    def set_busy_timeout(self, milliseconds: int) -> None:
        self.run(server.call, "set_busy_timeout", milliseconds)

    def set_busy_handler(self, handler: Callable[[int], bool]) -> None:
        self.run(server.call, "set_busy_handler", handler)

    @property
    def in_transaction(self) -> bool:
        return bool(self.run(server.read, "in_transaction"))

    @property
    def filename_wal(self) -> str:
        return str(self.run(server.read, "filename_wal"))

    def set_authorizer(self, authorizer: Callable[..., int]) -> None:
        self.run(server.call, "set_authorizer", authorizer)

    def close(self) -> None:
        if not self._channel.closed:
            with suppress(Closed):
                self.run(server.close)
            self._channel.close()


def as_remote(connection: object) -> RemoteConnection | None:
    return connection if isinstance(connection, RemoteConnection) else None


class RemoteCursor:
    """The rows of a statement; those after the first chunk are fetched as they are needed."""

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
            rows, self._cursor = self._connection.run(server.fetch, self._cursor)
            self._rows = iter(rows)

    def fetchall(self) -> list[tuple[Any, ...]]:
        return list(self)


class _HelperProcess:
    """The helper process, started when it is first needed; it ends with this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def connect(self) -> Channel:
        """A new channel to the helper."""
        import socket  # late: a helper is rarely needed
        from multiprocessing.connection import Connection as Channel

        ours, theirs = socket.socketpair()
        with theirs, self._lock:
            for _ in range(2):
                if self._control is None:
                    self._control = self._start()
                try:
                    socket.send_fds(self._control, [b"\0"], [theirs.fileno()])
                    return Channel(ours.detach())
                except OSError:  # it was killed
                    self._stop()
        ours.close()
        raise StoreError("the helper process that writes the store ends at once", "look at its message above")

    def _start(self) -> socket.socket:
        import socket
        import subprocess

        if not sys.executable:
            raise StoreError(
                "the store is open in another SQLite library of this process, and Python's executable is unknown",
                "set sys.executable, or open the store in another process",
            )
        ours, theirs = socket.socketpair()
        with theirs:
            script = (
                f"import sys; sys.path[:] = {sys.path!r}; "
                f"from abreast.store.sqlite.isolation.server import main; main({theirs.fileno()})"
            )
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", script],
                stdin=subprocess.DEVNULL,
                env={name: value for name, value in os.environ.items() if not name.startswith("ABREAST_")},
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C is for this process, which then closes its connections
            )
        return ours

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
        """In a forked child: the helper and its connections belong to the parent."""
        if self._process is not None:
            self._process.returncode = 0
            self._process = None
        self._lock = threading.Lock()
        self._stop()
        for connection in list(_connections):
            connection.abandon()


_helper = _HelperProcess()
atexit.register(_helper.end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_helper.forget)


def connect(opening: Callable[[Path], Any], path: Path) -> RemoteConnection:
    """Open a connection in the helper process, by a function of a module."""
    connection = RemoteConnection(_helper.connect(), path, opening)
    connection.run(server.connect, opening, path.absolute())
    return connection


def run(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of a module in the helper process."""
    connection = RemoteConnection(_helper.connect(), Path())
    try:
        return connection.run(server.evaluate, function, arguments)
    finally:
        connection.close()
