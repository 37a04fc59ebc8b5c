"""Registry of the abreast processes (drivers) of this user, independent of any store.

A driver writes a record before it starts its first child or makes its first folder, and keeps it locked while it lives.
The system releases the lock however the driver ends, so a record that is not locked tells what a dead driver may have
left behind: processes that carry its mark, and the folder `ROOT/MARK`.
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

from abreast.store.user_state.quota_ledger import state_folder

ROOT_VARIABLE = "ABREAST_WORKSPACES"
DRIVERS = "drivers"
_MARK = re.compile(r"\d+-[0-9a-f]{12}")
_DEAD = "dead"  # what a process that cleans up after a driver writes into its record


@cache
def machine_id() -> str:
    """A name for the machine: host, boot and process namespace."""
    parts = [os.uname().nodename]
    for path in ("/proc/sys/kernel/random/boot_id", "/proc/self/ns/pid"):
        try:
            parts.append(str(Path(path).readlink()) if path.endswith("pid") else Path(path).read_text().strip())
        except OSError:
            parts.append("")
    return "|".join(parts)


@dataclass(frozen=True, slots=True)
class Driver:
    """What the record of a driver says. `roots` are the folders that may hold a folder named after its mark."""

    mark: str
    place: str
    roots: tuple[Path, ...] = ()
    kept: frozenset[Path] = frozenset()  # workspaces that the user asked to keep

    @property
    def host(self) -> str:
        return self.place.partition("|")[0]

    @property
    def is_of_this_machine(self) -> bool:
        """Whether a free lock proves it dead and its processes are visible: it ran in this process namespace, or on
        this host before the last restart."""
        if self.place == machine_id():
            return True
        (host, boot), here = self.place.split("|")[:2], machine_id().split("|")
        return host == here[0] and boot != here[1]


@dataclass(slots=True)
class _Record:
    """The record of this process."""

    pid: int
    mark: str
    path: Path | None = None  # none if no folder could be written
    descriptor: int = -1
    noted: set[tuple[str, str]] = field(default_factory=set)


_lock = threading.RLock()
_own: _Record | None = None


def register() -> str:
    """Write the record of this process if there is none yet, and return its mark."""
    global _own
    with _lock:
        if _own is None or _own.pid != os.getpid():
            pid = os.getpid()
            _own = _Record(pid, f"{pid}-{os.urandom(6).hex()}")
            for folder in _registries():
                with contextlib.suppress(OSError):
                    _own.path, _own.descriptor = _create(folder, _own.mark)
                    break
        return _own.mark


def registration() -> tuple[str, str | None]:
    """The mark of this process, and the identity of the folder with its record, if there is one."""
    mark = register()
    assert _own is not None
    return mark, None if _own.path is None else _identity(_own.path.parent)


def is_own(mark: str) -> bool:
    return _own is not None and _own.pid == os.getpid() and _own.mark == mark


def is_locked(mark: str, registry: str | None) -> bool | None:
    """Whether the driver with this mark lives; None if its record cannot be read here."""
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
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: others may look at the same moment
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
    """Where records are: with the user's state, or with the temporary files if the home cannot be written."""
    with contextlib.suppress(RuntimeError):  # no home
        yield state_folder() / DRIVERS
    yield _default_root() / DRIVERS


def _create(folder: Path, mark: str) -> tuple[Path, int]:
    """A new locked file. Another process may see it before it is locked and remove it; then it is made again."""
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
        except OSError:  # a file system without locks, or full
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
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise PermissionError(None, "belongs to another user", str(folder))


def _write(descriptor: int, entry: dict[str, str]) -> None:
    os.write(descriptor, json.dumps(entry).encode() + b"\n")


def _note(key: str, value: Path) -> None:
    with _lock:
        register()
        assert _own is not None
        if _own.path is not None and (key, str(value)) not in _own.noted:
            _write(_own.descriptor, {key: str(value)})
            _own.noted.add((key, str(value)))


def note_kept(workspace: Path) -> None:
    """Record a workspace that must outlive this process, even if it is killed."""
    _note("keep", workspace)


@atexit.register
def _unregister() -> None:
    """Remove the record of this process at its end, unless a folder of it could not be removed."""
    with _lock:
        if _own is not None and _own.pid == os.getpid() and _own.path is not None:
            roots = [Path(value) for key, value in _own.noted if key == "root"]
            if not any(os.path.lexists(root / _own.mark) for root in roots):
                _unlink(_own.path)


def _forget_in_fork() -> None:
    """A fork is another driver; it must not keep the lock of this one."""
    global _own, _lock
    _lock = threading.RLock()
    if _own is not None and _own.descriptor >= 0:
        os.close(_own.descriptor)
    _own = None


os.register_at_fork(after_in_child=_forget_in_fork)


def _default_root() -> Path:
    import tempfile  # late: it imports much

    return Path(tempfile.gettempdir()).absolute() / f"abreast-{os.getuid()}"


def root() -> Path:
    """The folder of all workspaces and temporary folders of this user; it may not exist yet."""
    chosen = os.environ.get(ROOT_VARIABLE)
    if not chosen:
        return _default_root()
    return _path(chosen) if chosen.startswith(os.sep) else Path(chosen).absolute()


_path = cache(Path)


def driver_folder() -> Path:
    """The folder of this process, made if it does not exist. Raises OSError."""
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
    """A folder for a while. If this process is killed, the next abreast of this user removes it."""
    import tempfile

    folder = driver_folder()
    try:
        with tempfile.TemporaryDirectory(dir=folder) as name:
            yield Path(name)
    finally:
        with contextlib.suppress(OSError):  # something else is in it
            folder.rmdir()


@contextlib.contextmanager
def dead_drivers() -> Iterator[tuple[list[Driver], list[Driver]]]:
    """Drivers that died without removing their record, and those of other machines, of which nobody can tell here.

    The records stay locked meanwhile, so that no two processes clean up after the same driver.
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
                    _unlink(path)  # it was killed before it did anything
                elif driver.is_of_this_machine:
                    with contextlib.suppress(OSError):  # a full disk
                        _write(descriptor, {_DEAD: "its lock is held by a process that cleans up"})
                    dead.append(driver)
                else:
                    elsewhere.append(driver)
        yield dead, elsewhere


def forget(driver: Driver) -> None:
    """Remove the record of a dead driver that left nothing."""
    for registry in _registries():
        _unlink(registry / driver.mark)


def _unlink(path: Path) -> None:
    with contextlib.suppress(OSError):  # removed by another process, or on a read-only disk
        path.unlink()


def _records(registry: Path) -> list[Path]:
    try:
        _check_owner(registry)
        return sorted(path for path in registry.iterdir() if _MARK.fullmatch(path.name))
    except OSError:
        return []


def _locked(path: Path) -> int | None:
    """Lock a record; None if its driver lives, or another process cleans up after it."""
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
    if not any(place.count("|") == 2 for place in entries.get("place", ())):
        return None
    roots, kept = ([Path(value) for value in entries.get(key, ())] for key in ("root", "keep"))
    return Driver(mark, entries["place"][0], tuple(roots), frozenset(kept))


def _entries(descriptor: int) -> dict[str, list[str]]:
    entries: dict[str, list[str]] = {}
    with os.fdopen(os.dup(descriptor), "rb") as file:
        for line in file:
            with contextlib.suppress(ValueError, AttributeError):  # killed while it wrote
                for key, value in json.loads(line).items():
                    entries.setdefault(key, []).append(str(value))
    return entries
