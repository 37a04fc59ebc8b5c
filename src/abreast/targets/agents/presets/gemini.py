"""What `gemini --output-format json` prints: one document; an error is a document among the errors."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from abreast.model import Usage
from abreast.targets.agents.presets.agent_output import (
    LONGEST_LOG,
    AgentOutput,
    error_from_message,
    json_document,
    sum_known,
    unanswered_error,
)
from abreast.targets.mcp.calls import McpCalls, qualified
from abreast.targets.processes import process
from abreast.targets.untrusted_json import count, mapping, parsed

_MCP_TOOL = re.compile(r"mcp_([^_]+)_(.+)")
_RETRY = re.compile(r"^Attempt \d+ failed(?: with (?:status )?(\d{3})\b)?.*Retrying with backoff", re.M)
LOGIN = "run `gemini` once and log in, or: export GEMINI_API_KEY=... with that chosen in ~/.gemini/settings.json"


def read(out: Path, err: Path) -> AgentOutput:
    told = mapping(json_document(out))
    said = AgentOutput(text=told["response"] if isinstance(told.get("response"), str) else None)
    stats = mapping(told.get("stats"))
    _take_models(said, {str(name): mapping(used) for name, used in mapping(stats.get("models")).items()})
    tools = mapping(stats.get("tools"))
    if tools:
        _take_tools(said, mapping(tools.get("byName")))
    error = told.get("error") or mapping(json_document(err)).get("error")
    if error is not None and said.text is None:
        said.error = error_from_message(*_told(error))
    if not told and error is None:  # it was ended; it does not say when its provider answers again
        _take_retries(said, process.content(err, LONGEST_LOG))
    return said


def _take_tools(said: AgentOutput, tools: Mapping[str, Any]) -> None:
    """Calls by tool; of those that failed it reports how many, not why."""
    said.tools, mcp = Counter(), McpCalls()
    for name, totals in ((str(name), mapping(totals)) for name, totals in tools.items()):
        made, failed = count(totals.get("count")) or 0, count(totals.get("fail")) or 0
        if not made:
            continue
        if of_server := _MCP_TOOL.fullmatch(name):
            name = qualified(of_server[1], of_server[2])
            mcp.add_totals(name, made, failed, count(mapping(totals.get("decisions")).get("reject")) or 0)
        said.tools[name] += made
    said.extra_columns = mcp.columns(None)


def _take_retries(said: AgentOutput, errors: str) -> None:
    statuses = _RETRY.findall(errors)
    if statuses:
        said.api_retries = len(statuses)
        said.unanswered = unanswered_error(len(statuses), int(statuses[-1]) if statuses[-1] else None, login=LOGIN)


def _take_models(said: AgentOutput, models: dict[str, Any]) -> None:
    if not models:
        return
    each = {name: mapping(used.get("tokens")) for name, used in models.items()}
    api = [mapping(used.get("api")) for used in models.values()]

    def tokens(*names: str) -> int | None:
        return sum_known(*(count(used.get(name)) for used in each.values() for name in names))

    said.usage = Usage(tokens("input"), tokens("candidates", "thoughts"), tokens("cached"), None, tokens("thoughts"))
    said.model = max(each, key=lambda name: count(each[name].get("total")) or 0)
    said.turns = sum_known(*(count(one.get("totalRequests")) for one in api))
    said.api_retries = sum_known(*(count(one.get("totalErrors")) for one in api))


def _told(error: Any) -> tuple[str, str, int | None]:
    """The message, how to log in, and the status: what the provider said is JSON inside of the message."""
    message = str(mapping(error).get("message") or error)
    inside = mapping(mapping(parsed(message)).get("error"))
    status = count(inside.get("code")) or count(mapping(error).get("code"))
    if status is not None and status < 400:
        status = 401 if status == 41 else None  # its own exit codes; 41 is for keys and logins
    return f"{message}" if not inside.get("message") else f"{status} {inside['message']}", LOGIN, status
