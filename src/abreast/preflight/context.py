"""What the checks look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from abreast.targets.processes.cleanup import Cleanup

if TYPE_CHECKING:
    from abreast.plan.plan import Plan
    from abreast.preflight.earlier import Earlier
    from abreast.preflight.estimate import Estimate
    from abreast.preflight.surroundings import Surroundings
    from abreast.spec.schema import Limits
    from abreast.store.runs.provenance import Extension, LockCheck
    from abreast.targets import Target

TRIED_CASES = 3  # whose tests are tried before a first run, until one has tests that can fail


@dataclass(frozen=True, slots=True)
class Context:
    """The plan, what is around it, and the run of this experiment before this one if there is one."""

    plan: Plan
    targets: Sequence[Target]
    limits: Limits
    estimate: Estimate
    earlier: Earlier | None
    provenance: Mapping[str, Any]
    surroundings: Surroundings
    spent_usd: float = 0.0  # by the run that goes on
    until_decided: bool = False
    scored: bool = True  # whether there is a scorer
    params: Sequence[Mapping[str, Any]] = ()  # of each variant, as they are stored
    scores: Mapping[str, str] = field(default_factory=dict)  # the version of the scorer of each column
    selects: bool = False  # --case, --tag, --limit or --debug leave cases out
    debug: bool = False
    store: Path = Path("results.db")
    experiment: str = ""
    shared: bool = False  # there are other experiments in this store
    metrics: Sequence[str] = ()  # the columns of that view
    notes: Sequence[str] = ()  # of the suite
    judges: Mapping[str, Target] = field(default_factory=dict)  # the target of each judge, by the name of its score
    try_tests: int = 0  # of so many cases
    extension: Extension | None = None  # of an earlier run
    lock: LockCheck | None = None
    locks: bool = False  # the plan is locked by this run
    cleanup: Cleanup = field(default_factory=Cleanup)  # of what killed runs had left behind
    case_noun: str = "case"
    online: bool = False  # connect to the providers
    try_setup: bool = False
