"""Detect changes outside a trial's workspace: in the repository or folder it was made from, and in the spec's folder.

An agent without a sandbox can write wherever its user can. Changes in these two folders do harm: they are the origin of
every later workspace, and the files of the experiment. Detection uses `ctime`. Any program may have written there while
a trial was running, so a change is a hint, not a proof.

The kernel reports whether anything changed at all, so that a trial without changes costs nothing. Where it cannot, the
files are scanned after every trial, up to a lower limit.
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

MAX_ENTRIES = 20_000  # files and folders; a larger folder is not observed
MAX_UNWATCHED_ENTRIES = 2_000  # the limit where every trial has to scan the folder
MAX_LISTED = 20  # files named per trial
_SKIPPED_FOLDERS = frozenset(("__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis"))
_STORE = re.compile(r".*\.(?:db|sqlite3?|journal|duckdb)(?:-wal|-shm|-journal|\.\w+)?")
_GIT_FILES = ("HEAD", "packed-refs", "config", "refs", "hooks")  # others are written by programs that only read

# Constants of inotify.
_CHANGES = 0x2 | 0x4 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800  # written, attributes, moved, made, deleted, itself
_ONLY_FOLDERS, _NO_LINKS = 0x01000000, 0x02000000
_OVERFLOW = 0x4000
_EVENT = struct.Struct("iIII")  # watch, mask, cookie, length of the name
_BUFFER = 65_536

Entries = dict[str, tuple[int, bool]]
"""When each path was last changed, in nanoseconds, and whether it is a folder."""


class OutsideChanges:
    def __init__(self, folders: Iterable[Path], own_files: Callable[[], Iterable[Path]]) -> None:
        self._candidates, self._own_files = list(folders), own_files
        self._lock = threading.Lock()
        self._folders: list[Path] | None = None
        self._too_large: list[Path] = []
        self.limit = MAX_ENTRIES  # files and folders; a larger folder is not observed
        self._watch: FolderWatch | None = None
        self._first: Entries = {}
        self._changed_files: dict[str, int] = {}  # changed and new files, and when each was last changed
        self._deleted: list[str] = []
        self._own: set[str] = set()
        self._scanned_at = float("-inf")

    def begin(self) -> list[Path]:
        """List and watch the files, once. Return the folders that are too large to observe."""
        with self._lock:
            if self._folders is None:
                folders = _outermost_folders(self._candidates)
                self._own = self._find_own()
                self._watch = _new_watch()
                scanned = {folder: self._scan(folder, MAX_ENTRIES) for folder in folders}
                self.limit = MAX_ENTRIES if self._watch is not None else MAX_UNWATCHED_ENTRIES
                self._folders = [folder for folder, entries in scanned.items() if len(entries) <= self.limit]
                self._too_large = [folder for folder in folders if folder not in self._folders]
                self._first = {name: entry for folder in self._folders for name, entry in scanned[folder].items()}
            return self._too_large

    def since(self, time_ns: int) -> list[str] | None:
        """Return files created, changed or deleted after a time of the file system's clock; None if no folder is
        observed."""
        self.begin()
        if not self._folders:
            return None
        called_at = time.monotonic()
        with self._lock:
            if self._watch is None:
                is_changed = self._scanned_at < called_at  # concurrent calls share a scan
            else:
                is_changed = self._has_events(self._watch)
            if is_changed:
                self._scan_again()
            changed = [name for name, date in self._changed_files.items() if date >= time_ns]
            return sorted([*changed, *(name for name in self._deleted if _is_folder_changed(name, time_ns))])

    def _has_events(self, watch: FolderWatch) -> bool:
        events = set(watch.read())
        if any(name and _is_relevant(folder, name, self._own) for folder, name in events):
            self._own |= self._find_own()
        return any(not name or _is_relevant(folder, name, self._own) for folder, name in events)

    def _scan_again(self) -> None:
        self._scanned_at = time.monotonic()
        self._own |= self._find_own()
        entries: Entries = {}
        for folder in self._folders or ():
            entries |= self._scan(folder)
        files = [(name, date) for name, (date, is_folder) in entries.items() if not is_folder]
        self._changed_files = {name: date for name, date in files if self._first.get(name) != (date, False)}
        self._deleted = [name for name, (_, is_folder) in self._first.items() if not is_folder and name not in entries]

    def _scan(self, folder: Path, limit: float = float("inf")) -> Entries:
        """List a folder, up to one entry above the limit, and watch all its subfolders. Files of abreast itself and
        caches of tools are left out."""
        entries: Entries = {}
        pending = [str(folder)]
        while pending:
            parent = pending.pop()
            self._add_watch(parent)
            for entry in _list_entries(parent):
                if not _is_relevant(parent, entry.name, self._own):
                    continue
                with contextlib.suppress(OSError):  # deleted meanwhile
                    is_folder = entry.is_dir(follow_symlinks=False)
                    entries[entry.path] = entry.stat(follow_symlinks=False).st_ctime_ns, is_folder
                    pending += [entry.path] if is_folder else []
                if len(entries) > limit:
                    return entries
        return entries

    def _add_watch(self, folder: str) -> None:
        """Watch a folder; stop watching altogether if there are too many."""
        if self._watch is not None:
            try:
                self._watch.add(folder)
            except (FileNotFoundError, NotADirectoryError, PermissionError):
                pass  # deleted meanwhile, or unreadable
            except OSError:
                self._watch = None

    def _find_own(self) -> set[str]:
        """Return the files of the store, and those open in this process and others of its job, such as `tee`."""
        return {*map(str, self._own_files()), str(root()), *_open_files()}


class FolderWatch:
    """Watches folders, without their subfolders, with inotify."""

    def __init__(self, libc: ctypes.CDLL, descriptor: int) -> None:
        self._libc, self._descriptor = libc, descriptor
        weakref.finalize(self, os.close, descriptor)
        self._folders: dict[int, str] = {}

    def add(self, folder: str) -> None:
        """Watch a folder. Raises OSError, also if there are too many watches."""
        mask = _CHANGES | _ONLY_FOLDERS | _NO_LINKS
        watch = self._libc.inotify_add_watch(self._descriptor, os.fsencode(folder), mask)
        if watch < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        self._folders[watch] = folder

    def read(self) -> Iterator[tuple[str, str]]:
        """Yield the events since the last call: a folder and a name in it, empty for the folder or lost events."""
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
    """Return a new watch; None without inotify, or if there are too many instances."""
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None, use_errno=True)
    create = getattr(libc, "inotify_init1", None)
    descriptor = -1 if create is None else create(os.O_NONBLOCK | os.O_CLOEXEC)
    return None if descriptor < 0 else FolderWatch(libc, descriptor)


def _open_files() -> set[str]:
    """Return files open in the processes of this one's group, according to /proc. Agents have their own groups."""
    group = os.getpgrp()
    paths: set[str] = set()
    with contextlib.suppress(OSError):
        for process in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208 - names only
            with contextlib.suppress(OSError):  # ended meanwhile, or another user's
                if os.getpgid(int(process)) == group:
                    files = f"/proc/{process}/fd"
                    paths.update(os.readlink(f"{files}/{number}") for number in os.listdir(files))  # noqa: PTH115, PTH208
    return {path for path in paths if path.startswith("/")}


