"""SQLite through `apsw`: opening files, and explaining errors."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext, suppress
from functools import wraps
from pathlib import Path
from typing import cast

import apsw

from abreast.errors import StoreError
from abreast.store import schema
from abreast.store.base import Closed, RowTooLarge
from abreast.store.sqlite.dialect import SQLITE
from abreast.store.sqlite.isolation import client, sharing
from abreast.store.sqlite.isolation.sharing import LocalConnection, SQLiteConnection
from abreast.store.user_state.drivers import temporary_folder
from abreast.store.views import make_views

BUSY_MS = 60_000
_WRITING = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_URI
SCARCE = 128_000  # bytes; a disk with less free space counts as full
READ = "BEGIN"  # a transaction that only reads
CHECKPOINT_MS = 500  # time that a checkpoint waits for readers

Error = apsw.Error
Opening = Callable[[Path], SQLiteConnection]


def _isolated(opening: Opening) -> Opening:
    """Open the file in the helper process if another SQLite library in this process has it open."""

    @wraps(opening)
    def opened(path: Path) -> SQLiteConnection:
        if not sharing.is_shared(os.path.realpath(path)):
            with suppress(sharing.SharedFile):
                return opening(path)
        return cast(SQLiteConnection, client.connect(opened, path))

    return opened


@_isolated
def open_for_writing(path: Path) -> SQLiteConnection:
    """Open a store file, or create it. Every commit is durable when it returns."""
    with explained(path):
        if not path.parent.is_dir():
            folder = shlex.quote(str(path.parent))
            raise StoreError(f"{path}: the folder {path.parent} does not exist", f"run `mkdir -p {folder}`")
        connection = LocalConnection(path, file_uri(path), _WRITING)
        try:
            with alone(connection):
                _prepare(connection, path)
        except BaseException:
            connection.close()
            raise
        return connection


@contextmanager
def writing(path: Path) -> Iterator[SQLiteConnection]:
    """Open a connection that writes; other SQLite libraries in this process wait until it is closed."""
    with ExitStack() as stack:
        connection = stack.enter_context(closing(open_for_writing(path)))
        try:
            stack.enter_context(alone(connection))
        except sharing.SharedFile:
            connection = stack.enter_context(closing(open_for_writing(path)))
        yield connection


def complete(path: Path) -> None:
    """Move everything from the log into the file, so that it can be copied. If a reader prevents that, the reader
    does it when it closes."""
    with suppress(apsw.Error, StoreError):
        if path.is_file():
            with writing(path) as connection:
                connection.set_busy_timeout(CHECKPOINT_MS)
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def alone(connection: SQLiteConnection) -> AbstractContextManager[None]:
    """Keep other SQLite libraries in this process from opening the file.

    Raises `SharedFile` if one has opened it; the connection must not be used any more then.
    """
    if isinstance(connection, LocalConnection):
        return sharing.use(connection.file, connection.gate)
    return nullcontext()


@contextmanager
def transaction(connection: SQLiteConnection, begin: str = "BEGIN IMMEDIATE") -> Iterator[None]:
    """Commit at the end, or roll back on any exception."""
    try:
        connection.execute(begin)
        yield
        connection.execute("COMMIT")
    except BaseException:
        with suppress(Closed):  # the helper process has rolled back
            if connection.in_transaction:  # SQLite may have rolled back already
                connection.execute("ROLLBACK")
        raise


def must_reopen(connection: SQLiteConnection | client.RemoteConnection) -> bool:
    """Whether another SQLite library has opened the file, or the helper process ended."""
    if isinstance(connection, client.RemoteConnection):
        return connection.is_closed
    return isinstance(connection, LocalConnection) and sharing.is_shared(connection.file)


def _prepare(connection: SQLiteConnection, path: Path) -> None:
    connection.set_busy_timeout(BUSY_MS)
    check_version(connection, path)
    _switch_to_wal(connection)
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA cache_size=-8000")
    with transaction(connection):
        version = version_of(connection)
        if version != schema.VERSION:
            for statement in schema.upgrades(SQLITE, version) if version else schema.create_tables(SQLITE):
                connection.execute(statement)
            make_views(connection)
            connection.execute(f"PRAGMA user_version={schema.VERSION}")
            connection.execute(f"PRAGMA application_id={APPLICATION}")


@_isolated
def open_plain(path: Path) -> SQLiteConnection:
    """Open a SQLite file that is not a store. A power failure may lose the last commits."""
    connection = LocalConnection(path, file_uri(path), _WRITING)
    connection.set_busy_timeout(BUSY_MS)
    _switch_to_wal(connection)
    connection.execute("PRAGMA synchronous=NORMAL")
    return connection


def _switch_to_wal(connection: SQLiteConnection) -> None:
    """Wait for other processes that create the file at the same moment, because SQLite does not."""
    deadline = time.monotonic() + BUSY_MS / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except apsw.BusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def read_head(path: Path, size: int) -> bytes:
    """Read the first bytes of a file, fewer if it is shorter, through SQLite, so that its locks are not dropped."""
    file = os.path.realpath(path)
    try:
        with sharing.use(file, sharing.gate_of(file)):
            sharing.check_descriptors(file)
            return _read_head(file, size)
    except sharing.SharedFile:
        return bytes(client.run(_read_head, file, size))


def _read_head(file: str, size: int) -> bytes:
    try:
        opened = apsw.VFSFile("", file, [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY, 0])
        try:
            return opened.xRead(size, 0)
        finally:
            opened.xClose()
    except (apsw.Error, OSError, UnicodeError):
        return b""


APPLICATION = 0x41425253  # "ABRS": the application id of our files


def open_for_reading(path: Path) -> SQLiteConnection:
    """Open a store for reading, also in a read-only folder. Migrates an older version."""
    with explained(path):
        if not path.is_file():
            raise StoreError(f"{path}: no such store", "run `abreast run SPEC`, or use --store")
        connection = _reader(path)
        try:
            version = check_version(connection, path)
            if version == 0:
                raise StoreError(f"{path}: the store is empty", "run `abreast run SPEC`")
        except BaseException:
            connection.close()
            raise
        if version == schema.VERSION:
            return connection
        connection.close()
        _upgrade(path, version)
        return _reader(path)


def _upgrade(path: Path, version: int) -> None:
    try:
        open_for_writing(path).close()
    except StoreError as error:
        raise StoreError(
            f"{path}: made by an older abreast (format {version}) and cannot be migrated here "
            f"({error.message.removeprefix(f'{path}: ')})",
            "copy it to a writable folder, and name the copy with --store",
        ) from error


def is_made(path: Path) -> bool:
    """Whether the file has tables: a crash while creating them, or a full disk, leaves an empty file."""
    with explained(path):
        if not path.is_file():
            return False
        with closing(_reader(path)) as connection:
            return check_version(connection, path) != 0


@_isolated
def _reader(path: Path) -> SQLiteConnection:
    """Open a connection that changes no row, but checkpoints the file if it is the last one to close it."""
    if not os.access(path.parent, os.W_OK):
        return _reader_in_read_only_folder(path)
    connection = _local_reader(path, apsw.SQLITE_OPEN_READWRITE)
    connection.execute("PRAGMA query_only=1")
    return connection


@_isolated
def open_read_only(path: Path) -> SQLiteConnection:
    """Open a read-only connection for statements of users."""
    if not os.access(path.parent, os.W_OK):
        return _reader_in_read_only_folder(path)
    return _local_reader(path, apsw.SQLITE_OPEN_READONLY)


def _local_reader(path: Path, access: int) -> SQLiteConnection:
    connection = LocalConnection(path, file_uri(path), access | apsw.SQLITE_OPEN_URI)
    try:
        connection.set_busy_timeout(BUSY_MS)
        connection.execute("SELECT 1 FROM sqlite_master").fetchall()
    except BaseException:
        connection.close()
        raise
    return connection


def _reader_in_read_only_folder(path: Path) -> SQLiteConnection:
    """Read without a shared-memory file, which SQLite cannot create in a read-only folder."""
    log = path.with_name(path.name + "-wal")
    if not log.exists() or log.stat().st_size == 0:
        return SQLiteConnection(file_uri(path) + "?immutable=1", flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    import shutil  # late: it imports many modules

    with temporary_folder() as folder:
        copy = folder / "copy.db"
        shutil.copyfile(path, copy)
        shutil.copyfile(log, copy.with_name("copy.db-wal"))
        source, memory = SQLiteConnection(str(copy)), SQLiteConnection(":memory:")
        with memory.backup("main", source, "main") as backup:
            backup.step()
        source.close()
        memory.execute("PRAGMA query_only=1")
        return memory


def file_uri(path: Path, read_only: bool = False) -> str:
    text = "file:" + str(path.resolve()).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    return f"{text}?mode=ro" if read_only else text


def version_of(connection: SQLiteConnection) -> int:
    return int(connection.pragma("user_version"))


def check_version(connection: SQLiteConnection, path: Path) -> int:
    """Return the version of a store, 0 if it is empty. Refuses files of a newer abreast or of another program."""
    with transaction(connection, READ):  # read all three at once: another process may be creating the tables
        version, application = version_of(connection), connection.pragma("application_id")
        is_empty = not connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchall()
    if application != APPLICATION:
        if version or not is_empty:
            raise StoreError(f"{path}: a SQLite file, but not an abreast store", "name another file with --store")
    else:
        schema.refuse_newer(version, path)
    return version


def is_older(path: Path) -> bool:
    """Whether an older abreast made the file. Does not migrate it."""
    try:
        with closing(_unchanging_reader(path)) as connection:
            return 0 < check_version(connection, path) < schema.VERSION
    except (apsw.CantOpenError, apsw.ReadOnlyError):  # a read-only folder: opening the file for reading handles that
        return False


def copy(path: Path, to: Path) -> Path:
    source, target = _unchanging_reader(path), apsw.Connection(str(to))
    with closing(source), closing(target), target.backup("main", source, "main") as backup:
        backup.step()
    return to


def _unchanging_reader(path: Path) -> SQLiteConnection:
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    return SQLiteConnection(file_uri(path, read_only=True), flags=flags)


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Raise errors of SQLite and the file system as `StoreError`."""
    try:
        yield
    except (apsw.Error, OSError, UnicodeDecodeError) as error:
        raise explanation(path, error) from error


