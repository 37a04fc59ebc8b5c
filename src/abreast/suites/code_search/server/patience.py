"""Work that may take for ever, such as a regular expression: done in a process of its own, which is ended in time."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import time
import warnings
from collections.abc import Callable

from abreast.suites.code_search.server.arguments import Refused

_CHUNK = 65_536


def within(seconds: float, work: Callable[[], str], late: str) -> str:
    """What the work says or refuses; refused with `late` if it is not done by then.

    A copy of this process does it: an engine that is deep in a match hears no request to stop, and a thread cannot be
    ended. The copy cannot outlive its time, even if this process is killed: it has only so many seconds of processor.
    """
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # there are no threads in the server; in a test there may be
        child = os.fork()
    if child == 0:
        _do(work, writer, seconds)
    os.close(writer)
    try:
        told = _heard(reader, time.monotonic() + seconds)
    finally:
        os.close(reader)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    if told is None:
        raise Refused(late)
    if not told:
        raise Refused("The search ended without a result. Limit it by path, or search for something simpler.")
    found = json.loads(told)
    if "refused" in found:
        raise Refused(found["refused"])
    return str(found["text"])


def _do(work: Callable[[], str], writer: int, seconds: float) -> None:
    """In the copy, which ends here."""
    try:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        most = int(seconds) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (most, most))
        _tell(writer, work)
    finally:
        os._exit(0)


def _tell(writer: int, work: Callable[[], str]) -> None:
    try:
        said = {"text": work()}
    except Refused as refused:
        said = {"refused": str(refused)}
    except Exception as error:  # noqa: BLE001 - told by the process that asked
        said = {"refused": f"The search failed: {type(error).__name__}: {error}"[:300]}
    with os.fdopen(writer, "wb") as pipe:
        pipe.write(json.dumps(said).encode("ascii"))


def _heard(reader: int, deadline: float) -> bytes | None:
    """All that comes until the other end is closed; None if that is too late."""
    heard = bytearray()
    while True:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([reader], [], [], left)[0]:
            return None
        chunk = os.read(reader, _CHUNK)
        if not chunk:
            return bytes(heard)
        heard += chunk
