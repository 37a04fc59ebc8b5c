"""What answers tell of themselves besides their words: `data`, trial by trial, and what of it are numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from abreast.analyse.rows import Floats, Rows

Told = Sequence[Mapping[str, Any]]


def told_by(rows: Rows) -> list[Mapping[str, Any]]:
    """What each trial's answer has in `data`, in the order of the rows."""
    found: list[Mapping[str, Any]] = [{}] * len(rows.position)
    for at, data in rows.answer_data():
        found[at] = data
    return found


def number(value: Any) -> float:
    """A count that was told; nan if it is none.

    >>> number(3), number("3"), number(True), number(-1)
    (3.0, nan, nan, nan)
    """
    usable = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0
    return float(value) if usable else math.nan


def numbers(told: Told, name: str) -> Floats:
    """A number that answers come with, nan where one does not tell it."""
    return np.array([number(one.get(name)) for one in told], dtype=float)


PREFIX = "mcp__"  # of the names that agents give to tools of MCP servers


@dataclass(slots=True)
class ToolErrors:
    """Failed calls of one tool, with the message of the first."""

    server: str
    tool: str
    failed: int
    message: str


@dataclass(slots=True)
class VariantMcpCalls:
    """Calls of one variant in all of its trials."""

    variant: str
    trials: int = 0  # with MCP servers
    offered: int | None = None  # tools, at most; None if the agent does not report it
    made: int = 0
    failed: int = 0
    denied: int = 0
    all_failed: list[str] = field(default_factory=list)  # cases of trials in which every call failed
    errors: dict[str, ToolErrors] = field(default_factory=dict)  # by the agent's name of the tool

    @property
    def is_useless(self) -> bool:
        """Whether every call that reached a server failed."""
        return self.failed > 0 and self.failed == self.made - self.denied

    def add(self, case_id: str, data: Mapping[str, Any]) -> None:
        self.trials += 1
        if data.get("mcp_tools_offered") is not None:
            self.offered = max(self.offered or 0, _count(data.get("mcp_tools_offered")))
        self.made += _count(data.get("mcp_calls"))
        self.failed += _count(data.get("mcp_calls_failed"))
        self.denied += _count(data.get("mcp_calls_denied"))
        if data.get("mcp_all_failed") is True:
            self.all_failed.append(case_id)
        errors = data.get("mcp_errors")
        for name, error in errors.items() if isinstance(errors, Mapping) else ():
            if not isinstance(error, Mapping):
                continue
            server, _, tool = name.removeprefix(PREFIX).partition("__")
            known = self.errors.setdefault(name, ToolErrors(server, tool, 0, str(error.get("message") or "")))
            known.failed += _count(error.get("failed"))


def mcp_calls(rows: Rows) -> list[VariantMcpCalls]:
    """The calls of each variant with MCP servers, in the order of the run; none if no trial reports any."""
    found: dict[int, VariantMcpCalls] = {}
    for variant, case_id, data in rows.mcp_trials:
        found.setdefault(variant, VariantMcpCalls(rows.variants[variant])).add(case_id, data)
    return [found[variant] for variant in sorted(found)]


def every_mcp_call_failed(rows: Rows, variant: int) -> str:
    """`every MCP call of with_mcp failed (12 of 12; search: index missing)`; empty if one did not."""
    name = rows.variants[variant]
    calls = next((calls for calls in mcp_calls(rows) if calls.variant == name), None)
    if calls is None or not calls.is_useless:
        return ""
    first = next(iter(calls.errors.values()), None)
    message = f"; {first.server}: {first.message}" if first else ""
    return f"every MCP call of {name} failed ({calls.failed:,} of {calls.made - calls.denied:,}{message})"


def _count(value: Any) -> int:
    found = number(value)
    return int(found) if found == found else 0
