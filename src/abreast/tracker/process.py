"""What a process has open: one of each, shared by all its threads, never by a process that was forked from it.

Before a fork everything is closed, and opened again by whoever needs it: SQLite takes a forked process for the one that
has the files open and locked, which it is not.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import util
from typing import Generic, Protocol, TypeVar

from abreast.errors import AbreastError
from abreast.store.held import Closed


class Closable(Protocol):
    def close(self) -> None: ...

    def pause(self) -> None:
        """Close what will be opened again at once."""

    def is_current(self) -> bool:
        """Whether what was opened is still what its path names."""


Open = TypeVar("Open", bound=Closable)
Answer = TypeVar("Answer")


class Shared(Generic[Open]):
    """Things by name, opened once and closed when the process ends, however it was started."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._open: dict[str, Open] = {}
        if hasattr(os, "register_at_fork"):
            after = self._lock.release
            os.register_at_fork(before=self._rest, after_in_parent=after, after_in_child=after)
        self.is_ending = False  # the interpreter: what is opened now must start no thread that may not be stopped
        atexit.register(self._end)

    def _end(self) -> None:
        self.is_ending = True
        self.close()

    def _rest(self) -> None:
        self._lock.acquire()
        for each in self._open.values():
            with suppress(AbreastError):
                each.pause()
        self._open.clear()

    def use(self, name: str, make: Callable[[], Open], act: Callable[[Open], Answer]) -> Answer:
        """What `act` does with it; once more with another one if it was closed meanwhile."""
        found = self.get(name, make, checked=False)
        while True:
            try:
                return act(found)
            except Closed:
                found = self.get(name, make)

    def get(self, name: str, make: Callable[[], Open], checked: bool = True) -> Open:
        """`checked`: not if the file was removed, or another put in its place."""
        found = self._open.get(name)
        if found is not None and (not checked or found.is_current()):
            return found
        with self._lock:
            found = self._open.get(name)
            if found is None or not found.is_current():
                if found is not None:
                    with suppress(AbreastError):  # its file is gone
                        found.close()
                made = make()
                if not self._open:  # workers of multiprocessing do not run what atexit knows
                    util.Finalize(self, self.close, exitpriority=5)
                found = self._open[name] = made
            return found

    def close(self) -> None:
        with self._lock:
            for each in self._open.values():
                with suppress(AbreastError):
                    each.close()
            self._open.clear()
