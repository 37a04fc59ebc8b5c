"""Templates: the starts of trials, each prepared once for all variants of a run that share it, and kept while in use.

A snapshot detects whether a copy is unchanged and undoes what a trial changed. It relies on `ctime`: the file system
sets it at every change of a file or folder, and no program can set it back.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import stat
import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from pathlib import Path

from abreast.store.user_state.drivers import root
from abreast.targets.workspace.environment import Environment
from abreast.targets.workspace.files import directories
from abreast.targets.workspace.files.copies import copy_tree
from abreast.targets.workspace.files.directories import remove_tree
from abreast.targets.workspace.git.scan import StartRecord, record_start

TICK_S = 0.011  # the coarsest clock of a file system
_ONE_SCAN = threading.Lock()  # concurrent scans would only compete for the GIL

FileRecord = tuple[int, int, int]
"""The mode, size and date of a file. Folders have size 0."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The files and folders below `source`, by folder and name."""

    source: bytes
    folders: dict[bytes, dict[bytes, FileRecord]]
    size: int  # bytes of all files

    def is_unchanged(self, copy: Path, since: int) -> bool:
        """Whether a copy was not changed after the time `since`, by the clock of the file system. Raises OSError."""
        top = os.fsencode(copy)
        names = set(os.listdir(top))  # noqa: PTH208 - names of any bytes
        if copy.is_symlink() or names != self.folders[b""].keys():
            return False
        with _ONE_SCAN:
            for folder in self.folders if names else ():
                with os.scandir(top + folder) as entries:
                    if any(entry.stat(follow_symlinks=False).st_ctime_ns >= since for entry in entries):
                        return False
        return True

    def restore(self, copy: Path, since: int) -> bool:
        """Undo all changes in a copy. If that fails or raises OSError, the copy is unusable."""
        top = os.fsencode(copy)
        if copy.is_symlink() or _has_attributes(top):
            return False
        copy.chmod(0o700)
        for folder, records in self.folders.items():
            if not self._restore_folder(top, folder, records, since):
                return False
        for folder, records in reversed(self.folders.items()):
            for name, (mode, _, date) in records.items():
                path = top + folder + b"/" + name
                if stat.S_ISDIR(mode) and os.lstat(path).st_mtime_ns != date:
                    os.utime(path, ns=(date, date))
        time.sleep(TICK_S)  # or the restoration would count as a change by the next trial
        return True

    def _restore_folder(self, top: bytes, folder: bytes, records: dict[bytes, FileRecord], since: int) -> bool:
        with os.scandir(top + folder) as entries:
            present = {entry.name: entry.stat(follow_symlinks=False) for entry in entries}
        for name in present.keys() - records.keys():
            if not remove_tree(Path(os.fsdecode(top + folder + b"/" + name))):
                return False
        for name, record in records.items():
            path, status = top + folder + b"/" + name, present.get(name)
            if status is not None and not _is_changed(status, record, since):
                if stat.S_ISDIR(record[0]) and status.st_ctime_ns >= since and _has_attributes(path):
                    return False
                continue
            if status is not None and not remove_tree(Path(os.fsdecode(path))):
                return False
            _copy_entry(self.source + folder + b"/" + name, path, record)
        return True


def take_snapshot(source: Path) -> Snapshot:
    top, size = os.fsencode(source), 0
    folders: dict[bytes, dict[bytes, FileRecord]] = {}
    pending = [b""]
    while pending:
        folder = pending.pop()
        with os.scandir(top + folder) as entries:
            records = {entry.name: _file_record(entry.stat(follow_symlinks=False)) for entry in entries}
        pending += [folder + b"/" + name for name, (mode, _, _) in records.items() if stat.S_ISDIR(mode)]
        size += sum(size for mode, size, _ in records.values() if stat.S_ISREG(mode))
        folders[folder] = records
    return Snapshot(top, folders, size)


def _file_record(status: os.stat_result) -> FileRecord:
    return status.st_mode, 0 if stat.S_ISDIR(status.st_mode) else status.st_size, status.st_mtime_ns


def _is_changed(status: os.stat_result, record: FileRecord, since: int) -> bool:
    if stat.S_ISDIR(record[0]):  # its entries are compared one by one
        return status.st_mode != record[0]
    return status.st_ctime_ns >= since or _file_record(status) != record


def _has_attributes(path: bytes) -> bool:
    return bool(hasattr(os, "listxattr") and os.listxattr(path, follow_symlinks=False))


def _copy_entry(source: bytes, target: bytes, record: FileRecord) -> None:
    mode, _, date = record
    if stat.S_ISDIR(mode):  # its entries follow
        os.mkdir(target)  # noqa: PTH102 - names of any bytes
        os.chmod(target, stat.S_IMODE(mode))  # noqa: PTH101
        return
    shutil.copyfile(source, target, follow_symlinks=False)
    if not stat.S_ISLNK(mode):
        os.chmod(target, stat.S_IMODE(mode))  # noqa: PTH101
    os.utime(target, ns=(date, date), follow_symlinks=False)


MAX_IDLE = 8  # unused templates kept: consecutive cases may have different commits
MAX_SPARE_BYTES = 1_000_000_000  # size of all spare copies
RESTORE_TIMEOUT_S = 1.0  # to wait for a copy to become spare


