"""Connections to PostgreSQL through `psycopg`, and explanations of its errors."""

from __future__ import annotations

import os
import re
import select
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from itertools import chain
from typing import Any

import psycopg
from psycopg import errors
from psycopg.adapt import AdaptersMap, Dumper, Loader
from psycopg.conninfo import conninfo_to_dict
from psycopg.types import bool as bools
from psycopg.types import none, numeric, string

from abreast.errors import StoreError
from abreast.redaction import declare_secret
from abreast.store.address import without_password
from abreast.store.base import NoConnection, RowTooLarge
from abreast.store.postgres.dialect import POSTGRES, ROWS_AT_ONCE, SCHEMA

CONNECT_S = 10
# Either side notices within 15 seconds, instead of two hours, that the other is lost: a lost session may hold locks.
_KEEPALIVES = {"keepalives_idle": 5, "keepalives_interval": 3, "keepalives_count": 3}
_DEFAULTS = {"connect_timeout": CONNECT_S, "application_name": "abreast", "tcp_user_timeout": 15_000, **_KEEPALIVES}
_SESSION = {
    "search_path": SCHEMA,
    "cursor_tuple_fraction": 1,
    "default_transaction_isolation": "'read committed'",  # what waits for a lock must see what its holder committed
    **{f"tcp_{name}": value for name, value in _KEEPALIVES.items()},
}
_STREAMED_BYTES = 4_000_000  # of text per fetch
_MOST_FETCHED = 5_000  # rows per fetch
_CHANGES = ("INSERT", "UPDATE", "DELETE")
_QUERY = re.compile(r"\n(?:LINE \d+|CONTEXT):")  # what follows in a message shows the query
_TOKEN = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|\?""")


class _Text(string.StrDumperUnknown):
    """Text whose SQL type PostgreSQL infers from the statement. It cannot store NUL; `␀` replaces it."""

    def dump(self, obj: str) -> Any:
        return super().dump(obj.replace("\0", "␀") if "\0" in obj else obj)


class _Number(Dumper):
    """A number whose SQL type PostgreSQL infers from the statement."""

    def dump(self, obj: float) -> bytes:
        return repr(obj).encode()


class _Boolean(Dumper):
    def dump(self, obj: bool) -> bytes:
        return b"1" if obj else b"0"


class _Bytes(Dumper):
    def dump(self, obj: bytes) -> bytes:
        return b"\\x" + obj.hex().encode()


class _DecimalLoader(Loader):
    """Loads sums and means, which PostgreSQL computes as decimals, as int or float."""

    def load(self, data: Any) -> float:
        text = bytes(data).decode()
        return int(text) if text.lstrip("-").isdecimal() else float(text)


def _adapters(numbers: dict[type, type[Dumper]]) -> AdaptersMap:
    adapters = AdaptersMap(types=psycopg.adapters.types)
    adapters.register_dumper(str, _Text)
    adapters.register_dumper(bytes, _Bytes)
    adapters.register_dumper(bool, _Boolean)
    adapters.register_dumper(type(None), none.NoneDumper)
    for kind, dumper in numbers.items():
        adapters.register_dumper(kind, dumper)
    adapters.register_loader(0, string.TextLoader)  # types not listed below
    for name in ("int2", "int4", "int8", "oid"):
        adapters.register_loader(name, numeric.IntLoader)
    for name in ("float4", "float8"):
        adapters.register_loader(name, numeric.FloatLoader)
    adapters.register_loader("numeric", _DecimalLoader)
    adapters.register_loader("bool", bools.BoolLoader)
    adapters.register_loader("bytea", string.ByteaLoader)
    return adapters


_FLEXIBLE = _adapters({int: _Number, float: _Number})
_TYPED = _adapters({int: numeric.Int8Dumper, float: numeric.FloatDumper})  # faster; for columns of known types


@lru_cache(maxsize=4_096)
def number_placeholders(sql: str) -> str:
    """Replace the placeholders `?` by `$1`, `$2`, ...

    >>> number_placeholders("SELECT '?', \\"a?\\" FROM t WHERE x = ? AND y = ?")
    'SELECT \\'?\\', "a?" FROM t WHERE x = $1 AND y = $2'
    """
    if "?" not in sql:
        return sql
    number = 0

    def numbered(match: re.Match[str]) -> str:
        nonlocal number
        if match[0] != "?":
            return match[0]
        number += 1
        return f"${number}"

    return _TOKEN.sub(numbered, sql)


class _RawConnection(psycopg.Connection[Any]):
    def __del__(self, *_: object) -> None:
        """Suppress psycopg's warning: a connection closes with its last reference, in its own process only."""


