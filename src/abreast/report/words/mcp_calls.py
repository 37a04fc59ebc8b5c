"""The section of a report on calls of MCP tools: offered, made, failed and denied, and why calls failed."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from abreast.analyse.answer_fields import VariantMcpCalls, mcp_calls
from abreast.report.sections import NOTHING, NamedTable, Section
from abreast.text import many

if TYPE_CHECKING:
    from abreast.analyse.run import Analysis

SHOWN = 5  # cases named in a sentence


def mcp_section(analysis: Analysis) -> Section | None:
    """The calls of each variant with MCP servers; None if no trial reports any."""
    found = mcp_calls(analysis.rows)
    if not found:
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
            for calls in found
        ),
        "calls of all trials; a denied call does not reach its server",
    )
    errors = NamedTable(
        "mcp-errors",
        "failed calls, with the first message of each tool",
        ("variant", "server", "tool", "failed", "message"),
        tuple(
            (calls.variant, error.server, error.tool, _figure(error.failed), error.message or "(no message)")
            for calls in found
            for error in calls.errors.values()
        ),
    )
    tables = (totals, errors) if errors.rows else (totals,)
    sentences = (
        *(_flag(calls) for calls in found if calls.all_failed),
        *(
            f"warning: every MCP call of {calls.variant} was denied ({many(calls.denied, 'call')}): no server was used"
            for calls in found
            if calls.calls and calls.denied == calls.calls
        ),
    )
    return Section("mcp", "MCP calls", sentences, tables, data={"variants": {one.variant: _data(one) for one in found}})


def _figure(number: int | None) -> str:
    return NOTHING if number is None else f"{number:,}"


def _flag(calls: VariantMcpCalls) -> str:
    """`warning: every MCP call failed in 2 of 10 trials of with_mcp (nav-001, nav-002); their scores count`."""
    count, names = len(calls.all_failed), list(dict.fromkeys(calls.all_failed))
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    cases = f"{', '.join(names[:SHOWN])}{more}"
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
