"""A model API with limits of its own, over HTTP in another process: capacity, queues, random refusals, announced rates.

`GET /seen` reports what the server saw. Options are those of `Behaviour`, as JSON on the command line.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import random
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from benchmarks.measure import ROOT
from benchmarks.provider import BODY

REASONS = {200: "OK", 429: "Too Many Requests", 529: "Overloaded"}
ERROR = b'{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}'


@dataclass(frozen=True)
class Behaviour:
    """How the server answers."""

    latency: float = 0.2  # seconds, the median
    sigma: float = 0.0  # of the logarithm of latency
    capacity: tuple[tuple[float, int], ...] = ()  # from second, requests at once; more are refused
    refused_after: float = 0.0  # seconds
    background: float = 0.0  # share of requests that are refused at any load
    knee: int = 0  # requests at once that are answered without a delay; with more, latency grows in proportion
    per_window: int = 0  # requests that are allowed in a window, as headers announce
    window: float = 60.0  # seconds
    style: str = "openai"  # of the headers, or "anthropic"
    announced_capacity: int = 0  # requests at once, announced as remaining requests


@dataclass
class ServerStats:
    """What the server saw."""

    served: int = 0
    refused: int = 0
    most: int = 0
    latencies: list[float] = field(default_factory=list)


class Server:
    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour, self.stats = behaviour, ServerStats()
        self._chance = random.Random(1)
        self._busy = 0
        self._begin = 0.0
        self._window, self._used = 0, 0

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                at = head.lower().find(b"content-length:")
                if at >= 0:
                    await reader.readexactly(int(head[at + 15 :].split(b"\r\n")[0]))
                if head.startswith(b"GET"):
                    status, headers, body = 200, {}, json.dumps(asdict(self.stats)).encode()
                else:
                    status, headers, body = await self.answer()
                lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
                start = f"HTTP/1.1 {status} {REASONS[status]}\r\ncontent-type: application/json\r\n"
                writer.write(f"{start}{lines}content-length: {len(body)}\r\n\r\n".encode() + body)
        writer.close()

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        how, now = self.behaviour, time.monotonic()
        self._begin = self._begin or now
        if how.per_window and not self._has_room(now):
            self.stats.refused += 1
            return 429, self._headers(now), ERROR
        if self._chance.random() < how.background or self._busy >= self._capacity(now):
            self.stats.refused += 1
            await asyncio.sleep(how.refused_after)
            return 529, self._headers(now), ERROR
        self._busy += 1
        self.stats.most = max(self.stats.most, self._busy)
        headers = self._headers(now)
        seconds = how.latency * math.exp(self._chance.gauss(0.0, how.sigma))
        await asyncio.sleep(seconds * max(1.0, self._busy / how.knee if how.knee else 1.0))
        self._busy -= 1
        self.stats.served += 1
        self.stats.latencies.append(time.monotonic() - now)
        return 200, headers, BODY

    def _capacity(self, now: float) -> float:
        if self.behaviour.announced_capacity:
            return self.behaviour.announced_capacity
        capacity = math.inf
        for begin, number in self.behaviour.capacity:
            if now - self._begin >= begin:
                capacity = number
        return capacity

    def _has_room(self, now: float) -> bool:
        window = int((now - self._begin) // self.behaviour.window)
        if window != self._window:
            self._window, self._used = window, 0
        self._used += 1
        return self._used <= self.behaviour.per_window

    def _headers(self, now: float) -> dict[str, str]:
        how = self.behaviour
        if how.announced_capacity:
            remaining = max(0, how.announced_capacity - self._busy)
            return {
                "x-ratelimit-limit-requests": str(how.announced_capacity),
                "x-ratelimit-remaining-requests": str(remaining),
            }
        if not how.per_window:
            return {}
        values = {"limit": str(how.per_window), "remaining": str(max(0, how.per_window - self._used))}
        reset = how.window - (now - self._begin) % how.window
        if how.style == "openai":
            values["reset"] = f"{reset:.3f}s"
            return {f"x-ratelimit-{name}-requests": value for name, value in values.items()}
        values["reset"] = datetime.fromtimestamp(time.time() + reset, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return {f"anthropic-ratelimit-requests-{name}": value for name, value in values.items()}


async def serve(behaviour: Behaviour) -> None:
    server = await asyncio.start_server(Server(behaviour).connected, "127.0.0.1", 0, backlog=1000)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


@contextlib.contextmanager
def running(**options: Any) -> Iterator[int]:
    """The server in another process; its port."""
    command = [sys.executable, "-m", "benchmarks.congested", json.dumps(options)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def fetch_stats(port: int) -> dict[str, Any]:
    """What the server saw."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/seen") as response:
        report: dict[str, Any] = json.loads(response.read())
    return report


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(Behaviour(**json.loads(sys.argv[1]))))
