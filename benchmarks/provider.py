"""A model API that costs its machine next to nothing, in a process of its own: one answer to every request, later."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
BODY = json.dumps(
    {
        "id": "msg_0",
        "type": "message",
        "role": "assistant",
        "model": "claude-haiku-4-5",
        "content": [{"type": "text", "text": "yes"}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 12, "output_tokens": 1, "cache_read_input_tokens": 0},
    }
).encode()
REPLY = (
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nrequest-id: req_0\r\ncontent-length: "
    + str(len(BODY)).encode()
    + b"\r\n\r\n"
    + BODY
)


class Connection(asyncio.Protocol):
    """HTTP/1.1 as far as a client with a content-length needs it."""

    latency = 0.05

    def __init__(self) -> None:
        self._got = bytearray()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._got += data
        while (end := self._got.find(b"\r\n\r\n")) >= 0:
            head = bytes(self._got[:end]).lower()
            at = head.find(b"content-length:")
            length = int(head[at + 15 :].split(b"\r\n")[0]) if at >= 0 else 0
            if len(self._got) < end + 4 + length:
                return
            del self._got[: end + 4 + length]
            asyncio.get_running_loop().call_later(self.latency, self._reply)

    def _reply(self) -> None:
        if not self._transport.is_closing():
            self._transport.write(REPLY)


async def serve(latency: float) -> None:
    Connection.latency = latency
    server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", 0, backlog=2000)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


@contextlib.contextmanager
def running(latency: float) -> Iterator[int]:
    """The server in another process; its port."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.provider", str(latency)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(float(sys.argv[1])))
