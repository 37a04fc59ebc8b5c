"""The server: a line in, a line or nothing out, whatever the line is.

Nothing but the protocol reaches standard output, whoever else prints there.
"""

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
from abreast.suites.code_search.server.tools import Refused, Tool

INSTRUCTIONS = "Searches the code of the folder it was started in. Paths are relative to it; lines count from 1."


class Server:
    """Answers a client by its tools."""

    def __init__(self, name: str, version: str, tools: Mapping[str, Tool]) -> None:
        self._name, self._version, self._tools = name, version, tools

    def answer(self, line: bytes) -> bytes | None:
        """The reply to a line, without its end; None if there is none to give."""
        if not line.strip():
            return None
        try:
            asked = _parsed(line)
        except (ValueError, RecursionError, MemoryError) as error:
            return _line(error_response(None, PARSE_ERROR, f"this is no JSON: {str(error)[:200]}"))
        if isinstance(asked, list) and asked:
            replies = [reply for one in asked if (reply := self._reply(one)) is not None]
            return _line(replies) if replies else None
        reply = self._reply(asked)
        return None if reply is None else _line(reply)

    def _reply(self, asked: Any) -> Message | None:
        """To one message; None to what only tells something."""
        if not isinstance(asked, dict):
            return error_response(None, INVALID_REQUEST, "a message is a JSON object, or a list of at least one")
        method, number = asked.get("method"), asked.get("id")
        if method is None and ("result" in asked or "error" in asked):
            return None  # an answer, and nothing was asked
        if not isinstance(method, str) or not is_message(asked):
            told = 'a request has "jsonrpc": "2.0" and a "method" that is a text'
            return error_response(number, INVALID_REQUEST, told)
        if "id" not in asked:
            return None
        params = asked.get("params")
        given: Message = params if isinstance(params, dict) else {}
        try:
            result = self._result(method, given)
        except Exception as error:  # noqa: BLE001 - whatever it is, the next request is answered
            return error_response(number, INTERNAL_ERROR, f"{method} failed: {_told(error)}")
        if result is None:
            return error_response(number, METHOD_NOT_FOUND, f"there is no method {method[:100]}")
        return response(number, result)

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
        instructions = " ".join([INSTRUCTIONS, *(f"{tool.name} {tool.says}." for tool in self._tools.values())])
        return initialize_result(params, self._name, self._version, instructions)

    def _call(self, params: Message) -> Message:
        """What a tool says, or a sentence for the model on what to do instead."""
        try:
            return tool_result(self._tool(params.get("name")).call(params.get("arguments")))
        except Refused as refused:
            return tool_result(str(refused), is_error=True)
        except Exception as error:  # noqa: BLE001 - a tool that fails says so, and the server goes on
            say(f"{params.get('name')}: {_told(error)}")
            return tool_result(f"The tool failed: {_told(error)}. Try other arguments, or another tool.", is_error=True)

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
        return json.dumps(error_response(None, INTERNAL_ERROR, f"the answer cannot be written: {_told(error)}")).encode(
            "ascii"
        )


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:300]


# -- standard input and output ----------------------------------------------------------------------------------------


def serve(server: Server) -> int:
    """Answer each line of standard input until it ends, or until a signal asks for it."""
    for number in ending_signals():
        signal.signal(number, _end)
    out = os.dup(1)
    os.dup2(2, 1)  # what a library or a program of ours prints is no message
    try:
        while line := sys.stdin.buffer.readline():
            reply = server.answer(line)
            if reply is not None:
                _write(out, reply + b"\n")
    except BrokenPipeError:  # nobody listens any more
        pass
    return 0


def _write(out: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(out, rest) :]


def _end(number: int, frame: FrameType | None) -> None:
    raise SystemExit(0)