class PostgresConnection:
    """A connection; each statement outside `transaction` commits by itself."""

    dialect = POSTGRES

    def __init__(self, raw: psycopg.Connection[Any]) -> None:
        self.raw = raw
        self.streams = False  # fetch the rows of a SELECT as they are read; only in a transaction
        self.views_are_stale = False  # columns were added that the views do not have
        self.grants: list[str] = []  # statements that restore the rights to dropped views
        self._changes = self._total = self._cursors = 0

    def execute(self, sql: str, parameters: Any = (), /) -> Any:
        if self.streams and sql.lstrip()[:6].upper() == "SELECT":
            return self._stream(sql, parameters)
        return self._run(sql, parameters)

    def _run(self, sql: str, parameters: Any = ()) -> psycopg.Cursor[Any]:
        cursor = self.raw.execute(number_placeholders(sql), parameters or None)
        while cursor.nextset():  # of several statements, the last one counts
            pass
        self._count_changes(cursor)
        return cursor

    def executemany(self, sql: str, rows: Iterable[Any], /) -> Any:
        cursor, insert = self.raw.cursor(), POSTGRES.inserts.get(sql)
        batch_changes = 0
        if insert is not None:
            batch, rows = insert.split(rows)
            chunks = (batch[start : start + ROWS_AT_ONCE] for start in range(0, len(batch), ROWS_AT_ONCE))
            cursor.executemany(insert.several, (tuple(chain.from_iterable(chunk)) for chunk in chunks))
            batch_changes = max(0, cursor.rowcount)
        cursor.executemany(number_placeholders(sql), rows)
        self._count_changes(cursor)
        self._changes += batch_changes
        self._total += batch_changes
        return cursor

    def _count_changes(self, cursor: psycopg.Cursor[Any]) -> None:
        self._changes = cursor.rowcount if (cursor.statusmessage or "")[:6] in _CHANGES else 0  # else rows read
        self._total += self._changes

    def dicts(self, sql: str, parameters: tuple[Any, ...] = (), /) -> list[dict[str, Any]]:
        cursor = self._run(sql, parameters)
        names = [column.name for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def changes(self) -> int:
        return self._changes

    def total_changes(self) -> int:
        return self._total

    def close(self) -> None:
        self.raw.close()

    @property
    def is_lost(self) -> bool:
        return self.raw.closed or self.raw.broken

    def is_usable(self) -> bool:
        """Whether an idle connection is still open: unprompted, a server sends only the end of the session."""
        if self.is_lost:
            return False
        poll = select.poll()
        poll.register(self.raw.fileno(), select.POLLIN)
        return not poll.poll(0)

    def disconnect(self) -> None:
        """Unblock a thread that waits for a server that does not reply."""
        with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(self.raw.fileno())) as stalled:
            stalled.shutdown(socket.SHUT_RDWR)

    @contextmanager
    def transaction(self, begin: str = "BEGIN") -> Iterator[None]:
        """Commit at the end, or roll back on any exception."""
        try:
            self._run(begin)
            yield
            self._run("COMMIT")
        except BaseException:
            try:
                self._run("ROLLBACK")
            except psycopg.Error:  # lost, or unusable because the session ended while rows were being sent
                self.close()
            raise

    def _stream(self, sql: str, parameters: Any) -> StreamedRows:
        self._cursors += 1
        name = f"rows_{self._cursors}"
        self._run(f"DECLARE {name} NO SCROLL CURSOR FOR {sql}", parameters)
        return StreamedRows(self, name)


