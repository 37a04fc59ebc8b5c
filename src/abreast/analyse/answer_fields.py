"""The fields that answers return next to their text (`data`) as columns, and their records of MCP tool calls."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from abreast.analyse.rows import Floats, Rows


def answer_fields(rows: Rows) -> list[Mapping[str, Any]]:
    """The `data` of each trial's answer, in the order of the rows."""
    fields: list[Mapping[str, Any]] = [{}] * len(rows.position)
    for at, data in rows.answer_data():
        fields[at] = data
    return fields


def number(value: Any) -> float:
    """Return the value if it is a non-negative number, else nan.

    >>> number(3), number("3"), number(True), number(-1)
    (3.0, nan, nan, nan)
    """
    usable = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0
    return float(value) if usable else math.nan


def numbers(fields: Sequence[Mapping[str, Any]], name: str) -> Floats:
    """Return this numeric field of each answer; nan where it is missing."""
    return np.array([number(data.get(name)) for data in fields], dtype=float)


PREFIX = "mcp__"  # prefix of the names that agents give to MCP tools


@dataclass(slots=True)
class ToolErrors:
    """Failed calls of one tool, with the message of the first."""

    server: str
    tool: str
    failed: int
    message: str


@dataclass(slots=True)
class VariantMcpCalls:
    variant: str
    trials: int = 0  # number of trials with MCP servers
    offered: int | None = None  # most tools offered in a trial; None if the agent does not report it
    calls: int = 0
    failed: int = 0
    denied: int = 0
    all_failed: list[str] = field(default_factory=list)  # cases of trials in which every call failed
    errors: dict[str, ToolErrors] = field(default_factory=dict)  # by the name that the agent gives to the tool

    @property
    def is_useless(self) -> bool:
        """Whether every call that reached a server failed."""
        return self.failed > 0 and self.failed == self.calls - self.denied

    def add(self, case_id: str, data: Mapping[str, Any]) -> None:
        self.trials += 1
        if data.get("mcp_tools_offered") is not None:
            self.offered = max(self.offered or 0, _count(data.get("mcp_tools_offered")))
        self.calls += _count(data.get("mcp_calls"))
        self.failed += _count(data.get("mcp_calls_failed"))
        self.denied += _count(data.get("mcp_calls_denied"))
        if data.get("mcp_all_failed") is True:
            self.all_failed.append(case_id)
        errors = data.get("mcp_errors")
        for name, error in errors.items() if isinstance(errors, Mapping) else ():
            if not isinstance(error, Mapping):
                continue
            server, _, tool = name.removeprefix(PREFIX).partition("__")
            tool_errors = self.errors.setdefault(name, ToolErrors(server, tool, 0, str(error.get("message") or "")))
            tool_errors.failed += _count(error.get("failed"))


def mcp_calls(rows: Rows) -> list[VariantMcpCalls]:
    """Sum up the calls of each variant with MCP servers, in the order of the run; empty if no trial reports any."""
    by_variant: dict[int, VariantMcpCalls] = {}
    for variant, case_id, data in rows.mcp_trials:
        by_variant.setdefault(variant, VariantMcpCalls(rows.variants[variant])).add(case_id, data)
    return [by_variant[variant] for variant in sorted(by_variant)]


def every_mcp_call_failed(rows: Rows, variant: int) -> str:
    """`every MCP call of with_mcp failed (12 of 12; search: index missing)`; empty if any succeeded."""
    name = rows.variants[variant]
    calls = next((calls for calls in mcp_calls(rows) if calls.variant == name), None)
    if calls is None or not calls.is_useless:
        return ""
    first = next(iter(calls.errors.values()), None)
    message = f"; {first.server}: {first.message}" if first else ""
    return f"every MCP call of {name} failed ({calls.failed:,} of {calls.calls - calls.denied:,}{message})"


def _count(value: Any) -> int:
    count = number(value)
    return 0 if math.isnan(count) else int(count)
