"""Output of `opencode run --format json`: one event per line, with tokens and cost for each step."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from abreast import errors
from abreast.model import Usage
from abreast.targets.agents.presets.agent_output import (
    AgentOutput,
    error_from_message,
    json_objects,
    one_line,
    sum_known,
)
from abreast.targets.mcp.calls import McpCalls, qualified
from abreast.targets.untrusted_json import count, dollars, mapping

LOGIN = "run `opencode auth login` once, or set the provider's key in the environment"
_BUILT_IN = ("apply_patch", "plan_enter", "plan_exit")  # exceptions to the pattern SERVER_TOOL
_DENIED = re.compile(r"\brejected permission\b|\bspecified a rule which prevents\b", re.I)


def read(out: Path, err: Path) -> AgentOutput:
    output, message, error = AgentOutput(tools=Counter()), None, None
    calls = McpCalls()
    texts: list[str] = []  # texts of the last message
    cost: float | None = None
    for event in json_objects(out):
        kind, part = event.get("type"), mapping(event.get("part"))
        if kind == "text" and isinstance(part.get("text"), str):
            if part.get("messageID") != message:
                message, texts = part.get("messageID"), []
            texts.append(part["text"])
        elif kind == "tool_use":
            output.tools[_add_call(calls, part)] += 1  # type: ignore[index]
        elif kind == "step_finish":
            output.usage, output.turns, error = (
                _add(output.usage, mapping(part.get("tokens"))),
                (output.turns or 0) + 1,
                None,
            )
            cost = (cost or 0) + (dollars(part.get("cost")) or 0)
        elif kind == "error":
            error = mapping(event.get("error"))
    output.text = "\n".join(texts) if texts else None
    output.extra_columns = calls.columns(None)
    output.cost_usd = cost or None  # it reports 0 for models without a price
    if error is not None:
        data = mapping(error.get("data"))
        text = str(data.get("message") or error.get("name") or "no message")
        if error.get("name") == "ContextOverflowError":
            output.error = errors.TooLong(one_line(text))
        else:
            output.error = error_from_message(text, LOGIN, count(data.get("statusCode")))
    return output


def _add_call(calls: McpCalls, part: Mapping[str, Any]) -> str:
    """Record a finished call and return the name of its tool."""
    tool, call_id, state = str(part.get("tool")), str(part.get("callID")), mapping(part.get("state"))
    server, underscore, name = tool.partition("_")
    if not (server and underscore and name) or tool in _BUILT_IN:
        return tool
    calls.add(call_id, qualified(server, name))
    problem = str(state.get("error") or "")
    if _DENIED.search(problem):
        calls.deny(call_id)
    else:
        calls.finish(call_id, state.get("status") == "error", problem)
    return qualified(server, name)


def _add(usage: Usage, tokens: Mapping[str, Any]) -> Usage:
    """Add the tokens of a step. Its output tokens exclude reasoning."""
    cache, reasoning = mapping(tokens.get("cache")), count(tokens.get("reasoning"))
    return Usage(
        sum_known(usage.input_tokens, count(tokens.get("input"))),
        sum_known(usage.output_tokens, count(tokens.get("output")), reasoning),
        sum_known(usage.cache_read_tokens, count(cache.get("read"))),
        sum_known(usage.cache_write_tokens, count(cache.get("write"))),
        sum_known(usage.reasoning_tokens, reasoning),
    )