class WorkspaceTemplate:
    """A prepared folder, filled by `fill` before its first use."""

    def __init__(self, fill: Callable[[Path], Environment | None] | None, is_checkout: bool) -> None:
        self._fill, self._is_checkout = fill, is_checkout
        self.environment: Environment | None = None  # set once prepared
        self._lock = threading.Lock()
        self._folder: Path | None = None
        self._start: StartRecord | None = None
        self._snapshot: Snapshot | None = None
        self.spares: list[Path] = []  # folders of finished trials with a restored copy
        self.owners: set[object] = set()
        self.trials = 0
        self.restoring = 0  # copies about to become spares
        self.last_used = 0

    def _prepare(self) -> Path:
        """Return the folder, filled at the first call. Needs the lock."""
        if self._folder is None:
            folder = directories.new_folder("templates")
            try:
                (folder / "files").mkdir()
                if self._fill is not None:
                    self.environment = self._fill(folder / "files")
            except BaseException:
                remove_tree(folder)
                raise
            self._folder = folder
        return self._folder

    def copy_to(self, folder: Path) -> None:
        folder.mkdir(0o700)
        with self._lock:
            prepared = self._prepare()
        if self._fill is not None:
            copy_tree(prepared / "files", folder)
            time.sleep(TICK_S)  # changes by the trial get a later date

    @property
    def snapshot(self) -> Snapshot:
        with self._lock:
            if self._snapshot is None:
                self._snapshot = take_snapshot(self._prepare() / "files")
            return self._snapshot

    def is_unchanged(self, copy: Path, since: int) -> bool:
        """Whether a copy was not changed after the time `since`."""
        with contextlib.suppress(OSError):
            return self.snapshot.is_unchanged(copy, since)
        return False

    def restore(self, copy: Path, since: int) -> bool:
        """Undo all changes in a copy; return whether that was possible."""
        with contextlib.suppress(OSError):
            return self.snapshot.restore(copy, since)
        return False

    def files(self) -> Path:
        with self._lock:
            return self._prepare() / "files"

    def start(self) -> StartRecord:
        """Return the record to compare copies with, created on first use."""
        with self._lock:
            if self._start is None:
                folder = self._prepare()
                try:
                    self._start = record_start(folder / "files", folder / "git-dir", self._is_checkout)
                except BaseException:
                    remove_tree(folder / "git-dir")
                    raise
            return self._start

    def remove(self) -> None:
        with self._lock:
            folder, self._folder, self._start, self._snapshot = self._folder, None, None, None
            spares, self.spares = self.spares, []
        for removed in (*spares, *([] if folder is None else [folder])):
            remove_tree(removed)
            directories.remove_empty_parents(removed)


class TemplatePool:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._restored = threading.Condition(self._lock)
        self._templates: dict[Hashable, WorkspaceTemplate] = {}
        self._clock = itertools.count(1)

    def acquire(
        self, key: Hashable, owner: object, fill: Callable[[Path], Environment | None] | None, is_checkout: bool
    ) -> WorkspaceTemplate:
        """Return the template of this key for a trial, which must `release` it."""
        pool_key = (str(root()), os.getpid(), key)
        with self._lock:
            template = self._templates.setdefault(pool_key, WorkspaceTemplate(fill, is_checkout))
            template.owners.add(owner)
            template.trials += 1
            template.last_used = next(self._clock)
            return template

    def take_spare(self, template: WorkspaceTemplate) -> Path | None:
        """Return the folder of a finished trial with a restored copy, if any; waiting for one beats copying."""
        with self._restored:
            self._restored.wait_for(lambda: template.spares or not template.restoring, RESTORE_TIMEOUT_S)
            return template.spares.pop() if template.spares else None

    def expect_spare(self, template: WorkspaceTemplate) -> None:
        with self._lock:
            template.restoring += 1

    def keep_spare(self, template: WorkspaceTemplate, folder: Path, is_as_new: bool, was_expected: bool) -> None:
        """Keep the folder of a trial for another one if its copy is restored and there is room; else remove it."""
        with self._restored:
            template.restoring -= was_expected
            if is_as_new and self._has_room_for(template):
                template.spares.append(folder)
                template.trials -= 1
                self._restored.notify()
                return
            self._restored.notify_all()
        self.release(template, folder)

    def release(self, template: WorkspaceTemplate, folder: Path | None = None) -> None:
        if folder is not None:
            remove_tree(folder)
            directories.remove_empty_parents(folder)
        with self._lock:
            template.trials -= 1
        self._sweep()

    def _has_room_for(self, template: WorkspaceTemplate) -> bool:
        spares = sum(len(other.spares) * other.snapshot.size for other in self._templates.values() if other.spares)
        return template in self._templates.values() and spares + template.snapshot.size <= MAX_SPARE_BYTES

    def drop_owner(self, owner: object) -> None:
        with self._lock:
            for template in self._templates.values():
                template.owners.discard(owner)
        self._sweep()

    def _sweep(self) -> None:
        """Remove templates without owners, and all but the most recently used of the idle ones."""
        with self._lock:
            idle = [key for key, template in self._templates.items() if not template.trials]
            idle.sort(key=lambda key: -self._templates[key].last_used)
            unused = [key for at, key in enumerate(idle) if at >= MAX_IDLE or not self._templates[key].owners]
            removed = [self._templates.pop(key) for key in unused]
        for template in removed:
            template.remove()


TEMPLATES = TemplatePool()
