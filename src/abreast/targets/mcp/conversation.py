"""What is said between a client and a server, over whatever channel: hello, and which tools there are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from abreast import mcp_protocol as protocol
from abreast.mcp_protocol import Message
from abreast.text import parse_json

MOST_PAGES = 100
MOST_TOOLS = 10_000


class McpError(Exception):
    """Why a server cannot be used, in a sentence, and what to do about it."""

    def __init__(self, problem: str, fix: str = "") -> None:
        super().__init__(problem)
        self.problem, self.fix = problem, fix


class Channel(Protocol):
    """A way to a server. `receive` raises a `McpError` if nothing will come any more."""

    protocol: str

    async def send(self, message: Message) -> None: ...

    async def receive(self) -> Message: ...


class Conversation:
    """One client and one server. `asked` is what the server has been asked last."""

    def __init__(self, channel: Channel, folder: Path) -> None:
        self._channel, self._folder = channel, folder
        self._last = 0
        self.method = "initialize"

    async def initialize(self) -> Message:
        """What the server says of itself."""
        about = await self._ask("initialize", protocol.initialize_params({"roots": {}}, "abreast", "1"))
        self._channel.protocol = str(about.get("protocolVersion") or protocol.VERSIONS[0])
        await self._channel.send(protocol.notification("notifications/initialized"))
        return about

    async def list_tools(self) -> list[Mapping[str, Any]]:
        """All of them, page by page."""
        found: list[Mapping[str, Any]] = []
        cursors: list[Any] = []
        for _ in range(MOST_PAGES):
            page = await self._ask("tools/list", {"cursor": cursors[-1]} if cursors else {})
            listed = page.get("tools")
            if not isinstance(listed, list):
                raise McpError("answers tools/list without a list of tools", "the server is broken: tell its authors")
            found += [tool for tool in listed if isinstance(tool, dict) and isinstance(tool.get("name"), str)]
            cursor = page.get("nextCursor")
            if not cursor:
                return found
            if cursor in cursors or len(found) > MOST_TOOLS:
                break
            cursors.append(cursor)
        raise McpError("lists its tools without an end", "the server is broken: tell its authors")

    async def _ask(self, method: str, params: Message) -> Message:
        self.method = method
        self._last += 1
        await self._channel.send(protocol.request(self._last, method, params))
        while True:
            message = await self._channel.receive()
            if "method" in message:
                await self._serve(message)
            elif message.get("id") == self._last or (message.get("id") is None and "error" in message):
                return self._result(message)

    def _result(self, message: Message) -> Message:
        error, result = message.get("error"), message.get("result")
        if error is not None:
            told = error.get("message") if isinstance(error, dict) else error
            raise McpError(f"answers {self.method} with an error: {told}")
        if not isinstance(result, dict):
            raise McpError(f"answers {self.method} with nothing that can be read: {json.dumps(result)[:100]}")
        return result

    async def _serve(self, message: Message) -> None:
        """Answer what the server asks; what it only tells needs none."""
        if "id" not in message:
            return
        number = message["id"]
        if message["method"] == "ping":
            reply = protocol.response(number, {})
        elif message["method"] == "roots/list":
            root = {"uri": self._folder.resolve().as_uri(), "name": self._folder.name or "/"}
            reply = protocol.response(number, {"roots": [root]})
        else:
            reply = protocol.error_response(number, protocol.METHOD_NOT_FOUND, "not offered")
        await self._channel.send(reply)


def parse_messages(content: str | bytes) -> list[Message] | None:
    """The messages of JSON-RPC in a text, one or several; None if it is something else."""
    try:
        found = parse_json(content)
    except (ValueError, RecursionError):
        return None
    messages = found if isinstance(found, list) else [found]
    return messages if messages and all(map(protocol.is_message, messages)) else None
