"""HTTP clients for model APIs: one POST, one reply that is read as a whole.

`DirectClient` speaks HTTP/1.1 on asyncio's transports. A run makes thousands of requests on one thread, and this takes
a fraction of the CPU time that aiohttp takes for them. `ProxyClient` is aiohttp, for requests through a proxy.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import aiohttp
    from yarl import URL

CONNECT_S = 60.0
HAPPY_EYEBALLS_S = 0.25  # before another address of the same host is tried
KEEP_ALIVE_S = 15.0  # how long a connection without a request is used again
LONGEST_HEAD = 65_536  # bytes of a status line with its headers
_PROXIES = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy")
_WITHOUT_BODY = (204, 304)


class Sizes(NamedTuple):
    """How many bytes of a body are read."""

    answer: int
    error: int

    def of(self, status: int) -> int:
        return self.answer if status < 300 else self.error


class Reply(NamedTuple):
    """A response. Names of headers are in lower case; of a body above the size limit only the beginning was read."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    is_complete: bool


class HttpClient(ABC):
    """Sends requests over connections that it keeps open."""

    @abstractmethod
    async def post(self, url: URL, headers: Mapping[str, str], content: bytes, sizes: Sizes) -> Reply:
        """Send a request and read its reply. Raises `OSError` for the network, `ValueError` for an invalid request."""

    @abstractmethod
    async def close(self) -> None: ...


def make_client() -> HttpClient:
    """A client for the proxy that the environment names, if any."""
    return ProxyClient() if any(os.environ.get(name) for name in _PROXIES) else DirectClient()


class InvalidReply(OSError):
    """The server does not speak HTTP/1.1."""


