"""All checks before a run, in the order in which their findings are printed."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from abreast.preflight import environment
from abreast.preflight.checks import cases, code, columns, cost, endpoints, limits, nodes, statistics, targets
from abreast.preflight.context import Context
from abreast.preflight.finding import Finding, summarised

Check = Callable[[Context], Finding | None]


def examine(context: Context) -> list[Finding]:
    findings = [check(context) for check in _checks(context)]
    return [finding for finding in findings if finding is not None]


def _checks(context: Context) -> Iterable[Check]:
    yield from (environment.check_leftovers, targets.check_targets, targets.check_requests)
    if any(target.place == "process" for target in context.targets):
        from abreast.preflight.checks import agents  # late: only agents need all of `targets`

        yield from (agents.check_programs, agents.check_room, agents.check_containment)
        yield from (agents.check_setup, agents.check_tests)
    yield from (_suite_notes, limits.check_limits, limits.check_subscription)
    yield from (code.check_code, columns.check_schema)
    yield from (cases.check_data, cases.check_duplicates, cases.check_dvc)
    yield from (targets.check_models, environment.check_software)
    yield from (endpoints.check_endpoints, endpoints.check_mcp)
    yield from (code.check_repository, columns.check_design)
    yield from (statistics.check_power, statistics.check_early_stop)
    yield from (statistics.check_extension, statistics.check_lock)
    yield from (cost.check_cost, limits.check_quota, nodes.check_nodes)


def _suite_notes(context: Context) -> Finding | None:
    return summarised("suite", "note", context.notes) if context.notes else None
