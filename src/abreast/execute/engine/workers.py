"""Threads and processes for targets; no other module starts them.

Threads return results in batches: one wake-up of the loop for all calls that finished meanwhile. A process worker is a
thread that waits for a process; a timeout kills the process, and a crash affects only its own trial.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import pickle
import queue
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from abreast.errors import Classified, Crashed, classify
from abreast.output import protect
from abreast.targets.base import Moment

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import SpawnProcess

STALL_S = 0.02  # without a finished call, before helper threads start
Task = tuple["asyncio.Future[Any]", Callable[..., Any], tuple[Any, ...]]


class Threads:
    """Threads, started on demand and reused; nothing waits for one that hangs."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._work: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self._idle = 0
        self._lock = threading.Lock()
        self._results: deque[tuple[asyncio.Future[Any], Any, BaseException | None]] = deque()
        self._scheduled = False
        self._count = 0
        self._closed = False

    def call(self, function: Callable[..., Any], *arguments: Any) -> asyncio.Future[Any]:
        future = self._loop.create_future()
        with self._lock:
            if self._idle > 0:
                self._idle -= 1
            else:
                self._add_thread(self._serve)
        self._work.put((future, function, arguments))
        return future

    def _add_thread(self, serve: Callable[[], None]) -> None:
        self._count += 1
        threading.Thread(target=serve, name=f"abreast-{self._count}", daemon=True).start()

    def _serve(self) -> None:
        while (task := self._work.get()) is not None:
            self._run(*task)
            del task

    def _run(self, future: asyncio.Future[Any], function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        result, error = None, None
        if not future.cancelled():
            try:
                result = function(*arguments)
            except BaseException as caught:  # noqa: BLE001 - user code; SystemExit too must not end a worker
                error = caught
        self._return(future, result, error)

    def _return(self, future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
        with self._lock:
            self._idle += 1
            self._results.append((future, result, error))
            if self._scheduled or self._closed:
                return
            self._scheduled = True
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        with self._lock:
            self._scheduled = False
            results = list(self._results)
            self._results.clear()
        for future, result, error in results:
            if future.done():
                continue
            if error is None:
                future.set_result(result)
            elif isinstance(error, Exception) and not isinstance(error, StopIteration):
                future.set_exception(error)
            else:
                future.set_exception(Crashed(f"{type(error).__name__}: {error}"))

    def close(self) -> None:
        with self._lock:
            self._closed = True
            for _ in range(self._count):
                self._work.put(None)


class SharedThread(Threads):
    """One thread for many short calls. Helpers start only while a long call blocks the others.

    Threads that make system calls at the same time switch at each call, which can take longer than the calls.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._ended = 0  # calls
        self._watch: asyncio.TimerHandle | None = None

    def call(self, function: Callable[..., Any], *arguments: Any) -> asyncio.Future[Any]:
        future = self._loop.create_future()
        self._work.put((future, function, arguments))
        if not self._count:
            self._add_thread(self._serve)
        if self._watch is None:
            self._watch = self._loop.call_later(STALL_S, self._check_stall, self._ended, 1)
        return future

    def _check_stall(self, ended: int, helpers: int) -> None:
        """Add helpers if no call has ended since the last check, twice as many each time."""
        self._watch = None
        waiting = self._work.qsize()
        if not waiting:
            return
        if self._ended > ended:
            helpers = 1
        else:
            for _ in range(min(helpers, waiting)):
                self._add_thread(self._help)
            helpers *= 2
        self._watch = self._loop.call_later(STALL_S, self._check_stall, self._ended, helpers)

    def _help(self) -> None:
        with contextlib.suppress(queue.Empty):
            while (task := self._work.get_nowait()) is not None:
                self._run(*task)
                del task

    def _run(self, future: asyncio.Future[Any], function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        super()._run(future, function, arguments)
        self._ended += 1

    def close(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
        super().close()


class Process:
    """One worker process, in its own session so that its children die with it."""

    def __init__(self, process: SpawnProcess, pipe: Connection) -> None:
        self._process, self._pipe = process, pipe
        self._pipe_lock = threading.Lock()  # `kill` closes the pipe once nothing reads it

    @classmethod
    def start(cls) -> Process:
        import multiprocessing  # late: most runs need no process
        from multiprocessing import resource_tracker

        context = multiprocessing.get_context("spawn")
        own_end, worker_end = context.Pipe()
        process = context.Process(target=serve, args=(worker_end, os.getpid()), daemon=True)
        # Ctrl-C in a terminal goes to every process there, and must not break a worker that is starting.
        resource_tracker.ensure_running()  # now, because it would lift the mask
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        worker_end.close()
        return cls(process, own_end)

    def call(self, function: bytes) -> Any:
        """Run a pickled call in the process. Raises `Crashed` if the process ends instead of answering."""
        try:
            with self._pipe_lock:
                self._pipe.send_bytes(function)
                kind, value = pickle.loads(self._pipe.recv_bytes())
        except (EOFError, OSError):
            self._process.join(1.0)
            code = self._process.exitcode
            self.kill()
            raise Crashed(f"the process ended ({_exit(code)})") from None
        if kind == "failure":
            raise Classified(value)
        return value

    def kill(self) -> None:
        pid = self._process.pid
        if pid is not None and self._process.is_alive():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
            self._process.kill()
        self._process.join(5.0)
        if self._pipe_lock.acquire(timeout=1.0):
            self._pipe.close()  # no effect if closed already
            self._pipe_lock.release()

    @property
    def alive(self) -> bool:
        return self._process.is_alive()


def _exit(code: int | None) -> str:
    if code is None:
        return "no exit code"
    if code < 0:
        with contextlib.suppress(ValueError):
            return f"killed by {signal.Signals(-code).name}"
    return f"exit code {code}"


class LocalWorkers:
    """Threads for calls that wait, processes for calls that compute."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[Moment, float], None],
        more_time: Callable[[], Callable[[float], None]],
    ) -> None:
        """`clock` and `more_time` are called in the task of their trial."""
        self._threads = Threads(loop)
        self._shared_thread = SharedThread(loop)
        self.in_thread, self.in_turn = self._threads.call, self._shared_thread.call
        self._clock = clock
        self._more_time = more_time
        self._free: list[Process] = []
        self._all: set[Process] = set()

    def clock(self, moment: Moment, ago: float = 0.0) -> None:
        self._clock(moment, ago)

    def more_time(self) -> Callable[[float], None]:
        return self._more_time()

    async def in_process(self, function: Callable[..., Any] | str, *arguments: Any) -> Any:
        call = pickle.dumps((function, arguments))
        while self._free and not self._free[-1].alive:
            self._all.discard(self._free.pop())
        if not self._free:
            await self._start(function)
        return await self._call(self._free.pop(), call)

    async def _start(self, function: Callable[..., Any] | str) -> None:
        """Start another process, which imports what the function needs."""
        self.clock("preparing")
        worker: Process = await self._threads.call(Process.start)
        self._all.add(worker)
        with contextlib.suppress(Classified):  # the call itself will raise it again
            await self._call(worker, pickle.dumps((id, (function,))))
        self.clock("ready")

    async def _call(self, worker: Process, call: bytes) -> Any:
        try:
            value = await self._threads.call(worker.call, call)
        except Classified:
            self._free.append(worker)
            raise
        except BaseException as error:
            self._all.discard(worker)
            if isinstance(error, asyncio.CancelledError):  # a timeout, or Ctrl-C twice
                self._threads.call(worker.kill)
            raise
        self._free.append(worker)
        return value

    def close(self) -> None:
        self._threads.close()
        self._shared_thread.close()
        for worker in self._all:
            worker.kill()
        self._all.clear()


def serve(pipe: Connection, parent: int) -> None:
    """Execute calls in a worker process until the driver closes the pipe or dies."""
    _die_with(parent)
    protect()  # printing in a user's function must not fail
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    while True:
        try:
            call = pipe.recv_bytes()
        except (EOFError, OSError):
            return
        try:
            function, arguments = pickle.loads(call)
            reply = pickle.dumps(("value", function(*arguments)))
        except BaseException as error:  # noqa: BLE001 - user code; the driver gets the error
            reply = pickle.dumps(("failure", classify(error, in_user_code=True)))
        pipe.send_bytes(reply)


def _die_with(parent: int) -> None:
    """Tie this process to the driver: start a session, and on Linux request a signal for when the parent dies."""
    with contextlib.suppress(OSError):
        os.setsid()
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os._exit(1)
