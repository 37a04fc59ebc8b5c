"""A server that is there already: MCP over HTTP, the streamable kind and the older one of server-sent events."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import urllib.request
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

from abreast.mcp_protocol import Message
from abreast.redaction import redact_log
from abreast.targets.mcp.conversation import McpError, parse_messages
from abreast.targets.mcp.declaration import REFERENCE, Server
from abreast.targets.mcp.expansion import ExpandedServer
from abreast.targets.mcp.text import first_line

if TYPE_CHECKING:
    import aiohttp

MOST_INPUT = 64_000_000  # bytes
GOODBYE_S = 1.0
_SESSION = "Mcp-Session-Id"


@contextlib.asynccontextmanager
async def http_channel(server: Server, ready: ExpandedServer) -> AsyncIterator[HttpChannel]:
    """A connection while it is needed."""
    import aiohttp  # late: most experiments have no such server

    if not re.match("https?://", ready.url, re.IGNORECASE):
        raise McpError(f"{server.url} is no address", "set it to one that begins with http:// or https://")
    waits = aiohttp.ClientTimeout(total=None)  # whoever looks has a time limit of its own
    try:
        session = aiohttp.ClientSession(headers=ready.headers, timeout=waits)
    except (ValueError, TypeError) as error:
        raise McpError(f"its headers cannot be sent: {error}", "correct them") from error
    channel = (SseChannel if server.kind == "sse" else HttpChannel)(server, ready, session)
    try:
        yield channel
    finally:
        await channel.close()


def proxy_for(url: str) -> str | None:
    """The proxy that the environment names; `trust_env` of aiohttp would send passwords of ~/.netrc too."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if host in ("localhost", "::1") or host.startswith("127.") or urllib.request.proxy_bypass(host):
        return None
    return urllib.request.getproxies().get(parts.scheme)


