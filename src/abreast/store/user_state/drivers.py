"""Registry of the abreast processes (drivers) of this user, independent of any store.

A driver writes a record before it starts its first child or creates its first folder, and keeps it locked. The system
releases the lock however the driver ends, so an unlocked record shows what a dead driver may have left: processes with
its mark in their environment, and the folder `ROOT/MARK`.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import json
import os
import re
import stat
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from abreast.store.user_state.folders import state_folder

ROOT_VARIABLE = "ABREAST_WORKSPACES"
DRIVERS = "drivers"
_MARK = re.compile(r"\d+-[0-9a-f]{12}")
_DEAD = "dead"  # written into the record of a dead driver by the process that cleans up


@cache
def machine_id() -> str:
    parts = [os.uname().nodename]
    for path in ("/proc/sys/kernel/random/boot_id", "/proc/self/ns/pid"):
        try:
            parts.append(str(Path(path).readlink()) if path.endswith("pid") else Path(path).read_text().strip())
        except OSError:
            parts.append("")
    return "|".join(parts)


@dataclass(frozen=True, slots=True)
class Driver:
    """The record of a driver. `roots` are the folders that may contain a folder named after its mark."""

    mark: str
    machine: str
    roots: tuple[Path, ...] = ()
    kept_workspaces: frozenset[Path] = frozenset()  # workspaces that the user asked to keep

    @property
    def host(self) -> str:
        return self.machine.partition("|")[0]

    @property
    def is_of_this_machine(self) -> bool:
        """Whether an unlocked record proves it dead: it ran in this process namespace, or on this host before the last
        boot."""
        if self.machine == machine_id():
            return True
        (host, boot), own = self.machine.split("|")[:2], machine_id().split("|")
        return host == own[0] and boot != own[1]


@dataclass(slots=True)
class _Record:
    mark: str
    path: Path | None = None  # None if no folder is writable
    descriptor: int = -1
    entries: set[tuple[str, str]] = field(default_factory=set)


_lock = threading.RLock()
_own: _Record | None = None


def _register() -> _Record:
    """Return the record of this process, written if it has none."""
    global _own
    with _lock:
        if _own is None:
            _own = _Record(f"{os.getpid()}-{os.urandom(6).hex()}")
            for folder in _registries():
                with contextlib.suppress(OSError):
                    _own.path, _own.descriptor = _create(folder, _own.mark)
                    break
        return _own


def register() -> str:
    """Write the record of this process if it has none, and return its mark."""
    return _register().mark


def registration() -> tuple[str, str | None]:
    """Return the mark of this process, and the identity of the folder with its record, if it has one."""
    record = _register()
    return record.mark, None if record.path is None else _identity(record.path.parent)


def is_own(mark: str) -> bool:
    return _own is not None and _own.mark == mark


def is_locked(mark: str, registry: str | None) -> bool | None:
    """Whether the driver with this mark is alive; None if its record cannot be read here."""
    for folder in _registries() if registry is not None else ():
        if _identity(folder) == registry:
            return _is_locked(folder / mark)
    return None


def _is_locked(path: Path) -> bool | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: other processes may check at the same moment
    except BlockingIOError:
        return _DEAD not in _entries(descriptor)
    else:
        return False
    finally:
        os.close(descriptor)


def _identity(folder: Path) -> str | None:
    try:
        status = folder.stat()
    except OSError:
        return None
    return f"{status.st_dev}:{status.st_ino}"


def _registries() -> Iterator[Path]:
    """Yield the folders for records: in the user's state folder, or among temporary files if that is not writable."""
    with contextlib.suppress(RuntimeError):  # no home
        yield state_folder() / DRIVERS
    yield _default_root() / DRIVERS


def _create(folder: Path, mark: str) -> tuple[Path, int]:
    """Create a locked file. Another process may see it before it is locked and remove it, hence the loop."""
    folder.mkdir(0o700, parents=True, exist_ok=True)
    _check_owner(folder)
    path = folder / mark
    while True:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if _is_still(path, descriptor):
                _write(descriptor, {"place": machine_id()})
                return path, descriptor
        except OSError:  # a file system that is full or has no locks
            path.unlink(missing_ok=True)
            os.close(descriptor)
            raise
        os.close(descriptor)


