"""Execution of a prepared run: claim it, reuse answers, execute the rest, analyse."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from abreast.errors import AbreastError, Incomplete, PreflightRefused, StoreError
from abreast.execute.listener import Listener, Listeners
from abreast.execute.run import Ending, Execution
from abreast.execute.scoring import unscored
from abreast.execute.sources.judging import scored_by_code
from abreast.experiment.preparation import Prepared, mark_stored
from abreast.experiment.result import Result
from abreast.experiment.stored import shown_params, stored_spec
from abreast.plan.keys import final_positions
from abreast.plan.run_names import new_name
from abreast.store import Lease, NewRun, Store, StoreVanished, open_store
from abreast.store.address import as_path
from abreast.store.base import NoConnection
from abreast.store.rows import case_row, columns_of, to_json
from abreast.store.schema import Column
from abreast.store.views import add_columns
from abreast.text import many

if TYPE_CHECKING:
    from abreast.analyse.decision.sequential import UntilDecided


class RunExecution:
    """One execution of a prepared run.

    On a loop that it does not own, it handles no signals: cancel it by `interrupt`, which is None before it begins.
    """

    def __init__(self, prepared: Prepared, listeners: Sequence[Listener] = (), owns_loop: bool = True) -> None:
        self.interrupt: Callable[[], object] | None = None
        self._prepared, self._setup = prepared, prepared.setup
        self._plan, self._store = prepared.setup.plan, prepared.setup.store
        self._listener, self._owns_loop = Listeners(listeners), owns_loop

    async def run(self) -> Result:
        lease = self._begin()
        try:
            return await self._run(lease)
        finally:
            self._store.release_lease(lease)

    async def _run(self, lease: Lease) -> Result:
        self._setup.carrying.begin(self._plan, self._store, lease.run_id)
        planned = len(self._plan)
        self._listener.event("run_started", run=lease.run, planned=planned, to_execute=self._plan.missing())
        try:
            ending = await self._execute(lease)
            status, reason = self._status(lease, ending)
            self._store.finish(lease, status, reason)
        except StoreVanished as error:  # the file at the path is no longer this run's store
            if error.copy is None:
                raise Incomplete(error.message, error.fix) from error
            with open_store(error.copy) as store:
                store.finish(lease, "incomplete", error.message)
                raise _incomplete(error, lease.run, store, planned) from error
        except NoConnection as error:  # further attempts would only waste time
            raise Incomplete(error.message, f"{error.fix}, then run `{self._resume(lease)}`") from error
        except StoreError as error:
            with contextlib.suppress(StoreError):
                self._store.finish(lease, "incomplete", error.message)
            raise _incomplete(error, lease.run, self._store, planned) from error
        except BaseException:
            with contextlib.suppress(StoreError):
                self._store.finish(lease, "incomplete", "the driver failed")
            raise
        self._store.close()
        try:
            self._store.materialise()
        except StoreError as error:
            self._listener.event("warning", message=error.message)
        if ending.stopped == "warmup":
            stored = self._store.run(lease.run)["stored_trials"]
            progress = f"{stored:,} of {planned:,} trials are stored" if stored else "nothing was executed"
            raise PreflightRefused(f"{ending.why}; {progress}", f"{ending.fix}, then run `{self._resume(lease)}`")
        from abreast.analyse.run import analyse  # late: trials can start without it

        analysis = await asyncio.to_thread(analyse, self._store, lease.run)  # the loop may be a user's
        self._listener.event("run_finished", run=lease.run, status=status, reason=reason, executed=ending.executed)
        return Result(
            run=lease.run,
            store=as_path(self._store.address),
            status=status,
            planned=planned,
            executed=ending.executed,
            reused=len(self._prepared.reuses),
            done_before=self._prepared.done_before,
            stopped=None if status == "complete" else ending.stopped,
            fix=ending.fix,
            in_flight=ending.in_flight,
            analysis=analysis,
            decision=ending.decision if status == "stopped_early" else None,
            saved=ending.saved if status == "stopped_early" else 0,
        )

    async def _execute(self, lease: Lease) -> Ending:
        setup = self._setup
        return await Execution(
            plan=self._plan,
            targets=setup.targets,
            scorers=setup.scorers,
            limits=setup.spec.limits,
            store=self._store,
            lease=lease,
            listener=self._listener,
            unscored=unscored(self._store, lease.run_id, scored_by_code(setup.scorers)),
            waits_for_quota=setup.options.on_quota != "stop",
            ignores_warmup_failures=setup.options.force,
            register_interrupt=self._set_interrupt,
            owns_loop=self._owns_loop,
            stop=self._early_stop(lease.run_id),
            panel=setup.panel,
            engine=setup.engine,
            engine_setup=setup.engine_setup(),
        ).run()

    def _set_interrupt(self, interrupt: Callable[[], object]) -> None:
        self.interrupt = interrupt

    def _early_stop(self, run_id: int) -> UntilDecided | None:
        """Return the rule that may end the run early, having observed the stored outcomes."""
        setup, plan, spec, score = self._setup, self._plan, self._setup.spec, self._setup.primary
        if not spec.until_decided or score is None or len(plan.variants) < 2:
            return None
        from abreast.analyse.decision.sequential import UntilDecided  # late: most runs do not stop early
        from abreast.analyse.decision.verdicts import DecisionRule

        rule = DecisionRule(spec.margin or 0.0, spec.weight, plan.largest_group or 1, plan.final_spent, plan.population)
        stop = UntilDecided(plan, setup.baseline, score, rule, spec.min_cases)
        per_case = len(plan.variants) * plan.repeats
        is_done = plan.done.reshape(-1, per_case).all(axis=1)
        has_own_trial = np.zeros(len(plan.cases), dtype=np.bool_)
        version = setup.primary_version
        assert version is not None
        # Scores by an earlier version of the scorer do not count: those answers will be scored again.
        outcomes = self._store.queries.outcomes(run_id, score, version)
        for position, status, blame, value, is_scored, is_reused in outcomes:
            if not is_reused:
                has_own_trial[position // per_case] = True
            if not plan.done[position] or (status == "ok" and not is_scored):
                continue  # will be executed or scored in this execution
            score_of_trial = 0.0 if status == "error" and blame == "variant" else value
            stop.observe(position, score_of_trial, status == "skipped")
        stop.begun = np.flatnonzero(has_own_trial & ~is_done).tolist()
        return stop

    def _begin(self) -> Lease:
        """Begin a new run with the answers it reuses, or claim the run to continue."""
        prepared, setup, store = self._prepared, self._setup, self._store
        if prepared.lock is not None:
            prepared.lock.write()
        if prepared.continues:
            lease = store.claim(prepared.continues)
            store.revise(lease, setup.primary, setup.baseline, stored_spec(setup), prepared.provenance.get("lock"))
            if setup.is_simulated:
                store.mark_simulated(lease.run_id)
            with store.change() as connection:
                add_columns(connection, self._columns())
        else:
            names = store.queries.run_names() if store.exists() else set()
            cases = self._plan.cases
            indexes = sorted({self._plan.parts(reuse.position)[0] for reuse in prepared.reuses})
            rows = (case_row(cases.digest(index), cases.input_digest(index), cases[index]) for index in indexes)
            lease = store.begin(self._new_run(new_name(names)), rows, prepared.reuses, setup.options.fresh)
        sources = [reuse.run_id for reuse in prepared.reuses]
        if setup.options.retry_failed or (sources and store.any_retried_failures(sources)):
            store.note_retried_failures(lease)
        store.close()
        mark_stored(setup, lease.run_id, prepared.broken, prepared.seen_rows)
        return lease

    def _new_run(self, name: str) -> NewRun:
        plan, setup = self._plan, self._setup
        parts = zip(plan.variants, setup.targets, plan.digests, plan.variant_occurrence, strict=True)
        variants = [
            (index, variant.name, target.name, to_json(shown_params(variant)), digest, occurrence)
            for index, (variant, target, digest, occurrence) in enumerate(parts)
        ]
        return NewRun(
            run=name,
            experiment=setup.spec.name,
            debug=setup.options.debug is not None,
            simulated=setup.is_simulated,
            label=setup.options.label,
            fingerprint=plan.fingerprint(),
            planned_trials=len(plan),
            primary_score=setup.primary,
            baseline=setup.baseline,
            seed=setup.spec.seed,
            spec=stored_spec(setup),
            provenance=self._prepared.provenance,
            variants=variants,
            columns=self._columns(),
            judged=[column for judge in (setup.panel.judges if setup.panel else ()) for column in judge.columns],
        )

    def _columns(self) -> list[Column]:
        columns = [column for variant in self._plan.variants for column in columns_of("params", shown_params(variant))]
        columns += [Column("score", column, "real") for scorer in self._setup.scorers for column in scorer.columns]
        columns += columns_of("tag", dict.fromkeys(sorted(self._plan.cases.tag_keys), ""))
        return columns

    def _status(self, lease: Lease, ending: Ending) -> tuple[str, str | None]:
        """Return the status of the ended run, and the reason if it is not complete."""
        self._store.close()
        missing = len(self._plan) - len(final_positions(self._plan, self._store, lease.run_id))
        may_be_complete = not missing or ending.stopped == "decided"  # if not, do not read every answer
        scorers = [scorer for scorer in self._setup.scorers if scorer.scored_by != "people"]
        is_scored = may_be_complete and not any(True for _ in unscored(self._store, lease.run_id, scorers))
        why = "the store could not be written" if ending.stopped == "store" else ending.why
        if missing and ending.stopped == "decided" and is_scored:
            return "stopped_early", ending.why
        if missing:
            return "incomplete", why or self._failures(lease, missing)
        if not is_scored:
            return "incomplete", why or "some answers could not be scored"
        return "complete", None

    def _resume(self, lease: Lease) -> str:
        return f"abreast resume {lease.run} --store {self._store.quoted_address}"

    def _failures(self, lease: Lease, missing: int) -> str:
        """`2 trials failed by infrastructure; 3 that depend on them were not run`."""
        not_run = len(self._plan) - self._store.queries.trial_state(lease.run_id)[0]
        message = f"{many(missing - not_run, 'trial')} failed by infrastructure"
        return f"{message}; {not_run:,} that depend on them were not run" if not_run else message


def _incomplete(error: StoreError, run: str, store: Store, planned: int) -> Incomplete:
    try:
        stored = store.run(run)["stored_trials"]
    except AbreastError:  # the store or the run is gone
        return Incomplete(error.message, error.fix)
    first = f"{error.fix.split(', then')[0]}, then " if error.fix else ""
    message = f"{error.message}; {stored:,} of {planned:,} trials are stored"
    return Incomplete(message, f"{first}run `abreast resume {run} --store {store.quoted_address}`")
