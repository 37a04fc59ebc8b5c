"""Processes that a dead driver left behind. Every child of a run carries its mark in the environment."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Collection, Iterable, Iterator

import psutil

MARK = "ABREAST_RUN"
ROUNDS = 5
PATIENCE_S = 5.0

_lock = threading.Lock()
_running = 0  # runs of this process that are under way: they share one environment, and so one mark


@contextlib.contextmanager
def marked(mark: str) -> Iterator[None]:
    """Children started meanwhile carry the mark; when the last run of this process ends, those that are left do too."""
    global _running
    with _lock:
        _running += 1
        os.environ[MARK] = mark
    try:
        yield
    finally:
        with _lock:
            _running -= 1
            if not _running:
                reap([mark])
                os.environ.pop(MARK, None)
                if _BEFORE is not None:
                    os.environ[MARK] = _BEFORE


_BEFORE = os.environ.get(MARK)  # this process may itself be the child of a run


def find(marks: Iterable[str], variable: str = MARK) -> list[psutil.Process]:
    """Processes of this user that carry one of these marks in their environment, this one excepted."""
    wanted, found = set(marks), []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if (
                process.pid != os.getpid()
                and process.environ().get(variable) in wanted
                and not _ends_by_itself(process)
            ):
                found.append(process)
    return found


def _ends_by_itself(process: psutil.Process) -> bool:
    """Python's resource tracker lives as long as the driver, for whoever uses `multiprocessing` after the run too."""
    return any("multiprocessing.resource_tracker" in word for word in process.cmdline())


def reap(marks: Collection[str], variable: str = MARK) -> int:
    """End them, by id. How many there were."""
    ended = 0
    for _ in range(ROUNDS):  # one that is starting another may be quicker than one look
        found = find(marks, variable) if marks else []
        if not found:
            break
        for process in found:
            with contextlib.suppress(psutil.Error):
                process.kill()
        _wait_for(found)
        ended += len(found)
    return ended


def _wait_for(processes: list[psutil.Process]) -> None:
    """Until they do nothing any more: in a container nobody may collect the dead, so that their ids stay."""
    deadline = time.monotonic() + PATIENCE_S
    while not all(map(_has_ended, processes)) and time.monotonic() < deadline:
        time.sleep(0.005)
    psutil.wait_procs(processes, timeout=0)  # collects children of this process


def _has_ended(process: psutil.Process) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True
