"""Changes outside of a trial's workspace: in the repository or folder it was made from, and in the folder of the spec.

An agent without a sandbox can write wherever its user can. What is looked at are two places where a change does harm,
by the times that the file system itself keeps. Whoever writes there while a trial is at work is seen, the agent or
another, so this is a hint and not a proof.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from abreast.store.drivers import root
from abreast.targets.workspace.copying import written_by_abreast

LARGEST = 20_000  # files and folders of a place; a larger one is not looked at
LISTED = 20  # files of a trial that are named
_SKIPPED = frozenset(("__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".DS_Store"))
_OF_GIT = ("HEAD", "packed-refs", "config", "refs", "hooks")  # what others than programs that only look would write


class OutsideChanges:
    """Looks for changes in some folders. All methods may be called from any thread."""

    def __init__(self, folders: Iterable[Path], own_files: Callable[[], Iterable[Path]]) -> None:
        self._folders, self._own_files = list(folders), own_files
        self._lock = threading.Lock()
        self._known: dict[Path, set[str]] | None = None

    def begin(self) -> None:
        """Note which files there are, so that deleted ones are found. The first call does it."""
        with self._lock:
            if self._known is None:
                listed = {folder: self._entries(folder) for folder in _distinct(self._folders)}
                self._known = {folder: set(found) for folder, found in listed.items() if found is not None}

    @property
    def unwatched(self) -> list[Path]:
        """Folders that are too large to be looked at after every trial."""
        self.begin()
        assert self._known is not None
        return [folder for folder in _distinct(self._folders) if folder not in self._known]

    def since(self, moment: int) -> list[str]:
        """Paths of files that were written, made or deleted after a moment, in nanoseconds by the clock of the file
        system."""
        self.begin()
        assert self._known is not None
        changed: list[str] = []
        for folder, known in self._known.items():
            found = self._entries(folder) or {}
            changed += [str(folder / name) for name, (date, is_file) in found.items() if is_file and date >= moment]
            gone = [name for name in known - found.keys() if _is_folder_changed(folder / name, moment)]
            changed += [str(folder / name) for name in gone]
            with self._lock:
                known |= found.keys()
                known -= set(gone)
        return sorted(set(changed))

    def _entries(self, folder: Path) -> dict[str, tuple[int, bool]] | None:
        """When each file and folder was last changed; None if there are too many."""
        found: dict[str, tuple[int, bool]] = {}
        own = {*self._own_files(), root()}
        for entry in _walk(folder, own):
            try:
                looked = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            name = os.path.relpath(entry.path, folder)
            found[name] = (looked.st_ctime_ns, not entry.is_dir(follow_symlinks=False))
            if len(found) > LARGEST:
                return None
        return found


def _is_folder_changed(path: Path, moment: int) -> bool:
    """Whether something was made or removed in the folder of a path, or in one above it that is gone too."""
    for folder in path.parents:
        try:
            return folder.lstat().st_ctime_ns >= moment
        except OSError:
            continue
    return False


def _walk(folder: Path, own: set[Path]) -> Iterator[os.DirEntry[str]]:
    """All below a folder but for what abreast itself and caches of tools write there."""
    waiting = [folder]
    while waiting:
        here = waiting.pop()
        try:
            with os.scandir(here) as entries:
                listed = list(entries)
            skipped = written_by_abreast(here, {entry.name for entry in listed})
        except OSError:
            continue
        is_git = here.name == ".git"
        for entry in listed:
            path = Path(entry.path)
            if entry.name in skipped or entry.name in _SKIPPED or path in own:
                continue
            if is_git and entry.name not in _OF_GIT:
                continue
            yield entry
            if entry.is_dir(follow_symlinks=False):
                waiting.append(path)


def _distinct(folders: Iterable[Path]) -> list[Path]:
    """Those that are inside of no other. A home folder and what is above it are left out: agents keep settings and
    caches there."""
    home = Path.home().resolve()
    resolved = list(dict.fromkeys(folder.resolve() for folder in folders))
    kept = [folder for folder in resolved if not home.is_relative_to(folder)]
    return [folder for folder in kept if not any(folder != other and folder.is_relative_to(other) for other in kept)]
