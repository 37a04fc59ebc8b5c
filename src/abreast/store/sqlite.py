"""SQLite, through `apsw`: opening files, and saying in plain words why one cannot be opened."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

from abreast.errors import StoreError
from abreast.store import schema
from abreast.store.joining import JOINED, Tracked

BUSY_MS = 60_000
_WRITING = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_URI
SCARCE = 128_000  # bytes; less is called a full disk


def open_for_writing(path: Path) -> apsw.Connection:
    """The journal, made if it is not there. Every commit is on disk when it returns."""
    with explained(path):
        if not path.parent.is_dir():
            raise StoreError(f"{path}: the folder {path.parent} does not exist", f"mkdir -p {path.parent}")
        connection = apsw.Connection(address(path), flags=_WRITING)
        try:
            _prepare(connection, path)
        except BaseException:
            connection.close()
            raise
        return connection


def _prepare(connection: apsw.Connection, path: Path) -> None:
    connection.set_busy_timeout(BUSY_MS)
    check_version(connection, path)
    _switch_to_wal(connection)
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA cache_size=-32000")
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = version_of(connection)
        if version != schema.VERSION:
            for statement in schema.upgrades(version) if version else schema.create_tables():
                connection.execute(statement)
            make_views(connection)
            connection.execute(f"PRAGMA user_version={schema.VERSION}")
            connection.execute(f"PRAGMA application_id={APPLICATION}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def plain(path: Path) -> apsw.Connection:
    """A SQLite file for many processes, with nothing in it yet."""
    connection = apsw.Connection(address(path), flags=_WRITING)
    connection.set_busy_timeout(BUSY_MS)
    _switch_to_wal(connection)
    return connection


def make_views(connection: apsw.Connection) -> None:
    """The views anew, inside a transaction, after columns came."""
    for statement in schema.create_views("sqlite", *view_columns(connection)):
        connection.execute(statement)


def view_columns(connection: apsw.Connection) -> tuple[list[schema.Column], dict[str, list[Tracked]]]:
    """What the views are generated from: the registry of runs, and what users track under the views' names."""
    columns = [schema.Column(*row) for row in connection.execute("SELECT kind, name, type FROM columns")]
    tracked: dict[str, list[Tracked]] = {}
    for view, relation, name in connection.execute(
        "SELECT t.name, t.relation, c.name FROM tracked_tables t JOIN tracked_columns c ON c.relation = t.relation "
        "WHERE t.name IN (SELECT value FROM json_each(?)) ORDER BY c.seq",
        (json.dumps(JOINED),),
    ):
        tracked.setdefault(str(view), []).append(Tracked(str(relation), str(name)))
    return columns, tracked


def _switch_to_wal(connection: apsw.Connection) -> None:
    """SQLite does not wait here for another process that makes the same file at the same moment; so this does."""
    deadline = time.monotonic() + BUSY_MS / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except apsw.BusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


APPLICATION = 0x41425253  # "ABRS": tells our files from other SQLite files


def open_for_reading(path: Path) -> apsw.Connection:
    """A reader that never blocks a writer, also where nothing may be written."""
    with explained(path):
        if not path.is_file():
            raise StoreError(f"{path}: no such store", "abreast run SPEC makes one; --store names another")
        connection = _reader(path)
        try:
            check_version(connection, path)
            version = version_of(connection)
            if version == 0:
                raise StoreError(f"{path}: empty, no run has begun in it", "abreast run SPEC begins one")
        except BaseException:
            connection.close()
            raise
        if version == schema.VERSION:
            return connection
        connection.close()
        _upgrade(path, version)
        return _reader(path)


def _upgrade(path: Path, version: int) -> None:
    """Bring the file of an older abreast up to date; nothing in it is lost."""
    try:
        open_for_writing(path).close()
    except StoreError as error:
        raise StoreError(
            f"{path}: made by an older abreast (its format is {version}), and it cannot be brought up to date here "
            f"({error.message.removeprefix(f'{path}: ')})",
            "copy it to a place that can be written, and name that with --store",
        ) from error


def is_made(path: Path) -> bool:
    """Whether the tables are there: a process that died while it made them, or a full disk, leaves an empty file."""
    with explained(path):
        if not path.is_file():
            return False
        connection = _reader(path)
        try:
            check_version(connection, path)
            return version_of(connection) != 0
        finally:
            connection.close()


