"""Changes outside of a trial's workspace: in the repository or folder it was made from, and in the folder of the spec.

An agent without a sandbox can write wherever its user can. These are two places where a change does harm: the origin of
every later workspace, and the files of the experiment. They are compared by the times that the file system itself
keeps. Whoever writes there while a trial is at work is seen, the agent or another: a hint, not a proof.

The kernel says whether anything changed at all, so that a trial costs nothing where nothing did. Where it cannot, the
files are scanned after every trial, and only few of them.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import struct
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from abreast.store.report_ledger import LEDGER
from abreast.store.user_state.drivers import root

LARGEST = 20_000  # files and folders of a place; a larger one is not looked at
LARGEST_UNWATCHED = 2_000  # the same where every trial scans it
LISTED = 20  # files of a trial that are named
_SKIPPED_FOLDERS = frozenset(("__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis"))
_STORE = re.compile(r".*\.(?:db|sqlite3?|journal|duckdb)(?:-wal|-shm|-journal|\.\w+)?")
_OF_GIT = ("HEAD", "packed-refs", "config", "refs", "hooks")  # programs that only look write other files

# Constants of inotify.
_CHANGES = 0x2 | 0x4 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800  # written, attributes, moved, made, deleted, itself
_ONLY_FOLDERS, _NO_LINKS = 0x01000000, 0x02000000
_OVERFLOW = 0x4000
_EVENT = struct.Struct("iIII")  # watch, mask, cookie, length of the name
_BUFFER = 65_536

Entries = dict[str, tuple[int, bool]]
"""When each path was last changed, in nanoseconds, and whether it is a folder."""


class OutsideChanges:
    """Looks for changes in some folders. All methods may be called from any thread."""

    def __init__(self, folders: Iterable[Path], own_files: Callable[[], Iterable[Path]]) -> None:
        self._asked, self._own_files = list(folders), own_files
        self._lock = threading.Lock()
        self._folders: list[Path] | None = None
        self._too_large: list[Path] = []
        self.limit = LARGEST  # files and folders of a place; a larger one is not looked at
        self._watch: FolderWatch | None = None
        self._first: Entries = {}
        self._written: dict[str, int] = {}  # files that are not as they were, and when each was changed last
        self._gone: list[str] = []
        self._own: set[str] = set()
        self._scanned_at = float("-inf")

    def begin(self) -> list[Path]:
        """Note which files there are and watch them, once. Return the folders that are too large for that."""
        with self._lock:
            if self._folders is None:
                asked = _distinct(self._asked)
                self._own = self._find_own()
                self._watch = _new_watch()
                scanned = {folder: self._scan(folder, LARGEST) for folder in asked}
                self.limit = LARGEST if self._watch is not None else LARGEST_UNWATCHED
                self._folders = [folder for folder, found in scanned.items() if len(found) <= self.limit]
                self._too_large = [folder for folder in asked if folder not in self._folders]
                self._first = {name: entry for folder in self._folders for name, entry in scanned[folder].items()}
            return self._too_large

    def since(self, moment: int) -> list[str] | None:
        """Files written, made or deleted after a moment by the file system's clock; None without a folder to watch."""
        self.begin()
        if not self._folders:
            return None
        asked_at = time.monotonic()
        with self._lock:
            if self._watch is None:
                is_changed = self._scanned_at < asked_at  # trials that end while others are looked after share a scan
            else:
                is_changed = self._has_events(self._watch)
            if is_changed:
                self._scan_again()
            written = [name for name, date in self._written.items() if date >= moment]
            return sorted([*written, *(name for name in self._gone if _is_folder_changed(name, moment))])

    def _has_events(self, watch: FolderWatch) -> bool:
        events = set(watch.read())
        if any(name and _counts(folder, name, self._own) for folder, name in events):
            self._own |= self._find_own()
        return any(not name or _counts(folder, name, self._own) for folder, name in events)

    def _scan_again(self) -> None:
        self._scanned_at = time.monotonic()
        self._own |= self._find_own()
        found: Entries = {}
        for folder in self._folders or ():
            found |= self._scan(folder)
        files = [(name, date) for name, (date, is_folder) in found.items() if not is_folder]
        self._written = {name: date for name, date in files if self._first.get(name) != (date, False)}
        self._gone = [name for name, (_, is_folder) in self._first.items() if not is_folder and name not in found]

    def _scan(self, folder: Path, limit: float = float("inf")) -> Entries:
        """List a folder, one entry more than the limit at most, and watch all folders in it. What abreast itself and
        caches of tools write there is left out."""
        entries: Entries = {}
        waiting = [str(folder)]
        while waiting:
            here = waiting.pop()
            self._add_watch(here)
            for entry in _listed(here):
                if not _counts(here, entry.name, self._own):
                    continue
                with contextlib.suppress(OSError):  # gone meanwhile
                    is_folder = entry.is_dir(follow_symlinks=False)
                    entries[entry.path] = entry.stat(follow_symlinks=False).st_ctime_ns, is_folder
                    waiting += [entry.path] if is_folder else []
                if len(entries) > limit:
                    return entries
        return entries

    def _add_watch(self, folder: str) -> None:
        """Watch a folder, again if it is watched. Where there are too many, nothing is watched any more."""
        if self._watch is not None:
            try:
                self._watch.add(folder)
            except (FileNotFoundError, NotADirectoryError, PermissionError):
                pass  # gone meanwhile, or nobody can list it
            except OSError:
                self._watch = None

    def _find_own(self) -> set[str]:
        """The files of the store, and those that this process and others of its job write, such as `tee`."""
        return {*map(str, self._own_files()), str(root()), *_open_files()}