def _is_still(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _check_owner(folder: Path) -> None:
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        raise PermissionError(None, "belongs to another user", str(folder))


def _write(descriptor: int, entry: dict[str, str]) -> None:
    os.write(descriptor, json.dumps(entry).encode() + b"\n")


def _note(key: str, value: Path) -> None:
    with _lock:
        record, entry = _register(), (key, str(value))
        if record.path is not None and entry not in record.entries:
            _write(record.descriptor, {key: str(value)})
            record.entries.add(entry)


def note_kept(workspace: Path) -> None:
    _note("keep", workspace)


@atexit.register
def _unregister() -> None:
    """Remove the record of this process at exit, unless one of its folders is left."""
    with _lock:
        if _own is not None and _own.path is not None:
            roots = [Path(value) for key, value in _own.entries if key == "root"]
            if not any(os.path.lexists(root / _own.mark) for root in roots):
                _unlink(_own.path)


def _forget_in_fork() -> None:
    """A forked child is another driver and must not keep the lock of this one."""
    global _own, _lock
    _lock = threading.RLock()
    if _own is not None and _own.descriptor >= 0:
        os.close(_own.descriptor)
    _own = None


os.register_at_fork(after_in_child=_forget_in_fork)


def _default_root() -> Path:
    import tempfile  # late: it imports many modules

    return Path(tempfile.gettempdir()).absolute() / f"abreast-{os.getuid()}"


def root() -> Path:
    """The folder of all workspaces and temporary folders of this user. It may not exist yet."""
    folder = os.environ.get(ROOT_VARIABLE)
    if not folder:
        return _default_root()
    return _path(folder) if folder.startswith(os.sep) else Path(folder).absolute()


_path = cache(Path)


def driver_folder() -> Path:
    """Return the folder of this process, created if necessary. Raises OSError."""
    top = root()
    top.mkdir(0o700, parents=True, exist_ok=True)
    if not os.environ.get(ROOT_VARIABLE):
        _check_owner(top)
    _note("root", top)
    folder = top / register()
    folder.mkdir(0o700, exist_ok=True)
    return folder


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """A temporary folder. If this process is killed, the next abreast process of this user removes it."""
    import tempfile

    folder = driver_folder()
    try:
        with tempfile.TemporaryDirectory(dir=folder) as name:
            yield Path(name)
    finally:
        with contextlib.suppress(OSError):  # the folder is not empty
            folder.rmdir()


@contextlib.contextmanager
def dead_drivers() -> Iterator[tuple[list[Driver], list[Driver]]]:
    """Return drivers that died without removing their record, and drivers of other machines, whose state is unknown.

    The records are locked in the context, so that no two processes clean up after the same driver.
    """
    with contextlib.ExitStack() as stack:
        dead: list[Driver] = []
        elsewhere: list[Driver] = []
        for registry in _registries():
            for path in _records(registry):
                descriptor = _locked(path)
                if descriptor is None:
                    continue
                stack.callback(os.close, descriptor)
                driver = _read(path.name, descriptor)
                if driver is None:
                    _unlink(path)  # killed before it created anything
                elif driver.is_of_this_machine:
                    with contextlib.suppress(OSError):  # a full disk
                        _write(descriptor, {_DEAD: "its lock is held by a process that cleans up"})
                    dead.append(driver)
                else:
                    elsewhere.append(driver)
        yield dead, elsewhere


def forget(driver: Driver) -> None:
    """Remove the record of a dead driver after cleaning up."""
    for registry in _registries():
        _unlink(registry / driver.mark)


def _unlink(path: Path) -> None:
    with contextlib.suppress(OSError):  # already removed, or a read-only disk
        path.unlink()


def _records(registry: Path) -> list[Path]:
    try:
        _check_owner(registry)
        return sorted(path for path in registry.iterdir() if _MARK.fullmatch(path.name))
    except OSError:
        return []


def _locked(path: Path) -> int | None:
    """Lock a record and return its descriptor; None if its driver is alive, or another process is cleaning up."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_still(path, descriptor):
            return descriptor
    except OSError:
        pass
    os.close(descriptor)
    return None


def _read(mark: str, descriptor: int) -> Driver | None:
    entries = _entries(descriptor)
    if not any(machine.count("|") == 2 for machine in entries.get("place", ())):
        return None
    roots, kept = ([Path(value) for value in entries.get(key, ())] for key in ("root", "keep"))
    return Driver(mark, entries["place"][0], tuple(roots), frozenset(kept))


def _entries(descriptor: int) -> dict[str, list[str]]:
    entries: dict[str, list[str]] = {}
    with os.fdopen(os.dup(descriptor), "rb") as file:
        for line in file:
            with contextlib.suppress(ValueError, AttributeError):  # a line that was cut off by a kill
                for key, value in json.loads(line).items():
                    entries.setdefault(key, []).append(str(value))
    return entries
