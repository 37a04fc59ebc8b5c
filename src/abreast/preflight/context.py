"""What the checks look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from abreast.plan import Plan
from abreast.preflight.estimate import Estimate
from abreast.spec import Limits
from abreast.targets import Target


@dataclass(frozen=True, slots=True)
class Context:
    """The plan, and the last run of an experiment of this name if there is one."""

    plan: Plan
    targets: Sequence[Target]
    limits: Limits
    last_run: Mapping[str, Any] | None
    last_digests: Mapping[str, str]  # variant name to digest in that run
    provenance: Mapping[str, Any]
    estimate: Estimate
    spent_usd: float  # by the run that goes on
    until_decided: bool = False
    scored: bool = True  # whether there is a scorer
