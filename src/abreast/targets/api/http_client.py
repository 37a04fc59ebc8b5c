"""HTTP clients for model APIs: POST a request and read its response in full.

`DirectClient` speaks HTTP/1.1 on asyncio's transports with the parser of uvicorn. A run makes thousands of requests on
one thread; each takes 0.07 ms of CPU in a target here, and 0.12 ms with aiohttp. `ProxyClient` is aiohttp, for requests
through a proxy.
"""

from __future__ import annotations

import asyncio
import math
import os
import socket
import ssl
import zlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import aiohappyeyeballs
import httptools

if TYPE_CHECKING:
    import aiohttp
    from aiohappyeyeballs import AddrInfoType
    from yarl import URL

CONNECT_S = 60.0
HAPPY_EYEBALLS_S = 0.25  # wait before trying another address of the host
DNS_TTL_S = 300.0
KEEP_ALIVE_S = 15.0
LONGEST_HEAD = 65_536  # bytes of the status line and the headers
GZIP_MAGIC = b"\x1f\x8b"
_PROXIES = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy")


class Sizes(NamedTuple):
    """Limits on the bytes to read of a body."""

    answer: int
    error: int

    def of(self, status: int) -> int:
        return self.answer if status < 300 else self.error


class HttpResponse(NamedTuple):
    """A response. Header names are in lower case; of a body above the size limit only the beginning was read."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    is_complete: bool


class HttpClient(ABC):
    """Sends requests over connections that it keeps open."""

    @abstractmethod
    async def post(self, url: URL, headers: Mapping[str, str], content: bytes, sizes: Sizes) -> HttpResponse:
        """Send a request and read its response. Raises OSError for the network, ValueError for an invalid request."""

    @abstractmethod
    async def close(self) -> None: ...


def make_client() -> HttpClient:
    """Make a client; it uses the proxy in the environment, if any."""
    return ProxyClient() if any(os.environ.get(name) for name in _PROXIES) else DirectClient()


class InvalidResponse(OSError):
    """The response is not valid HTTP/1.1."""


class HttpConnection(asyncio.Protocol):
    """A connection with at most one request in flight."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._response: asyncio.Future[HttpResponse] | None = None
        self._parser = _ResponseParser(Sizes(0, 0))
        self.idle_since = 0.0
        self.is_reusable = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def send(self, request: bytes, sizes: Sizes) -> asyncio.Future[HttpResponse]:
        self._response, self._parser = self._loop.create_future(), _ResponseParser(sizes)
        self._transport.write(request)
        return self._response

    def abort(self) -> None:
        self.is_reusable = False
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._response is None or self._response.done():
            self.abort()  # no request is in flight
            return
        try:
            self._parser.feed(data)
            if self._parser.is_complete or self._parser.is_too_long:
                self._finish()
        except (ValueError, zlib.error) as error:
            self._fail(InvalidResponse(f"invalid HTTP response: {error}"))

    def connection_lost(self, error: Exception | None) -> None:
        self.is_reusable = False
        if self._response is None or self._response.done():
            return
        if error is None and self._parser.ends_with_connection:
            self._parser.is_complete = True
            try:
                self._finish()
            except (ValueError, zlib.error) as problem:
                self._fail(InvalidResponse(f"invalid HTTP response: {problem}"))
        else:
            closed = ConnectionResetError("the server closed the connection")
            self._fail(error if isinstance(error, OSError) else closed)

    def _fail(self, error: OSError) -> None:
        self.abort()
        if self._response is not None and not self._response.done():
            self._response.set_exception(error)

    def _finish(self) -> None:
        assert self._response is not None
        response = self._parser.response()
        self.is_reusable = self.is_reusable and self._parser.is_complete and self._parser.keeps_connection
        self._response.set_result(response)
        if not self.is_reusable:
            self.abort()


