"""The planned run that checks examine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from abreast.targets.processes.cleanup import Cleanup

if TYPE_CHECKING:
    from abreast.plan.plan import Plan
    from abreast.preflight.environment import ExperimentEnvironment
    from abreast.preflight.estimate import RunEstimate
    from abreast.preflight.previous_run import PreviousRun
    from abreast.spec.schema import Limits, Spec
    from abreast.store.runs.provenance import Extension, LockCheck
    from abreast.targets import Target

TRIED_CASES = 3  # most cases whose tests are tried before a first run, until one has tests that can fail


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckSettings:
    """Thoroughness of the checks, and the kind of run."""

    selects_cases: bool  # --case, --tag, --limit or --debug leave cases out
    is_debug: bool
    try_tests: int  # number of cases
    try_setup: bool
    online: bool  # connect to the providers


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredColumns:
    """Columns that the run will store."""

    params: Sequence[Mapping[str, Any]]  # parameters of each variant
    scores: Mapping[str, str]  # scorer version by column
    metrics: Sequence[str]  # columns of the view `metrics`


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """A planned run, its environment, and the previous run of the same experiment."""

    spec: Spec
    plan: Plan
    targets: Sequence[Target]
    judges: Mapping[str, Target]  # targets of the judges, by score
    is_scored: bool
    columns: StoredColumns
    store: str  # address
    is_store_shared: bool  # whether other experiments use it
    environment: ExperimentEnvironment
    provenance: Mapping[str, Any]
    previous: PreviousRun | None
    extension: Extension | None
    lock: LockCheck | None
    writes_lock: bool
    estimate: RunEstimate
    spent_usd: float  # dollars already spent by the continued run
    settings: CheckSettings
    notes: Sequence[str] = ()  # notes of the suite
    cleanup: Cleanup = field(default_factory=Cleanup)  # leftovers of killed runs, removed before this run

    @property
    def limits(self) -> Limits:
        return self.spec.limits

    def open_variants(self) -> Iterator[tuple[int, str, Target]]:
        """Index, name and target of each variant with trials left."""
        names = {variant.variant for variant in self.estimate.variants}
        for index, (variant, target) in enumerate(zip(self.plan.variants, self.targets, strict=True)):
            if variant.name in names:
                yield index, variant.name, target

    def open_judges(self) -> Iterator[tuple[str, Target]]:
        """Score and target of each judge that will be called."""
        scorers = {judge.scorer for judge in self.estimate.judges}
        return ((name, target) for name, target in self.judges.items() if name in scorers)
