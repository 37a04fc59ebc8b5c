"""Changes outside of a trial's workspace: in the repository or folder it was made from, and in the folder of the spec.

An agent without a sandbox can write wherever its user can. These are two places where a change does harm: the origin of
every later workspace, and the files of the experiment. They are compared by the times that the file system itself
keeps. Whoever writes there while a trial is at work is seen, the agent or another: a hint, not a proof.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from abreast.store.beside import LEDGER
from abreast.store.drivers import root

LARGEST = 2_000  # files and folders of a place; a larger one is not looked at
LISTED = 20  # files of a trial that are named
_SKIPPED_FOLDERS = frozenset(("__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis"))
_STORE = re.compile(r".*\.(?:db|sqlite3?|journal|duckdb)(?:-wal|-shm|-journal|\.\w+)?")
_OF_GIT = ("HEAD", "packed-refs", "config", "refs", "hooks")  # programs that only look write other files

Entries = dict[str, tuple[int, bool]]
"""When each path was last changed, in nanoseconds, and whether it is a folder."""


class OutsideChanges:
    """Looks for changes in some folders. All methods may be called from any thread."""

    def __init__(self, folders: Iterable[Path], own_files: Callable[[], Iterable[Path]]) -> None:
        self._asked, self._own_files = list(folders), own_files
        self._lock = threading.Lock()
        self._folders: list[Path] | None = None
        self._first: Entries = {}
        self._last: Entries = {}
        self._scanned_at = float("-inf")

    def begin(self) -> list[Path]:
        """Note which files there are, so that deleted ones are found; later calls change nothing. Return the folders
        that are too large to be looked at."""
        with self._lock:
            asked = _distinct(self._asked)
            if self._folders is None:
                scanned = {folder: self._scan(folder) for folder in asked}
                self._folders = [folder for folder, found in scanned.items() if found is not None]
                self._first = {name: entry for found in scanned.values() for name, entry in (found or {}).items()}
            return [folder for folder in asked if folder not in self._folders]

    def since(self, moment: int) -> list[str] | None:
        """Paths of files that were written, made or deleted after a moment by the clock of the file system; None if
        there is no folder to look at."""
        self.begin()
        if not self._folders:
            return None
        found = self._entries()
        written = [name for name, (date, is_folder) in found.items() if not is_folder and date >= moment]
        gone = [name for name, (_, is_folder) in self._first.items() if not is_folder and name not in found]
        return sorted([*written, *(name for name in gone if _is_folder_changed(name, moment))])

    def _entries(self) -> Entries:
        """All files as they are now. Trials that end while others are looked after share one scan."""
        asked_at = time.monotonic()
        with self._lock:
            if self._scanned_at < asked_at:
                self._scanned_at = time.monotonic()
                scans = [self._scan(folder) or {} for folder in self._folders or ()]
                self._last = {name: entry for found in scans for name, entry in found.items()}
            return self._last

    def _scan(self, folder: Path) -> Entries | None:
        """None if there is too much in it."""
        found: Entries = {}
        own = {*map(str, self._own_files()), str(root())}
        for entry in _walk(folder, own):
            try:
                found[entry.path] = entry.stat(follow_symlinks=False).st_ctime_ns, entry.is_dir(follow_symlinks=False)
            except OSError:
                continue  # gone meanwhile
            if len(found) > LARGEST:
                return None
        return found


def _is_folder_changed(name: str, moment: int) -> bool:
    """Whether something was made or removed in the folder of a path, or in the next one above it that is there."""
    for folder in Path(name).parents:
        try:
            return folder.lstat().st_ctime_ns >= moment
        except OSError:
            continue
    return False


def _walk(folder: Path, own: set[str]) -> Iterator[os.DirEntry[str]]:
    """All below a folder but for what abreast itself and caches of tools write there."""
    waiting = [str(folder)]
    while waiting:
        here = waiting.pop()
        try:
            with os.scandir(here) as entries:
                listed = list(entries)
        except OSError:
            continue
        if any(entry.name == LEDGER for entry in listed):  # reports of a run
            continue
        is_git = here.endswith("/.git")
        for entry in listed:
            if (is_git and entry.name not in _OF_GIT) or entry.path in own or _STORE.fullmatch(entry.name):
                continue
            is_folder = entry.is_dir(follow_symlinks=False)
            if is_folder and entry.name in _SKIPPED_FOLDERS:
                continue
            yield entry
            if is_folder:
                waiting.append(entry.path)


def _distinct(folders: Iterable[Path]) -> list[Path]:
    """Those that are inside of no other. A home folder and what is above it are left out: agents keep settings and
    caches there."""
    home = Path.home().resolve()
    resolved = dict.fromkeys(folder.resolve() for folder in folders)
    kept = [folder for folder in resolved if not home.is_relative_to(folder)]
    return [folder for folder in kept if not any(folder != other and folder.is_relative_to(other) for other in kept)]
