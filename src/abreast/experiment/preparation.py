"""Preparation of a run: stored and remaining trials, the estimate, and the checks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from abreast.errors import PreflightRefused
from abreast.execute.limits.failing import failures_of_broken
from abreast.execute.sources.warmup import warmup_costs
from abreast.experiment.judges import estimate_calls
from abreast.experiment.lock import Lock, default_file, find_lock
from abreast.experiment.setup import Setup
from abreast.experiment.stored import shown_params, stored_spec
from abreast.plan.keys import final_positions, find_reusable
from abreast.plan.predecessor import find_extension
from abreast.plan.provenance import provenance
from abreast.preflight.checks.cost import question
from abreast.preflight.context import CheckSettings, Context, StoredColumns
from abreast.preflight.environment import ExperimentEnvironment, read_environment
from abreast.preflight.estimate import RunEstimate, estimate
from abreast.preflight.examination import examine
from abreast.preflight.finding import Finding
from abreast.preflight.previous_run import TrialHistory, history, previous_run
from abreast.preflight.questions import PreflightQuestion, Series, questions, series, still_answered
from abreast.spec.read_cases import files_of
from abreast.store import Reuse, Store
from abreast.store.metrics import NUMBERS
from abreast.store.rows import to_json
from abreast.store.run_names import check_label_in
from abreast.store.runs.provenance import Extension, LockCheck

if TYPE_CHECKING:
    from abreast.plan.lock import LockedPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A run that is ready to execute, with the findings of the checks."""

    setup: Setup
    continues: str | None  # unfinished run of the same plan
    lock: Lock | None
    reuses: list[Reuse]
    broken: frozenset[int]  # positions of failures that stopped the continued run; they are executed again
    done_before: int
    seen_rows: object  # state of the continued run's rows when its trials were marked
    estimate: RunEstimate
    provenance: dict[str, Any]
    findings: list[Finding]
    question: str | None  # about the cost, to answer before the run
    questions: list[PreflightQuestion]
    series: Series

    @property
    def to_execute(self) -> int:
        return self.setup.plan.missing() - len(self.reuses)

    def close(self) -> None:
        self.setup.engine.close()
        self.setup.plan.cases.close()
        self.setup.store.close()

    def refuse_if_failed(self) -> None:
        """Raise PreflightRefused if a check failed."""
        if self.setup.options.force:
            return
        bad = ("fail", "warn") if self.setup.options.strict else ("fail",)
        for finding in self.findings:
            if finding.level in bad:
                raise PreflightRefused(f"{finding.check}: {finding.message}", finding.fix)
        if self.setup.options.refuse_costly:
            self.refuse_if_costly("raise it, or cap the cost with limits.budget_usd")

    def refuse_if_costly(self, fix: str) -> None:
        """Raise PreflightRefused if the estimated cost needs confirmation, for use where nobody can give it."""
        if self.question is not None:
            above = f"more than limits.ask_above_usd (${self.setup.spec.limits.ask_above_usd:,.2f})"
            message = f"{self.question}, {above}, and there is no terminal to confirm on"
            raise PreflightRefused(message, fix)

    def record_answer(self, question: PreflightQuestion, answer: str) -> None:
        """Record the answer with the run, so that it is not asked again in the same state."""
        self.provenance["answers"][question.matter] = {"state": question.state, "answer": answer}