class StreamedRows:
    """Rows of a server-side cursor, fetched in chunks of limited size."""

    def __init__(self, connection: PostgresConnection, name: str) -> None:
        self._connection, self._name = connection, name
        self._rows = self._fetch()

    def __iter__(self) -> Iterator[Any]:
        return self._rows

    def __next__(self) -> Any:
        return next(self._rows)

    def fetchall(self) -> list[Any]:
        return list(self._rows)

    def _fetch(self) -> Iterator[Any]:
        number = 50
        while rows := self._connection._run(f"FETCH {number} FROM {self._name}").fetchall():
            yield from rows
            sample = rows[:10]
            size = sum(len(value) for row in sample for value in row if isinstance(value, str | bytes)) / len(sample)
            number = max(10, min(_MOST_FETCHED, int(_STREAMED_BYTES / (size + 100))))
        self._connection._run(f"CLOSE {self._name}")


def connect(url: str, is_typed: bool = False, **options: str) -> PostgresConnection:
    """Open a connection that uses the schema `abreast`."""
    try:
        chosen = conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        reason = str(error).partition(":")[0] if "@" in url else " ".join(str(error).split())  # may quote a password
        fix = "correct the address; in a password, write / as %2F, ? as %3F, # as %23 and @ as %40"
        raise StoreError(f"{without_password(url)}: not a valid address ({reason})", fix) from None
    raw = _RawConnection.connect(
        **{**_DEFAULTS, **chosen, "client_encoding": "UTF8"},  # type: ignore[arg-type]
        autocommit=True,
        cursor_factory=psycopg.RawCursor,
        context=_Context(_TYPED if is_typed else _FLEXIBLE),
    )
    declare_secret("STORE_PASSWORD", raw.info.password)  # it may come from a file
    connection = PostgresConnection(raw)
    if not is_typed:  # a plan made for empty tables reads every row once they are full
        options["plan_cache_mode"] = "force_custom_plan"
    try:  # after connecting, because poolers refuse or drop connection options
        connection.execute("; ".join(f"SET {name} TO {value}" for name, value in (_SESSION | options).items()))
    except BaseException:
        connection.close()
        raise
    return connection


class _Context:
    connection = None

    def __init__(self, adapters: AdaptersMap) -> None:
        self.adapters = adapters


def explanation(address: str, error: Exception) -> StoreError:
    """Return a StoreError that a user can act on."""
    reason = " ".join(_QUERY.split(str(error))[0].split())[:500]
    match error:
        case StoreError():
            return error
        case errors.InsufficientPrivilege():
            return StoreError(f"{address}: {reason}", "ask for the role of a writer or reader of this database")
        case errors.ReadOnlySqlTransaction():
            return StoreError(f"{address}: the database is read-only", "connect to the primary server")
        case errors.DiskFull():
            return StoreError(
                f"{address}: the server's disk is full; no acknowledged row is lost",
                "free some space, then run `abreast resume`",
            )
        case errors.ProgramLimitExceeded() | errors.OutOfMemory():
            return RowTooLarge(f"{address}: a row is larger than PostgreSQL can store ({reason})", "store less per row")
        case errors.UndefinedTable() | errors.UndefinedColumn() | errors.InvalidSchemaName():
            fix = "connect without a connection pooler, or restore the database from a backup"
            return StoreError(f"{address}: damaged ({reason})", fix)
        case psycopg.DataError() | psycopg.IntegrityError() | psycopg.ProgrammingError() | psycopg.NotSupportedError():
            return StoreError(f"{address}: a row cannot be stored ({reason})")
        case errors.DependentObjectsStillExist():
            reason = str(error.diag.message_detail).partition("\n")[0]
            fix = "drop the objects that depend on them, then try again"
            return StoreError(f"{address}: the views cannot change ({reason})", fix)
        case errors.QueryCanceled():
            return StoreError(f"{address}: {reason}", "try again, or raise the timeout of this role")
        case errors.LockNotAvailable():
            return StoreError(f"{address}: in use by another connection ({reason})", "try again")
        case psycopg.InternalError() if not isinstance(error, errors.IdleInTransactionSessionTimeout):
            return StoreError(f"{address}: {reason}", "see the server's log")
        case psycopg.Error() | OSError():
            reason = reason.removeprefix("connection failed: ").split(" Is the server running")[0]
            fix = "check the server and the address"
            if "password" in reason:
                fix = "check the user, and the password in ABREAST_STORE, PGPASSWORD or the file that PGPASSFILE names"
            return NoConnection(f"{address}: no connection ({reason})", fix)
    return StoreError(f"{address}: a row cannot be stored ({type(error).__name__}: {error})")


@contextmanager
def explained(address: str) -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        raise explanation(address, error) from error
