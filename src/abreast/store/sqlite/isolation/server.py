"""The helper process: holds connections for the process that started it, and ends with it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from multiprocessing.connection import Connection as Channel

CHUNK = 10_000  # rows sent at a time


class Session:
    """One connection, and its cursors that have more rows. The other process calls the methods by name."""

    def __init__(self) -> None:
        self.connection: Any = None
        self._cursors: dict[int, Any] = {}
        self._numbers = count(1)

    def connect(self, opening: Callable[[Path], Any], path: Path) -> None:
        self.connection = opening(path)

    def execute(self, sql: str, parameters: Any) -> tuple[list[Any], int | None]:
        number = next(self._numbers)
        self._cursors[number] = self.connection.execute(sql, parameters)
        return self.fetch(number)

    def fetch(self, number: int) -> tuple[list[Any], int | None]:
        """Return the next rows of a cursor, and its number if there may be more."""
        cursor = self._cursors.pop(number)
        rows = list(islice(cursor, CHUNK))
        if len(rows) < CHUNK:
            return rows, None
        self._cursors[number] = cursor
        return rows, number

    def executemany(self, sql: str, rows: Sequence[Any]) -> None:
        self.connection.executemany(sql, rows)

    def call(self, method: str, *arguments: Any) -> Any:
        return getattr(self.connection, method)(*arguments)

    def read(self, attribute: str) -> Any:
        return getattr(self.connection, attribute)

    def evaluate(self, function: Callable[..., Any], arguments: Sequence[Any]) -> Any:
        return function(*arguments)

    def close(self) -> None:
        self._cursors.clear()
        if self.connection is not None:
            self.connection.close()
            self.connection = None


def _serve(channel: Channel) -> None:
    from multiprocessing.reduction import ForkingPickler  # late: the other process imports this module too

    session = Session()
    try:
        while True:
            function, arguments = channel.recv()
            try:
                if isinstance(function, str):
                    result = getattr(session, function)(*arguments)
                else:
                    result = function(session.connection, *arguments)
                response = ForkingPickler.dumps((True, result))
            except Exception as error:  # noqa: BLE001 - raised in the other process
                response = ForkingPickler.dumps((False, error))
            channel.send_bytes(response)
    except (EOFError, OSError):  # the other process closed it, or ended
        pass
    finally:
        session.close()


def main(control: int) -> None:
    """Serve every channel that comes through the control socket, until its other end is closed."""
    import socket
    from multiprocessing.connection import Connection as Channel

    with socket.socket(fileno=control) as incoming:
        while True:
            message, descriptors, _, _ = socket.recv_fds(incoming, 1, 1)
            if not message:
                return
            channel = Channel(descriptors[0])
            threading.Thread(target=_serve, args=(channel,)).start()
