"""The HTTP client, against servers that frame replies in every way HTTP/1.1 allows, and in some it does not."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import Callable
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from yarl import URL

from abreast.targets.api.http_client import DirectClient, HttpResponse, Sizes

SIZES = Sizes(10_000, 1_000)
BODY = b'{"answer": "yes"}'
Pieces = list[bytes]


def exchange(
    *replies: Pieces, sizes: Sizes = SIZES, close: bool = False
) -> tuple[list[HttpResponse | BaseException], int]:
    """Post once for each reply, in sequence; return the replies as read and the number of connections."""
    waiting, connections = list(replies), 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        while waiting:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:
                break
            length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            assert await reader.readexactly(length) == b"question"
            for piece in waiting.pop(0):
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)
            if close:
                break
        writer.close()

    async def main() -> list[HttpResponse | BaseException]:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        url = URL(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1/messages")
        client, received = DirectClient(), list[HttpResponse | BaseException]()
        headers = {"x-api-key": "none"}
        for _ in replies:
            try:
                received.append(await client.post(url, headers, b"question", sizes))
            except OSError as error:
                received.append(error)
        await client.close()
        server.close()
        return received

    return asyncio.run(main()), connections


def reply_of(*pieces: bytes, sizes: Sizes = SIZES, close: bool = False) -> HttpResponse:
    (reply,), _ = exchange(list(pieces), sizes=sizes, close=close)
    assert isinstance(reply, HttpResponse), reply
    return reply


def with_length(body: bytes, *lines: bytes, status: bytes = b"200 OK") -> bytes:
    return b"\r\n".join([b"HTTP/1.1 " + status, *lines, b"content-length: %d" % len(body), b"", body])


def chunked(body: bytes, size: int, *lines: bytes) -> bytes:
    parts = [body[at : at + size] for at in range(0, len(body), size)]
    chunks = b"".join(b"%x;note=1\r\n%s\r\n" % (len(part), part) for part in parts)
    return b"\r\n".join([b"HTTP/1.1 200 OK", *lines, b"Transfer-Encoding: chunked", b"", chunks + b"0\r\n\r\n"])


def test_a_connection_is_reused() -> None:
    replies, connections = exchange([with_length(BODY)], [with_length(BODY)], [with_length(BODY)])
    assert [reply.body for reply in replies if isinstance(reply, HttpResponse)] == [BODY] * 3
    assert connections == 1


def test_a_connection_that_the_server_will_close_is_not_reused() -> None:
    closing = with_length(BODY, b"Connection: close")
    replies, connections = exchange([closing], [closing], close=True)
    assert all(isinstance(reply, HttpResponse) for reply in replies)
    assert connections == 2


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_reply_is_the_same_however_its_bytes_arrive(data: st.DataObject) -> None:
    raw = data.draw(st.sampled_from([with_length(BODY), chunked(BODY, 5), chunked(BODY, 100)]))
    cuts = sorted(data.draw(st.sets(st.integers(1, len(raw) - 1), max_size=6)))
    pieces = [raw[start:end] for start, end in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    reply = reply_of(*pieces)
    assert (reply.status, reply.body, reply.is_complete) == (200, BODY, True)


def test_a_body_may_end_with_the_connection() -> None:
    assert reply_of(b"HTTP/1.0 200 OK\r\n\r\n" + BODY, close=True).body == BODY


@pytest.mark.parametrize(
    ("encoding", "encode"),
    [("gzip", gzip.compress), ("deflate", zlib.compress), ("deflate", lambda text: zlib.compress(text)[2:-4])],
)
def test_compressed_bodies_are_read(encoding: str, encode: Callable[[bytes], bytes]) -> None:
    line = f"content-encoding: {encoding}".encode()
    assert reply_of(with_length(encode(BODY), line)).body == BODY
    assert reply_of(chunked(encode(BODY), 4, line)).body == BODY


def test_gzip_of_several_members_is_read_to_its_end() -> None:
    content = b"".join(gzip.compress(part) for part in (BODY, b" ", BODY)) + b"\0\0"
    assert reply_of(with_length(content, b"content-encoding: gzip")).body == BODY + b" " + BODY


def test_header_names_are_lower_case() -> None:
    reply = reply_of(with_length(b"", b"X-RateLimit-Remaining: 3", b"Via: a", b"via: b", status=b"429 Slow down"))
    assert reply.status == 429
    assert (reply.headers["x-ratelimit-remaining"], reply.headers["via"]) == ("3", "a, b")


def test_interim_responses_are_skipped() -> None:
    assert reply_of(b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + with_length(BODY)).body == BODY


@pytest.mark.parametrize(
    "raw",
    [
        with_length(b"x" * 20_000),
        chunked(b"x" * 20_000, 1_000),
        with_length(gzip.compress(b"x" * 20_000, mtime=0), b"content-encoding: gzip"),
    ],
    ids=["length", "chunks", "gzip"],
)
def test_a_body_above_the_limit_is_truncated(raw: bytes) -> None:
    reply = reply_of(raw)
    assert (reply.body, reply.is_complete) == (b"x" * 10_000, False)


@pytest.mark.parametrize(
    "raw",
    [
        b"hello\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno header\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nabc\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 20_000,
        with_length(b"no gzip", b"content-encoding: gzip"),
        with_length(gzip.compress(BODY, mtime=0)[:-9], b"content-encoding: gzip"),
        with_length(BODY, b"content-encoding: br"),
        with_length(BODY)[:-3],
        b"",
    ],
    ids=count(),
)
def test_a_reply_that_is_not_http_is_a_network_error(raw: bytes) -> None:
    (error,), _ = exchange([raw], close=True)
    assert isinstance(error, OSError)


def test_header_injection_is_refused() -> None:
    async def main() -> None:
        with pytest.raises(ValueError, match="line break"):
            await DirectClient().post(URL("http://127.0.0.1:1/"), {"x": "a\r\ny: b"}, b"", SIZES)

    asyncio.run(main())


def test_a_cancelled_request_leaves_no_connection_behind() -> None:
    requested, closed = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        requested.set()
        while not reader.at_eof():
            try:
                await reader.read(100)
            except ConnectionResetError:
                break
        closed.set()
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        url = URL(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
        request = asyncio.create_task(DirectClient().post(url, {}, b"question", SIZES))
        await requested.wait()
        request.cancel()
        await asyncio.wait_for(closed.wait(), 10)
        server.close()

    asyncio.run(main())
