"""The messages between a client and a server, over any channel: the handshake and the list of tools."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from abreast import mcp_protocol as protocol
from abreast.mcp_protocol import Message
from abreast.targets.untrusted_json import parsed

BROKEN = "report this to the authors of the server"
MOST_PAGES = 100
MOST_TOOLS = 10_000


class McpError(Exception):
    """Why a server cannot be used, and how to fix it."""

    def __init__(self, problem: str, fix: str = "") -> None:
        super().__init__(problem)
        self.problem, self.fix = problem, fix


class Channel(Protocol):
    """A connection to a server. `receive` raises an `McpError` when no message can follow."""

    protocol: str

    async def send(self, message: Message) -> None: ...

    async def receive(self) -> Message: ...


class Conversation:
    """The conversation of a client with a server. `method` is that of the last request."""

    def __init__(self, channel: Channel, folder: Path) -> None:
        self._channel, self._folder = channel, folder
        self._last_id = 0
        self.method = "initialize"

    async def initialize(self) -> Message:
        """Shake hands; return what the server reports about itself."""
        about = await self._ask("initialize", protocol.initialize_params({"roots": {}}, "abreast", "1"))
        self._channel.protocol = str(about.get("protocolVersion") or protocol.VERSIONS[0])
        await self._channel.send(protocol.notification("notifications/initialized"))
        return about

    async def list_tools(self) -> list[Mapping[str, Any]]:
        """Return the tools of the server, from all pages of its list."""
        tools: list[Mapping[str, Any]] = []
        cursors: list[Any] = []
        for _ in range(MOST_PAGES):
            page = await self._ask("tools/list", {"cursor": cursors[-1]} if cursors else {})
            if not isinstance(page.get("tools"), list):
                raise McpError("answers tools/list without a list of tools", BROKEN)
            tools += [tool for tool in page["tools"] if isinstance(tool, dict) and isinstance(tool.get("name"), str)]
            cursor = page.get("nextCursor")
            if not cursor:
                return tools
            if cursor in cursors or len(tools) > MOST_TOOLS:
                break
            cursors.append(cursor)
        raise McpError("its list of tools never ends", BROKEN)

    async def _ask(self, method: str, params: Message) -> Message:
        self.method = method
        self._last_id += 1
        await self._channel.send(protocol.request(self._last_id, method, params))
        while True:
            message = await self._channel.receive()
            if "method" in message:
                await self._serve(message)
            elif message.get("id") == self._last_id or (message.get("id") is None and "error" in message):
                return self._result(message)

    def _result(self, message: Message) -> Message:
        error, result = message.get("error"), message.get("result")
        if error is not None:
            reason = error.get("message") if isinstance(error, dict) else error
            raise McpError(f"answers {self.method} with an error: {reason}")
        if not isinstance(result, dict):
            raise McpError(f"answers {self.method} with an invalid result: {json.dumps(result)[:100]}")
        return result

    async def _serve(self, message: Message) -> None:
        """Answer a request of the server. Notifications have no id and need no answer."""
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
    """Return the JSON-RPC messages in a text, or None if it is something else."""
    value = parsed(content)
    messages = value if isinstance(value, list) else [value]
    return messages if messages and all(map(protocol.is_message, messages)) else None
