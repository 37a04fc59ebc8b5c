"""All checks before a run, in the order their findings are printed."""

from __future__ import annotations

from collections.abc import Callable

from abreast.preflight import (
    code,
    cost,
    data,
    design,
    duplicates,
    dvc,
    endpoints,
    environment,
    extension,
    leftovers,
    limits,
    lock,
    mcp,
    models,
    noted,
    power,
    quota,
    repository,
    requests,
    schema,
    stopping,
    subscription,
    targets,
)
from abreast.preflight.context import Context
from abreast.preflight.finding import Finding

Check = Callable[[Context], Finding | None]

_FIRST: tuple[Check, ...] = (leftovers.check, targets.check, requests.check)
_LAST: tuple[Check, ...] = (
    noted.check,
    limits.check,
    subscription.check,
    code.check,
    schema.check,
    data.check,
    duplicates.check,
    dvc.check,
    models.check,
    environment.check,
    endpoints.check,
    mcp.check,
    repository.check,
    design.check,
    power.check,
    stopping.check,
    extension.check,
    lock.check,
    cost.check,
    quota.check,
)


def examine(context: Context) -> list[Finding]:
    """Run all checks and return their findings in order."""
    findings = [check(context) for check in (*_FIRST, *_agent_checks(context), *_LAST)]
    return [finding for finding in findings if finding is not None]


def _agent_checks(context: Context) -> tuple[Check, ...]:
    """The checks of agents, imported only if there may be one: they need all of `targets`."""
    if all(target.place != "process" for target in context.targets):
        return ()
    from abreast.preflight import agents, environments, tests

    return agents.check, agents.check_room, agents.check_containment, environments.check, tests.check
