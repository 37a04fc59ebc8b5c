"""Work that may take for ever or end the process: done in copies of this process, which are ended in time."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import resource
import select
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence

from abreast.signals import ending_signals
from abreast.suites.code_search.server.arguments import Refused

Work = Callable[[], Iterable[bytes]]
_CHUNK = 1 << 18
_LENGTH = 4  # bytes before each record that say how long it is
_WHEN_PARENT_ENDS = 1  # PR_SET_PDEATHSIG


def within(seconds: float, work: Callable[[], str], late: str) -> str:
    """What the work says or refuses; refused with `late` if it is not done by then."""
    began = time.monotonic()
    for record in records([lambda: [_told(work)]], seconds):
        found = json.loads(record)
        if "refused" in found:
            raise Refused(found["refused"])
        return str(found["text"])
    if time.monotonic() - began >= seconds:
        raise Refused(late)
    raise Refused("The search ended without a result. Limit it by path, or search for something simpler.")


def records(works: Sequence[Work], seconds: float) -> Iterator[bytes]:
    """What all of them give, as it comes, until they are done or the time is over. One that dies gives no more.

    A copy of this process does each: an engine deep in a match hears no request to stop, a thread cannot be ended, and
    a parser in C that crashes takes its process with it. No copy outlives its time: it has only so many seconds of
    processor. On Linux none outlives this process either, even if it is killed.
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
        _end_with(parent)
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


def _end_with(parent: int) -> None:
    """The kernel ends this process when its parent ends; that may have been just now."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_WHEN_PARENT_ENDS, signal.SIGKILL)
    if os.getppid() != parent:
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


def _told(work: Callable[[], str]) -> bytes:
    try:
        said = {"text": work()}
    except Refused as refused:
        said = {"refused": str(refused)}
    except Exception as error:  # noqa: BLE001 - told by the process that asked
        said = {"refused": f"The search failed: {type(error).__name__}: {error}"[:300]}
    return json.dumps(said).encode("ascii")
