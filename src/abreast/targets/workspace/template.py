"""What trials begin with, prepared once for all variants of a run that begin alike, and kept as long as it is used.

A snapshot tells whether a copy is unchanged, and undoes what a trial changed in it: every change of a file or folder
gets its time from the file system (`ctime`), which no program can set back.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import stat
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from pathlib import Path

from abreast.store.user_state.drivers import root
from abreast.targets.workspace.environment import Environment
from abreast.targets.workspace.files import directories
from abreast.targets.workspace.files.copies import copy_tree
from abreast.targets.workspace.files.directories import remove_tree
from abreast.targets.workspace.git.scan import Start, record_start

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


IDLE = 8  # templates kept that no trial uses now; cases of their own commits come one after the other
SPARE_BYTES = 1_000_000_000  # of copies that wait for another trial, of all templates together
RESTORE_S = 1.0  # to wait for a copy that is about to be spare


class Template:
    """A prepared folder. `fill` puts the files there; with `tracked` they are a checkout."""

    def __init__(self, fill: Callable[[Path], Environment | None] | None, tracked: bool) -> None:
        self._fill, self._tracked = fill, tracked
        self.environment: Environment | None = None  # what was set up in it, once it is prepared
        self._lock = threading.Lock()
        self._folder: Path | None = None
        self._start: Start | None = None
        self._snapshot: Snapshot | None = None
        self.spares: list[Path] = []  # folders of trials that ended, with a copy that is as new
        self.owners: set[object] = set()
        self.trials = 0
        self.restoring = 0  # trials whose copy is about to become a spare
        self.used = 0

    def _prepared(self) -> Path:
        """Needs the lock."""
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
        """Make and fill a folder for a trial. The first call prepares."""
        folder.mkdir(0o700)
        with self._lock:
            prepared = self._prepared()
        if self._fill is not None:
            copy_tree(prepared / "files", folder)
            time.sleep(TICK_S)  # what a trial changes is dated after what was copied

    @property
    def snapshot(self) -> Snapshot:
        """The prepared files as they look from outside. Raises OSError."""
        with self._lock:
            if self._snapshot is None:
                self._snapshot = take_snapshot(self._prepared() / "files")
            return self._snapshot

    def is_unchanged(self, copy: Path, since: int) -> bool:
        """Whether nothing in a copy was changed after the moment `since`, by the clock of the file system."""
        with contextlib.suppress(OSError):
            return self.snapshot.is_unchanged(copy, since)
        return False

    def restore(self, copy: Path, since: int) -> bool:
        """Undo all changes in a copy. False if that is not possible."""
        with contextlib.suppress(OSError):
            return self.snapshot.restore(copy, since)
        return False

    def files(self) -> Path:
        """The prepared files themselves, to be read and never written."""
        with self._lock:
            return self._prepared() / "files"

    def start(self) -> Start:
        """The record to compare with; made when first asked for."""
        with self._lock:
            if self._start is None:
                folder = self._prepared()
                try:
                    self._start = record_start(folder / "files", folder / "record", self._tracked)
                except BaseException:
                    remove_tree(folder / "record")
                    raise
            return self._start

    def remove(self) -> None:
        with self._lock:
            folder, self._folder, self._start, self._snapshot = self._folder, None, None, None
            spares, self.spares = self.spares, []
        for removed in (*spares, *([] if folder is None else [folder])):
            remove_tree(removed)
            directories.drop_empty(removed)


class Templates:
    """The templates of this process by what they are made of."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._restored = threading.Condition(self._lock)
        self._known: dict[Hashable, Template] = {}
        self._clock = itertools.count(1)

    def taken(
        self, key: Hashable, owner: object, fill: Callable[[Path], Environment | None] | None, tracked: bool
    ) -> Template:
        """One for a trial; to be given back."""
        whole = (str(root()), os.getpid(), key)
        with self._lock:
            template = self._known.setdefault(whole, Template(fill, tracked))
            template.owners.add(owner)
            template.trials += 1
            template.used = next(self._clock)
            return template

    def spare(self, template: Template) -> Path | None:
        """The folder of a trial that ended, with a copy that is as new. To wait for one is quicker than to copy."""
        with self._restored:
            self._restored.wait_for(lambda: template.spares or not template.restoring, RESTORE_S)
            return template.spares.pop() if template.spares else None

    def expect_spare(self, template: Template) -> None:
        """A trial is over, and `keep_spare` follows."""
        with self._lock:
            template.restoring += 1

    def keep_spare(self, template: Template, folder: Path, is_as_new: bool, was_expected: bool) -> None:
        """Keep the folder of a trial for another one if its copy is as new, and if there is room; else remove it."""
        with self._restored:
            template.restoring -= was_expected
            if is_as_new and self._has_room_for(template):
                template.spares.append(folder)
                template.trials -= 1
                self._restored.notify()
                return
            self._restored.notify_all()
        self.give_back(template, folder)

    def give_back(self, template: Template, folder: Path | None = None) -> None:
        """The trial is over; its folder is removed."""
        if folder is not None:
            remove_tree(folder)
            directories.drop_empty(folder)
        with self._lock:
            template.trials -= 1
        self._sweep()

    def _has_room_for(self, template: Template) -> bool:
        spares = sum(len(other.spares) * other.snapshot.size for other in self._known.values() if other.spares)
        return template in self._known.values() and spares + template.snapshot.size <= SPARE_BYTES

    def leave(self, owner: object) -> None:
        with self._lock:
            for template in self._known.values():
                template.owners.discard(owner)
        self._sweep()

    def _sweep(self) -> None:
        """Remove those that nobody needs, and of the idle ones all but the last used."""
        with self._lock:
            idle = [key for key, template in self._known.items() if not template.trials]
            idle.sort(key=lambda key: -self._known[key].used)
            gone = [key for at, key in enumerate(idle) if at >= IDLE or not self._known[key].owners]
            removed = [self._known.pop(key) for key in gone]
        for template in removed:
            template.remove()


TEMPLATES = Templates()
