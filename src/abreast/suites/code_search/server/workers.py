"""Work that may take for ever or crash: done in copies of this process, which are ended in time."""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import select
import signal
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence

from abreast.regex_timeout import end_with
from abreast.signals import ending_signals

Work = Callable[[], Iterable[bytes]]
_CHUNK = 1 << 18
_LENGTH = 4  # bytes before each record that say how long it is


def records(works: Sequence[Work], seconds: float) -> Iterator[bytes]:
    """What all of them give, as it comes, until they are done or the time is over. One that dies gives no more.

    A copy of this process does each: a thread cannot be ended, and a parser in C that crashes takes its process with
    it. No copy outlives its time: it has only so many seconds of processor. On Linux none outlives this process either,
    even if it is killed.
    """
    deadline = time.monotonic() + seconds
    waiting: dict[int, bytearray] = {}
    children = []
    try:
        for work in works:
            child, reader = _started(work, seconds, list(waiting))
            children.append(child)
            waiting[reader] = bytearray()
        while waiting:
            ready, _, _ = select.select(list(waiting), [], [], max(0.0, deadline - time.monotonic()))
            if not ready or time.monotonic() >= deadline:
                return
            for reader in ready:
                chunk = os.read(reader, _CHUNK)
                waiting[reader] += chunk
                yield from _whole(waiting[reader])
                if not chunk:
                    os.close(reader)
                    del waiting[reader]
    finally:
        for reader in waiting:
            os.close(reader)
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        for child in children:
            os.waitpid(child, 0)


def _started(work: Work, seconds: float, others: list[int]) -> tuple[int, int]:
    """The process that does it, and where it is heard."""
    reader, writer = os.pipe()
    parent = os.getpid()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # there are no threads in the server; in a test there may be
        child = os.fork()
    if child == 0:
        _do(work, writer, seconds, [reader, *others], parent)
    os.close(writer)
    return child, reader


def _do(work: Work, writer: int, seconds: float, others: list[int], parent: int) -> None:
    """In the copy, which ends here."""
    try:
        end_with(parent)
        for number in ending_signals():
            signal.signal(number, signal.SIG_DFL)
        for other in others:
            os.close(other)
        gc.disable()
        most = int(seconds) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (most, most))
        with os.fdopen(writer, "wb") as pipe:
            for record in work():
                pipe.write(len(record).to_bytes(_LENGTH, "big") + record)
    finally:
        os._exit(0)


def _whole(heard: bytearray) -> Iterator[bytes]:
    """The records that are complete; they are taken away."""
    start = 0
    while len(heard) - start >= _LENGTH:
        begin = start + _LENGTH
        end = begin + int.from_bytes(heard[start:begin], "big")
        if end > len(heard):
            break
        yield bytes(heard[begin:end])
        start = end
    del heard[:start]