class HttpChannel:
    """Every message is a request of its own; what comes back is JSON or a stream of events."""

    def __init__(self, server: Server, ready: ExpandedServer, session: aiohttp.ClientSession) -> None:
        self.protocol = ""
        self._server, self._url, self._session = server, ready.url, session
        self._waiting: asyncio.Queue[Message | McpError] = asyncio.Queue()
        self._reading: set[asyncio.Task[None]] = set()
        self._id = ""
        self._taken = 0

    async def send(self, message: Message) -> None:
        await self._post(self._url, message)

    async def receive(self) -> Message:
        found = await self._waiting.get()
        if isinstance(found, McpError):
            raise found
        return found

    def timeout_error(self, asked: str, seconds: float) -> McpError:
        fix = f"does {self._server.url} work? If the server is only slow, raise its start_timeout (seconds)"
        return McpError(f"no answer to {asked} within {seconds:g} s", fix)

    async def close(self) -> None:
        for task in self._reading:
            task.cancel()
        await asyncio.gather(*self._reading, return_exceptions=True)
        try:
            if self._id:
                with contextlib.suppress(McpError, TimeoutError):
                    async with asyncio.timeout(GOODBYE_S):
                        (await self._request("DELETE", self._url)).release()
        finally:
            await self._session.close()

    async def _post(self, url: str, message: Message) -> None:
        accepts = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        response = await self._request("POST", url, data=json.dumps(message).encode(), headers=accepts)
        self._check(response)
        self._id = response.headers.get(_SESSION, self._id)
        if response.content_type == "text/event-stream" and response.status == 200:
            self._follow(self._events(response, asks="id" in message and "method" in message))
            return
        body = await self._body(response)
        if not body.strip() or response.status in (202, 204):
            return
        messages = parse_messages(body)
        if messages is None:
            raise self._no_server(response.content_type, body)
        for each in messages:
            self._waiting.put_nowait(each)

    async def _request(self, method: str, url: str, headers: Any = None, **more: Any) -> aiohttp.ClientResponse:
        import aiohttp

        own = {_SESSION: self._id} if self._id else {}
        own |= {"MCP-Protocol-Version": self.protocol} if self.protocol else {}
        try:
            return await self._session.request(
                method, url, headers={**(headers or {}), **own}, allow_redirects=False, proxy=proxy_for(url), **more
            )
        except aiohttp.ClientConnectorDNSError:
            raise McpError(f"there is no host {urlsplit(url).hostname}", "correct its url") from None
        except aiohttp.ClientSSLError as error:
            raise McpError(f"no safe connection to {self._server.url}: {error}", "check its certificate") from error
        except aiohttp.ClientConnectorError:
            place = urlsplit(url).netloc.rpartition("@")[2]
            raise McpError(f"nothing listens at {place}", "start the server, or correct its url") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            told = f"{type(error).__name__}: {error}".removesuffix(": ")
            raise McpError(f"the connection to {self._server.url} failed: {told}", "correct its url") from error

    def _check(self, response: aiohttp.ClientResponse) -> None:
        status, url = response.status, self._server.url
        if status < 300:
            return
        response.release()
        names = [found[0] for value in self._server.headers.values() for found in REFERENCE.findall(value)]
        if status == 401:
            fix = f"is {names[0]} right?" if names else "write headers: {Authorization: Bearer ${NAME}}"
            raise McpError(f"{url} wants to know who asks (401)", fix)
        if status == 403:
            fix = f"may {names[0]} do this?" if names else "write the headers that it wants, with ${NAME} for secrets"
            raise McpError(f"{url} does not let us in (403)", fix)
        if status == 404:
            raise McpError(f"there is nothing at {url} (404)", "correct its path: it often ends with /mcp or /sse")
        if status == 405:
            other = "http" if self._server.kind == "sse" else "sse"
            raise McpError(f"{url} speaks in another way (405)", f"write type: {other}, or correct its path")
        if 300 <= status < 400:
            there = first_line(redact_log(response.headers.get("Location", "somewhere else")))
            raise McpError(f"{url} redirects to {there} ({status})", "write the address where it is")
        raise McpError(f"{url} answers with status {status}", "look at what the server logs")

    async def _body(self, response: aiohttp.ClientResponse) -> bytes:
        async with response:
            return b"".join([chunk async for chunk in self._chunks(response)])

    async def _chunks(self, response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        import aiohttp

        try:
            async for chunk in response.content.iter_any():
                self._taken += len(chunk)
                if self._taken > MOST_INPUT:
                    raise McpError("sends without an end", "the server is broken: tell its authors")
                yield chunk
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise McpError(f"the connection broke: {type(error).__name__}", "look at what the server logs") from error

    def _follow(self, events: AsyncIterator[tuple[str, str]]) -> None:
        task = asyncio.create_task(self._pump(events))
        self._reading.add(task)
        task.add_done_callback(self._reading.discard)

    async def _pump(self, events: AsyncIterator[tuple[str, str]]) -> None:
        try:
            async for kind, data in events:
                self._take(kind, data)
        except McpError as trouble:
            self._waiting.put_nowait(trouble)

    def _take(self, kind: str, data: str) -> None:
        if kind == "message" and data:  # an empty one only marks a place in the stream
            for each in parse_messages(data) or ():
                self._waiting.put_nowait(each)

    async def _events(self, response: aiohttp.ClientResponse, asks: bool) -> AsyncIterator[tuple[str, str]]:
        """The events of a stream; one that `asks` for an answer and ends without any is broken."""
        events, answered = Events(), False
        async with response:
            async for chunk in self._chunks(response):
                for kind, data in events.feed(chunk):
                    answered = answered or '"result"' in data or '"error"' in data
                    yield kind, data
        if asks and not answered:
            raise McpError("ends its stream of events without an answer", "look at what the server logs")

    def _no_server(self, kind: str, body: bytes) -> McpError:
        told = first_line(redact_log(body.decode(errors="replace")), 80)
        fix = "is this the address of the server? It often ends with /mcp or /sse"
        return McpError(f'does not speak MCP: it answers with {kind}: "{told}"', fix)


class SseChannel(HttpChannel):
    """The older kind: one stream of events for all that comes back; its first event says where to send messages."""

    def __init__(self, server: Server, ready: ExpandedServer, session: aiohttp.ClientSession) -> None:
        super().__init__(server, ready, session)
        self._endpoint: asyncio.Future[str] | None = None

    async def send(self, message: Message) -> None:
        if self._endpoint is None:
            self._endpoint = asyncio.get_running_loop().create_future()
            await self._open()
        await self._post(await self._endpoint, message)

    async def _open(self) -> None:
        response = await self._request("GET", self._url, {"Accept": "text/event-stream"})
        self._check(response)
        if response.content_type != "text/event-stream":
            raise self._no_server(response.content_type, await self._body(response))
        self._follow(self._events(response, asks=True))

    async def _post(self, url: str, message: Message) -> None:
        response = await self._request(
            "POST", url, {"Content-Type": "application/json"}, data=json.dumps(message).encode()
        )
        self._check(response)
        response.release()

    async def _pump(self, events: AsyncIterator[tuple[str, str]]) -> None:
        ended = McpError("ended its stream of events", "look at what the server logs")
        try:
            async for kind, data in events:
                self._take(kind, data)
        except McpError as trouble:
            ended = trouble
        self._waiting.put_nowait(ended)
        if self._endpoint is not None and not self._endpoint.done():
            self._endpoint.set_exception(ended)

    def _take(self, kind: str, data: str) -> None:
        if kind != "endpoint" or self._endpoint is None or self._endpoint.done():
            super()._take(kind, data)
            return
        there = urljoin(self._url, data.strip())
        if urlsplit(there)[:2] == urlsplit(self._url)[:2]:
            self._endpoint.set_result(there)
        else:  # whoever answers here may not send our headers elsewhere
            raise McpError(
                f"wants messages at another host: {first_line(redact_log(there))}",
                "write the address of that host",
            )


class Events:
    r"""Server-sent events, as they come in.

    >>> events = Events()
    >>> list(events.feed(b"data: a\nda")), list(events.feed(b"ta: b\r\n\r\nevent: endpoint\ndata: /x\n\n: hm\n\n"))
    ([], [('message', 'a\nb'), ('endpoint', '/x')])
    """

    def __init__(self) -> None:
        self._rest = bytearray()
        self._kind, self._data = "message", list[str]()

    def feed(self, chunk: bytes) -> Iterator[tuple[str, str]]:
        *lines, rest = chunk.split(b"\n")
        for each in lines:
            text = (bytes(self._rest) + each).decode(errors="replace").removesuffix("\r")
            self._rest.clear()
            name, _, value = text.partition(":")
            if name == "event":
                self._kind = value.removeprefix(" ")
            elif name == "data":
                self._data.append(value.removeprefix(" "))
            elif not text:
                if self._data:
                    yield self._kind, "\n".join(self._data)
                self._kind, self._data = "message", []
        self._rest += rest
