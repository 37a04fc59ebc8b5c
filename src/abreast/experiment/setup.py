"""Setup of a run: plan, targets, scorers and store, built from an experiment and options."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from abreast.analyse.decision import gates
from abreast.code.reference import add_to_path
from abreast.errors import BadInput, suggestion
from abreast.execute.engine.base import EngineFactory, EngineSetup, find_engine
from abreast.experiment.judges import seat
from abreast.filenames import relative_path
from abreast.plan.chains import chains_of
from abreast.plan.keys import variant_digest
from abreast.plan.plan import Plan
from abreast.plan.workspace_state import WorkspaceStates
from abreast.spec.case_columns import with_columns
from abreast.spec.cases import CaseTable, Selection, load_cases
from abreast.spec.load import validated
from abreast.spec.read_cases import location_of
from abreast.spec.schema import LEAST_CASES, Spec
from abreast.spec.scorers import build_scorers, check_expected, checks_of, primary_column
from abreast.store import Store, open_store
from abreast.store.address import DEFAULT as DEFAULT_STORE
from abreast.store.address import is_url, named_store
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
    """The parts of a run."""

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
    engine: EngineFactory
    cleanup: Cleanup

    @property
    def is_simulated(self) -> bool:
        return any(target.simulated for target in (*self.targets, *(self.panel.targets if self.panel else ())))

    def engine_setup(self) -> EngineSetup:
        """The setup from which engines are built: the variants, then the judges."""
        panel = self.panel
        return EngineSetup(
            variants=[*self.plan.variants, *(panel.contenders if panel else ())],
            judges=len(panel.targets) if panel else 0,
            seed=self.spec.seed,
            settings=self.target_settings,
            limits=self.spec.limits,
            built_targets=[*self.targets, *(panel.targets if panel else ())],
            carrying=self.carrying,
        )

    @property
    def primary_version(self) -> str | None:
        """Version of the scorer that gives the primary score."""
        return next((scorer.version for scorer in self.scorers if self.primary in scorer.columns), None)


def build_setup(experiment: Experiment, options: Options, cleanup: Cleanup) -> Setup:
    """Build targets and scorers, load the cases and open the store."""
    base, origin = experiment.base, experiment.origin
    add_to_path(base)
    spec = _apply_options(experiment.spec, options)
    engine = find_engine(spec.engine)
    variants = _select_variants(spec.all_variants(), options.variant)
    baseline = _baseline(spec, variants, options)
    path = store_path(experiment.spec, base, options.store)
    carrying = WorkspaceStates()
    with _located(origin):
        for gate in gates.requirements(spec.fail_if):
            gates.check(gate, [variant.name for variant in variants])
        scorers = build_scorers(spec, base)
        target_settings = _target_settings(spec, base, path, options, checks_of(scorers))
        shared = {**target_settings, "carrying": carrying}  # targets add objects that other processes cannot receive
        targets = [build(variant, spec.seed, shared) for variant in variants]
    _refuse_checks(target_settings["checks"], variants, targets)
    primary = primary_column(spec, scorers)
    cases = load_cases(spec.cases, base, _selection(options))
    try:
        check_expected(cases, scorers)
        plan = _build_plan(spec, cases, variants, targets)
        store = open_store(path)
        store.anchor()
        with _located(origin):
            judge_settings = {**shared, "checks": []}
            names = [variant.name for variant in variants]
            panel = seat(scorers, names, plan.digests, baseline, spec.seed, judge_settings, alone=options.fresh)
    except BaseException:
        cases.close()
        raise
    return Setup(
        spec=spec,
        base=base,
        origin=origin,
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
        engine=engine,
        cleanup=cleanup,
    )


def _baseline(spec: Spec, variants: tuple[Variant, ...], options: Options) -> str:
    """Return the baseline of the spec, or the first selected variant if --variant excludes it."""
    if options.variant and spec.baseline not in options.variant:
        return variants[0].name
    return spec.baseline_of(variants)


def _target_settings(
    spec: Spec, base: Path, store: str | Path, options: Options, checks: Sequence[Check]
) -> dict[str, Any]:
    return {
        "base": base,
        "store": None if is_url(store) else store,
        "prices": spec.prices,
        "answer_size": spec.limits.answer_bytes,
        "keep_workspaces": options.keep_workspaces,
        "checks": checks,
    }


def _build_plan(spec: Spec, cases: CaseTable, variants: tuple[Variant, ...], targets: Sequence[Target]) -> Plan:
    digests = [variant_digest(variant, target) for variant, target in zip(variants, targets, strict=True)]
    chains = chains_of(cases, targets)
    _refuse_early_stop(spec, chains is not None)
    return Plan(
        cases=cases,
        variants=variants,
        digests=digests,
        repeats=spec.repeats,
        seed=spec.seed,
        sees=[target.sees for target in targets],
        before=chains,
    )


def store_path(spec: Spec, base: Path, override: str | Path | None = None) -> str | Path:
    """Return the path or address of the store: the override, else the spec's, else the default next to the spec."""
    address = named_store(override, spec.store if spec.store is None or is_url(spec.store) else base / spec.store)
    return base / DEFAULT_STORE if address is None else address