def _is_folder_changed(name: str, time_ns: int) -> bool:
    """Whether entries were created or removed in the folder of a path, or in its nearest parent that exists."""
    for folder in Path(name).parents:
        try:
            return folder.lstat().st_ctime_ns >= time_ns
        except OSError:
            continue
    return False


def _is_relevant(folder: str, name: str, own: set[str]) -> bool:
    if name in _SKIPPED_FOLDERS or _STORE.fullmatch(name) or f"{folder}/{name}" in own:
        return False
    return name in _GIT_FILES or not folder.endswith("/.git")


def _list_entries(folder: str) -> list[os.DirEntry[str]]:
    """Return the entries of a folder; none if it is unreadable or contains reports of a run."""
    try:
        with os.scandir(folder) as entries:
            children = list(entries)
    except OSError:
        return []
    return [] if any(entry.name == LEDGER for entry in children) else children


def _outermost_folders(folders: Iterable[Path]) -> list[Path]:
    """Return folders that no other contains, without the home folder and its parents, where agents keep settings."""
    home = Path.home().resolve()
    resolved = dict.fromkeys(folder.resolve() for folder in folders)
    outside = [path for path in resolved if not home.is_relative_to(path)]
    return [path for path in outside if not any(path != other and path.is_relative_to(other) for other in outside)]
