"""Processes that serve the live page: `abreast view`, and the one that `abreast run --view` starts."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import webbrowser
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from abreast.execute.listener import Listener
from abreast.output import echo, protect, say
from abreast.signals import ending_signals
from abreast.store import Store, open_store
from abreast.store.address import complete_address
from abreast.view.server import ViewOptions, ViewServer

CLOSES_WITHIN_S = 5.0


async def serve(
    store: Store, options: ViewOptions, run: str | None, until: Callable[[], Awaitable[object]], opens_browser: bool
) -> None:
    """Serve the pages of a store, print the address, and open it in a browser."""
    server = ViewServer(store, options)
    store.close()
    address = await server.start(run)
    try:
        echo(address, flush=True)
        if opens_browser and _has_browser():
            await asyncio.to_thread(webbrowser.open, address)
        await until()
    finally:
        await server.close()


async def end_signal() -> None:
    """Wait for Ctrl-C or SIGTERM."""
    ended, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in ending_signals():
        loop.add_signal_handler(number, ended.set)
    await ended.wait()


def _has_browser() -> bool:
    """Whether there is a graphical browser; a text browser would take over this terminal."""
    return sys.platform == "darwin" or any(name in os.environ for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))


class ViewProcess(Listener):
    """Serves the page of a run in a separate process, which ends with this one."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._process: subprocess.Popen[str] | None = None

    def event(self, kind: str, **detail: Any) -> None:
        if kind == "run_started" and self._process is None:
            self._start(detail["run"])

    def _start(self, run: str) -> None:
        command = [sys.executable, "-m", "abreast.view.serving"]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, start_new_session=True)
        request = {"address": complete_address(self._store.address), "engine": self._store.engine, "run": run}
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # the process has printed why it ended
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        threading.Thread(target=self._print_address, args=[self._process], daemon=True).start()

    def _print_address(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        if address := process.stdout.readline().strip():
            say(f"  view     {address}")

    @property
    def is_active(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def wait(self) -> None:
        """Wait until the user presses Ctrl-C."""
        if self._process is not None:
            with suppress(KeyboardInterrupt):
                self._process.wait()

    def close(self) -> None:
        process = self._process
        if process is None or process.stdin is None:
            return
        with suppress(BrokenPipeError):
            process.stdin.close()
        try:
            process.wait(CLOSES_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


async def _end_of_input() -> None:
    ended, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_reader(sys.stdin.fileno(), ended.set)
    await ended.wait()


def main() -> None:
    """Serve the run named in the first line of standard input, until standard input is closed."""
    protect()
    request = json.loads(sys.stdin.readline())
    store = open_store(request["address"], request["engine"])
    asyncio.run(serve(store, ViewOptions(), request["run"], _end_of_input, opens_browser=True))


if __name__ == "__main__":
    main()
