"""Output of `gemini --output-format json`: one document. An error is a document on standard error."""

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
    document = mapping(json_document(out))
    output = AgentOutput(text=document["response"] if isinstance(document.get("response"), str) else None)
    stats = mapping(document.get("stats"))
    _add_models(output, {str(name): mapping(usage) for name, usage in mapping(stats.get("models")).items()})
    tools = mapping(stats.get("tools"))
    if tools:
        _add_tools(output, mapping(tools.get("byName")))
    error = document.get("error") or mapping(json_document(err)).get("error")
    if error is not None and output.text is None:
        output.error = error_from_message(*_parse_error(error))
    if not document and error is None:  # the program was stopped; it does not report answered retries
        _add_retries(output, process.content(err, LONGEST_LOG))
    return output


def _add_tools(output: AgentOutput, tools: Mapping[str, Any]) -> None:
    """Calls by tool. Of failed calls only the number is reported."""
    output.tools, mcp = Counter(), McpCalls()
    for name, totals in ((str(name), mapping(totals)) for name, totals in tools.items()):
        calls, failed = count(totals.get("count")) or 0, count(totals.get("fail")) or 0
        if not calls:
            continue
        if mcp_tool := _MCP_TOOL.fullmatch(name):
            name = qualified(mcp_tool[1], mcp_tool[2])
            mcp.add_totals(name, calls, failed, count(mapping(totals.get("decisions")).get("reject")) or 0)
        output.tools[name] += calls
    output.extra_columns = mcp.columns(None)


def _add_retries(output: AgentOutput, errors: str) -> None:
    statuses = _RETRY.findall(errors)
    if statuses:
        output.api_retries = len(statuses)
        output.unanswered = unanswered_error(len(statuses), int(statuses[-1]) if statuses[-1] else None, login=LOGIN)


def _add_models(output: AgentOutput, models: dict[str, Any]) -> None:
    if not models:
        return
    tokens_by_model = {name: mapping(stats.get("tokens")) for name, stats in models.items()}
    api = [mapping(stats.get("api")) for stats in models.values()]

    def tokens(*names: str) -> int | None:
        return sum_known(*(count(usage.get(name)) for usage in tokens_by_model.values() for name in names))

    output.usage = Usage(tokens("input"), tokens("candidates", "thoughts"), tokens("cached"), None, tokens("thoughts"))
    output.model = max(tokens_by_model, key=lambda name: count(tokens_by_model[name].get("total")) or 0)
    output.turns = sum_known(*(count(requests.get("totalRequests")) for requests in api))
    output.api_retries = sum_known(*(count(requests.get("totalErrors")) for requests in api))


def _parse_error(error: Any) -> tuple[str, str, int | None]:
    """Return the message, the fix for logins, and the status. The message may contain the provider's error in JSON."""
    message = str(mapping(error).get("message") or error)
    inner = mapping(mapping(parsed(message)).get("error"))
    status = count(inner.get("code")) or count(mapping(error).get("code"))
    if status is not None and status < 400:
        status = 401 if status == 41 else None  # exit codes of gemini; 41 is for keys and logins
    return f"{status} {inner['message']}" if inner.get("message") else message, LOGIN, status
