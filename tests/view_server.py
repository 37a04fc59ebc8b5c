"""The live page of a store, served in a thread of the tests."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from abreast.store import open_store
from abreast.view.server import ViewOptions, ViewServer


class Response(NamedTuple):
    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)


@dataclass(frozen=True)
class LivePage:
    """A client of the server."""

    address: str

    @property
    def host(self) -> str:
        return urlsplit(self.address).netloc

    @property
    def port(self) -> int:
        return urlsplit(self.address).port or 80

    def get(self, path: str, **headers: str) -> Response:
        return self.request("GET", path, headers)

    def post(self, path: str, body: Any, **headers: str) -> Response:
        """Send JSON as the page itself does; `headers` replace its headers."""
        own = {"Origin": f"http://{self.host}", "Content-Type": "application/json", "Sec-Fetch-Site": "same-origin"}
        return self.request(
            "POST", path, own | {name.replace("_", "-"): value for name, value in headers.items()}, body
        )

    def request(self, method: str, path: str, headers: Mapping[str, str], body: Any = None) -> Response:
        with closing(http.client.HTTPConnection(self.host, timeout=20)) as connection:
            content = None if body is None else json.dumps(body)
            connection.request(method, path, content, {name.replace("_", "-"): v for name, v in headers.items()})
            answer = connection.getresponse()
            return Response(answer.status, dict(answer.headers), answer.read().decode(errors="replace"))

    @contextmanager
    def stream(self, path: str, **headers: str) -> Iterator[Iterator[tuple[str, dict[str, str]]]]:
        """The events of a page: their ids and sections."""
        with closing(http.client.HTTPConnection(self.host, timeout=30)) as connection:
            connection.request("GET", path, headers={name.replace("_", "-"): v for name, v in headers.items()})
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            yield _events(answer)


def _events(answer: http.client.HTTPResponse) -> Iterator[tuple[str, dict[str, str]]]:
    event: dict[str, str] = {}
    while line := answer.readline():
        if line == b"\n":
            if "data" in event:
                yield event["id"], json.loads(event["data"])
            event = {}
        else:
            name, _, value = line.decode().rstrip("\n").partition(": ")
            event[name] = value


@contextmanager
def live_page(store: Path | str, **options: Any) -> Iterator[LivePage]:
    """Serve the pages of a store on a free port."""
    started = threading.Event()
    state: dict[str, Any] = {}

    async def serve() -> None:
        with open_store(store) as opened:
            server = ViewServer(opened, ViewOptions(port=0, **options))
        state["address"], state["loop"], state["ended"] = (
            await server.start(),
            asyncio.get_running_loop(),
            asyncio.Event(),
        )
        started.set()
        await state["ended"].wait()
        await server.close()

    thread = threading.Thread(target=asyncio.run, args=[serve()])
    thread.start()
    assert started.wait(20), "the server does not start"
    try:
        yield LivePage(state["address"])
    finally:
        state["loop"].call_soon_threadsafe(state["ended"].set)
        thread.join(20)
        assert not thread.is_alive(), "the server does not end"
