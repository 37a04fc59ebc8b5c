"""The section of a report on MCP tools: how many were offered, and how many calls were made, failed or denied."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from abreast.analyse.answer_fields import VariantMcpCalls, mcp_calls
from abreast.report.sections import NOTHING, NamedTable, Section
from abreast.text import many

if TYPE_CHECKING:
    from abreast.analyse.run import Analysis

LISTED = 5  # cases in a sentence


def mcp_section(analysis: Analysis) -> Section | None:
    """The calls of each variant with MCP servers; None if no trial reports any."""
    by_variant = mcp_calls(analysis.rows)
    if not by_variant:
        return None
    totals = NamedTable(
        "mcp-calls",
        "",
        ("variant", "tools offered", "calls", "failed", "denied", "trials", "trials with only failed calls"),
        tuple(
            (
                calls.variant,
                *map(_figure, (calls.offered, calls.calls, calls.failed, calls.denied, calls.trials)),
                _figure(len(calls.all_failed)),
            )
            for calls in by_variant
        ),
        "calls of all trials; a denied call does not reach its server",
    )
    errors = NamedTable(
        "mcp-errors",
        "failed calls, with the first message of each tool",
        ("variant", "server", "tool", "failed", "message"),
        tuple(
            (calls.variant, error.server, error.tool, _figure(error.failed), error.message or "(no message)")
            for calls in by_variant
            for error in calls.errors.values()
        ),
    )
    tables = (totals, errors) if errors.rows else (totals,)
    sentences = (
        *(_flag(calls) for calls in by_variant if calls.all_failed),
        *(
            f"warning: every MCP call of {calls.variant} was denied ({many(calls.denied, 'call')}): no server was used"
            for calls in by_variant
            if calls.calls and calls.denied == calls.calls
        ),
    )
    data = {"variants": {calls.variant: _data(calls) for calls in by_variant}}
    return Section("mcp", "MCP calls", sentences, tables, data=data)


def _figure(number: int | None) -> str:
    return NOTHING if number is None else f"{number:,}"


def _flag(calls: VariantMcpCalls) -> str:
    """`warning: every MCP call failed in 2 of 10 trials of with_mcp (nav-001, nav-002); their scores count`."""
    count, names = len(calls.all_failed), list(dict.fromkeys(calls.all_failed))
    more = f" and {len(names) - LISTED:,} more" if len(names) > LISTED else ""
    cases = f"{', '.join(names[:LISTED])}{more}"
    where = f"{count:,} of {many(calls.trials, 'trial')}"
    return f"warning: every MCP call failed in {where} of {calls.variant} ({cases}); their scores count"


def _data(calls: VariantMcpCalls) -> dict[str, Any]:
    return {
        "tools_offered": calls.offered,
        "calls": calls.calls,
        "failed": calls.failed,
        "denied": calls.denied,
        "trials": calls.trials,
        "all_failed": calls.all_failed,
        "errors": [asdict(error) for error in calls.errors.values()],
    }
