"""JSON-RPC 2.0 as MCP uses it: a line in, a line or nothing out, whatever the line is."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from abreast.output import say
from abreast.suites.code_search.server.tools import Refused, Tool

VERSIONS = ("2025-06-18", "2025-03-26", "2024-11-05")
"""Of the protocol, the newest first; a client that speaks another is answered with the newest."""

NO_JSON, NO_REQUEST, NO_METHOD, INTERNAL = -32700, -32600, -32601, -32603
INSTRUCTIONS = "Searches the code of the folder it was started in. Paths are relative to it; lines count from 1."

Message = dict[str, Any]


class Server:
    """Answers a client by its tools."""

    def __init__(self, name: str, version: str, tools: Mapping[str, Tool]) -> None:
        self._about = {"name": name, "version": version}
        self._tools = tools

    def answer(self, line: bytes) -> bytes | None:
        """The reply to a line, without its end; None if there is none to give."""
        if not line.strip():
            return None
        try:
            asked = _parsed(line)
        except (ValueError, RecursionError, MemoryError) as error:
            return _line(_error(None, NO_JSON, f"this is no JSON: {str(error)[:200]}"))
        if isinstance(asked, list) and asked:
            replies = [reply for one in asked if (reply := self._reply(one)) is not None]
            return _line(replies) if replies else None
        reply = self._reply(asked)
        return None if reply is None else _line(reply)

    def _reply(self, asked: Any) -> Message | None:
        """To one message; None to what only tells something."""
        if not isinstance(asked, dict):
            return _error(None, NO_REQUEST, "a message is a JSON object, or a list of at least one")
        method, number = asked.get("method"), asked.get("id")
        if method is None and ("result" in asked or "error" in asked):
            return None  # an answer, and nothing was asked
        if not isinstance(method, str) or asked.get("jsonrpc") != "2.0":
            return _error(number, NO_REQUEST, 'a request has "jsonrpc": "2.0" and a "method" that is a text')
        if "id" not in asked:
            return None
        params = asked.get("params")
        given: Message = params if isinstance(params, dict) else {}
        try:
            result = self._result(method, given)
        except Exception as error:  # noqa: BLE001 - whatever it is, the next request is answered
            return _error(number, INTERNAL, f"{method} failed: {_told(error)}")
        if result is None:
            return _error(number, NO_METHOD, f"there is no method {method[:100]}")
        return {"jsonrpc": "2.0", "id": number, "result": result}

    def _result(self, method: str, params: Message) -> Message | None:
        """None if there is no such method."""
        if method == "initialize":
            return self._hello(params)
        if method == "ping":
            return {}
        if method == "tools/list":
            return {"tools": [tool.described() for tool in self._tools.values()]}
        return self._call(params) if method == "tools/call" else None

    def _hello(self, params: Message) -> Message:
        wanted = params.get("protocolVersion")
        return {
            "protocolVersion": wanted if wanted in VERSIONS else VERSIONS[0],
            "capabilities": {"tools": {}},
            "serverInfo": self._about,
            "instructions": " ".join([INSTRUCTIONS, *(f"{tool.name} {tool.says}." for tool in self._tools.values())]),
        }

    def _call(self, params: Message) -> Message:
        """What a tool says, or a sentence for the model on what to do instead."""
        try:
            return _content(self._tool(params.get("name")).call(params.get("arguments")))
        except Refused as refused:
            return _content(str(refused), failed=True)
        except Exception as error:  # noqa: BLE001 - a tool that fails says so, and the server goes on
            say(f"{params.get('name')}: {_told(error)}")
            return _content(f"The tool failed: {_told(error)}. Try other arguments, or another tool.", failed=True)

    def _tool(self, name: Any) -> Tool:
        if isinstance(name, str) and name in self._tools:
            return self._tools[name]
        shown = json.dumps(name)[:100]
        raise Refused(f"There is no tool {shown}. The tools are: {', '.join(self._tools)}.")


# -- lines ------------------------------------------------------------------------------------------------------------


def _parsed(line: bytes) -> Any:
    """What a line says, in strict JSON: what is read can be written again."""
    return json.loads(line.decode("utf-8-sig"), parse_constant=_no_constant, parse_float=_number)


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is no number")


def _number(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text[:50]} is too large a number")
    return value


def _line(message: Message | list[Message]) -> bytes:
    """One line of ASCII, so that no character of a source can end it."""
    try:
        return json.dumps(message).encode("ascii")
    except (ValueError, RecursionError, MemoryError) as error:  # an id nested so deep that it is read and not written
        return json.dumps(_error(None, INTERNAL, f"the answer cannot be written: {_told(error)}")).encode("ascii")


def _error(number: Any, code: int, message: str) -> Message:
    return {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}}


def _content(text: str, failed: bool = False) -> Message:
    return {"content": [{"type": "text", "text": text}], **({"isError": True} if failed else {})}


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:300]
