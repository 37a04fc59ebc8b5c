"""What trials begin with, prepared once for all variants of a run that begin alike, and kept as long as it is used."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Hashable
from pathlib import Path

from abreast.store.drivers import root
from abreast.targets.workspace import place
from abreast.targets.workspace.copying import copy_tree
from abreast.targets.workspace.removal import remove_tree
from abreast.targets.workspace.start import Start, record_start

IDLE = 8  # templates kept that no trial uses now; cases of their own commits come one after the other


class Template:
    """A prepared folder. `fill` puts the files there; with `tracked` they are a checkout."""

    def __init__(self, fill: Callable[[Path], None] | None, tracked: bool) -> None:
        self._fill, self._tracked = fill, tracked
        self._lock = threading.Lock()
        self._folder: Path | None = None
        self._start: Start | None = None
        self.owners: set[object] = set()
        self.trials = 0
        self.used = 0

    def _prepared(self) -> Path:
        """Needs the lock."""
        if self._folder is None:
            folder = place.new_folder("templates")
            try:
                (folder / "files").mkdir()
                if self._fill is not None:
                    self._fill(folder / "files")
            except BaseException:
                remove_tree(folder)
                raise
            self._folder = folder
        return self._folder

    def copy_to(self, folder: Path) -> None:
        """Fill a new folder for a trial. The first call prepares."""
        with self._lock:
            prepared = self._prepared()
        if self._fill is not None:
            copy_tree(prepared / "files", folder)

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
            folder, self._folder, self._start = self._folder, None, None
        if folder is not None:
            remove_tree(folder)
            place.drop_empty(folder)


class Templates:
    """The templates of this process by what they are made of."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[Hashable, Template] = {}
        self._clock = itertools.count(1)

    def taken(self, key: Hashable, owner: object, fill: Callable[[Path], None] | None, tracked: bool) -> Template:
        """One for a trial; to be given back."""
        whole = (str(root()), os.getpid(), key)
        with self._lock:
            template = self._known.setdefault(whole, Template(fill, tracked))
            template.owners.add(owner)
            template.trials += 1
            template.used = next(self._clock)
            return template

    def give_back(self, template: Template) -> None:
        with self._lock:
            template.trials -= 1
        self._sweep()

    def leave(self, owner: object) -> None:
        """This owner makes no more workspaces."""
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
