"""The checks before a run: one file each, one sentence each."""

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
from abreast.preflight.cost import question
from abreast.preflight.earlier import Earlier, earlier
from abreast.preflight.estimate import Estimate, estimate
from abreast.preflight.finding import Finding
from abreast.preflight.history import History, history
from abreast.preflight.questions import Question, questions, still_answered
from abreast.preflight.series import Series, series
from abreast.preflight.surroundings import Surroundings, surroundings

__all__ = [
    "Context",
    "Earlier",
    "Estimate",
    "Finding",
    "History",
    "Question",
    "Series",
    "Surroundings",
    "earlier",
    "estimate",
    "examine",
    "history",
    "question",
    "questions",
    "series",
    "still_answered",
    "surroundings",
]

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
    """Every check that has something to say, in order."""
    found = [check(context) for check in _CHECKS]
    return [finding for finding in found if finding is not None]
