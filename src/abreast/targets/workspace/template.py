"""What trials begin with, prepared once for all variants of a run that begin alike, and kept as long as it is used."""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import time
from collections.abc import Callable, Hashable
from pathlib import Path

from abreast.store.user_state.drivers import root
from abreast.targets.workspace.environment import Environment
from abreast.targets.workspace.files import directories
from abreast.targets.workspace.files.copies import copy_tree
from abreast.targets.workspace.files.directories import remove_tree
from abreast.targets.workspace.files.snapshot import TICK_S, Snapshot, take_snapshot
from abreast.targets.workspace.git.baseline import Start, record_start

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
