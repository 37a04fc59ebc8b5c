"""Execution of a prepared run: take the lease, reuse answers, execute the rest, analyse."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from abreast.errors import AbreastError, Incomplete, PreflightRefused, StoreError
from abreast.execute.listener import Listener, Listeners
from abreast.execute.run import Ending, Execution
from abreast.execute.scoring import unscored
from abreast.execute.sources.judging import without_judges
from abreast.experiment.preparation import Prepared, mark_stored
from abreast.experiment.result import Result
from abreast.experiment.stored import shown_params, stored_spec
from abreast.plan.keys import final_positions
from abreast.plan.run_names import new_name
from abreast.store import Lease, NewRun, Store, StoreVanished, open_store
from abreast.store.rows import case_row, columns_of, to_json
from abreast.store.schema import Column
from abreast.store.views import add_columns

if TYPE_CHECKING:
    from abreast.analyse.decision.sequential import UntilDecided


class RunExecution:
    """One execution of a prepared run.

    On a loop that it does not own, signals are left alone: cancel it by `interrupt`, which is None before it begins.
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
        except StoreVanished as error:  # whatever is at the path now is not this run's store
            if error.copy is None:
                raise Incomplete(error.message, error.fix) from error
            with open_store(error.copy) as store:
                store.finish(lease, "incomplete", error.message)
                option = f" --store {shlex.quote(str(error.copy))}"
                raise _incomplete(error, lease.run, store, planned, option) from error
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
            safe = f"{stored:,} of {planned:,} trials are stored and safe" if stored else "nothing was executed"
            raise PreflightRefused(f"{ending.why}; {safe}", f"{ending.fix}, then: abreast resume {lease.run}")
        from abreast.analyse.run import analyse  # late: trials can start without it

        analysis = await asyncio.to_thread(analyse, self._store, lease.run)  # the loop may be a user's
        self._listener.event("run_finished", run=lease.run, status=status, reason=reason, executed=ending.executed)
        return Result(
            run=lease.run,
            store=self._store.path,
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
            unscored=unscored(self._store, lease.run_id, without_judges(setup.scorers)),
            waits_for_quota=setup.options.on_quota != "stop",
            ignores_warmup_failures=setup.options.force,
            register_interrupt=self._set_interrupt,
            owns_loop=self._owns_loop,
            stop=self._early_stop(lease.run_id),
            panel=setup.panel,
            engine=setup.options.engine,
            target_settings=setup.target_settings,
        ).run()

    def _set_interrupt(self, interrupt: Callable[[], object]) -> None:
        self.interrupt = interrupt

    def _early_stop(self, run_id: int) -> UntilDecided | None:
        """The rule that may end the run early, with everything that the run has stored."""
        setup, plan, spec, score = self._setup, self._plan, self._setup.spec, self._setup.primary
        if not spec.until_decided or score is None or len(plan.variants) < 2:
            return None
        from abreast.analyse.decision.sequential import UntilDecided  # late: most runs decide at their end
        from abreast.analyse.decision.verdicts import Rule

        rule = Rule(spec.margin or 0.0, spec.weight, plan.largest_group or 1, plan.final_spent, plan.population)
        stop = UntilDecided(plan, setup.baseline, score, rule, spec.min_cases)
        per_case = len(plan.variants) * plan.repeats
        is_done = plan.done.reshape(-1, per_case).all(axis=1)
        own = np.zeros(len(plan.cases), dtype=np.bool_)
        version = setup.primary_version
        assert version is not None
        # Scores by an earlier version of the scorer do not count: those answers are about to be scored again.
        stored = self._store.queries.outcomes(run_id, score, version)
        for position, status, blame, value, is_scored, is_reused in stored:
            if not is_reused:
                own[position // per_case] = True
            if not plan.done[position] or (status == "ok" and not is_scored):
                continue  # it is executed again, or scored in a moment
            score_of_trial = 0.0 if status == "error" and blame == "variant" else value
            stop.observe(position, score_of_trial, status == "skipped")
        stop.begun = np.flatnonzero(own & ~is_done).tolist()
        return stop

    def _begin(self) -> Lease:
        """Enter a new run with the answers it reuses, or take over the one to continue."""
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
            known = store.queries.run_names() if store.exists() else set()
            cases = self._plan.cases
            indexes = sorted({self._plan.parts(reuse.position)[0] for reuse in prepared.reuses})
            rows = (case_row(cases.digest(index), cases.input_digest(index), cases[index]) for index in indexes)
            lease = store.begin(self._new_run(new_name(known)), rows, prepared.reuses, setup.options.fresh)
        sources = [reuse.run_id for reuse in prepared.reuses]
        if setup.options.retry_failed or (sources and store.any_retried_failures(sources)):
            store.note_retried_failures(lease)
        store.close()
        mark_stored(setup, lease.run_id, prepared.broken, prepared.seen_rows)
        return lease

    def _new_run(self, name: str) -> NewRun:
        plan, setup = self._plan, self._setup
        variants = [
            (
                index,
                variant.name,
                target.name,
                to_json(shown_params(variant)),
                plan.digests[index],
                plan.variant_occurrence[index],
            )
            for index, (variant, target) in enumerate(zip(plan.variants, setup.targets, strict=True))
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
        """Status of the run that ended, and the reason if it is not complete."""
        self._store.close()
        left = len(self._plan) - len(final_positions(self._plan, self._store, lease.run_id))
        may_be_done = not left or ending.stopped == "decided"  # else nobody needs to look at every answer
        is_scored = may_be_done and not any(True for _ in unscored(self._store, lease.run_id, self._setup.scorers))
        why = "the store could not be written for a while" if ending.stopped == "store" else ending.why
        if left and ending.stopped == "decided" and is_scored:
            return "stopped_early", ending.why
        if left:
            return "incomplete", why or self._failed(lease, left)
        if not is_scored:
            return "incomplete", why or "answers are left that could not be scored"
        return "complete", None

    def _failed(self, lease: Lease, left: int) -> str:
        """`2 trials failed by infrastructure, 3 that begin with what those leave are not run`."""
        after = len(self._plan) - self._store.queries.trial_state(lease.run_id)[0]
        failed = left - after
        message = f"{failed:,} trial{'s' if failed > 1 else ''} failed by infrastructure"
        return f"{message}, {after} that begin with what those leave are not run" if after else message


def _incomplete(error: StoreError, run: str, store: Store, planned: int, option: str = "") -> Incomplete:
    try:
        stored = store.run(run)["stored_trials"]
    except AbreastError:  # the store is gone, or the run is
        return Incomplete(error.message, error.fix)
    first = f"{error.fix.split(', then')[0]}, then: " if error.fix else ""
    message = f"{error.message}; {stored} of {planned} trials are stored and safe"
    return Incomplete(message, f"{first}abreast resume {run}{option}")
