"""What an engine implements: a connection, its dialect, and how its store is opened, committed to and read."""

from __future__ import annotations

import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

from abreast.errors import StoreError
from abreast.store.dialect import Dialect
from abreast.store.user_tables import tracked_rows

OPEN_FOR_S = 2.0  # how long to wait for a file that another process has open


class LeaseLost(StoreError):
    """The run is another process's now, or nobody's: what is in flight is of no use any more."""


class RowTooLarge(StoreError):
    """The row is larger than the engine can store."""


class Closed(StoreError):
    """The connection was closed, or its file removed, before the work was done: do it again on a new one."""


class StoreVanished(StoreError):
    """The file of the store was deleted or replaced during a run. `copy` has everything that was stored, if it could
    be saved."""

    def __init__(self, message: str, fix: str = "", copy: Path | None = None) -> None:
        super().__init__(message, fix)
        self.copy = copy


class Connection(Protocol):
    """A connection of an engine. Rows are tuples of None, int, float, str and bytes."""

    @property
    def dialect(self) -> Dialect: ...

    def execute(self, sql: str, parameters: Any = ..., /) -> Any:
        """Run a statement; the answer is an iterator of its rows, with `fetchall`."""

    def executemany(self, sql: str, rows: Iterable[Any], /) -> Any: ...

    def dicts(self, sql: str, parameters: tuple[Any, ...] = ..., /) -> list[dict[str, Any]]: ...

    def changes(self) -> int:
        """How many rows the last statement changed."""

    def total_changes(self) -> int:
        """How many rows all statements of this connection changed."""

    def close(self) -> None: ...


class WriterConnection(ABC):
    """What a `Writer` keeps open while a run writes."""

    unstorable: tuple[type[Exception], ...]  # raised for rows that cannot be stored, whatever the state of the disk

    def now(self) -> float:
        """The time by the clock of the store."""
        return time.time()

    @abstractmethod
    def commit(self, work: Callable[[Connection], None]) -> None:
        """Do all of the work in one transaction, or nothing of it; the work may be begun again. When this returns, it
        survives the end of the process and of the machine."""

    @abstractmethod
    def explain(self, error: Exception) -> StoreError: ...

    @abstractmethod
    def close(self) -> None: ...


class TrackedWriter(ABC):
    """What the trackers of a process write with, shared by its threads. Opened by `Database.open_tracked_writer`."""

    @abstractmethod
    def using(self) -> AbstractContextManager[Connection]:
        """The connection, for one thread at a time. A statement outside of `transaction` commits by itself.

        Raises `Closed`, at the beginning or the end, if the rows may not be where the next reader looks for them: do
        the work again with a new writer."""

    @abstractmethod
    def transaction(self) -> AbstractContextManager[Connection]:
        """The same, for work that is committed at its end, all or nothing."""

    def committed(self) -> None:
        """Called after each commit, while the connection is in use: begin to take it to the disk, without waiting."""
        return

    @abstractmethod
    def flush(self) -> None:
        """Wait until everything that was committed survives the end of the machine, and complete the store."""

    @abstractmethod
    def is_current(self) -> bool:
        """Whether it is open, and the address still names what was opened."""

    @abstractmethod
    def close(self) -> None:
        """Close it once everything that was committed is on the disk."""