class _ResponseParser:
    """Assembles a response from the callbacks of `httptools`."""

    def __init__(self, sizes: Sizes) -> None:
        self._sizes = sizes
        self._parser = httptools.HttpResponseParser(self)
        self._head_size = 0
        self._headers: dict[str, str] = {}
        self._body = bytearray()
        self._status = 0  # 0 before the headers are complete
        self.is_complete = False
        self.keeps_connection = True

    @property
    def ends_with_connection(self) -> bool:
        """Whether the body ends when the connection is closed."""
        has_length = "content-length" in self._headers or "transfer-encoding" in self._headers
        return self._status > 0 and not has_length

    @property
    def is_too_long(self) -> bool:
        return self._status > 0 and len(self._body) > self._sizes.of(self._status)

    def feed(self, data: bytes) -> None:
        """Parse received data. Raises ValueError if it is not HTTP."""
        if not self._status:
            self._head_size += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            raise ValueError("the server switches to another protocol") from None
        except httptools.HttpParserError as error:
            raise ValueError(str(error) or type(error).__name__) from None
        if not self._status and self._head_size > LONGEST_HEAD:
            raise ValueError("the headers are too long")

    def response(self) -> HttpResponse:
        """Return the response so far. Raises ValueError if its compression is damaged."""
        most = self._sizes.of(self._status)
        body = _decompress(self._body, self._headers.get("content-encoding", ""), most, self.is_complete)
        is_complete = self.is_complete and len(body) <= most
        return HttpResponse(self._status, self._headers, bytes(body[:most]), is_complete)

    # -- called by the parser ----------------------------------------------------------------------------------------

    def on_header(self, name: bytes, value: bytes) -> None:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1").strip()
        self._headers[key] = f"{self._headers[key]}, {text}" if key in self._headers else text

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:  # an interim response: the response follows
            self._headers.clear()
        else:
            self._status, self.keeps_connection = status, self._parser.should_keep_alive()

    def on_body(self, content: bytes) -> None:
        self._body += content

    def on_message_begin(self) -> None:
        if self.is_complete:
            self.keeps_connection = False  # more than one response to one request

    def on_message_complete(self) -> None:
        self.is_complete = self._status > 0


def _decompress(content: bytearray, encoding: str, most: int, is_complete: bool) -> bytes | bytearray:
    """Decompress a body, stopping soon after `most` bytes."""
    encoding = encoding.lower()
    if encoding in ("gzip", "x-gzip", "deflate"):
        is_raw = encoding == "deflate" and (content[:1] or b"x")[0] & 15 != 8  # some servers omit the zlib header
        bits = -zlib.MAX_WBITS if is_raw else zlib.MAX_WBITS | 32
        text, rest = bytearray(), bytes(content)
        while True:
            decompressor = zlib.decompressobj(bits)
            text += decompressor.decompress(rest, most + 1 - len(text))
            if not decompressor.eof and is_complete and len(text) <= most:
                raise ValueError("the compressed body is incomplete")
            rest = decompressor.unused_data
            if len(text) > most or not rest.startswith(GZIP_MAGIC):  # gzip may have several members
                return text
    if encoding not in ("", "identity"):
        raise ValueError(f"unknown content-encoding {encoding[:50]!r}")
    return content


