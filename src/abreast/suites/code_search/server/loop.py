"""Lines in, lines out. Nothing but the protocol reaches standard output, whoever else prints there."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

from abreast.signals import ending_signals
from abreast.suites.code_search.server.protocol import Server


def serve(server: Server) -> int:
    """Answer each line of standard input until it ends, or until a signal asks for it."""
    for number in ending_signals():
        signal.signal(number, _end)
    out = os.dup(1)
    os.dup2(2, 1)  # what a library or a program of ours prints is no message
    try:
        while line := sys.stdin.buffer.readline():
            reply = server.answer(line)
            if reply is not None:
                _write(out, reply + b"\n")
    except BrokenPipeError:  # nobody listens any more
        pass
    return 0


def _write(out: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(out, rest) :]


def _end(number: int, frame: FrameType | None) -> None:
    raise SystemExit(0)
