"""The breaker against services that are down: attempts until the run stops, and what an outage costs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import measure, provider
from benchmarks.runner import write_cases

TRIALS, PARALLEL, FACTOR = 4_000, 8, 3


@dataclass
class Server:
    """An HTTP server on loopback. `status` is what it answers; None hangs. It can be taken down and brought back."""

    status: int | None = 200
    latency: float = 0.02
    headers: str = ""
    port: int = 0
    requests: int = 0
    _connections: set[asyncio.StreamWriter] = field(default_factory=set)
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    _server: asyncio.Server | None = None

    def start(self) -> None:
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self.bring_up()

    def bring_up(self) -> None:
        self._call(self._listen())

    def take_down(self) -> None:
        self._call(self._close())

    def _call(self, coroutine: Any) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(10)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, backlog=512)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        if self._server is not None:
            self._server.close()
            for connection in self._connections:
                connection.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.add(writer)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, ValueError):
            while True:
                first = await reader.readexactly(1)
                if not first.isalpha():  # TLS
                    break
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = head.partition(b"content-length:")[2].partition(b"\r\n")[0]
                await reader.readexactly(int(length or 0))
                self.requests += 1
                await asyncio.sleep(self.latency if self.status is not None else 3600)
                body = provider.BODY if self.status == 200 else b'{"error": {"message": "no"}}'
                lines = f"HTTP/1.1 {self.status} X\r\n{self.headers}content-length: {len(body)}\r\n\r\n"
                writer.write(lines.encode() + body)
        self._connections.discard(writer)
        writer.close()


@contextlib.contextmanager
def serving(**settings: Any) -> Iterator[Server]:
    server = Server(**settings)
    server.start()
    try:
        yield server
    finally:
        server.take_down()


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass(frozen=True)
class Run:
    """What one command did."""

    code: int
    seconds: float
    message: str
    attempts: int
    statuses: Counter[str]


def write_spec(path: Path, address: str, trials: int = TRIALS, limits: str = "") -> None:
    write_cases(path / "cases.jsonl", trials)
    variant = f"{{target: anthropic, model: claude-haiku-4-5, base_url: '{address}'}}"
    limits = f"parallel: {PARALLEL}{', ' if limits else ''}{limits}"
    (path / "spec.yaml").write_text(
        f"cases: cases.jsonl\nvariants: {{only: {variant}}}\nscorers: [exact]\nlimits: {{{limits}}}\n"
    )


def command(path: Path, *words: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "ANTHROPIC_API_KEY": "none", "ABREAST_STATE": str(path / "state")}
    line = [sys.executable, "-m", "abreast", *words, "--events", "events.jsonl", "--yes"]
    return subprocess.Popen(
        line, cwd=path, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )


def finish(path: Path, process: subprocess.Popen[str], begin: float) -> Run:
    _, message = process.communicate(timeout=600)
    lines = [json.loads(line) for line in (path / "events.jsonl").read_text().splitlines()]
    attempts = sum(line["kind"] == "trial_started" for line in lines)
    statuses = Counter(line["status"] for line in lines if line["kind"] == "trial_finished")
    return Run(process.returncode, time.perf_counter() - begin, message, attempts, statuses)


def run_against(address: str, **settings: Any) -> Run:
    with measure.folder() as path:
        write_spec(path, address, **settings)
        begin = time.perf_counter()
        return finish(path, command(path, "run", "spec.yaml", "--force"), begin)  # without it, check refuses to start


def _stops(name: str, run: Run) -> bool:
    most = FACTOR * PARALLEL
    figure = f"{run.attempts} attempts, exit {run.code}"
    reached = run.attempts <= most and run.code == 3
    return measure.line(name, figure, f"≤ {most}, exit 3", reached, value=run.attempts)


def closed() -> bool:
    return _stops("a closed port, 4,000 trials, 8 at a time", run_against(f"http://127.0.0.1:{closed_port()}"))


def no_such_host() -> bool:
    return _stops("a host that does not exist", run_against("http://does-not-exist.invalid"))


def no_tls() -> bool:
    with serving() as server:
        return _stops("https to a server without TLS", run_against(f"https://127.0.0.1:{server.port}"))


def always_500() -> bool:
    with serving(status=500) as server:
        return _stops("a server that always answers 500", run_against(f"http://127.0.0.1:{server.port}"))


def hanging() -> bool:
    with serving(status=None) as server:
        return _stops("a server that hangs", run_against(f"http://127.0.0.1:{server.port}", limits="timeout: 1"))


def short_outage() -> bool:
    """400 trials; after a second the server is gone for twenty."""
    with serving(latency=0.1) as server, measure.folder() as path:
        write_spec(path, f"http://127.0.0.1:{server.port}", 400)
        begin = time.perf_counter()
        process = command(path, "run", "spec.yaml")
        while server.requests < 80:
            time.sleep(0.05)
        server.take_down()
        time.sleep(20)
        server.bring_up()
        run = finish(path, process, begin)
    figure = f"{run.statuses['ok']} answered, {run.attempts} attempts, exit {run.code}"
    reached = (run.code, run.statuses) == (0, Counter(ok=400))
    return measure.line("20 s without the server, 400 trials", figure, "400 answered, exit 0", reached)


ALL = (closed, no_such_host, no_tls, always_500, hanging, short_outage)
QUICK = (closed, no_such_host, no_tls, always_500)
