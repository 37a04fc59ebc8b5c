"""MCP over HTTP: the streamable transport, and the older one of server-sent events."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import urllib.request
from collections.abc import AsyncIterator, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from abreast.mcp_protocol import Message
from abreast.redaction import redact_log
from abreast.targets.mcp.conversation import BROKEN, McpError, parse_messages
from abreast.targets.mcp.declaration import REFERENCE, Server
from abreast.targets.mcp.expansion import ExpandedServer
from abreast.targets.mcp.text import first_line

if TYPE_CHECKING:
    import aiohttp

MOST_INPUT = 64_000_000  # bytes
CLOSE_S = 1.0
CHECK_LOGS = "check the logs of the server"
NO_HEADERS: Mapping[str, str] = MappingProxyType({})
_SESSION = "Mcp-Session-Id"


@contextlib.asynccontextmanager
async def http_channel(server: Server, ready: ExpandedServer) -> AsyncIterator[HttpChannel]:
    """Connect to a server for the duration of a context."""
    import aiohttp  # late: most experiments have no such server

    if not re.match("https?://", ready.url, re.IGNORECASE):
        raise McpError(f"{server.url} is not an address", "begin it with http:// or https://")
    try:  # the caller sets the time limit
        session = aiohttp.ClientSession(headers=ready.headers, timeout=aiohttp.ClientTimeout(total=None))
    except (ValueError, TypeError) as error:
        raise McpError(f"its headers cannot be sent: {error}", "correct them") from error
    channel = (SseChannel if server.kind == "sse" else HttpChannel)(server, ready, session)
    try:
        yield channel
    finally:
        await channel.close()


def proxy_for(url: str) -> str | None:
    """Return the proxy in the environment. `trust_env` of aiohttp would also send passwords of ~/.netrc."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if host in ("localhost", "::1") or host.startswith("127.") or urllib.request.proxy_bypass(host):
        return None
    return urllib.request.getproxies().get(parts.scheme)


