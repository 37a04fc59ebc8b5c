"""Run work that may take too long or crash in copies of this process, which are killed in time."""

from __future__ import annotations

import gc
import multiprocessing
import os
import resource
import signal
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from multiprocessing.connection import Connection, wait

from abreast.regex_timeout import end_with
from abreast.signals import ending_signals

Work = Callable[[], Iterable[bytes]]


def run_workers(works: Sequence[Work], seconds: float) -> Iterator[bytes]:
    """Yield the records of all works as they come, until they are done or time is up. One that crashes yields no more.

    Each work runs in a forked process: a thread cannot be killed, and a crash in a C parser kills its process. The
    processes have a limit of CPU time, and on Linux they end with this process, even if it is killed.
    """
    deadline = time.monotonic() + seconds
    context = multiprocessing.get_context("fork")
    readers: list[Connection] = []
    processes = []
    try:
        for work in works:
            reader, writer = context.Pipe(duplex=False)
            process = context.Process(target=_run, args=(work, writer, reader, seconds, os.getpid()), daemon=True)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # there are no threads in the server; in a test there may be
                process.start()
            writer.close()
            readers.append(reader)
            processes.append(process)
        while readers and (ready := wait(readers, max(0.0, deadline - time.monotonic()))):
            for reader in (reader for reader in readers.copy() if reader in ready):
                try:
                    yield reader.recv_bytes()
                except (EOFError, OSError):
                    readers.remove(reader)
                    reader.close()
    finally:
        for reader in readers:
            reader.close()
        for process in processes:
            process.kill()
        for process in processes:
            process.join()
            process.close()


def _run(work: Work, writer: Connection, reader: Connection, seconds: float, parent: int) -> None:
    try:
        end_with(parent)
        for number in ending_signals():
            signal.signal(number, signal.SIG_DFL)
        reader.close()  # otherwise a write would block forever after the parent's death
        gc.disable()
        limit = int(seconds) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
        for record in work():
            writer.send_bytes(record)
    finally:
        os._exit(0)
