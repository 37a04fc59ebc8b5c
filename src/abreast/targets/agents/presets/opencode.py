"""What `opencode run --format json` prints: an event a line, tokens and cost with each step."""

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
_OWN = ("apply_patch", "plan_enter", "plan_exit")  # its own tools with an underscore, as in SERVER_TOOL
_DENIED = re.compile(r"\brejected permission\b|\bspecified a rule which prevents\b", re.I)


def read(out: Path, err: Path) -> AgentOutput:
    said, message, error = AgentOutput(tools=Counter()), None, None
    calls = McpCalls()
    texts: list[str] = []  # of the last message
    cost: float | None = None
    for event in json_objects(out):
        kind, part = event.get("type"), mapping(event.get("part"))
        if kind == "text" and isinstance(part.get("text"), str):
            if part.get("messageID") != message:
                message, texts = part.get("messageID"), []
            texts.append(part["text"])
        elif kind == "tool_use":
            said.tools[_take_call(calls, part)] += 1  # type: ignore[index]
        elif kind == "step_finish":
            said.usage, said.turns, error = _more(said.usage, part.get("tokens")), (said.turns or 0) + 1, None
            cost = (cost or 0) + (dollars(part.get("cost")) or 0)
        elif kind == "error":
            error = mapping(event.get("error"))
    said.text = "\n".join(texts) if texts else None
    said.extra_columns = calls.columns(None)
    said.cost_usd = cost or None  # of a model whose price it does not know it says 0
    if error is not None:
        data = mapping(error.get("data"))
        told = str(data.get("message") or error.get("name") or "without a word")
        is_long = error.get("name") == "ContextOverflowError"
        said.error = (
            errors.TooLong(one_line(told))
            if is_long
            else error_from_message(told, LOGIN, count(data.get("statusCode")))
        )
    return said


def _take_call(calls: McpCalls, part: Mapping[str, Any]) -> str:
    """A call that has ended, of whatever tool; return the name of the tool."""
    tool, call_id, state = str(part.get("tool")), str(part.get("callID")), mapping(part.get("state"))
    server, underscore, name = tool.partition("_")
    if not (server and underscore and name) or tool in _OWN:
        return tool
    calls.add(call_id, qualified(server, name))
    problem = str(state.get("error") or "")
    if _DENIED.search(problem):
        calls.deny(call_id)
    else:
        calls.finish(call_id, state.get("status") == "error", problem)
    return qualified(server, name)


def _more(usage: Usage, told: object) -> Usage:
    """With the tokens of a further step; those of reasoning are counted beside the output there."""
    used = mapping(told)
    cache, thought = mapping(used.get("cache")), count(used.get("reasoning"))
    return Usage(
        sum_known(usage.input_tokens, count(used.get("input"))),
        sum_known(usage.output_tokens, count(used.get("output")), thought),
        sum_known(usage.cache_read_tokens, count(cache.get("read"))),
        sum_known(usage.cache_write_tokens, count(cache.get("write"))),
        sum_known(usage.reasoning_tokens, thought),
    )
