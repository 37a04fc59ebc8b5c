"""A plan that is ready to execute, and its execution: the corridor from plan to analysis."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from abreast.errors import AbreastError, Incomplete, PreflightRefused, StoreError
from abreast.execute.judging import Panel, without_judges
from abreast.execute.limits.failing import failures_of_broken
from abreast.execute.listener import Listeners
from abreast.execute.run import Execution
from abreast.execute.scoring import unscored
from abreast.execute.warmup import warmup_costs
from abreast.experiment.judges import calls_of
from abreast.experiment.lock import Lock, default_file, find_lock
from abreast.experiment.options import Options
from abreast.experiment.result import Result
from abreast.experiment.stored import shown_params, stored_spec
from abreast.plan import git
from abreast.plan.keys import final_positions, find_reusable, mark_done
from abreast.plan.names import new_name
from abreast.plan.predecessor import find_extension
from abreast.plan.provenance import provenance
from abreast.plan.workspace_state import Carrying
from abreast.preflight.context import Context
from abreast.preflight.cost import question
from abreast.preflight.earlier import earlier
from abreast.preflight.estimate import Estimate, estimate
from abreast.preflight.examination import examine
from abreast.preflight.history import History, history
from abreast.preflight.questions import Question, questions, still_answered
from abreast.preflight.series import series
from abreast.preflight.surroundings import surroundings
from abreast.spec.read_cases import files_of
from abreast.store import Lease, NewRun, Reuse, Store, StoreVanished, open_store
from abreast.store.metrics import NUMBERS
from abreast.store.rows import case_row, columns_of, to_json
from abreast.store.run_names import check_label_in
from abreast.store.runs.provenance import Extension, LockCheck
from abreast.store.schema import Column
from abreast.store.views import add_columns
from abreast.targets.processes.cleanup import Cleanup

if TYPE_CHECKING:
    from abreast.analyse.decision.sequential import UntilDecided
    from abreast.plan.lock import LockedPlan
    from abreast.plan.plan import Plan
    from abreast.scorers.base import Scorer
    from abreast.spec.schema import Spec
    from abreast.targets import Target


class Prepared:
    """A plan with its targets, scorers and store: everything but the execution."""

    def __init__(
        self,
        spec: Spec,
        base: Path,
        origin: Path | None,
        options: Options,
        plan: Plan,
        targets: Sequence[Target],
        scorers: Sequence[Scorer],
        primary: str | None,
        baseline: str,
        store: Store,
        panel: Panel | None = None,
        notes: Sequence[str] = (),
        carrying: Carrying | None = None,
        cleanup: Cleanup | None = None,
    ) -> None:
        self.spec, self.base, self.origin, self.options = spec, base, origin, options
        self.plan, self.targets, self.scorers = plan, targets, scorers
        self.primary, self.baseline, self.store, self.panel = primary, baseline, store, panel
        self.notes, self._carrying = notes, carrying or Carrying()
        self._cleanup = cleanup or Cleanup()
        repository = git.state(base)
        case_files = files_of(spec.cases, base)
        self.surroundings = surroundings(base, repository, plan.variants, targets, case_files, origin)
        self.provenance = {**provenance(repository, plan.cases, spec.seed), **self.surroundings.recorded()}
        self.exists = store.exists()
        if self.exists and options.label is not None:
            check_label_in(store, options.label, options.resume)
        self.continues = self._unfinished_run()
        self.extension = self._find_extension()
        if self.extension is not None:
            self.plan = plan = plan.extending(self.extension)
            self.provenance |= self.extension.recorded()
        self.lock = self._find_lock()
        if self.lock is not None:
            self.provenance |= self.lock.check.recorded()
        self.reuses = self._reusable()
        self._marked: object = None  # the state of the run when it was looked at
        self.broken: frozenset[int] = frozenset()  # failures that stopped the run: executed again
        if self.continues:
            run_id = store.run(self.continues)["run_id"]
            self.broken = self._failures_of_broken(run_id)
            self._mark_done(run_id)
        self.done_before = int(plan.done.sum())
        self.simulated = any(target.simulated for target in (*targets, *(panel.targets if panel else ())))
        self.estimate = self._estimate()
        context = self._context()
        self.findings = examine(context)
        self.question = question(context)  # to be answered before anything is spent
        self.questions = [] if self.continues else questions(context)
        self.series = series(context)
        self.provenance["answers"] = still_answered(context)
        self.provenance |= {"series": self.series.number, "series_why": self.series.why}
        self.provenance |= {"largest_group": plan.largest_group, "population": plan.population}
        self.interrupt: Callable[[], object] | None = None  # while it executes in a thread, where no signal arrives

    @property
    def to_execute(self) -> int:
        return self.plan.missing() - len(self.reuses)

    def _estimate(self) -> Estimate:
        left = ~self.plan.done
        left[[reuse.position for reuse in self.reuses]] = False
        names = [target.name for target in self.targets]
        earlier = history(self.store, names, self.plan.digests) if self.exists else History()
        found = estimate(self.plan, left, self.targets, self.spec.limits, earlier, self.spec.expects)
        if self.panel is None:
            return found
        run_id = self.store.run(self.continues)["run_id"] if self.continues else None
        store = self.store if self.exists else None
        return replace(found, judges=calls_of(self.panel, left, store, run_id, self.reuses))

    def _spent(self) -> float:
        """Dollars that the run which goes on has spent before."""
        if not self.continues or self.spec.limits.budget_usd is None:  # nobody asks
            return 0.0
        run_id = self.store.run(self.continues)["run_id"]
        warmups = warmup_costs(self.store, run_id).values()
        judges = [judge.name for judge in self.panel.judges] if self.panel else []
        rows = [*self.store.spent(run_id, len(self.targets)), *self.store.spent_on_judges(run_id, judges)]
        return sum(row[1] for row in rows) + sum(map(sum, warmups))

    def close(self) -> None:
        self.plan.cases.close()
        self.store.close()

    def refuse_if_failed(self) -> None:
        """Exit 4 before anything is spent."""
        if self.options.force:
            return
        bad = ("fail", "warn") if self.options.strict else ("fail",)
        for finding in self.findings:
            if finding.level in bad:
                raise PreflightRefused(f"{finding.check}: {finding.message}", finding.fix)

    def answered(self, asked: Question, answer: str) -> None:
        """It is stored with the run, and not asked again in the same state."""
        self.provenance["answers"][asked.matter] = {"state": asked.state, "answer": answer}

    async def execute(self, owns_loop: bool = True) -> Result:
        """Take the lease, take over what can be reused, execute the rest, analyse. On the loop of a user, signals are
        left alone: cancel it by `interrupt`."""
        held = self._enter()
        try:
            return await self._execute(held, owns_loop)
        finally:
            self.store.let_go(held)

    def _may_be_interrupted(self, how: Callable[[], object]) -> None:
        self.interrupt = how

    async def _execute(self, held: Lease, owns_loop: bool) -> Result:
        self._carrying.begin(self.plan, self.store, held.run_id)
        listener = Listeners(self.options.listeners)
        listener.event("run_started", run=held.run, planned=len(self.plan), to_execute=self.plan.missing())
        try:
            pending = unscored(self.store, held.run_id, without_judges(self.scorers))
            ending = await Execution(
                plan=self.plan,
                targets=self.targets,
                scorers=self.scorers,
                limits=self.spec.limits,
                store=self.store,
                held=held,
                listener=listener,
                unscored=pending,
                waits_for_quota=self.options.on_quota != "stop",
                goes_on_cold=self.options.force,
                interruptible=self._may_be_interrupted,
                owns_loop=owns_loop,
                stop=self._stop(held.run_id),
                panel=self.panel,
            ).run()
            if ending.error is not None:
                raise ending.error
            status, reason = self._status(held, ending.stopped, ending.why)
            self.store.finish(held, status, reason)
        except StoreVanished as error:  # whatever is at the path now is not this run's store
            if error.copy is None:
                raise Incomplete(error.message, error.fix) from error
            with open_store(error.copy) as store:
                store.finish(held, "incomplete", error.message)
                option = f" --store {shlex.quote(str(error.copy))}"
                raise _incomplete(error, held.run, store, len(self.plan), option) from error
        except StoreError as error:
            with contextlib.suppress(StoreError):
                self.store.finish(held, "incomplete", error.message)
            raise _incomplete(error, held.run, self.store, len(self.plan)) from error
        except BaseException:
            with contextlib.suppress(StoreError):
                self.store.finish(held, "incomplete", "the driver failed")
            raise
        self.store.close()
        try:
            self.store.materialise()
        except StoreError as error:
            listener.event("warning", message=error.message)
        if ending.stopped == "warmup":
            stored = self.store.run(held.run)["stored_trials"]
            told = f"{stored:,} of {len(self.plan):,} trials are stored and safe" if stored else "nothing was executed"
            raise PreflightRefused(f"{ending.why}; {told}", f"{ending.fix}, then: abreast resume {held.run}")
        from abreast.analyse.run import analyse  # late: trials can start without it

        analysis = await asyncio.to_thread(analyse, self.store, held.run)  # the loop may be a user's
        listener.event("run_finished", run=held.run, status=status, reason=reason, executed=ending.executed)
        return Result(
            held.run,
            self.store.path,
            status,
            len(self.plan),
            ending.executed,
            len(self.reuses),
            self.done_before,
            None if status == "complete" else ending.stopped,
            ending.fix,
            ending.in_flight,
            analysis,
            ending.decision if status == "stopped_early" else None,
            ending.saved if status == "stopped_early" else 0,
        )

    def _stop(self, run_id: int) -> UntilDecided | None:
        """Who may end the run early, if that is wanted and there is something to decide."""
        if not self.spec.until_decided or self.primary is None or len(self.plan.variants) < 2:
            return None
        from abreast.experiment.deciding import until_decided

        version = self._primary_version()
        assert version is not None
        return until_decided(self.spec, self.plan, self.baseline, self.primary, version, self.store, run_id)

    def _enter(self) -> Lease:
        if self.lock is not None:
            self.lock.write()
        if self.continues:
            held = self.store.claim(self.continues)
            spec = stored_spec(self.spec, self.base, self.origin, self.options)
            self.store.revise(held, self.primary, self.baseline, spec, self.provenance.get("lock"))
            if self.simulated:
                self.store.mark_simulated(held.run_id)
            self._register_columns()
        else:
            known = self.store.queries.run_names() if self.exists else set()
            cases = self.plan.cases
            indexes = sorted({self.plan.parts(reuse.position)[0] for reuse in self.reuses})
            rows = (case_row(cases.digest(index), cases.input_digest(index), cases[index]) for index in indexes)
            held = self.store.begin(self._new_run(new_name(known)), rows, self.reuses, self.options.fresh)
        if self.options.retry_failed or self._reuses_retried():
            self.store.note_retried_failures(held)
        self.store.close()
        self._mark_done(held.run_id)
        return held

    def _mark_done(self, run_id: int) -> None:
        """What the run has. Looked at again once it is ours, but only if somebody wrote in between."""
        state = self.store.queries.trial_state(run_id)
        if state != self._marked:
            mark_done(self.plan, self.store, run_id, not self.options.retry_failed, self.broken)
            self._marked = state

    def _failures_of_broken(self, run_id: int) -> frozenset[int]:
        if self.spec.limits.allow_failing or self.store.last_stop(run_id) != "failing":
            return frozenset()
        final = final_positions(self.plan, self.store, run_id)
        return failures_of_broken(self.plan, final, self.store.own_failures(run_id))

    def _reuses_retried(self) -> bool:
        return bool(self.reuses) and self.store.sources_retried([reuse.run_id for reuse in self.reuses])

    def _register_columns(self) -> None:
        with self.store.change() as connection:
            add_columns(connection, self._columns())

    def _new_run(self, name: str) -> NewRun:
        plan = self.plan
        variants = [
            (
                index,
                variant.name,
                target.name,
                to_json(shown_params(variant)),
                plan.digests[index],
                plan.variant_occurrence[index],
            )
            for index, (variant, target) in enumerate(zip(plan.variants, self.targets, strict=True))
        ]
        return NewRun(
            run=name,
            experiment=self.spec.name,
            debug=self.options.debug is not None,
            simulated=self.simulated,
            label=self.options.label,
            fingerprint=plan.fingerprint(),
            planned_trials=len(plan),
            primary_score=self.primary,
            baseline=self.baseline,
            seed=self.spec.seed,
            spec=stored_spec(self.spec, self.base, self.origin, self.options),
            provenance=self.provenance,
            variants=variants,
            columns=self._columns(),
            judged=[column for judge in (self.panel.judges if self.panel else ()) for column in judge.columns],
        )

    def _columns(self) -> list[Column]:
        found = [column for variant in self.plan.variants for column in columns_of("params", shown_params(variant))]
        found += [Column("score", column, "real") for scorer in self.scorers for column in scorer.columns]
        found += columns_of("tag", dict.fromkeys(sorted(self.plan.cases.tag_keys), ""))
        return found

    def _unfinished_run(self) -> str | None:
        options = self.options
        if not self.exists or options.fresh:
            return None
        if options.resume is not None:
            return self._resumable(options.resume)
        found = self.store.unfinished(self.spec.name, self.plan.fingerprint())
        if found is None or bool(self.store.run(found)["debug"]) != (options.debug is not None):
            return None
        self._refuse_another_rule(found)
        return found

    def _find_extension(self) -> Extension | None:
        """What the run that goes on stored, or the run that a new one extends. Fresh and debug runs extend nothing."""
        if self.continues:
            return Extension.read(self._stored_provenance())
        if not self.exists or self.options.fresh or self.options.debug is not None:
            return None
        return find_extension(self.plan, self.store, self.spec, self.primary, self.baseline)

    def _find_lock(self) -> Lock | None:
        default = default_file(self.base, self.origin, self.spec.name)
        return find_lock(self.options, default, LockCheck.read(self._stored_provenance()), self._locked_plan)

    def _stored_provenance(self) -> Mapping[str, Any]:
        """Of the run that goes on; empty for a new one."""
        found: Mapping[str, Any] = json.loads(self.store.run(self.continues)["provenance"]) if self.continues else {}
        return found

    def _locked_plan(self) -> LockedPlan:
        from abreast.plan.lock import LockedPlan  # late: most runs have no locked plan

        runs = self.store.queries.count_runs(self.spec.name) if self.exists else 0
        spec = stored_spec(self.spec, self.base, self.origin, self.options)
        version = self.provenance["packages"].get("abreast", "unknown")
        return LockedPlan.of(self.plan, spec, self.primary, self._primary_version(), self.baseline, version, runs)

    def _primary_version(self) -> str | None:
        """Version of the scorer that gives the primary score."""
        return next((scorer.version for scorer in self.scorers if self.primary in scorer.columns), None)

    def _refuse_another_rule(self, name: str) -> None:
        """How the verdict is reached is fixed before the first look."""
        before = json.loads(self.store.run(name)["spec"])
        margin, weight = before.get("margin"), before.get("weight", "case")
        if margin != self.spec.margin:
            changed = "without a margin" if margin is None else f"with a margin of {margin:g}"
        elif weight != self.spec.weight:
            changed = f"with weight: {weight}"
        else:
            return
        raise PreflightRefused(
            f"{name} was started {changed} and is not finished: the rule of a verdict is fixed before the first look",
            f"continue it: abreast resume {name}; or start over: --fresh",
        )

    def _resumable(self, name: str) -> str:
        run = self.store.run(name)
        if run["fingerprint"] != self.plan.fingerprint():
            raise PreflightRefused(
                f"{run['run']} cannot go on: {self._what_changed(run)} since it started",
                "start a new run, which reuses every answer that still holds: abreast run SPEC",
            )
        return str(run["run"])

    def _what_changed(self, run: Mapping[str, Any]) -> str:
        if json.loads(run["provenance"])["data_hash"] != self.plan.cases.hash:
            return "its cases changed"
        digests = self.store.queries.variant_digests(run["run_id"])
        now = zip(self.plan.variants, self.plan.digests, strict=True)
        changed = [variant.name for variant, digest in now if digests.get(variant.name) != digest]
        return f"{', '.join(changed)} changed" if changed else "its plan changed"

    def _reusable(self) -> list[Reuse]:
        if not self.exists or self.continues or self.options.fresh:
            return []
        return find_reusable(self.plan, self.targets, self.store, not self.options.retry_failed)

    def _context(self) -> Context:
        options, spec = self.options, self.spec
        experiments = self.store.queries.experiment_names(3) if self.exists else []
        columns = self.store.columns() if self.exists else []
        return Context(
            self.plan,
            self.targets,
            spec.limits,
            self.estimate,
            earlier(self.store, spec.name, self.continues) if self.exists else None,
            self.provenance,
            self.surroundings,
            self._spent(),
            spec.until_decided,
            self.primary is not None,
            [json.loads(to_json(shown_params(variant))) for variant in self.plan.variants],
            {column: scorer.version for scorer in self.scorers for column in scorer.columns},
            bool(options.case or options.tag or options.limit or options.debug),
            options.debug is not None,
            self.store.path,
            spec.name,
            any(name != spec.name for name in experiments),
            [*NUMBERS, *(column.name for column in columns if column.kind == "metric")],
            self.notes,
            dict(zip([judge.name for judge in self.panel.judges], self.panel.targets, strict=True))
            if self.panel
            else {},
            options.try_tests,
            self.extension,
            self.lock.check if self.lock else None,
            self.lock is not None and self.lock.unwritten is not None,
            self._cleanup,
            spec.case_noun,
            options.online,
            options.try_setup,
        )

    def _status(self, held: Lease, stopped: str | None, told: str) -> tuple[str, str | None]:
        self.store.close()
        final = len(final_positions(self.plan, self.store, held.run_id))
        why = "the store could not be written for a while" if stopped == "store" else told
        if final < len(self.plan) and stopped == "decided" and not self._unscored(held):
            return "stopped_early", told
        if final < len(self.plan):
            return "incomplete", why or self._failed(held, len(self.plan) - final)
        if self._unscored(held):
            return "incomplete", why or "answers are left that could not be scored"
        return "complete", None

    def _failed(self, held: Lease, left: int) -> str:
        """`2 trials failed by infrastructure, 3 that begin with what those leave are not run`."""
        after = len(self.plan) - self.store.queries.trial_state(held.run_id)[0]
        failed = left - after
        told = f"{failed:,} trial{'s' if failed > 1 else ''} failed by infrastructure"
        return f"{told}, {after} that begin with what those leave are not run" if after else told

    def _unscored(self, held: Lease) -> bool:
        return any(True for _ in unscored(self.store, held.run_id, self.scorers))


def _incomplete(error: StoreError, run: str, store: Store, planned: int, option: str = "") -> Incomplete:
    try:
        stored = store.run(run)["stored_trials"]
        told = f"; {stored} of {planned} trials are stored and safe"
    except AbreastError:  # the store is gone, or the run is
        return Incomplete(error.message, error.fix)
    first = f"{error.fix.split(', then')[0]}, then: " if error.fix else ""
    return Incomplete(f"{error.message}{told}", f"{first}abreast resume {run}{option}")