def prepare(setup: Setup) -> Prepared:
    """Read stored trials, estimate the remaining ones, and run all checks. Nothing is written."""
    spec, options = setup.spec, setup.options
    store = setup.store if setup.store.exists() else None
    if store and options.label is not None:
        check_label_in(store, options.label, options.resume)
    environment = read_environment(
        setup.base, setup.origin, setup.plan.variants, setup.targets, files_of(spec.cases, setup.base)
    )
    facts = {**provenance(environment.repository, setup.plan.cases, spec.seed), **environment.recorded()}
    nodes = setup.engine.examine(setup.engine_setup())
    if nodes:
        facts["nodes"] = list(nodes)
    continued = _run_to_continue(setup) if store and not options.fresh else None
    recorded: Mapping[str, Any] = json.loads(continued["provenance"]) if continued else {}
    extension = Extension.read(recorded)
    if store and not (continued or options.fresh or options.debug is not None):
        extension = find_extension(setup.plan, store, spec, setup.primary, setup.baseline)
    if extension is not None:
        setup = replace(setup, plan=setup.plan.extending(extension))
        facts |= extension.recorded()
    plan = setup.plan
    lock = find_lock(
        options,
        default_file(setup.base, setup.origin, spec.name),
        LockCheck.read(recorded),
        lambda: _locked_plan(setup, store, facts["packages"].get("abreast", "unknown")),
    )
    if lock is not None:
        facts |= lock.check.recorded()
    reuses, broken, seen_rows = list[Reuse](), frozenset[int](), None
    if continued:
        broken = _failures_to_repeat(setup, continued["run_id"])
        seen_rows = mark_stored(setup, continued["run_id"], broken)
    elif store and not options.fresh:
        reuses = find_reusable(plan, setup.targets, store, not options.retry_failed)
    estimated = estimate_run(setup, store, continued, reuses)
    context = _context(setup, store, continued, environment, facts, extension, lock, estimated)
    current_series = series(context)
    return Prepared(
        setup=setup,
        continues=continued["run"] if continued else None,
        lock=lock,
        reuses=reuses,
        broken=broken,
        done_before=int(plan.done.sum()),
        seen_rows=seen_rows,
        estimate=estimated,
        provenance={
            **facts,
            "answers": still_answered(context),
            "series": current_series.number,
            "series_why": current_series.why,
            "largest_group": plan.largest_group,
            "population": plan.population,
        },
        findings=examine(context),
        question=question(context),
        questions=[] if continued else questions(context),
        series=current_series,
    )


def _run_to_continue(setup: Setup) -> dict[str, Any] | None:
    """Return the run to resume, or the last run of the same plan if it is not finished."""
    store, options, fingerprint = setup.store, setup.options, setup.plan.fingerprint()
    if options.resume is not None:
        run = store.run(options.resume)
        if run["fingerprint"] != fingerprint:
            raise PreflightRefused(
                f"{run['run']} cannot continue: {_changes_since(setup, run)} since it started",
                "run `abreast run SPEC` to start a new run, which reuses every answer that is still valid",
            )
        return run
    name = store.unfinished(setup.spec.name, fingerprint)
    if name is None:
        return None
    run = store.run(name)
    if bool(run["debug"]) != (options.debug is not None):
        return None
    _refuse_changed_rule(setup, run)
    return run


def _changes_since(setup: Setup, run: Mapping[str, Any]) -> str:
    if json.loads(run["provenance"])["data_hash"] != setup.plan.cases.hash:
        return "its cases changed"
    digests = setup.store.queries.variant_digests(run["run_id"])
    current = zip(setup.plan.variants, setup.plan.digests, strict=True)
    changed = [variant.name for variant, digest in current if digests.get(variant.name) != digest]
    return f"{', '.join(changed)} changed" if changed else "its plan changed"


def _refuse_changed_rule(setup: Setup, run: Mapping[str, Any]) -> None:
    """Refuse to continue a run with another decision rule: the rule is fixed before the first result."""
    stored = json.loads(run["spec"])
    margin, weight = stored.get("margin"), stored.get("weight", "case")
    if margin != setup.spec.margin:
        rule = "without a margin" if margin is None else f"with a margin of {margin:g}"
    elif weight != setup.spec.weight:
        rule = f"with weight: {weight}"
    else:
        return
    name, where = run["run"], f"--store {setup.store.quoted_address}"
    raise PreflightRefused(
        f"{name} was started {rule} and is not finished; the decision rule of a run cannot change",
        f"run `abreast resume {name} {where}` to continue it, or use --fresh to start over",
    )


def _locked_plan(setup: Setup, store: Store | None, version: str) -> LockedPlan:
    from abreast.plan.lock import LockedPlan  # late: most runs have no locked plan

    return LockedPlan.of(
        plan=setup.plan,
        spec=stored_spec(setup),
        primary=setup.primary,
        scorer=setup.primary_version,
        baseline=setup.baseline,
        version=version,
        earlier_runs=store.queries.count_runs(setup.spec.name) if store else 0,
    )


