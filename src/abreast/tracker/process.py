"""What a process has open: one of each, shared by all its threads, never by a process that was forked from it.

Before a fork everything is closed, and opened again by whoever needs it: SQLite takes a forked process for the one that
has the files open and locked, which it is not.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, Generic, Protocol, TypeVar

from abreast.errors import AbreastError
from abreast.store import Closed


class Closable(Protocol):
    def close(self) -> None: ...

    def pause(self) -> None:
        """Close what will be opened again at once."""

    def is_current(self) -> bool:
        """Whether what was opened is still what its path names."""


class _WorkerExit:
    """Closes everything at the end of a worker of multiprocessing, which runs no atexit functions.

    A pool ends its workers by SIGTERM. It is handled in a thread: Python runs signal handlers in the main thread only,
    which may be blocked for good in the lock of the pool's queue.
    """

    def __init__(self) -> None:
        self.shared: list[Shared[Any]] = []
        self._prepared_for: int | None = None

    def prepare(self) -> None:
        """Close at the end of this process, if it is a worker."""
        if "multiprocessing" not in sys.modules or self._prepared_for == os.getpid():  # a worker has imported it
            return
        from multiprocessing import parent_process, util

        if parent_process() is None:
            return
        self._prepared_for = os.getpid()
        util.Finalize(self, self._close, exitpriority=5)
        is_main_thread = threading.current_thread() is threading.main_thread()
        if is_main_thread and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            self._handle_sigterm()

    def _handle_sigterm(self) -> None:
        receiving, sending = os.pipe()
        os.set_blocking(sending, False)
        signal.set_wakeup_fd(sending, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, _do_nothing)
        os.register_at_fork(after_in_child=_reset_sigterm)
        threading.Thread(target=self._wait_for_sigterm, args=(receiving,), name="abreast-end", daemon=True).start()

    def _wait_for_sigterm(self, receiving: int) -> None:
        import ctypes  # late: only for workers

        while os.read(receiving, 1) != bytes([signal.SIGTERM]):
            pass
        try:
            for shared in self.shared:
                shared.lock.acquire()  # and never released: nothing is opened any more
            self._close()
        finally:
            ctypes.CDLL(None).signal(int(signal.SIGTERM), None)  # `signal.signal` is for the main thread only
            os.kill(os.getpid(), signal.SIGTERM)

    def _close(self) -> None:
        for shared in self.shared:
            shared.close()


def _do_nothing(_number: int, _frame: FrameType | None) -> None:
    pass


def _reset_sigterm() -> None:
    """In a forked child, which has no thread that waits for it."""
    if signal.getsignal(signal.SIGTERM) is _do_nothing:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)


_worker = _WorkerExit()
Open = TypeVar("Open", bound=Closable)
Answer = TypeVar("Answer")


class Shared(Generic[Open]):
    """Things by name, opened once and closed when the process ends, however it was started."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._open: dict[str, Open] = {}
        if hasattr(os, "register_at_fork"):
            after = self.lock.release
            os.register_at_fork(before=self._rest, after_in_parent=after, after_in_child=after)
        self.is_ending = False  # the interpreter: what is opened now must start no thread that may not be stopped
        atexit.register(self._end)
        _worker.shared.append(self)

    def _end(self) -> None:
        self.is_ending = True
        self.close()

    def _rest(self) -> None:
        self.lock.acquire()
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
        with self.lock:
            found = self._open.get(name)
            if found is None or not found.is_current():
                if found is not None:
                    with suppress(AbreastError):  # its file is gone
                        found.close()
                made = make()
                _worker.prepare()
                found = self._open[name] = made
            return found

    def close_removed(self) -> None:
        with self.lock:
            for name in [name for name in self._open if not Path(name).exists()]:
                with suppress(AbreastError):
                    self._open.pop(name).close()

    def close(self) -> None:
        with self.lock:
            for each in self._open.values():
                with suppress(AbreastError):
                    each.close()
            self._open.clear()
