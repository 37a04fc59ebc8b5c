"""Find and end the processes of a driver, by the mark that every child of a run has in its environment."""

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
    import psutil  # imported late: most runs leave no process behind

MARK = "ABREAST_RUN"
MAX_ROUNDS = 5
KILL_TIMEOUT_S = 5.0

_lock = threading.Lock()
_running = 0  # active runs of this process, which share one environment and so one mark


@contextlib.contextmanager
def marked(reaps: bool = True) -> Iterator[None]:
    """Mark the children started in this context; with `reaps`, end the survivors when the last run ends."""
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
                if _OUTER_MARK is not None:
                    os.environ[MARK] = _OUTER_MARK


_OUTER_MARK = os.environ.get(MARK)  # this process may itself be the child of a run


def find(marks: Iterable[str], variable: str = MARK) -> list[psutil.Process]:
    """Other processes of this user that have one of these marks in their environment."""
    marks, processes = set(marks), []
    pids = [pid for pid in _candidate_pids(marks, variable) if pid != os.getpid()]
    if not pids:
        return []
    import psutil

    for pid in pids:
        with contextlib.suppress(psutil.Error, OSError):  # it has ended, or belongs to another user
            process = psutil.Process(pid)
            if process.environ().get(variable) in marks and not _is_resource_tracker(process):
                processes.append(process)
    return processes


def _candidate_pids(marks: Collection[str], variable: str) -> Iterator[int]:
    folder = Path("/proc")
    if not (folder / "self/environ").exists():
        import psutil

        yield from psutil.pids()
        return
    settings = [f"{variable}={mark}".encode() for mark in marks]
    for file in folder.glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):  # it has ended, or belongs to another user
            content = file.read_bytes()
            if any(setting in content for setting in settings):
                yield int(file.parent.name)


def _is_resource_tracker(process: psutil.Process) -> bool:
    """Whether this is the resource tracker of this process, which ends by itself. Its name could be faked."""
    from multiprocessing import resource_tracker

    return process.pid == getattr(resource_tracker._resource_tracker, "_pid", None)


def reap(marks: Collection[str], variable: str = MARK) -> int:
    return end(lambda: find(marks, variable))


def reap_limited(lowest: int, highest: int) -> int:
    """End the processes whose resource limit marks them as started by a supervisor; return their number."""
    import psutil

    return end(lambda: [process for process in psutil.process_iter() if lowest <= _limit(process) <= highest])


def _limit(process: psutil.Process) -> int:
    import psutil

    try:
        return int(process.rlimit(RLIMIT_LOCKS)[1])
    except (psutil.Error, OSError):  # it has ended, or belongs to another user
        return -1


def end(search: Callable[[], list[psutil.Process]]) -> int:
    ended = 0
    for _ in range(MAX_ROUNDS):  # a process may start another one during the search
        processes = search()
        if not processes:
            break
        _kill(processes)
        ended += len(processes)
    return ended


def _kill(processes: list[psutil.Process]) -> None:
    """Kill processes and wait until they have ended. In a container, they may remain as zombies."""
    import psutil

    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.kill()
    deadline = time.monotonic() + KILL_TIMEOUT_S
    while not all(map(_has_ended, processes)) and time.monotonic() < deadline:
        time.sleep(0.005)
    psutil.wait_procs(processes, timeout=0)  # collects children of this process


def _has_ended(process: psutil.Process) -> bool:
    import psutil

    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True
