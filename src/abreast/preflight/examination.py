"""All checks before a run, in the order their findings are printed."""

from __future__ import annotations

from abreast.preflight import (
    agents,
    code,
    cost,
    data,
    design,
    duplicates,
    dvc,
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
    tests,
)
from abreast.preflight.context import Context
from abreast.preflight.finding import Finding

_CHECKS = (
    leftovers.check,
    targets.check,
    requests.check,
    agents.check,
    agents.check_room,
    agents.check_containment,
    tests.check,
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
    findings = [check(context) for check in _CHECKS]
    return [finding for finding in findings if finding is not None]
