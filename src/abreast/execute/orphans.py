"""Processes that a dead driver left behind. Every child of a run carries its mark in the environment."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterable

import psutil

MARK = "ABREAST_RUN"


def find(marks: Iterable[str]) -> list[psutil.Process]:
    """Processes of this user that carry one of these marks, this one excepted."""
    wanted, found = set(marks), []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and process.environ().get(MARK) in wanted:
                found.append(process)
    return found


def reap(marks: Collection[str]) -> int:
    """End them, by id. How many there were."""
    found = find(marks) if marks else []
    for process in found:
        with contextlib.suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(found, timeout=5.0)
    return len(found)