def _failures_to_repeat(setup: Setup, run_id: int) -> frozenset[int]:
    """Return the positions of the variants' failures that stopped the run."""
    if setup.spec.limits.allow_failing or setup.store.last_stop(run_id) != "failing":
        return frozenset()
    final = final_positions(setup.plan, setup.store, run_id)
    return failures_of_broken(setup.plan, final, setup.store.own_failures(run_id))


def mark_stored(setup: Setup, run_id: int, repeated: frozenset[int], marked: object = None) -> object:
    """Mark the stored trials of a run as done, except the repeated ones; do nothing if its rows are still as `marked`.

    Returns the state of the rows.
    """
    state = setup.store.queries.trial_state(run_id)
    if state != marked:
        done = final_positions(setup.plan, setup.store, run_id, not setup.options.retry_failed, repeated)
        setup.plan.done[done] = True
    return state


def estimate_run(
    setup: Setup, store: Store | None, continued: Mapping[str, Any] | None, reuses: list[Reuse]
) -> RunEstimate:
    plan, spec = setup.plan, setup.spec
    missing = ~plan.done
    missing[[reuse.position for reuse in reuses]] = False
    names = [target.name for target in setup.targets]
    past = history(store, names, plan.digests) if store else TrialHistory()
    estimated = estimate(plan, missing, setup.targets, spec.limits, past, spec.expects, setup.store)
    if setup.panel is None:
        return estimated
    run_id = continued["run_id"] if continued else None
    return replace(estimated, judges=estimate_calls(setup.panel, missing, store, run_id, reuses))


def _spent(setup: Setup, continued: Mapping[str, Any] | None) -> float:
    """Return the dollars that the continued run has spent, if there is a budget."""
    if continued is None or setup.spec.limits.budget_usd is None:
        return 0.0
    store, run_id = setup.store, continued["run_id"]
    warmups = warmup_costs(store, run_id).values()
    judges = [judge.name for judge in setup.panel.judges] if setup.panel else []
    rows = [*store.spent(run_id, len(setup.targets)), *store.spent_on_judges(run_id, judges)]
    return sum(row[1] for row in rows) + sum(map(sum, warmups))


def _context(
    setup: Setup,
    store: Store | None,
    continued: Mapping[str, Any] | None,
    environment: ExperimentEnvironment,
    provenance: Mapping[str, Any],
    extension: Extension | None,
    lock: Lock | None,
    estimated: RunEstimate,
) -> Context:
    options, spec, panel = setup.options, setup.spec, setup.panel
    experiments = store.queries.experiment_names(3) if store else []
    logged = [column.name for column in store.columns() if column.kind == "metric"] if store else []
    return Context(
        spec=spec,
        plan=setup.plan,
        targets=setup.targets,
        judges={judge.name: target for judge, target in zip(panel.judges, panel.targets, strict=True)} if panel else {},
        is_scored=setup.primary is not None,
        columns=StoredColumns(
            params=[json.loads(to_json(shown_params(variant))) for variant in setup.plan.variants],
            scores={column: scorer.version for scorer in setup.scorers for column in scorer.columns},
            metrics=[*NUMBERS, *logged],
        ),
        store=setup.store.address,
        is_store_shared=any(name != spec.name for name in experiments),
        environment=environment,
        provenance=provenance,
        previous=previous_run(store, spec.name, continued["run"] if continued else None) if store else None,
        extension=extension,
        lock=lock.check if lock else None,
        writes_lock=lock is not None and lock.unwritten is not None,
        estimate=estimated,
        spent_usd=_spent(setup, continued),
        settings=CheckSettings(
            selects_cases=bool(options.case or options.tag or options.limit or options.debug),
            is_debug=options.debug is not None,
            try_tests=options.try_tests,
            try_setup=options.try_setup,
            online=options.online,
        ),
        notes=setup.notes,
        cleanup=setup.cleanup,
    )
