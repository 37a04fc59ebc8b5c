"""How much memory a program and what it started have taken, looked at while they run."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterator
from pathlib import Path

FIRST_S, LATER_S = 0.01, 0.5  # a quick program is looked at soon, a slow one seldom
_PEAK = re.compile(rb"^VmHWM:\s+(\d+) kB", re.M)
_PROC = Path("/proc")


class Peak:
    """The most that the processes of one program had together. The kernel keeps the peak of each of them, so what
    happens between two looks is seen too. None where there is nothing to look at.

    What the kernel tells at the end of a process will not do: it counts the memory of whoever started it.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._loop = asyncio.get_running_loop()
        self._pause = FIRST_S
        self.bytes: int | None = None
        self._next: asyncio.TimerHandle | None = None
        if _PROC.joinpath("self/status").exists():
            self._next = self._loop.call_later(FIRST_S, self._look)

    def _look(self) -> None:
        found = sum(_peak(pid) for pid in _family(self._pid))
        if found:
            self.bytes = max(self.bytes or 0, found)
        self._pause = min(LATER_S, self._pause * 2)
        self._next = self._loop.call_later(self._pause, self._look)

    def close(self) -> None:
        if self._next is not None:
            self._next.cancel()


def _family(pid: int) -> Iterator[int]:
    """A process and what it started, however deep."""
    left, seen = [pid], {pid}
    while left:
        one = left.pop()
        yield one
        for child in _children(one):
            if child not in seen:
                seen.add(child)
                left.append(child)


def _children(pid: int) -> Iterator[int]:
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - many a second
            yield from map(int, _read(f"/proc/{pid}/task/{thread}/children").split())
    except OSError:
        return


def _peak(pid: int) -> int:
    found = _PEAK.search(_read(f"/proc/{pid}/status"))
    return int(found[1]) * 1024 if found else 0


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - many a second
            return file.read()
    except OSError:
        return b""
