"""A server to be overloaded, in a process of its own: so many at once, the rest is refused with a 429.

One line in (`case variant`), one line out (`200`, `429`, or `429 RETRY_AFTER`). Options change it while it runs.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent


class Server:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.busy = 0
        self.served = 0
        self.refused = 0
        self.times: list[float] = []
        self.begin: float | None = None
        self.once = options.refuse_once

    def capacity(self) -> int:
        """Halved in the middle third, if asked for."""
        options = self.options
        if options.dip_from is None or self.begin is None:
            return int(options.capacity)
        elapsed = time.monotonic() - self.begin
        return int(options.capacity) // 2 if options.dip_from <= elapsed < options.dip_to else int(options.capacity)

    async def answer(self, word: str) -> str:
        now = time.monotonic()
        self.begin = self.begin or now
        self.times.append(now)
        if self.once and self.served >= 50:
            self.once = False
            self.refused += 1
            return "429"
        if self.busy >= self.capacity():
            self.refused += 1
            return "429"
        self.busy += 1
        try:
            stalled = self.options.stall == word.split()[-1] and now - self.begin < 10.0
            await asyncio.sleep(10.0 - (now - self.begin) if stalled else self.options.latency)
        finally:
            self.busy -= 1
        self.served += 1
        return "200"

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while line := await reader.readline():
                word = line.decode().strip()
                reply = self.report() if word == "report" else await self.answer(word)
                writer.write(f"{reply}\n".encode())
                await writer.drain()
        writer.close()

    def report(self) -> str:
        return json.dumps({"served": self.served, "refused": self.refused, "times": self.times})


async def serve(options: argparse.Namespace) -> None:
    server = await asyncio.start_server(Server(options).connected, "127.0.0.1", 0, backlog=1000)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


@contextlib.contextmanager
def running(**options: Any) -> Iterator[int]:
    """The server in another process; its port."""
    words = [word for key, value in options.items() for word in (f"--{key.replace('_', '-')}", str(value))]
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.server", *words], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def fetch_report(port: int) -> dict[str, Any]:
    """What the server saw."""

    async def ask() -> str:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=50_000_000)
        writer.write(b"report\n")
        line = await reader.readline()
        writer.close()
        return line.decode()

    report: dict[str, Any] = json.loads(asyncio.run(ask()))
    return report


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--capacity", type=int, default=1_000_000)
    parser.add_argument("--latency", type=float, default=0.2)
    parser.add_argument("--dip-from", type=float)
    parser.add_argument("--dip-to", type=float)
    parser.add_argument("--refuse-once", type=int, default=0)
    parser.add_argument("--stall", default="")
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(parser.parse_args()))
