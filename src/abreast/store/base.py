"""The engine interface: connections, writers, and opening, reading and changing a store."""

from __future__ import annotations

import re
import shlex
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from abreast.errors import StoreError
from abreast.store.address import without_password
from abreast.store.dialect import Dialect
from abreast.store.user_tables import tracked_rows

if TYPE_CHECKING:
    from abreast.store.user_state.quota_ledger import Ledger
    from abreast.store.user_tables.assets import Assets

OPEN_FOR_S = 2.0  # how long to wait for a file that another process has locked


class LeaseLost(StoreError):
    """The run was deleted or taken over by another process; results of trials in flight are discarded."""


class RowTooLarge(StoreError):
    """The row is larger than the engine can store."""


class NoConnection(StoreError):
    """The server of the store cannot be reached at present."""


class Closed(StoreError):
    """The connection was closed, or its file removed, before the work was done; retry it on a new connection."""


class StoreVanished(StoreError):
    """The file of the store was deleted or replaced during a run. `copy` holds all stored rows, if they could be
    saved."""

    def __init__(self, message: str, fix: str = "", copy: Path | None = None) -> None:
        super().__init__(message, fix)
        self.copy = copy


class Connection(Protocol):
    """A database connection. Rows are tuples of None, int, float, str and bytes."""

    @property
    def dialect(self) -> Dialect: ...

    def execute(self, sql: str, parameters: Any = ..., /) -> Any:
        """Run a statement; returns an iterator of rows with a `fetchall` method."""

    def executemany(self, sql: str, rows: Iterable[Any], /) -> Any: ...

    def dicts(self, sql: str, parameters: tuple[Any, ...] = ..., /) -> list[dict[str, Any]]: ...

    def changes(self) -> int:
        """Number of rows that the last statement changed."""

    def total_changes(self) -> int:
        """Number of rows changed by all statements of this connection."""

    def close(self) -> None: ...


class WriterConnection(ABC):
    unstorable: tuple[type[Exception], ...]  # raised for rows that can never be stored, whatever the state of the disk

    def now(self) -> float:
        """The time by the store's clock."""
        return time.time()

    @abstractmethod
    def commit(self, work: Callable[[Connection], None]) -> None:
        """Do the work in one transaction, which is durable when this returns. The work may be called more than once."""

    def hurry(self) -> None:
        """Called when the run is ending: soon give up what cannot be committed."""
        return

    @abstractmethod
    def explain(self, error: Exception) -> StoreError: ...

    @abstractmethod
    def close(self) -> None: ...


class TrackedWriter(ABC):
    """The writer that all trackers and threads of a process share. Opened by `Database.open_tracked_writer`."""

    @abstractmethod
    def using(self) -> AbstractContextManager[Connection]:
        """Lend the connection to one thread at a time. A statement outside `transaction` commits by itself.

        Raises `Closed`, on entry or exit, if later readers may not find the rows: retry the work with a new writer."""

    @abstractmethod
    def transaction(self) -> AbstractContextManager[Connection]:
        """Like `using`, in one transaction that is committed at its end."""

    def committed(self) -> None:
        """Called after each commit, while the connection is in use: start to sync it to disk, without waiting."""
        return

    @abstractmethod
    def flush(self) -> None:
        """Wait until everything committed is durable, and complete the file of the store."""

    @abstractmethod
    def is_current(self) -> bool:
        """Whether it is open, and the address still refers to the same database."""

    @abstractmethod
    def close(self) -> None:
        """Close it once everything committed is durable."""