class FolderWatch:
    """Watches folders, not what is below them, by the descriptor of an inotify instance."""

    def __init__(self, libc: ctypes.CDLL, descriptor: int) -> None:
        self._libc, self._descriptor = libc, descriptor
        weakref.finalize(self, os.close, descriptor)
        self._folders: dict[int, str] = {}

    def add(self, folder: str) -> None:
        """Raises OSError, also if there are too many watches."""
        mask = _CHANGES | _ONLY_FOLDERS | _NO_LINKS
        watch = self._libc.inotify_add_watch(self._descriptor, os.fsencode(folder), mask)
        if watch < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        self._folders[watch] = folder

    def read(self) -> Iterator[tuple[str, str]]:
        """The events since the last call: a folder and a name in it, empty for the folder itself or lost events."""
        while True:
            try:
                events = os.read(self._descriptor, _BUFFER)
            except BlockingIOError:
                return
            at = 0
            while at < len(events):
                watch, mask, _, length = _EVENT.unpack_from(events, at)
                at += _EVENT.size + length
                name = os.fsdecode(events[at - length : at].rstrip(b"\0"))
                yield ("", "") if mask & _OVERFLOW else (self._folders.get(watch, ""), name)


def _new_watch() -> FolderWatch | None:
    """None on another system, with a C library without inotify, or where there are too many instances."""
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None, use_errno=True)
    create = getattr(libc, "inotify_init1", None)
    descriptor = -1 if create is None else create(os.O_NONBLOCK | os.O_CLOEXEC)
    return None if descriptor < 0 else FolderWatch(libc, descriptor)


def _open_files() -> set[str]:
    """What processes of this one's group have open, as far as /proc tells. Agents are in groups of their own."""
    group = os.getpgrp()
    found: set[str] = set()
    with contextlib.suppress(OSError):
        for process in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208 - names only
            with contextlib.suppress(OSError):  # ended meanwhile, or of another user
                if os.getpgid(int(process)) == group:
                    files = f"/proc/{process}/fd"
                    found.update(os.readlink(f"{files}/{number}") for number in os.listdir(files))  # noqa: PTH115, PTH208
    return {name for name in found if name.startswith("/")}


def _is_folder_changed(name: str, moment: int) -> bool:
    """Whether something was made or removed in the folder of a path, or in the next one above it that is there."""
    for folder in Path(name).parents:
        try:
            return folder.lstat().st_ctime_ns >= moment
        except OSError:
            continue
    return False


def _counts(folder: str, name: str, own: set[str]) -> bool:
    """Whether a change of a file or folder is looked at."""
    if name in _SKIPPED_FOLDERS or _STORE.fullmatch(name) or f"{folder}/{name}" in own:
        return False
    return name in _OF_GIT or not folder.endswith("/.git")


def _listed(folder: str) -> list[os.DirEntry[str]]:
    """What is in a folder; nothing if it cannot be listed, or holds reports of a run."""
    try:
        with os.scandir(folder) as entries:
            listed = list(entries)
    except OSError:
        return []
    return [] if any(entry.name == LEDGER for entry in listed) else listed


def _distinct(folders: Iterable[Path]) -> list[Path]:
    """Folders inside of no other. A home and what is above it are left out: agents keep settings there."""
    home = Path.home().resolve()
    resolved = dict.fromkeys(folder.resolve() for folder in folders)
    kept = [folder for folder in resolved if not home.is_relative_to(folder)]
    return [folder for folder in kept if not any(folder != other and folder.is_relative_to(other) for other in kept)]
