"""The MCP server: for each line of input at most one line of output, and no other output on stdout."""

from __future__ import annotations

import json
import math
import os
import signal
import sys
from collections.abc import Mapping
from types import FrameType
from typing import Any

from abreast.mcp_protocol import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    Message,
    error_response,
    initialize_result,
    is_message,
    response,
    tool_result,
)
from abreast.output import say
from abreast.signals import ending_signals
from abreast.suites.code_search.server.arguments import ServerTool, ToolError

INSTRUCTIONS = "Searches the code of the folder it was started in. Paths are relative to it; lines count from 1."


class McpServer:
    """Answers the requests of a client."""

    def __init__(self, name: str, version: str, tools: Mapping[str, ServerTool]) -> None:
        self._name, self._version, self._tools = name, version, tools

    def answer(self, line: bytes) -> bytes | None:
        """Return the reply to a line, without a line feed, or None."""
        if not line.strip():
            return None
        try:
            request = _parse(line)
        except (ValueError, RecursionError, MemoryError) as error:
            return _encode(error_response(None, PARSE_ERROR, f"invalid JSON: {str(error)[:200]}"))
        is_batch = isinstance(request, list) and bool(request)
        replies = [reply for item in (request if is_batch else [request]) if (reply := self._reply(item)) is not None]
        if not replies:
            return None
        return _encode(replies if is_batch else replies[0])

    def _reply(self, request: Any) -> Message | None:
        """Return the reply to one message; None for a notification."""
        if not isinstance(request, dict):
            return error_response(None, INVALID_REQUEST, "a message must be a JSON object, or a non-empty list of them")
        method, number = request.get("method"), request.get("id")
        if method is None and ("result" in request or "error" in request):
            return None  # a response
        if not isinstance(method, str) or not is_message(request):
            message = 'a request must have "jsonrpc": "2.0" and a string "method"'
            return error_response(number, INVALID_REQUEST, message)
        if "id" not in request:
            return None
        handler = {
            "initialize": self._initialize,
            "ping": lambda params: {},
            "tools/list": lambda params: {"tools": [tool.definition() for tool in self._tools.values()]},
            "tools/call": self._call,
        }.get(method)
        if handler is None:
            return error_response(number, METHOD_NOT_FOUND, f"unknown method {method[:100]}")
        params = request.get("params")
        try:
            return response(number, handler(params if isinstance(params, dict) else {}))
        except Exception as error:  # noqa: BLE001 - the next request must be answered
            return error_response(number, INTERNAL_ERROR, f"{method} failed: {_describe(error)}")

    def _initialize(self, params: Message) -> Message:
        instructions = " ".join([INSTRUCTIONS, *(f"{tool.name} {tool.purpose}." for tool in self._tools.values())])
        return initialize_result(params, self._name, self._version, instructions)

    def _call(self, params: Message) -> Message:
        """Return the output of a tool, or an error that tells the model what to do."""
        name = params.get("name")
        try:
            if not isinstance(name, str) or name not in self._tools:
                raise ToolError(f"There is no tool {json.dumps(name)[:100]}. The tools are: {', '.join(self._tools)}.")
            return tool_result(self._tools[name].call(params.get("arguments")))
        except ToolError as error:
            return tool_result(str(error), is_error=True)
        except Exception as error:  # noqa: BLE001 - a failing tool must not end the server
            say(f"{name}: {_describe(error)}")
            text = f"The tool failed: {_describe(error)}. Try other arguments, or another tool."
            return tool_result(text, is_error=True)


def _parse(line: bytes) -> Any:
    """Parse strict JSON, without NaN and infinity, so that the id can be sent back."""
    return json.loads(line.decode("utf-8-sig"), parse_constant=_refuse_constant, parse_float=_finite)


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is not a number")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text[:50]} is too large")
    return value


def _encode(message: Message | list[Message]) -> bytes:
    """Return one line of ASCII, which no character of a source file can break."""
    try:
        return json.dumps(message).encode("ascii")
    except (ValueError, RecursionError, MemoryError) as error:  # an id may be nested too deeply to be written
        failure = error_response(None, INTERNAL_ERROR, f"the answer cannot be encoded: {_describe(error)}")
        return json.dumps(failure).encode("ascii")


def _describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:300]


def serve(server: McpServer) -> int:
    """Answer each line of standard input until it ends, or until a signal ends the process."""
    for number in ending_signals():
        signal.signal(number, _end)
    out = os.dup(1)
    os.dup2(2, 1)  # output of libraries and other programs must not reach the client
    try:
        while line := sys.stdin.buffer.readline():
            reply = server.answer(line)
            rest = memoryview(b"" if reply is None else reply + b"\n")
            while rest:
                rest = rest[os.write(out, rest) :]
    except BrokenPipeError:  # the client has exited
        pass
    return 0


def _end(number: int, frame: FrameType | None) -> None:
    raise SystemExit(0)
