"""Resources that all threads of a process share, but not forked children.

Everything is closed before a fork, and reopened when needed, because a forked child must not use the parent's SQLite
connections.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any, Generic, Protocol, TypeVar

from abreast.errors import AbreastError
from abreast.store import Closed


class Closable(Protocol):
    def close(self) -> None: ...

    def pause(self) -> None:
        """Close temporarily; the next use opens it again."""

    def is_current(self) -> bool:
        """Whether its address still refers to the same file or database."""


class _WorkerExit:
    """Closes everything when a multiprocessing worker ends, because workers do not run atexit functions.

    A pool ends its workers by SIGTERM. A thread handles it: Python runs signal handlers in the main thread only, which
    may be blocked forever in the lock of the pool's queue.
    """

    def __init__(self) -> None:
        self.shared: list[Shared[Any]] = []
        self._prepared_for: int | None = None

    def prepare(self) -> None:
        """Close everything when this process ends, if it is a worker."""
        if "multiprocessing" not in sys.modules or self._prepared_for == os.getpid():  # workers have imported it
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
                shared.lock.acquire()  # never released, so that nothing is opened any more
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
    """Restore the default in a forked child, which does not have the thread."""
    if signal.getsignal(signal.SIGTERM) is _do_nothing:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)


_worker = _WorkerExit()
Open = TypeVar("Open", bound=Closable)
Answer = TypeVar("Answer")


class Shared(Generic[Open]):
    """Resources by name, opened once, and closed when the process ends."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._open: dict[str, Open] = {}
        release = self.lock.release
        os.register_at_fork(before=self._pause_all, after_in_parent=release, after_in_child=release)
        self.is_ending = False  # at interpreter exit, when no thread may be started
        atexit.register(self._end)
        _worker.shared.append(self)

    def _end(self) -> None:
        self.is_ending = True
        self.close()

    def _pause_all(self) -> None:
        self.lock.acquire()
        for resource in self._open.values():
            with suppress(AbreastError):
                resource.pause()
        self._open.clear()

    def use(self, name: str, make: Callable[[], Open], act: Callable[[Open], Answer]) -> Answer:
        """Call `act` with a resource, again with a new one if it was closed in the meantime."""
        resource = self.get(name, make, checked=False)
        while True:
            try:
                return act(resource)
            except Closed:
                resource = self.get(name, make)

    def get(self, name: str, make: Callable[[], Open], checked: bool = True) -> Open:
        """Open a resource or return the open one; if `checked`, only if its file is still there."""
        resource = self._open.get(name)
        if resource is not None and (not checked or resource.is_current()):
            return resource
        with self.lock:
            resource = self._open.get(name)
            if resource is None or not resource.is_current():
                if resource is not None:
                    with suppress(AbreastError):  # its file was removed
                        resource.close()
                opened = make()
                _worker.prepare()
                resource = self._open[name] = opened
            return resource

    def close_removed(self) -> None:
        with self.lock:
            for name in [name for name, resource in self._open.items() if not resource.is_current()]:
                with suppress(AbreastError):
                    self._open.pop(name).close()

    def close(self) -> None:
        with self.lock:
            for resource in self._open.values():
                with suppress(AbreastError):
                    resource.close()
            self._open.clear()
