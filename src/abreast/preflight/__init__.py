"""The checks before a run: one file each, one sentence each."""

from __future__ import annotations

from abreast.preflight import drift, limits, power
from abreast.preflight.context import Context
from abreast.preflight.finding import Finding

__all__ = ["Context", "Finding", "examine"]

_CHECKS = (limits.check, drift.check, power.check)


def examine(context: Context) -> list[Finding]:
    """Every check, in order."""
    return [check(context) for check in _CHECKS]
