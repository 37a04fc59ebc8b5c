"""A prepared folder as it was, to tell whether a copy is unchanged and to undo what a trial changed in one.

Whatever is written, renamed, linked or given other permissions gets the time of that from the file system (`ctime`),
and so does a folder in which something is made or removed. No program can set that time back.
"""

from __future__ import annotations

import os
import shutil
import stat
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from abreast.targets.workspace.files.directories import remove_tree

TICK_S = 0.011  # the longest time for which the clock of a file system stands still
_ONE_SCAN = threading.Lock()  # several would only take turns, at every file

Look = tuple[int, int, int]
"""How a file looks from outside: its mode, size and date. Folders have no size."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The files and folders below `source`, by folder and name."""

    source: bytes
    folders: dict[bytes, dict[bytes, Look]]
    size: int  # bytes of all files

    def is_unchanged(self, copy: Path, since: int) -> bool:
        """Whether a copy is as it was handed out at the moment `since`, by the clock of the file system."""
        top = os.fsencode(copy)
        try:
            names = set(os.listdir(top))  # noqa: PTH208 - names of any bytes
            if copy.is_symlink() or names != self.folders[b""].keys():
                return False
            if not names:
                return True
            with _ONE_SCAN:
                for folder in self.folders:
                    with os.scandir(top + folder) as entries:
                        for entry in entries:
                            if entry.stat(follow_symlinks=False).st_ctime_ns >= since:
                                return False
        except OSError:
            return False
        return True

    def restore(self, copy: Path, since: int) -> bool:
        """Make a copy what it was. False if that is not possible; then the copy is useless."""
        top = os.fsencode(copy)
        try:
            if copy.is_symlink() or _has_attributes(top):
                return False
            copy.chmod(0o700)
            for folder, known in self.folders.items():
                if not self._restore_folder(top, folder, known, since):
                    return False
            for folder, known in reversed(self.folders.items()):
                for name, (mode, _, date) in known.items():
                    path = top + folder + b"/" + name
                    if stat.S_ISDIR(mode) and os.lstat(path).st_mtime_ns != date:
                        os.utime(path, ns=(date, date))
            time.sleep(TICK_S)  # so that it is not taken for a change by the next trial
        except OSError:
            return False
        return True

    def _restore_folder(self, top: bytes, folder: bytes, known: dict[bytes, Look], since: int) -> bool:
        with os.scandir(top + folder) as entries:
            present = {entry.name: entry.stat(follow_symlinks=False) for entry in entries}
        for name in present.keys() - known.keys():
            if not remove_tree(Path(os.fsdecode(top + folder + b"/" + name))):
                return False
        for name, look in known.items():
            path, found = top + folder + b"/" + name, present.get(name)
            if found is not None and not _is_changed(found, look, since):
                if stat.S_ISDIR(look[0]) and found.st_ctime_ns >= since and _has_attributes(path):
                    return False
                continue
            if found is not None and not remove_tree(Path(os.fsdecode(path))):
                return False
            _copy(self.source + folder + b"/" + name, path, look)
        return True


def take_snapshot(source: Path) -> Snapshot:
    """Look at every file and folder below one. Raises OSError."""
    top = os.fsencode(source)
    folders = dict(_walk(top))
    sizes = (size for known in folders.values() for mode, size, _ in known.values() if stat.S_ISREG(mode))
    return Snapshot(top, folders, sum(sizes))


def _walk(top: bytes) -> Iterator[tuple[bytes, dict[bytes, Look]]]:
    waiting = [b""]
    while waiting:
        folder = waiting.pop()
        with os.scandir(top + folder) as entries:
            known = {entry.name: _look(entry.stat(follow_symlinks=False)) for entry in entries}
        waiting += [folder + b"/" + name for name, look in known.items() if stat.S_ISDIR(look[0])]
        yield folder, known


def _look(found: os.stat_result) -> Look:
    return found.st_mode, 0 if stat.S_ISDIR(found.st_mode) else found.st_size, found.st_mtime_ns


def _is_changed(found: os.stat_result, look: Look, since: int) -> bool:
    mode, size, date = look
    if found.st_mode != mode:
        return True
    if stat.S_ISDIR(mode):  # its entries are compared one by one
        return False
    return found.st_ctime_ns >= since or found.st_size != size or found.st_mtime_ns != date


def _has_attributes(path: bytes) -> bool:
    """Whether it has extended attributes or access lists, which a prepared folder has not."""
    return bool(hasattr(os, "listxattr") and os.listxattr(path, follow_symlinks=False))


def _copy(source: bytes, target: bytes, look: Look) -> None:
    mode, _, date = look
    if stat.S_ISDIR(mode):  # what is in it follows
        os.mkdir(target)  # noqa: PTH102 - names of any bytes
        os.chmod(target, stat.S_IMODE(mode))  # noqa: PTH101
        return
    shutil.copyfile(source, target, follow_symlinks=False)
    if not stat.S_ISLNK(mode):
        os.chmod(target, stat.S_IMODE(mode))  # noqa: PTH101
    os.utime(target, ns=(date, date), follow_symlinks=False)
