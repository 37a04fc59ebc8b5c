"""SQLite, through `apsw`: opening files, and saying in plain words why one cannot be opened."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

from abreast.errors import StoreError
from abreast.store import schema

BUSY_MS = 60_000


def open_for_writing(path: Path) -> apsw.Connection:
    """The journal, made if it is not there. Every commit is on disk when it returns."""
    with explained(path):
        if not path.parent.is_dir():
            raise StoreError(f"{path}: the folder {path.parent} does not exist", f"mkdir -p {path.parent}")
        connection = apsw.Connection(str(path))
        try:
            _prepare(connection, path)
        except BaseException:
            connection.close()
            raise
        return connection


def _prepare(connection: apsw.Connection, path: Path) -> None:
    connection.set_busy_timeout(BUSY_MS)
    check_version(connection, path)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA cache_size=-32000")
    connection.execute("BEGIN IMMEDIATE")
    try:
        if version_of(connection) == 0:
            for statement in schema.create_tables():
                connection.execute(statement)
            for statement in schema.create_views("sqlite", []):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version={schema.VERSION}")
            connection.execute(f"PRAGMA application_id={APPLICATION}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


APPLICATION = 0x41425253  # "ABRS": tells our files from other SQLite files


def open_for_reading(path: Path) -> apsw.Connection:
    """A reader that never blocks a writer, also where nothing may be written."""
    with explained(path):
        if not path.is_file():
            raise StoreError(f"{path}: no such store", "abreast run SPEC makes one; --store names another")
        connection = _reader(path)
        connection.set_busy_timeout(BUSY_MS)
        try:
            check_version(connection, path)
            if version_of(connection) == 0:
                raise StoreError(f"{path}: not a store of abreast", "name the store with --store")
        except BaseException:
            connection.close()
            raise
        return connection


def _reader(path: Path) -> apsw.Connection:
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    address = "file:" + str(path.resolve()).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    connection = apsw.Connection(address, flags=flags)
    try:
        connection.execute("SELECT 1 FROM sqlite_master").fetchall()
        return connection
    except (apsw.CantOpenError, apsw.ReadOnlyError):
        connection.close()
    # A WAL file wants a shared-memory file beside it, which a read-only folder refuses.
    log = path.with_name(path.name + "-wal")
    if not log.exists() or log.stat().st_size == 0:
        return apsw.Connection(address + "?immutable=1", flags=flags)
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


def version_of(connection: apsw.Connection) -> int:
    return int(connection.pragma("user_version"))


def check_version(connection: apsw.Connection, path: Path) -> None:
    """Refuse files of a newer abreast, and files that are somebody else's."""
    version = version_of(connection)
    if version > schema.VERSION:
        raise StoreError(
            f"{path}: made by a newer abreast (its format is {version}, this one reads up to {schema.VERSION})",
            "update abreast, or name another store with --store",
        )
    if version == 0 and connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchall()[0][0]:
        raise StoreError(f"{path}: a SQLite file, but not a store of abreast", "name another file with --store")


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """SQLite's errors as one sentence and one way out."""
    try:
        yield
    except apsw.NotADBError as error:
        raise StoreError(f"{path}: not a SQLite file", "name another file with --store") from error
    except apsw.FullError as error:
        raise StoreError(
            f"{path}: the disk is full; everything acknowledged is safe", "free some space, then: abreast resume"
        ) from error
    except (apsw.ReadOnlyError, apsw.CantOpenError, apsw.PermissionsError) as error:
        why = "is a folder" if path.is_dir() else "cannot be written here (read-only, or no permission)"
        raise StoreError(f"{path}: {why}", "name a place that can be written with --store") from error
    except apsw.BusyError as error:
        raise StoreError(f"{path}: another process holds it locked", "wait for it, or name another store") from error
    except apsw.CorruptError as error:
        raise StoreError(f"{path}: damaged ({error})", "restore it from a copy") from error
    except apsw.IOError as error:
        raise StoreError(
            f"{path}: the disk reports an error ({error})", "check the disk, then: abreast resume"
        ) from error


def rows_as_dicts(connection: apsw.Connection, sql: str, parameters: tuple[Any, ...] = ()) -> list[dict[str, Any]]:
    cursor = connection.cursor()
    names: list[str] = []

    def note(current: apsw.Cursor, row: Any) -> Any:
        if not names:
            names.extend(column[0] for column in current.get_description())
        return row

    cursor.row_trace = note
    return [dict(zip(names, row, strict=True)) for row in cursor.execute(sql, parameters)]