def explanation(path: Path, error: Exception) -> StoreError:
    match error:
        case StoreError():
            return error
        case apsw.TooBigError():
            return RowTooLarge(f"{path}: a row is larger than 1 GB, the limit of SQLite", "store less per row")
        case apsw.NotADBError():
            return StoreError(f"{path}: not a SQLite file", "name another file with --store")
        case apsw.ReadOnlyError() | apsw.CantOpenError() | apsw.PermissionsError() if not _is_full(path):
            reason = "is a folder" if path.is_dir() else "cannot be written here (read-only, or no permission)"
            return StoreError(f"{path}: {reason}", "name a writable file with --store")
        case apsw.BusyError():
            return StoreError(f"{path}: locked by another process", "wait for it, or name another store")
        case apsw.CorruptError() | apsw.SQLError() | UnicodeDecodeError():
            return StoreError(f"{path}: damaged ({error})", "restore it from a backup")
        case apsw.Error() | OSError() if isinstance(error, apsw.FullError) or _is_full(path):
            return StoreError(
                f"{path}: the disk is full; no acknowledged row is lost", "free some space, then run `abreast resume`"
            )
        case apsw.Error() | OSError():
            return StoreError(f"{path}: disk error ({error})", "check the disk, then run `abreast resume`")
    return StoreError(f"{path}: a row cannot be stored ({type(error).__name__}: {error})")


def _is_full(path: Path) -> bool:
    """Whether the disk is full. SQLite reports that as various errors, because its own files need space too."""
    try:
        disk = os.statvfs(path.parent)
    except OSError:
        return False
    return not disk.f_flag & os.ST_RDONLY and disk.f_bavail * disk.f_frsize < SCARCE
