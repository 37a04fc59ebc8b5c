"""The checks before a run: one file each, one sentence each."""

from __future__ import annotations

from abreast.preflight import cost, drift, limits, power, quota, stopping, subscription
from abreast.preflight.context import Context
from abreast.preflight.cost import question
from abreast.preflight.estimate import Estimate, estimate
from abreast.preflight.finding import Finding
from abreast.preflight.history import History, history

__all__ = ["Context", "Estimate", "Finding", "History", "estimate", "examine", "history", "question"]

_CHECKS = (limits.check, subscription.check, drift.check, power.check, stopping.check, cost.check, quota.check)


def examine(context: Context) -> list[Finding]:
    """Every check that has something to say, in order."""
    found = [check(context) for check in _CHECKS]
    return [finding for finding in found if finding is not None]