class DirectClient(HttpClient):
    """HTTP/1.1 without a proxy."""

    def __init__(self) -> None:
        self._idle: dict[tuple[str, str, int], list[HttpConnection]] = {}
        self._ssl: ssl.SSLContext | None = None
        self._resolved: dict[tuple[str, int], tuple[float, Sequence[AddrInfoType]]] = {}
        self._heads: dict[tuple[URL, int], tuple[Mapping[str, str], bytes]] = {}  # by URL and id of the headers

    async def post(self, url: URL, headers: Mapping[str, str], content: bytes, sizes: Sizes) -> HttpResponse:
        request = b"%s%d\r\n\r\n%s" % (self._head(url, headers), len(content), content)
        origin = (url.scheme, url.raw_host or "", url.port or 80)
        idle = self._idle.setdefault(origin, [])
        connection = self._take(idle) or await self._connect(*origin)
        try:
            response = await connection.send(request, sizes)
        except BaseException:
            connection.abort()
            raise
        if connection.is_reusable:
            connection.idle_since = asyncio.get_running_loop().time()
            idle.append(connection)
        return response

    async def close(self) -> None:
        for connections in self._idle.values():
            for connection in connections:
                connection.abort()
        self._idle.clear()

    def _take(self, idle: list[HttpConnection]) -> HttpConnection | None:
        """Return the most recently used connection that is still open."""
        oldest = asyncio.get_running_loop().time() - KEEP_ALIVE_S
        while idle:
            connection = idle.pop()
            if connection.is_reusable and connection.idle_since >= oldest:
                return connection
            connection.abort()
        return None

    async def _connect(self, scheme: str, host: str, port: int) -> HttpConnection:
        if scheme == "https" and self._ssl is None:
            self._ssl = ssl.create_default_context()
            self._ssl.set_alpn_protocols(["http/1.1"])
        context = self._ssl if scheme == "https" else None
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(CONNECT_S):
            addresses = await self._resolve(host, port)
            sock = await aiohappyeyeballs.start_connection(
                addresses, happy_eyeballs_delay=HAPPY_EYEBALLS_S, interleave=1
            )
            _, connection = await loop.create_connection(
                HttpConnection, sock=sock, ssl=context, server_hostname=host if context else None
            )
        return connection

    async def _resolve(self, host: str, port: int) -> Sequence[AddrInfoType]:
        """Return the addresses of a host, cached for some minutes."""
        loop = asyncio.get_running_loop()
        resolved_at, addresses = self._resolved.get((host, port), (-math.inf, ()))
        if loop.time() - resolved_at > DNS_TTL_S:
            addresses = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            self._resolved[host, port] = loop.time(), addresses
        return addresses

    def _head(self, url: URL, headers: Mapping[str, str]) -> bytes:
        """Return the request up to the content length, cached: a target sends the same headers with each request."""
        if (url, id(headers)) in self._heads:
            return self._heads[url, id(headers)][1]
        fields = {
            "host": url.host_port_subcomponent or "",
            "user-agent": user_agent(),
            "accept": "*/*",
            "accept-encoding": "gzip, deflate",
            **{name.lower(): value for name, value in headers.items()},
        }
        lines = [f"POST {url.raw_path_qs} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
        if any("\r" in line or "\n" in line for line in lines):
            raise ValueError("a header contains a line break")
        head = ("\r\n".join(lines) + "\r\ncontent-length: ").encode("latin-1")
        self._heads[url, id(headers)] = headers, head
        return head


class ProxyClient(HttpClient):
    """aiohttp, which finds the proxy in the environment."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def post(self, url: URL, headers: Mapping[str, str], content: bytes, sizes: Sizes) -> HttpResponse:
        import aiohttp

        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=300),  # the scheduler limits concurrent requests
                timeout=aiohttp.ClientTimeout(total=None, connect=CONNECT_S),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"user-agent": user_agent()},
                trust_env=True,
            )
        try:
            async with self._session.post(url, data=content, headers=headers, allow_redirects=False) as response:
                body, is_complete = await _read_body(response, sizes.of(response.status))
                names = dict.fromkeys(name.lower() for name in response.headers)
                return HttpResponse(
                    response.status, {name: response.headers[name] for name in names}, body, is_complete
                )
        except (OSError, ValueError):
            raise
        except aiohttp.ClientError as error:
            raise OSError(f"{type(error).__name__}: {error}") from error

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()


async def _read_body(response: aiohttp.ClientResponse, most: int) -> tuple[bytes, bool]:
    """At most `most` bytes of a decompressed body, and whether that is all of it."""
    parts, size = [], 0
    async for part in response.content.iter_any():
        parts.append(part)
        size += len(part)
        if size > most:
            response.close()
            return b"".join(parts)[:most], False
    return b"".join(parts), True


def user_agent() -> str:
    from abreast import __version__

    return f"abreast/{__version__}"