class Database(ABC):
    """A database with rows that are read and changed in SQL."""

    engine: ClassVar[str]
    derives_files: ClassVar[bool] = False  # whether `materialise` does anything

    def __init__(self, address: str, folder: Path | None = None) -> None:
        self.address = without_password(address)  # the argument of `open_store`, also for messages
        self.folder = Path.cwd() if folder is None else folder  # of reports and exported results, unless users name one

    @property
    def quoted_address(self) -> str:
        """The address in a shell command."""
        return shlex.quote(self.address)

    @classmethod
    def at(cls, address: str) -> Self:
        """Return the store at an address, which may contain a password."""
        return cls(address)

    def anchor(self) -> None:
        """Make a relative path absolute: user functions may change the working directory."""
        return

    def identity(self) -> object:
        """Identity of the database; equal for all objects that refer to it."""
        return self.address

    def is_same(self, other: Database) -> bool:
        return self.identity() == other.identity()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def now(self) -> float:
        """The time by the store's clock, in seconds since 1970. Heartbeats are compared with it."""
        return time.time()

    # -- what an engine implements ---------------------------------------------------------------------------------

    @property
    @abstractmethod
    def assets(self) -> Assets:
        """The objects that trackers stored."""

    def quota_ledger(self) -> Ledger:
        """Return the ledger of calls to accounts with a quota, of the user or the team that shares the database."""
        from abreast.store.user_state.quota_ledger import FileLedger

        return FileLedger()

    @abstractmethod
    def exists(self) -> bool:
        """Whether the store was ever written to. Raises if the file belongs to another program."""

    def is_missing(self) -> bool:
        """Whether nothing exists at the address, neither a store nor anything else."""
        return not self.exists()

    def is_read_only(self) -> bool:
        """Whether only `sql` can use the store."""
        return False

    @abstractmethod
    def close(self) -> None:
        """Close all connections and complete the file. The store can be used again."""

    @abstractmethod
    def open_reader(self) -> Connection:
        """Open a read-only connection. Migrates a store of an older version."""

    @abstractmethod
    def reading(self) -> Connection:
        """Return the connection that this object reads with, opened on demand."""

    @abstractmethod
    def snapshot(self, in_place: bool = True) -> AbstractContextManager[Connection]:
        """Read a consistent snapshot. Unless `in_place`, a store of an older version is migrated in a copy."""

    @abstractmethod
    def change(self) -> AbstractContextManager[Connection]:
        """Run one transaction, durable when it ends. Only one process at a time is in a `change`."""

    @abstractmethod
    def open_writer(
        self, on_moved: Callable[[StoreVanished], None], on_outage: Callable[[StoreError | None], None]
    ) -> WriterConnection:
        """Open the connection of a `Writer`. `on_moved` is called if the file vanishes and it continues in a copy,
        `on_outage` with the error if a server cannot be reached for a while, and with None when it is back."""

    @abstractmethod
    def open_tracked_writer(self) -> TrackedWriter:
        """Open a writer for trackers. Creates the store if it does not exist."""

    @abstractmethod
    def explaining(self) -> AbstractContextManager[None]:
        """Raise errors of the engine as `StoreError`."""

    @abstractmethod
    def wait_for_change(self, seconds: float) -> bool:
        """Wait until rows may have changed since the previous call, by any process; False if none did in this time."""

    @abstractmethod
    def sql(self, query: str, write: bool = False) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Run a user's query in the engine's SQL; return names and rows. `db.predictions` means `predictions`."""

    def materialise(self, patience_s: float = OPEN_FOR_S) -> None:
        """Update files that are derived from the rows."""
        return

    def following(self) -> AbstractContextManager[None]:
        """Keep derived files updated while a run writes."""
        return nullcontext()

    # -- shared by all engines -------------------------------------------------------------------------------------

    def rows(self, sql: str, parameters: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        with self.explaining():
            rows: list[tuple[Any, ...]] = self.reading().execute(sql, parameters).fetchall()
            return rows

    def dicts(self, sql: str, parameters: tuple[Any, ...] = ()) -> list[dict[str, Any]]:
        with self.explaining():
            return self.reading().dicts(sql, parameters)

    def stream(self, sql: str, parameters: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query one by one, on a separate connection: for results that do not fit in memory."""
        with self._answer(sql, parameters) as answer:
            yield from answer

    def chunks(self, sql: str, parameters: tuple[Any, ...] = (), size: int = 10_000) -> Iterator[list[tuple[Any, ...]]]:
        """Yield the rows of a query in lists: a third faster than one by one."""
        with self._answer(sql, parameters) as answer:
            while chunk := list(islice(answer, size)):
                yield chunk

    @contextmanager
    def _answer(self, sql: str, parameters: tuple[Any, ...]) -> Iterator[Iterator[tuple[Any, ...]]]:
        with closing(self.open_reader()) as connection, self.explaining():
            yield connection.execute(sql, parameters)

    def deletable_table(self, query: str) -> str | None:
        """Return the tracked table from which a query of one DELETE removes rows; it is allowed without `--write`."""
        is_delete = query.lstrip()[:6].lower() == "delete" and ";" not in query.rstrip().rstrip(";")
        table = changed_table(query) if is_delete else None
        tables = {name.lower(): name for name in tracked_rows.names(self.reading())} if table else {}
        return tables.get(table.lower()) if table else None


_CHANGE = re.compile(
    r"\s*(?:delete\s+from|update|insert(?:\s+or\s+\w+)?\s+into|replace\s+into)\s+"
    r"(?:(?:db|main)\s*\.\s*)?(?:\"(?P<quoted>[^\"]+)\"|(?P<plain>\w+))",
    re.IGNORECASE,
)


def changed_table(query: str) -> str | None:
    """Return the table whose rows a statement changes.

    >>> changed_table('DELETE FROM db.predictions WHERE x = 1'), changed_table("select 1")
    ('predictions', None)
    """
    match = _CHANGE.match(query)
    return match and (match["quoted"] or match["plain"])
