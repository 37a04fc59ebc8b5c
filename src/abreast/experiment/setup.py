"""The setup of a run: from an experiment and options to a plan, targets, scorers and a store."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from abreast.code.reference import add_to_path
from abreast.errors import BadInput, suggestion
from abreast.execute.engine.base import find_engine
from abreast.experiment.judges import seat
from abreast.plan.chains import chains_of
from abreast.plan.keys import variant_digest
from abreast.plan.plan import Plan
from abreast.plan.workspace_state import WorkspaceStates
from abreast.spec.cases import Selection, load_cases
from abreast.spec.load import validated
from abreast.spec.schema import LEAST_CASES, Spec
from abreast.spec.scorers import build_scorers, check_expected, checks_of, primary_column
from abreast.spec.values import shown_path
from abreast.store import Store, open_store
from abreast.store.address import DEFAULT as DEFAULT_STORE
from abreast.store.address import named_store
from abreast.targets import Target, build
from abreast.targets.processes.cleanup import Cleanup

if TYPE_CHECKING:
    from abreast.execute.sources.judging import Panel
    from abreast.experiment.facade import Experiment
    from abreast.experiment.options import Options
    from abreast.model import Check, Variant
    from abreast.scorers.base import Scorer


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """Everything that a run is made of."""

    spec: Spec  # with the options applied
    base: Path
    origin: Path | None
    options: Options
    plan: Plan
    targets: Sequence[Target]
    scorers: Sequence[Scorer]
    primary: str | None
    baseline: str
    store: Store
    panel: Panel | None
    notes: Sequence[str]
    carrying: WorkspaceStates
    target_settings: dict[str, Any]  # for engines that build targets in other processes
    cleanup: Cleanup

    @property
    def is_simulated(self) -> bool:
        return any(target.simulated for target in (*self.targets, *(self.panel.targets if self.panel else ())))

    @property
    def primary_version(self) -> str | None:
        """Version of the scorer that gives the primary score."""
        return next((scorer.version for scorer in self.scorers if self.primary in scorer.columns), None)


def build_setup(experiment: Experiment, options: Options, cleanup: Cleanup) -> Setup:
    """Build targets and scorers, load the cases and open the store."""
    base = experiment.base
    add_to_path(base)
    find_engine(options.engine)
    spec = _overridden(experiment.spec, options)
    variants = _selected(spec.all_variants(), options.variant)
    baseline = variants[0].name if options.variant and spec.baseline not in options.variant else None
    baseline = baseline or spec.baseline_of(variants)
    path = store_path(experiment.spec, base, options.store)
    carrying = WorkspaceStates()
    with _located(experiment.origin):
        scorers = build_scorers(spec, base)
        checks = checks_of(scorers)
        shared: dict[str, Any] = {
            "base": base,
            "store": None if "://" in str(path) else path,
            "prices": spec.prices,
            "answer_size": spec.limits.answer_bytes,
            "keep_workspaces": options.keep_workspaces,
            "checks": checks,
        }
        target_settings = dict(shared)  # targets add what cannot be sent to another process
        shared["carrying"] = carrying
        targets = [build(variant, spec.seed, shared) for variant in variants]
    _refuse_checks(checks, variants, targets)
    primary = primary_column(spec, scorers)
    cases = load_cases(spec.cases, base, _selection(options))
    try:
        check_expected(cases, scorers)
        digests = [variant_digest(variant, target) for variant, target in zip(variants, targets, strict=True)]
        before = chains_of(cases, targets)
        _refuse_early_stop(spec, before is not None)
        plan = Plan(
            cases=cases,
            variants=variants,
            digests=digests,
            repeats=spec.repeats,
            seed=spec.seed,
            sees=[target.sees for target in targets],
            before=before,
        )
        store = open_store(path)
        store.anchor()
        names = [variant.name for variant in variants]
        with _located(experiment.origin):
            unchecked = {**shared, "checks": []}  # of judges nothing is tested
            panel = seat(scorers, names, digests, baseline, spec.seed, unchecked, alone=options.fresh)
        return Setup(
            spec=spec,
            base=base,
            origin=experiment.origin,
            options=options,
            plan=plan,
            targets=targets,
            scorers=scorers,
            primary=primary,
            baseline=baseline,
            store=store,
            panel=panel,
            notes=experiment.notes,
            carrying=carrying,
            target_settings=target_settings,
            cleanup=cleanup,
        )
    except BaseException:
        cases.close()
        raise


def store_path(spec: Spec, base: Path, override: str | Path | None = None) -> str | Path:
    own = spec.store
    beside = own if own is None or "://" in own else base / own
    address = named_store(override, beside)
    return base / DEFAULT_STORE if address is None else str(address)


@contextmanager
def _located(origin: Path | None) -> Iterator[None]:
    """Begin messages about what the spec names with its file."""
    try:
        yield
    except BadInput as error:
        if origin is None:
            raise
        raise BadInput(f"{shown_path(origin)}: {error.message}", error.fix) from error


def _refuse_early_stop(spec: Spec, is_chained: bool) -> None:
    """A decision on the way needs cases that say something on their own, of variants that keep together."""
    if spec.until_decided and spec.limits.turns:
        raise BadInput(
            "until_decided and limits.turns: a decision on the way needs variants that keep together",
            "leave one of them out",
        )
    if spec.until_decided and is_chained:
        raise BadInput(
            "until_decided: cases that begin with what others left are one chain, of which no part decides",
            "leave it out",
        )


def _refuse_checks(checks: Sequence[Check], variants: Sequence[Variant], targets: Sequence[Target]) -> None:
    """Checks run in a workspace, which only agents have."""
    for variant, target in zip(variants, targets, strict=True):
        if checks and not target.has_workspace:
            raise BadInput(
                f'scorer "{checks[0].name}": {target.name} (variant "{variant.name}") has no workspace to run it in',
                "use target: claude-code or target: command, or another scorer",
            )


def _overridden(spec: Spec, options: Options) -> Spec:
    """The spec with the options applied."""
    limits = spec.as_written("limits")
    if options.parallel is not None or options.trial_parallelism is not None:
        limits["parallel"] = options.parallel
    if options.budget_usd is not None and not 0 < options.budget_usd < math.inf:
        raise BadInput(f"--budget {options.budget_usd}: must be dollars above 0")
    for key in ("trial_parallelism", "budget_usd", "quota", "free_cores"):
        if getattr(options, key) is not None:
            limits[key] = getattr(options, key)
    if options.allow_failing:
        limits["allow_failing"] = True
    for key, least in (("repeats", 1), ("seed", 0), ("min_cases", LEAST_CASES)):
        value = getattr(options, key)
        if value is not None and value < least:
            raise BadInput(f"--{key.replace('_', '-')} {value}: must be a whole number of at least {least}")
    margin = options.margin
    if margin is not None and not 0 < margin < 1:
        raise BadInput(f"--margin {margin:g}: must be a number above 0 and below 1", "--margin 0.05 is five points")
    names = ("repeats", "seed", "until_decided", "margin", "min_cases")
    changes = {key: value for key in names if (value := getattr(options, key)) is not None}
    return changed_spec(spec, {**changes, "limits": limits}, "options")


def changed_spec(spec: Spec, changes: dict[str, Any], source: str) -> Spec:
    """A validated copy of a spec; `source` begins the messages about what is wrong."""
    return validated({**{key: getattr(spec, key) for key in Spec.model_fields}, **changes}, source)


def _selected(variants: tuple[Variant, ...], names: Sequence[str]) -> tuple[Variant, ...]:
    known = [variant.name for variant in variants]
    for name in names:
        if name not in known:
            raise BadInput(f"--variant {name}: no such variant{suggestion(name, known)}")
    return tuple(variant for variant in variants if not names or variant.name in names)


def _selection(options: Options) -> Selection:
    limits = [number for number in (options.limit, options.debug) if number is not None]
    for number in limits:
        if number < 1:
            raise BadInput(f"a limit of {number} cases leaves none", "write 1 or more")
    return Selection(tuple(options.case), dict(options.tag), min(limits) if limits else None)