def _reader(path: Path) -> apsw.Connection:
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    name = address(path)
    connection = apsw.Connection(name, flags=flags)
    connection.set_busy_timeout(BUSY_MS)
    try:
        connection.execute("SELECT 1 FROM sqlite_master").fetchall()
        return connection
    except (apsw.CantOpenError, apsw.ReadOnlyError):
        connection.close()
        if os.access(path.parent, os.W_OK):
            raise
    except BaseException:
        connection.close()
        raise
    # A WAL file wants a shared-memory file beside it, which a read-only folder refuses.
    log = path.with_name(path.name + "-wal")
    if not log.exists() or log.stat().st_size == 0:
        return apsw.Connection(name + "?immutable=1", flags=flags)
    with tempfile.TemporaryDirectory(prefix="abreast-") as folder:
        copy = Path(folder) / "copy.db"
        shutil.copyfile(path, copy)
        shutil.copyfile(log, copy.with_name("copy.db-wal"))
        source, memory = apsw.Connection(str(copy)), apsw.Connection(":memory:")
        with memory.backup("main", source, "main") as backup:
            backup.step()
        source.close()
        memory.execute("PRAGMA query_only=1")
        return memory


def address(path: Path, read_only: bool = False) -> str:
    """The file as SQLite's own kind of address."""
    text = "file:" + str(path.resolve()).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    return f"{text}?mode=ro" if read_only else text


def version_of(connection: apsw.Connection) -> int:
    return int(connection.pragma("user_version"))


def check_version(connection: apsw.Connection, path: Path) -> None:
    """Refuse files of a newer abreast, and files that are somebody else's."""
    version = version_of(connection)
    if connection.pragma("application_id") != APPLICATION:
        if version or connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchall()[0][0]:
            raise StoreError(f"{path}: a SQLite file, but not a store of abreast", "name another file with --store")
    elif version > schema.VERSION:
        raise StoreError(
            f"{path}: made by a newer abreast (its format is {version}, this one reads up to {schema.VERSION})",
            "update abreast, or name another store with --store",
        )


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """SQLite's errors as one sentence and one way out."""
    try:
        yield
    except (apsw.Error, OSError, UnicodeDecodeError) as error:
        raise explanation(path, error) from error


def explanation(path: Path, error: Exception) -> StoreError:
    """What went wrong with this file, for people."""
    match error:
        case StoreError():
            return error
        case apsw.NotADBError():
            return StoreError(f"{path}: not a SQLite file", "name another file with --store")
        case apsw.ReadOnlyError() | apsw.CantOpenError() | apsw.PermissionsError() if not _is_full(path):
            why = "is a folder" if path.is_dir() else "cannot be written here (read-only, or no permission)"
            return StoreError(f"{path}: {why}", "name a place that can be written with --store")
        case apsw.BusyError():
            return StoreError(f"{path}: another process holds it locked", "wait for it, or name another store")
        case apsw.CorruptError() | apsw.SQLError() | UnicodeDecodeError():
            return StoreError(f"{path}: damaged ({error})", "restore it from a copy")
        case apsw.Error() | OSError() if isinstance(error, apsw.FullError) or _is_full(path):
            return StoreError(
                f"{path}: the disk is full; everything acknowledged is safe", "free some space, then: abreast resume"
            )
        case apsw.Error() | OSError():
            return StoreError(f"{path}: the disk reports an error ({error})", "check the disk, then: abreast resume")
    return StoreError(f"{path}: a row cannot be stored ({type(error).__name__}: {error})")


def _is_full(path: Path) -> bool:
    """SQLite needs room for its own files too, and reports its lack as one fault or another."""
    try:
        disk = os.statvfs(path.parent)
    except OSError:
        return False
    return not disk.f_flag & os.ST_RDONLY and disk.f_bavail * disk.f_frsize < SCARCE


def rows_as_dicts(connection: apsw.Connection, sql: str, parameters: tuple[Any, ...] = ()) -> list[dict[str, Any]]:
    cursor = connection.cursor()
    names: list[str] = []

    def note(current: apsw.Cursor, row: Any) -> Any:
        if not names:
            names.extend(column[0] for column in current.get_description())
        return row

    cursor.row_trace = note
    return [dict(zip(names, row, strict=True)) for row in cursor.execute(sql, parameters)]