@contextmanager
def _located(origin: Path | None) -> Iterator[None]:
    """Prefix errors with the spec file."""
    try:
        yield
    except BadInput as error:
        if origin is None:
            raise
        raise BadInput(f"{relative_path(origin)}: {error.message}", error.fix) from error


def _refuse_early_stop(spec: Spec, is_chained: bool) -> None:
    """Refuse early stopping where variants do not advance together or cases depend on each other."""
    if spec.until_decided and spec.limits.turns:
        raise BadInput(
            "until_decided and limits.turns: early stopping needs variants that advance together", "omit one of them"
        )
    if spec.until_decided and is_chained:
        raise BadInput(
            "until_decided: cases that start from the workspace of others form one chain and cannot stop early",
            "omit until_decided",
        )


def _refuse_checks(checks: Sequence[Check], variants: Sequence[Variant], targets: Sequence[Target]) -> None:
    """Refuse checks for targets without a workspace."""
    for variant, target in zip(variants, targets, strict=True):
        if checks and not target.has_workspace:
            raise BadInput(
                f'scorer "{checks[0].name}": target {target.name} (variant "{variant.name}") has no workspace',
                "use target: claude-code or target: command, or another scorer",
            )


def _apply_options(spec: Spec, options: Options) -> Spec:
    """Return the spec with the options applied."""
    limits = spec.as_written("limits")
    if options.parallel is not None or options.trial_parallelism is not None:
        limits["parallel"] = options.parallel
    if options.budget_usd is not None and not 0 < options.budget_usd < math.inf:
        raise BadInput(f"--budget {options.budget_usd}: must be above 0 dollars")
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
        raise BadInput(f"--margin {margin:g}: must be above 0 and below 1", "use --margin 0.05 for five points")
    names = ("repeats", "seed", "until_decided", "margin", "min_cases", "engine")
    changes = {key: value for key in names if (value := getattr(options, key)) is not None}
    if options.address is not None:
        if changes.get("engine", spec.engine) != "ray" and isinstance(changes.get("engine", spec.engine), str):
            raise BadInput(f"--address {options.address}: only for the engine ray", "add --engine ray")
        changes["engine"] = {"ray": {**_ray_settings(spec), "address": options.address}}
    if options.columns:
        changes["cases"] = with_columns(spec.cases, options.columns, location_of(spec.cases))
    return changed_spec(spec, {**changes, "limits": limits}, "options")


def _ray_settings(spec: Spec) -> dict[str, Any]:
    """The settings of Ray in the spec."""
    return {} if isinstance(spec.engine, str) else spec.engine.ray.model_dump()


def changed_spec(spec: Spec, changes: dict[str, Any], source: str) -> Spec:
    """Return a validated copy of a spec; `source` prefixes errors."""
    return validated({**{key: getattr(spec, key) for key in Spec.model_fields}, **changes}, source)


def _select_variants(variants: tuple[Variant, ...], names: Sequence[str]) -> tuple[Variant, ...]:
    existing = [variant.name for variant in variants]
    for name in names:
        if name not in existing:
            raise BadInput(f"--variant {name}: no such variant{suggestion(name, existing)}")
    return tuple(variant for variant in variants if not names or variant.name in names)


def _selection(options: Options) -> Selection:
    limits = [number for number in (options.limit, options.debug) if number is not None]
    for number in limits:
        if number < 1:
            raise BadInput(f"a limit of {number} leaves no cases", "use 1 or more")
    return Selection(tuple(options.case), dict(options.tag), min(limits) if limits else None)