class Database(ABC):
    """Where rows are kept, and how they are read and changed in SQL."""

    engine: ClassVar[str]
    derives_files: ClassVar[bool] = False  # whether there is something to `materialise`

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def at(cls, address: str) -> Self:
        """The store at an address: a file, unless the engine understands other addresses."""
        return cls(Path(address))

    @property
    def journal(self) -> Path:
        """The file that holds the truth."""
        return self.path

    def anchor(self) -> None:
        """Make a relative path absolute: functions of the user may change the working folder."""
        self.path = self.path.absolute()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def now(self) -> float:
        """The time by the clock of the store, in seconds since 1970. Heartbeats are compared with it."""
        return time.time()

    # -- what an engine implements ---------------------------------------------------------------------------------

    @abstractmethod
    def exists(self) -> bool:
        """Whether a run has ever begun here; refuses files of others."""

    @abstractmethod
    def close(self) -> None:
        """Let go of what is open, and complete the file. The store can be used again."""

    @abstractmethod
    def open_reader(self) -> Connection:
        """A new connection that can change nothing. A store of an older version is brought up to date."""

    @abstractmethod
    def reading(self) -> Connection:
        """The connection that this object reads with."""

    @abstractmethod
    def snapshot(self, in_place: bool = True) -> AbstractContextManager[Connection]:
        """One moment of the store, whatever is written meanwhile. Without `in_place` the store of an older version is
        brought up to date in a copy."""

    @abstractmethod
    def change(self) -> AbstractContextManager[Connection]:
        """One transaction: all or nothing of it, on disk when it ends."""

    @abstractmethod
    def open_writer(self, on_moved: Callable[[StoreVanished], None]) -> WriterConnection:
        """A connection for a `Writer`. `on_moved` is called if it goes on in a copy because its file was removed."""

    @abstractmethod
    def open_tracked_writer(self) -> TrackedWriter:
        """A writer for rows of trackers. The store is made if it does not exist."""

    @abstractmethod
    def explaining(self) -> AbstractContextManager[None]:
        """Raise errors of the engine as `StoreError`, with one sentence and one way out."""

    @abstractmethod
    def sql(self, query: str, write: bool = False) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Column names and rows of a user's own query in the engine's own SQL; `db.predictions` is `predictions`."""

    def materialise(self, patience_s: float = OPEN_FOR_S) -> None:
        """Bring files that are derived from the rows up to date."""
        return

    def following(self) -> AbstractContextManager[None]:
        """Keep derived files up to date while a run writes."""
        return nullcontext()

    # -- the same for every engine ---------------------------------------------------------------------------------

    def rows(self, sql: str, parameters: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """The rows of a query, as tuples."""
        with self.explaining():
            rows: list[tuple[Any, ...]] = self.reading().execute(sql, parameters).fetchall()
            return rows

    def dicts(self, sql: str, parameters: tuple[Any, ...] = ()) -> list[dict[str, Any]]:
        """The rows of a query, as dictionaries."""
        with self.explaining():
            return self.reading().dicts(sql, parameters)

    def stream(self, sql: str, parameters: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
        """The rows of a query one by one, for what is too large to hold; on a connection of its own."""
        with self._answer(sql, parameters) as answer:
            yield from answer

    def chunks(self, sql: str, parameters: tuple[Any, ...] = (), size: int = 10_000) -> Iterator[list[tuple[Any, ...]]]:
        """The rows of a query so many at a time: for what is read whole, a third faster than one by one."""
        with self._answer(sql, parameters) as answer:
            while chunk := list(islice(answer, size)):
                yield chunk

    @contextmanager
    def _answer(self, sql: str, parameters: tuple[Any, ...]) -> Iterator[Iterator[tuple[Any, ...]]]:
        with closing(self.open_reader()) as connection, self.explaining():
            yield connection.execute(sql, parameters)

    def tracked_that_loses(self, query: str) -> str | None:
        """The table of the user's own that this one DELETE is about: plain enough to need no further word."""
        is_delete = query.lstrip()[:6].lower() == "delete" and ";" not in query.rstrip().rstrip(";")
        table = changed_table(query) if is_delete else None
        known = {name.lower(): name for name in tracked_rows.names(self.reading())} if table else {}
        return known.get(table.lower()) if table else None


_CHANGE = re.compile(
    r"\s*(?:delete\s+from|update|insert(?:\s+or\s+\w+)?\s+into|replace\s+into)\s+"
    r"(?:(?:db|main)\s*\.\s*)?(?:\"(?P<quoted>[^\"]+)\"|(?P<plain>\w+))",
    re.IGNORECASE,
)


def changed_table(query: str) -> str | None:
    """The table whose rows a statement changes.

    >>> changed_table('DELETE FROM db.predictions WHERE x = 1'), changed_table("select 1")
    ('predictions', None)
    """
    match = _CHANGE.match(query)
    return match and (match["quoted"] or match["plain"])