class HttpChannel:
    """Sends each message as a request; responses are JSON or a stream of events."""

    def __init__(self, server: Server, ready: ExpandedServer, session: aiohttp.ClientSession) -> None:
        self.protocol = ""
        self._server, self._url, self._session = server, ready.url, session
        self._received: asyncio.Queue[Message | McpError] = asyncio.Queue()
        self._streams: set[asyncio.Task[None]] = set()
        self._session_id = ""
        self._size = 0

    async def send(self, message: Message) -> None:
        await self._post(self._url, message)

    async def receive(self) -> Message:
        message = await self._received.get()
        if isinstance(message, McpError):
            raise message
        return message

    def timeout_error(self, method: str, seconds: float) -> McpError:
        fix = f"check that {self._server.url} works; if the server is only slow, raise its start_timeout (seconds)"
        return McpError(f"no answer to {method} within {seconds:g} s", fix)

    async def close(self) -> None:
        for task in self._streams:
            task.cancel()
        await asyncio.gather(*self._streams, return_exceptions=True)
        try:
            if self._session_id:
                with contextlib.suppress(McpError, TimeoutError):
                    async with asyncio.timeout(CLOSE_S):
                        (await self._request("DELETE", self._url)).release()
        finally:
            await self._session.close()

    async def _post(self, url: str, message: Message) -> None:
        accepts = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        response = await self._request("POST", url, data=json.dumps(message).encode(), headers=accepts)
        self._check(response)
        self._session_id = response.headers.get(_SESSION, self._session_id)
        if response.content_type == "text/event-stream" and response.status == 200:
            self._follow(self._events(response, expects_answer="id" in message and "method" in message))
            return
        body = await self._body(response)
        if not body.strip() or response.status in (202, 204):
            return
        messages = parse_messages(body)
        if messages is None:
            raise self._not_mcp(response.content_type, body)
        for reply in messages:
            self._received.put_nowait(reply)

    async def _request(
        self, method: str, url: str, headers: Mapping[str, str] = NO_HEADERS, data: bytes | None = None
    ) -> aiohttp.ClientResponse:
        import aiohttp

        headers = dict(headers)
        if self._session_id:
            headers[_SESSION] = self._session_id
        if self.protocol:
            headers["MCP-Protocol-Version"] = self.protocol
        try:
            return await self._session.request(
                method, url, headers=headers, data=data, allow_redirects=False, proxy=proxy_for(url)
            )
        except aiohttp.ClientConnectorDNSError:
            raise McpError(f"unknown host {urlsplit(url).hostname}", "correct its url") from None
        except aiohttp.ClientSSLError as error:
            raise McpError(f"no TLS connection to {self._server.url}: {error}", "check its certificate") from error
        except aiohttp.ClientConnectorError:
            address = urlsplit(url).netloc.rpartition("@")[2]
            raise McpError(f"nothing listens at {address}", "start the server, or correct its url") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            reason = f"{type(error).__name__}: {error}".removesuffix(": ")
            raise McpError(f"the connection to {self._server.url} failed: {reason}", "correct its url") from error

    def _check(self, response: aiohttp.ClientResponse) -> None:
        status, url = response.status, self._server.url
        if status < 300:
            return
        response.release()
        names = [name for value in self._server.headers.values() for name, _ in REFERENCE.findall(value)]
        if status == 401:
            fix = f"check the value of {names[0]}" if names else "write headers: {Authorization: Bearer ${NAME}}"
            raise McpError(f"{url} requires authentication (401)", fix)
        if status == 403:
            fix = f"check what {names[0]} may do" if names else "add the headers it requires, with ${NAME} for secrets"
            raise McpError(f"{url} denies access (403)", fix)
        if status == 404:
            raise McpError(f"{url} does not exist (404)", "correct its path: it often ends with /mcp or /sse")
        if status == 405:
            other = "http" if self._server.kind == "sse" else "sse"
            raise McpError(f"{url} uses another transport (405)", f"write type: {other}, or correct its path")
        if 300 <= status < 400:
            target = first_line(redact_log(response.headers.get("Location", "another address")))
            raise McpError(f"{url} redirects to {target} ({status})", "write the final address as url:")
        raise McpError(f"{url} answers with status {status}", CHECK_LOGS)

    async def _body(self, response: aiohttp.ClientResponse) -> bytes:
        async with response:
            return b"".join([chunk async for chunk in self._chunks(response)])

    async def _chunks(self, response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        import aiohttp

        try:
            async for chunk in response.content.iter_any():
                self._size += len(chunk)
                if self._size > MOST_INPUT:
                    raise McpError("never stops sending", BROKEN)
                yield chunk
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise McpError(f"the connection broke: {type(error).__name__}", CHECK_LOGS) from error

    def _follow(self, events: AsyncIterator[tuple[str, str]]) -> None:
        task = asyncio.create_task(self._pump(events))
        self._streams.add(task)
        task.add_done_callback(self._streams.discard)

    async def _pump(self, events: AsyncIterator[tuple[str, str]]) -> None:
        try:
            async for kind, data in events:
                self._receive_event(kind, data)
        except McpError as error:
            self._received.put_nowait(error)

    def _receive_event(self, kind: str, data: str) -> None:
        if kind == "message":
            for message in parse_messages(data) or ():
                self._received.put_nowait(message)

    async def _events(self, response: aiohttp.ClientResponse, expects_answer: bool) -> AsyncIterator[tuple[str, str]]:
        """Yield the events of a stream. If it `expects_answer` and ends without one, it is broken."""
        events, answered = Events(), False
        async with response:
            async for chunk in self._chunks(response):
                for kind, data in events.feed(chunk):
                    answered = answered or '"result"' in data or '"error"' in data
                    yield kind, data
        if expects_answer and not answered:
            raise McpError("ends its event stream without an answer", CHECK_LOGS)

    def _not_mcp(self, kind: str, body: bytes) -> McpError:
        text = first_line(redact_log(body.decode(errors="replace")), 80)
        fix = "check the address of the server: it often ends with /mcp or /sse"
        return McpError(f'does not speak MCP: it answers with {kind}: "{text}"', fix)


class SseChannel(HttpChannel):
    """The older transport: one event stream for all responses, whose first event is the address for messages."""

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
            raise self._not_mcp(response.content_type, await self._body(response))
        self._follow(self._events(response, expects_answer=True))

    async def _post(self, url: str, message: Message) -> None:
        response = await self._request(
            "POST", url, {"Content-Type": "application/json"}, data=json.dumps(message).encode()
        )
        self._check(response)
        response.release()

    async def _pump(self, events: AsyncIterator[tuple[str, str]]) -> None:
        final = McpError("ended its event stream", CHECK_LOGS)
        try:
            async for kind, data in events:
                self._receive_event(kind, data)
        except McpError as error:
            final = error
        self._received.put_nowait(final)
        if self._endpoint is not None and not self._endpoint.done():
            self._endpoint.set_exception(final)

    def _receive_event(self, kind: str, data: str) -> None:
        if kind != "endpoint" or self._endpoint is None or self._endpoint.done():
            super()._receive_event(kind, data)
            return
        endpoint = urljoin(self._url, data.strip())
        if urlsplit(endpoint)[:2] != urlsplit(self._url)[:2]:  # the headers may hold secrets
            target = first_line(redact_log(endpoint))
            raise McpError(f"wants messages at another host: {target}", "write the address of that host")
        self._endpoint.set_result(endpoint)


class Events:
    r"""Parser of server-sent events.

    >>> events = Events()
    >>> list(events.feed(b"data: a\nda")), list(events.feed(b"ta: b\r\n\r\nevent: endpoint\ndata: /x\n\n: hm\n\n"))
    ([], [('message', 'a\nb'), ('endpoint', '/x')])
    """

    def __init__(self) -> None:
        self._rest = bytearray()
        self._kind, self._data = "message", list[str]()

    def feed(self, chunk: bytes) -> Iterator[tuple[str, str]]:
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            text = (bytes(self._rest) + line).decode(errors="replace").removesuffix("\r")
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
