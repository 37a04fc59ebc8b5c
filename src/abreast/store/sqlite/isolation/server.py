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
    """One connection, and the cursors that have more rows."""

    def __init__(self) -> None:
        self.connection: Any = None
        self.cursors: dict[int, Any] = {}
        self.numbers = count(1)

    def close(self) -> None:
        self.cursors.clear()
        if self.connection is not None:
            self.connection.close()
            self.connection = None


def connect(session: Session, opening: Callable[[Path], Any], path: Path) -> None:
    session.connection = opening(path)


def evaluate(_session: Session, function: Callable[..., Any], arguments: Sequence[Any]) -> Any:
    return function(*arguments)


def execute(session: Session, sql: str, parameters: Any) -> tuple[list[Any], int | None]:
    number = next(session.numbers)
    session.cursors[number] = session.connection.execute(sql, parameters)
    return fetch(session, number)


def fetch(session: Session, number: int) -> tuple[list[Any], int | None]:
    """The next rows of a cursor, and its number if there may be more."""
    cursor = session.cursors.pop(number)
    rows = list(islice(cursor, CHUNK))
    if len(rows) < CHUNK:
        return rows, None
    session.cursors[number] = cursor
    return rows, number


def executemany(session: Session, sql: str, rows: Sequence[Any]) -> None:
    session.connection.executemany(sql, rows)


def call(session: Session, method: str, *arguments: Any) -> Any:
    return getattr(session.connection, method)(*arguments)


def read(session: Session, attribute: str) -> Any:
    return getattr(session.connection, attribute)


def close(session: Session) -> None:
    session.close()


_OF_SESSION = {connect, evaluate, execute, fetch, executemany, call, read, close}


def _serve(channel: Channel) -> None:
    from multiprocessing.reduction import ForkingPickler  # late: the other process imports this module too

    session = Session()
    try:
        while True:
            function, arguments = channel.recv()
            subject = session if function in _OF_SESSION else session.connection
            try:
                answer = ForkingPickler.dumps((True, function(subject, *arguments)))
            except Exception as error:  # noqa: BLE001 - raised in the other process
                answer = ForkingPickler.dumps((False, error))
            channel.send_bytes(answer)
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
