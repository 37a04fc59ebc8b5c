"""Calls of MCP tools in one trial: how many were made, failed and denied, by tool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from abreast.redaction import redact_log
from abreast.targets.mcp.text import first_line

PREFIX = "mcp__"  # agents name the tools of MCP servers mcp__SERVER__TOOL
LONGEST_MESSAGE = 300
LONGEST_NAME = 200
MOST_TOOLS = 100  # tools with a stored message


@dataclass(slots=True)
class McpCalls:
    """The calls so far. A denied call never reached the server and does not count as failed.

    >>> calls = McpCalls()
    >>> calls.add("1", "mcp__search__find")
    >>> calls.finish("1", is_error=True, message="index missing")
    >>> calls.columns(2)["mcp_errors"]
    {'mcp__search__find': {'failed': 1, 'message': 'index missing'}}
    """

    made: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    denied: Counter[str] = field(default_factory=Counter)
    messages: dict[str, str] = field(default_factory=dict)  # the first error message of each tool
    _names: dict[str, str] = field(default_factory=dict)  # tools of open calls, by id

    def add(self, call_id: str, tool: str) -> None:
        if tool.startswith(PREFIX):
            name = tool[:LONGEST_NAME]
            self.made[name] += 1
            self._names[call_id] = name

    def deny(self, call_id: str) -> None:
        if (tool := self._names.pop(call_id, None)) is not None:
            self.denied[tool] += 1

    def finish(self, call_id: str, is_error: bool, message: str) -> None:
        tool = self._names.pop(call_id, None)
        if tool is None or not is_error:
            return
        self.failed[tool] += 1
        if len(self.messages) < MOST_TOOLS:
            self.messages.setdefault(tool, first_line(redact_log(message), LONGEST_MESSAGE))

    def is_open(self, call_id: str) -> bool:
        """Whether this is a call of an MCP tool without a result yet."""
        return call_id in self._names

    def add_totals(self, tool: str, made: int, failed: int, denied: int) -> None:
        """Add the calls of a tool for agents that only report totals."""
        name = tool[:LONGEST_NAME]
        self.made[name] += made
        self.denied[name] += min(denied, made)
        self.failed[name] += max(0, min(failed, made) - min(denied, made))
        if self.failed[name] and len(self.messages) < MOST_TOOLS:
            self.messages.setdefault(name, "")

    def columns(self, offered: int | None) -> dict[str, Any]:
        """Return the columns of a trial. `offered` is the number of tools that the MCP servers offered, or None if the
        agent does not report it; then nothing is stored for trials without calls, which may have had no servers."""
        if offered is None and not self.made:
            return {}
        made, failed, denied = self.made.total(), self.failed.total(), self.denied.total()
        errors = {tool: {"failed": self.failed[tool], "message": text} for tool, text in self.messages.items()}
        return {
            "mcp_tools_offered": offered,
            "mcp_calls": made,
            "mcp_calls_failed": failed,
            "mcp_calls_denied": denied,
            "mcp_all_failed": bool(failed) and failed == made - denied,
            "mcp_errors": errors or None,
        }


def qualified(server: object, tool: object) -> str:
    """Return the name of a tool as Claude Code writes it, which is how calls of all agents are stored.

    >>> qualified("search", "find")
    'mcp__search__find'
    """
    return f"{PREFIX}{server}__{tool}"


def message_of(content: Any) -> str:
    """Return the text of a tool result: text or a list of parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, Mapping)]
    return " ".join(text for text in texts if isinstance(text, str))
