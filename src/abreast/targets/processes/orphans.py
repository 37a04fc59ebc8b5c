"""Processes that a dead driver left behind. Every child of a run carries its mark in the environment."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from abreast.store.user_state.drivers import register
from abreast.targets.processes.supervisor import RLIMIT_LOCKS

if TYPE_CHECKING:
    import psutil  # late elsewhere: most runs leave no process behind

MARK = "ABREAST_RUN"
ROUNDS = 5
PATIENCE_S = 5.0

_lock = threading.Lock()
_running = 0  # runs of this process that are under way: they share one environment, and so one mark


@contextlib.contextmanager
def marked(reaps: bool = True) -> Iterator[None]:
    """Mark the children started in this context. When the last run ends, with `reaps`, those that live are ended."""
    global _running
    mark = register()
    with _lock:
        _running += 1
        os.environ[MARK] = mark
    try:
        yield
    finally:
        with _lock:
            _running -= 1
            if not _running:
                if reaps:
                    reap([mark])
                os.environ.pop(MARK, None)
                if _BEFORE is not None:
                    os.environ[MARK] = _BEFORE


_BEFORE = os.environ.get(MARK)  # this process may itself be the child of a run


def find(marks: Iterable[str], variable: str = MARK) -> list[psutil.Process]:
    """Processes of this user that carry one of these marks in their environment, this one excepted."""
    wanted, found = set(marks), []
    pids = [pid for pid in _candidates(wanted, variable) if pid != os.getpid()]
    if not pids:
        return []
    import psutil

    for pid in pids:
        with contextlib.suppress(psutil.Error, OSError):  # gone, or another user's
            process = psutil.Process(pid)
            if process.environ().get(variable) in wanted and not _ends_by_itself(process):
                found.append(process)
    return found


def _candidates(marks: Collection[str], variable: str) -> Iterator[int]:
    """Processes that may carry one of these marks; all of them where there is no `/proc`."""
    folder = Path("/proc")
    if not (folder / "self/environ").exists():
        import psutil

        yield from psutil.pids()
        return
    settings = [f"{variable}={mark}".encode() for mark in marks]
    for file in folder.glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):  # gone, or another user's
            content = file.read_bytes()
            if any(setting in content for setting in settings):
                yield int(file.parent.name)


def _ends_by_itself(process: psutil.Process) -> bool:
    """Whether it is the resource tracker of this process, by its id: any other program may call itself so."""
    from multiprocessing import resource_tracker

    return process.pid == getattr(resource_tracker._resource_tracker, "_pid", None)


def reap(marks: Collection[str], variable: str = MARK) -> int:
    """End the processes with these marks, by id. Return how many there were."""
    return _end(lambda: find(marks, variable))


def reap_limited(lowest: int, highest: int) -> int:
    """End the processes whose resource limit marks them as started by a supervisor. How many there were."""
    import psutil

    return _end(lambda: [process for process in psutil.process_iter() if lowest <= _limit(process) <= highest])


def _limit(process: psutil.Process) -> int:
    import psutil

    try:
        return int(process.rlimit(RLIMIT_LOCKS)[1])
    except (psutil.Error, OSError):  # gone, or another user's
        return -1


def _end(search: Callable[[], list[psutil.Process]]) -> int:
    ended = 0
    for _ in range(ROUNDS):  # a process may start another one during the search
        processes = search()
        if not processes:
            break
        _kill(processes)
        ended += len(processes)
    return ended


def _kill(processes: list[psutil.Process]) -> None:
    """End them and wait until they do nothing: in a container nobody may collect the dead, so that their ids stay."""
    import psutil

    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.kill()
    deadline = time.monotonic() + PATIENCE_S
    while not all(map(_has_ended, processes)) and time.monotonic() < deadline:
        time.sleep(0.005)
    psutil.wait_procs(processes, timeout=0)  # collects children of this process


def _has_ended(process: psutil.Process) -> bool:
    import psutil

    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True
