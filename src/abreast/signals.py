"""Signals that end a command: Ctrl-C, SIGTERM, and SIGHUP when the terminal closes."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import threading
from collections.abc import Iterator
from types import FrameType


def ending_signals() -> tuple[signal.Signals, ...]:
    """SIGINT, SIGTERM, and SIGHUP unless it is ignored, as under `nohup`."""
    hang_up = () if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else (signal.SIGHUP,)
    return (signal.SIGINT, signal.SIGTERM, *hang_up)


@contextlib.contextmanager
def interrupting() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into KeyboardInterrupt, so that they cause the same clean-up as Ctrl-C."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, _interrupt) for number in ending_signals() if number != signal.SIGINT}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(number: int, frame: FrameType | None) -> None:
    detach_closed_terminal()
    raise KeyboardInterrupt


def detach_closed_terminal() -> None:
    """Replace standard streams of a closed terminal by /dev/null, because every write to them would fail."""
    for stream in (0, 1, 2):
        with contextlib.suppress(OSError):
            if stat.S_ISCHR(os.fstat(stream).st_mode) and not os.isatty(stream):
                null = os.open(os.devnull, os.O_RDWR)
                os.dup2(null, stream)
                os.close(null)
