"""A TCP proxy whose network can be cut, frozen and restored."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

from postgres_server import HOST, PATIENCE_S, free_port


class FaultyLink:
    """Forwards connections from a port of its own to a server, in a thread."""

    def __init__(self, host: str, port: int) -> None:
        self.port = 0
        self._target = (host, port)
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._flowing = asyncio.Event()
        self._lost_reply = b""
        self.replies_to_lose = 0

    def __enter__(self) -> FaultyLink:
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="faulty-link")
        self._thread.start()
        self._run(self._restore())
        return self

    def __exit__(self, *_: object) -> None:
        self.cut()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def url(self, url: str) -> str:
        """The same URL through this link."""
        parts = urlsplit(url)
        credentials = parts.netloc.rpartition("@")[0]
        return parts._replace(netloc=f"{credentials}@{HOST}:{self.port}").geturl()

    def cut(self) -> None:
        """Drop all connections and refuse new ones."""
        self._run(self._cut())

    def freeze(self) -> None:
        """Forward nothing, not even the end of a connection; accept new connections."""
        self._run(self._freeze())

    def lose_replies(self, reply: bytes, times: int) -> None:
        """Drop the connection instead of forwarding the next replies of the server that contain these bytes."""
        self._lost_reply, self.replies_to_lose = reply, times

    def restore(self) -> None:
        """Accept connections and forward everything, including what a freeze held back."""
        self._run(self._restore())

    def _run(self, call: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(call, self._loop).result(PATIENCE_S)

    async def _cut(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _freeze(self) -> None:
        self._flowing.clear()

    async def _restore(self) -> None:
        self._flowing.set()
        if self._server is None:
            self.port = self.port or free_port()
            self._server = await asyncio.start_server(self._forward, HOST, self.port)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)
        writers = [writer]
        pumps: list[asyncio.Task[None]] = []
        try:
            server_reader, server_writer = await asyncio.open_connection(*self._target)
            writers.append(server_writer)
            pumps = [
                asyncio.create_task(self._pump(reader, server_writer)),
                asyncio.create_task(self._pump(server_reader, writer, is_reply=True)),
            ]
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            for each in writers:
                each.close()
        except OSError:
            writer.close()  # the server is down
        except asyncio.CancelledError:
            for each in writers:
                each.transport.abort()
        finally:
            for pump in pumps:
                pump.cancel()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_reply: bool = False) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                await self._flowing.wait()
                if is_reply and self.replies_to_lose and self._lost_reply in data:
                    self.replies_to_lose -= 1
                    return
                writer.write(data)
                await writer.drain()
        await self._flowing.wait()