class Connection(asyncio.Protocol):
    """One connection with at most one request under way."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._buffer = bytearray()
        self._reply: asyncio.Future[Reply] | None = None
        self._sizes = Sizes(0, 0)
        self._head: tuple[int, dict[str, str]] | None = None
        self._body: _Body | None = None
        self.idle_since = 0.0
        self.is_reusable = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def send(self, request: bytes, sizes: Sizes) -> asyncio.Future[Reply]:
        self._reply, self._sizes = self._loop.create_future(), sizes
        self._head = self._body = None
        self._transport.write(request)
        return self._reply

    def abort(self) -> None:
        self.is_reusable = False
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if self._reply is None or self._reply.done():
            self.abort()  # nothing was asked
            return
        self._try(self._read)

    def connection_lost(self, error: Exception | None) -> None:
        self.is_reusable = False
        if self._reply is None or self._reply.done():
            return
        if error is None and self._body is not None and self._body.ends_with_connection:
            self._try(self._finish)
        else:
            closed = ConnectionResetError("the server closed the connection")
            self._fail(error if isinstance(error, OSError) else closed)

    def _try(self, read: Callable[[], None]) -> None:
        try:
            read()
        except (ValueError, zlib.error) as error:
            self._fail(InvalidReply(f"invalid HTTP response: {error}"))

    def _fail(self, error: OSError) -> None:
        self.abort()
        if self._reply is not None and not self._reply.done():
            self._reply.set_exception(error)

    def _read(self) -> None:
        while self._body is None:
            end = self._buffer.find(b"\r\n\r\n")
            if end > LONGEST_HEAD or (end < 0 and len(self._buffer) > LONGEST_HEAD):
                raise ValueError("the headers are too long")
            if end < 0:
                return
            status, headers = self._head = _parse_head(self._buffer[:end])
            del self._buffer[: end + 4]
            if status >= 200:
                self._body = _Body(status, headers, self._buffer)
                if headers.get("connection", "").lower() == "close" or self._body.ends_with_connection:
                    self.is_reusable = False
        assert self._head is not None
        is_complete = self._body.read()
        if is_complete or self._body.size > self._sizes.of(self._head[0]):
            self._finish(is_complete)

    def _finish(self, is_complete: bool = True) -> None:
        assert self._head is not None
        assert self._body is not None
        assert self._reply is not None
        if not is_complete or self._buffer:
            self.is_reusable = False
        status, headers = self._head
        most = self._sizes.of(status)
        body = _decompress(self._body.content, headers.get("content-encoding", ""), most, is_complete)
        is_complete = is_complete and len(body) <= most
        self._reply.set_result(Reply(status, headers, bytes(body[:most]), is_complete))
        if not self.is_reusable:
            self.abort()


class _Body:
    """Reads a body from a buffer: of a stated length, in chunks, or up to the end of the connection."""

    def __init__(self, status: int, headers: Mapping[str, str], buffer: bytearray) -> None:
        self._buffer = buffer
        self.content = bytearray()
        self._is_chunked = "chunked" in headers.get("transfer-encoding", "").lower()
        length = headers.get("content-length")
        self._length = 0 if status in _WITHOUT_BODY else None if length is None else _number(length, 10)
        self.ends_with_connection = self._length is None and not self._is_chunked

    @property
    def size(self) -> int:
        return len(self.content) + len(self._buffer)

    def read(self) -> bool:
        """Take what has arrived; whether that is all of it."""
        if self._is_chunked:
            return self._read_chunks()
        missing = len(self._buffer) if self._length is None else self._length - len(self.content)
        self.content += self._buffer[:missing]
        del self._buffer[:missing]
        return self._length is not None and len(self.content) == self._length

    def _read_chunks(self) -> bool:
        buffer = self._buffer
        while (end := buffer.find(b"\r\n")) >= 0:
            size = _number(buffer[:end].split(b";")[0].decode("ascii"), 16)
            if size == 0:
                trailer_end = end if buffer[end : end + 4] == b"\r\n\r\n" else buffer.find(b"\r\n\r\n", end)
                if trailer_end < 0:
                    return False
                del buffer[: trailer_end + 4]
                return True
            if len(buffer) < end + 2 + size + 2:
                break
            if buffer[end + 2 + size : end + 4 + size] != b"\r\n":
                raise ValueError("a chunk does not end where it should")
            self.content += buffer[end + 2 : end + 2 + size]
            del buffer[: end + 4 + size]
        else:
            if len(buffer) > LONGEST_HEAD:
                raise ValueError("a chunk without a size")
        return False


def _parse_head(head: bytearray) -> tuple[int, dict[str, str]]:
    """Status and headers; a header that is there several times has its values joined."""
    first, *lines = head.decode("latin-1").split("\r\n")
    version, _, rest = first.partition(" ")
    if not version.startswith("HTTP/1.") or not rest[:3].isdecimal():
        raise ValueError("no status line")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            raise ValueError("a header without a name")
        name, value = name.strip().lower(), value.strip()
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    if version == "HTTP/1.0" and "keep-alive" not in headers.get("connection", "").lower():
        headers["connection"] = "close"
    return int(rest[:3]), headers


def _number(text: str, base: int) -> int:
    if not text.strip().isalnum():
        raise ValueError("a length that is not a number")
    return int(text, base)


def _decompress(content: bytearray, encoding: str, most: int, is_complete: bool) -> bytes | bytearray:
    """The content without its compression, and not much more of it than `most` bytes."""
    encoding = encoding.lower()
    if encoding in ("gzip", "x-gzip", "deflate"):
        is_raw = encoding == "deflate" and (content[:1] or b"x")[0] & 15 != 8  # some servers omit the zlib header
        decompressor = zlib.decompressobj(-zlib.MAX_WBITS if is_raw else zlib.MAX_WBITS | 32)
        text = decompressor.decompress(content, most + 1)
        if not decompressor.eof and is_complete and len(text) <= most:
            raise ValueError("the compressed body is incomplete")
        return text
    if encoding not in ("", "identity"):
        raise ValueError(f"unknown content-encoding {encoding[:50]!r}")
    return content


class DirectClient(HttpClient):
    """HTTP/1.1 without a proxy."""

    def __init__(self) -> None:
        self._idle: dict[tuple[str, str, int], list[Connection]] = {}
        self._ssl: ssl.SSLContext | None = None
        self._heads: dict[tuple[URL, int], tuple[Mapping[str, str], bytes]] = {}  # with the headers they are made of

    async def post(self, url: URL, headers: Mapping[str, str], content: bytes, sizes: Sizes) -> Reply:
        request = b"%s%d\r\n\r\n%s" % (self._head(url, headers), len(content), content)
        place = (url.scheme, url.raw_host or "", url.port or 80)
        idle = self._idle.setdefault(place, [])
        connection = self._take(idle) or await self._connect(*place)
        try:
            reply = await connection.send(request, sizes)
        except BaseException:
            connection.abort()
            raise
        if connection.is_reusable:
            connection.idle_since = asyncio.get_running_loop().time()
            idle.append(connection)
        return reply

    async def close(self) -> None:
        for connections in self._idle.values():
            for connection in connections:
                connection.abort()
        self._idle.clear()

    def _take(self, idle: list[Connection]) -> Connection | None:
        """The connection that was used last, if the server has not closed it."""
        oldest = asyncio.get_running_loop().time() - KEEP_ALIVE_S
        while idle:
            connection = idle.pop()
            if connection.is_reusable and connection.idle_since >= oldest:
                return connection
            connection.abort()
        return None

    async def _connect(self, scheme: str, host: str, port: int) -> Connection:
        if scheme == "https" and self._ssl is None:
            self._ssl = ssl.create_default_context()
            self._ssl.set_alpn_protocols(["http/1.1"])
        context = self._ssl if scheme == "https" else None
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(CONNECT_S):
            _, connection = await loop.create_connection(
                Connection, host, port, ssl=context, happy_eyeballs_delay=HAPPY_EYEBALLS_S
            )
        return connection

    def _head(self, url: URL, headers: Mapping[str, str]) -> bytes:
        """Everything before the length, made once: a target sends the same headers with each request."""
        known = self._heads.get((url, id(headers)))
        if known is not None:
            return known[1]
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

    async def post(self, url: URL, headers: Mapping[str, str], content: bytes, sizes: Sizes) -> Reply:
        import aiohttp

        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=300),  # the scheduler limits how many there are
                timeout=aiohttp.ClientTimeout(total=None, connect=CONNECT_S),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"user-agent": user_agent()},
                trust_env=True,
            )
        try:
            async with self._session.post(url, data=content, headers=headers, allow_redirects=False) as response:
                body, is_complete = await _read_body(response, sizes.of(response.status))
                names = dict.fromkeys(name.lower() for name in response.headers)
                return Reply(response.status, {name: response.headers[name] for name in names}, body, is_complete)
        except (OSError, ValueError):
            raise
        except aiohttp.ClientError as error:
            raise OSError(f"{type(error).__name__}: {error}") from error

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()


async def _read_body(response: aiohttp.ClientResponse, most: int) -> tuple[bytes, bool]:
    """At most so many bytes of a body, after decompression, and whether that is all of it."""
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
