"""Output of `codex exec --json`: one event per line. It does not report the model."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from abreast.errors import TrialError
from abreast.model import Usage
from abreast.targets.agents.presets.agent_output import (
    AgentOutput,
    error_from_message,
    json_objects,
    one_line,
    status_in,
    unanswered_error,
    uncached,
)
from abreast.targets.mcp.calls import McpCalls, message_of, qualified
from abreast.targets.untrusted_json import count, mapping

LOGIN = "run `codex login` once, or: export OPENAI_API_KEY=..."
_NOT_TOOLS = ("agent_message", "reasoning", "error", "todo_list", "user_message")  # other items are tool calls
_ANSWERED = ("item.started", "item.updated", "item.completed", "turn.completed", "turn.failed")
_RETRY = "Reconnecting"
_CALL = "mcp_tool_call"
_DENIED = re.compile(r"\b(?:requires approval|approval policy|rejected|declined|cancell?ed by)\b", re.I)


def read(out: Path, err: Path) -> AgentOutput:
    output, error, is_done = AgentOutput(tools=Counter(), api_retries=0), None, False
    calls = McpCalls()
    for event in json_objects(out):
        kind, item = event.get("type"), mapping(event.get("item"))
        if kind in _ANSWERED:
            output.unanswered = None
        if item.get("type") == _CALL:
            _add_call(calls, kind, item)
        if kind == "item.completed" and item.get("type") == "agent_message" and isinstance(item.get("text"), str):
            output.text = item["text"]
        elif kind == "item.completed" and isinstance(item.get("type"), str) and item["type"] not in _NOT_TOOLS:
            output.tools[_tool_name(item)] += 1  # type: ignore[index]
        elif kind == "turn.completed":
            is_done, output.usage, output.turns = True, _usage(mapping(event.get("usage"))), (output.turns or 0) + 1
        elif kind == "turn.failed":
            is_done, error = False, mapping(event.get("error")).get("message") or error
        elif kind == "error" and isinstance(event.get("message"), str):
            if event["message"].startswith(_RETRY):
                output.api_retries = (output.api_retries or 0) + 1
                output.unanswered = _unanswered_error(event["message"], output.api_retries)
            is_done, error = False, event["message"]
    if error is not None and not is_done:
        output.error = error_from_message(str(error), LOGIN)
    output.extra_columns = calls.columns(None)
    return output


def _tool_name(item: Mapping[str, Any]) -> str:
    return qualified(item.get("server"), item.get("tool")) if item["type"] == _CALL else item["type"]


def _add_call(calls: McpCalls, kind: object, item: Mapping[str, Any]) -> None:
    """Record the start or the end of a call of an MCP tool."""
    call_id = str(item.get("id"))
    if not calls.is_open(call_id):
        calls.add(call_id, qualified(item.get("server"), item.get("tool")))
    if kind != "item.completed":
        return
    problem = mapping(item.get("error")).get("message")
    if isinstance(problem, str) and _DENIED.search(problem):
        calls.deny(call_id)
    else:
        message = problem if isinstance(problem, str) else message_of(mapping(item.get("result")).get("content"))
        calls.finish(call_id, item.get("status") == "failed", message)


def _unanswered_error(message: str, retries: int) -> TrialError:
    """Return the error of the request behind `Reconnecting... 2/5 (unexpected status 529 ...)`."""
    cause = message.partition("(")[2].removesuffix(")")
    return unanswered_error(retries, status_in(cause) or 503, one_line(cause)[:200], LOGIN)


def _usage(usage: Mapping[str, Any]) -> Usage:
    total, cached, written, output, reasoning = (
        count(usage.get(f"{name}_tokens"))
        for name in ("input", "cached_input", "cache_write_input", "output", "reasoning_output")
    )
    return Usage(uncached(total, (cached or 0) + (written or 0)), output, cached, written, reasoning)
