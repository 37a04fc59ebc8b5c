"""The store: operations on runs, in SQL that all engines share. `base.Database` is what an engine implements."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from abreast.errors import StoreError
from abreast.redaction import redact
from abreast.store import run_names, schema
from abreast.store.base import Connection
from abreast.store.queries import Queries
from abreast.store.rows import Row, to_json
from abreast.store.runs import leases
from abreast.store.runs.controls import RunControls, refuse_pending
from abreast.store.runs.leases import Lease
from abreast.store.runs.reuse import ReusableAnswers, Reuse, copy_answers
from abreast.store.runs.scores import LaterScores
from abreast.store.views import add_columns
from abreast.store.writer import Writer
from abreast.text import storable

RUNNING = "running"
_RUNS = "SELECT r.*, (SELECT COUNT(*) FROM trials t WHERE t.run_id = r.run_id) AS stored_trials FROM runs r"
_STATES = "SELECT {}, {} FROM runs r ORDER BY run_id".format(
    "run_id, run, experiment, status, reason, debug, simulated, label, planned_trials, primary_score, baseline, "
    "created_at, finished_at, owner, epoch, heartbeat_at, in_flight",
    ", ".join(
        f"COALESCE((SELECT MAX(seq) FROM {row}s WHERE {row}s.run_id = r.run_id), 0) AS last_{row}"
        for row in ("trial", "score", "judgement")
    ),
)
_SPENT = (
    "SELECT {key}, COUNT(cost_usd), COALESCE(SUM(CASE WHEN cost_basis <> 'included' THEN cost_usd END), 0.0), "
    "COUNT(COALESCE(input_tokens, output_tokens)), "
    "COALESCE(SUM(1.0 * (COALESCE(input_tokens, 0) + COALESCE(output_tokens, 0))), 0.0) FROM {table} "
    "WHERE run_id = ? AND reused_from IS NULL GROUP BY {key}"
)
_COPIED = ("run", "experiment", "fingerprint", "planned_trials", "primary_score", "baseline", "seed")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRun:
    run: str
    experiment: str
    debug: bool
    simulated: bool
    label: str | None
    fingerprint: str
    planned_trials: int
    primary_score: str | None
    baseline: str
    seed: int
    spec: Mapping[str, Any]
    provenance: Mapping[str, Any]
    variants: Sequence[Row]  # without run_id, as in schema.TABLES
    columns: Sequence[schema.Column]
    created_at: float | None = None  # of an imported run; by default now
    judged: Sequence[str] = ()  # scores that are not copied with a reused answer, because their judgements are reused


class Store(ReusableAnswers, LaterScores, RunControls):
    """One store, open while it is used as a context manager or until `close`."""

    @property
    def queries(self) -> Queries:
        return Queries(self)

    # -- reading ---------------------------------------------------------------------------------------------------

    def columns(self) -> list[schema.Column]:
        return [schema.Column(*row) for row in self.rows("SELECT kind, name, type FROM columns ORDER BY kind, name")]

    def runs(self) -> list[dict[str, Any]]:
        """Return every run, oldest first, with its number of stored trials. A run whose owner died is incomplete."""
        return [self._settled(row) for row in self.dicts(f"{_RUNS} ORDER BY r.run_id")]

    def run(self, name: str) -> dict[str, Any]:
        """Return one run by its name, its label, `latest`, `previous`, or an unambiguous prefix."""
        _, run = run_names.find_run([self], name)
        return self._settled(self.dicts(f"{_RUNS} WHERE run = ?", (run,))[0])

    def run_states(self) -> list[dict[str, Any]]:
        """Return every run, oldest first, without what is slow to read: spec, provenance and number of trials.

        `last_trial`, `last_score` and `last_judgement` change whenever such a row is written.
        """
        return [self._settled(row) for row in self.dicts(_STATES)]

    def revision(self, run_id: int) -> str:
        """Return the current revision of a run's rows, for `queries.trials_since` and similar."""
        return str(self.queries.revision(run_id))

    def _settled(self, run: dict[str, Any]) -> dict[str, Any]:
        if run["status"] == RUNNING and not self.is_executed(run["owner"], run["heartbeat_at"]):
            return {**run, "status": "incomplete", "reason": "its process died"}
        return run

    def is_executed(self, owner: str | None, heartbeat_at: float | None) -> bool:
        return leases.is_alive(owner, heartbeat_at, self.now())

    def unfinished(self, experiment: str, fingerprint: str) -> str | None:
        """Return the last run of this plan, if it is incomplete."""
        rows = self.dicts(
            "SELECT run, status, owner, heartbeat_at FROM runs WHERE experiment = ? AND fingerprint = ? "
            "ORDER BY run_id DESC LIMIT 1",
            (experiment, fingerprint),
        )
        return next((row["run"] for row in rows if self._settled(row)["status"] in ("incomplete", RUNNING)), None)

    def final_positions(self, run_id: int, failures_too: bool = True) -> list[int]:
        """Return the positions of trials whose outcome is final: no infrastructure errors or cancelled trials, and only
        with `failures_too` failures of the variants."""
        joined = self.reading().dialect.join_texts("CAST(position AS TEXT)")  # one text, because there may be a million
        ((positions,),) = self.rows(
            f"SELECT {joined} FROM trials WHERE run_id = ? AND status <> 'cancelled' "
            "AND NOT (status = 'error' AND (error_blame <> 'variant' OR NOT ?))",
            (run_id, failures_too),
        )
        return [int(number) for number in positions.split(",")] if positions else []

    def own_failures(self, run_id: int) -> list[tuple[int, str]]:
        """Position and kind of error of the trials that failed by their variant's fault."""
        return self.rows(
            "SELECT position, error_kind FROM trials WHERE run_id = ? AND status = 'error' AND error_blame = 'variant' "
            "ORDER BY position",
            (run_id,),
        )

    def answered(self, run_id: int) -> frozenset[int]:
        """Variants with at least one new answer in this run."""
        answers = "SELECT DISTINCT variant FROM trials WHERE run_id = ? AND status = 'ok' AND reused_from IS NULL"
        return frozenset(variant for (variant,) in self.rows(answers, (run_id,)))

    def last_stop(self, run_id: int) -> str | None:
        """The reason why an execution of this run last stopped early; None if none did."""
        stops = self.rows(
            "SELECT detail FROM events WHERE run_id = ? AND kind = 'stop' ORDER BY happened_at", (run_id,)
        )
        return json.loads(stops[-1][0])["reason"] if stops else None

    def spent(self, run_id: int, variants: int) -> list[tuple[int, float, int, float]]:
        """Return, by variant, the number of trials with a known cost, dollars, the number with known tokens, tokens."""
        wasted = self.spent_on_retries(run_id, variants)
        spent = self._spent("trials", "variant", run_id, range(variants))
        pairs = zip(spent, wasted, strict=True)
        return [(costed, paid + more, counted, tokens) for (costed, paid, counted, tokens), more in pairs]

    def spent_on_retries(self, run_id: int, variants: int) -> list[float]:
        """Return dollars by variant for retried attempts, which the cost of a trial does not include."""
        sums = dict(
            self.rows(
                "SELECT position % ?, SUM(cost_usd) FROM attempts WHERE run_id = ? AND cost_usd > 0 GROUP BY 1",
                (max(1, variants), run_id),
            )
        )
        return [sums.get(variant, 0.0) for variant in range(variants)]

    def spent_on_judges(self, run_id: int, scorers: Sequence[str]) -> list[tuple[int, float, int, float]]:
        """Like `spent`, for each of these judges by name; reused judgements cost nothing."""
        return self._spent("judgements", "scorer", run_id, scorers)

    def _spent(self, table: str, key: str, run_id: int, keys: Iterable[Any]) -> list[tuple[int, float, int, float]]:
        sums = {row[0]: row[1:] for row in self.rows(_SPENT.format(table=table, key=key), (run_id,))}
        return [sums.get(value, (0, 0.0, 0, 0.0)) for value in keys]

    # -- leases ----------------------------------------------------------------------------------------------------

    def begin(
        self, new: NewRun, cases: Iterable[Row] = (), reuses: Sequence[Reuse] = (), allow_twin: bool = False
    ) -> Lease:
        """Create a run, take its lease, and copy the answers that it reuses, in one transaction.

        Refuses a plan that another process is executing, unless `allow_twin`.
        """
        now, owner = self.now(), leases.new_owner()
        values = {
            **{name: getattr(new, name) for name in _COPIED},
            "status": RUNNING,
            "reason": None,
            "debug": int(new.debug),
            "simulated": int(new.simulated),
            "label": new.label and redact(new.label),
            "created_at": now if new.created_at is None else new.created_at,
            "finished_at": None,
            "spec": to_json(new.spec),
            "provenance": to_json(new.provenance),
            "owner": owner,
            "epoch": 1,
            "heartbeat_at": now,
            "in_flight": 0,
        }
        with self.change() as connection:
            insert = partial(schema.insert, connection.dialect)
            if not allow_twin:
                self._refuse_twin(connection, new)
            row = tuple(_clean(values[name]) for name in schema.TABLES["runs"] if name != "run_id")
            ((run_id,),) = connection.execute(f"{insert('runs')} RETURNING run_id", row).fetchall()
            connection.executemany(insert("variants"), [(run_id, *map(_clean, row)) for row in new.variants])
            add_columns(connection, new.columns)
            connection.executemany(insert("cases", "ignore"), cases)
            scores = [column.name for column in new.columns if column.kind == "score"]
            copy_answers(connection, run_id, reuses, [name for name in scores if name not in new.judged])
        leases.hold(owner)
        return Lease(run_id=run_id, run=new.run, epoch=1, owner=owner)

    def _refuse_twin(self, connection: Connection, new: NewRun) -> None:
        twins = connection.execute(
            "SELECT run, owner, heartbeat_at FROM runs WHERE experiment = ? AND fingerprint = ? AND debug = ? "
            "AND status = ?",
            (_clean(new.experiment), new.fingerprint, int(new.debug), RUNNING),
        ).fetchall()
        for run, owner, heartbeat_at in twins:
            if self.is_executed(owner, heartbeat_at):
                raise self._active_error(run, owner)

    def _active_error(self, run: str, owner: str) -> StoreError:
        return leases.active_error(run, owner, f"wait, or see `abreast show {run} --store {self.quoted_address}`")

    def claim(self, run: str, executes: bool = True) -> Lease:
        """Take over a run whose owner is dead. Unless it `executes` trials, the status of the run stays."""
        owner = leases.new_owner()
        with self.change() as connection:
            rows = connection.execute(
                "SELECT run_id, owner, heartbeat_at, epoch FROM runs WHERE run = ?", (run,)
            ).fetchall()
            if not rows:
                raise StoreError(
                    f"{run} was deleted in the meantime", f"see `abreast runs --store {self.quoted_address}`"
                )
            ((run_id, other, heartbeat_at, epoch),) = rows
            if self.is_executed(other, heartbeat_at):
                raise self._active_error(run, other)
            connection.execute(
                "UPDATE runs SET owner = ?, epoch = ?, heartbeat_at = ? WHERE run_id = ?",
                (owner, epoch + 1, self.now(), run_id),
            )
            refuse_pending(connection, run_id, "not applied: its process died")
            if executes:
                _keep_last_attempts(connection, run_id)
                connection.execute(
                    "UPDATE runs SET status = ?, reason = NULL, finished_at = NULL WHERE run_id = ?", (RUNNING, run_id)
                )
        leases.hold(owner)
        return Lease(run_id=run_id, run=run, epoch=epoch + 1, owner=owner)

    def writer(
        self,
        lease: Lease,
        on_commit: Callable[[list[Any]], None],
        on_failure: Callable[[StoreError], None],
        on_outage: Callable[[StoreError | None], None],
    ) -> Writer:
        return Writer(self, lease, on_commit, on_failure, on_outage)

    def finish(self, lease: Lease, status: str, reason: str | None, finished_at: float | None = None) -> None:
        """Store how the run ended (by default now), and give its lease back."""
        ended = self.now() if finished_at is None else finished_at
        self._give_back(lease, {"status": status, "reason": reason, "finished_at": ended})

    def give_back(self, lease: Lease) -> None:
        """Give back the lease of a run that was only scored."""
        self._give_back(lease, {})

    def _give_back(self, lease: Lease, values: Mapping[str, Any]) -> None:
        assigned = ", ".join(f"{name} = ?" for name in ("owner", *values))
        with self.change() as connection:
            connection.execute(
                f"UPDATE runs SET {assigned} WHERE run_id = ? AND epoch = ?",
                (None, *values.values(), lease.run_id, lease.epoch),
            )
            if connection.changes():
                refuse_pending(connection, lease.run_id, "not applied: the run has ended")
        self.release_lease(lease)
        self.close()

    def release_lease(self, lease: Lease) -> None:
        """Record in this process that it no longer executes the run, even if the store could not be written."""
        leases.release(lease.owner)

    # -- changing --------------------------------------------------------------------------------------------------

    def revise(
        self,
        lease: Lease,
        primary: str | None,
        baseline: str,
        spec: Mapping[str, Any],
        lock: Mapping[str, Any] | None = None,
    ) -> None:
        """Update a run that is resumed with other scorers, another primary score or baseline.

        `lock` records whether it still follows the locked plan.
        """
        with self.change() as connection:
            old, provenance = _stored_json(connection, lease.run_id, "spec", "provenance")
            new = {**spec, "options": {**spec["options"], "retry_failed": old.get("options", {}).get("retry_failed")}}
            new["origin_digest"] = new.get("origin_digest") or old.get("origin_digest")
            if lock is not None:
                provenance["lock"] = lock
            connection.execute(
                "UPDATE runs SET primary_score = ?, baseline = ?, spec = ?, provenance = ? WHERE run_id = ?",
                (primary, baseline, to_json(new), to_json(provenance), lease.run_id),
            )

    def mark_simulated(self, run_id: int) -> None:
        """Permanently mark a run as simulated: a simulator took part in it."""
        with self.change() as connection:
            connection.execute("UPDATE runs SET simulated = 1 WHERE run_id = ?", (run_id,))

    def note_retried_failures(self, lease: Lease) -> None:
        """Permanently record that failures of the variants were retried on request; reports must say so."""
        with self.change() as connection:
            (spec,) = _stored_json(connection, lease.run_id, "spec")
            spec["options"]["retry_failed"] = True
            connection.execute("UPDATE runs SET spec = ? WHERE run_id = ?", (to_json(spec), lease.run_id))

    def label(self, run: str, label: str | None) -> None:
        """Label what a run measured, such as a version; None removes the label."""
        with self.change() as connection:
            connection.execute("UPDATE runs SET label = ? WHERE run = ?", (label and redact(storable(label)), run))
        self.materialise()

    def delete(self, runs: Sequence[str]) -> int:
        """Remove runs with all their rows, and cases that no run uses any more. Returns the number of trials."""
        with self.change() as connection:
            removed = 0
            for run in runs:
                rows = connection.execute("SELECT run_id, owner, heartbeat_at FROM runs WHERE run = ?", (run,))
                for run_id, owner, heartbeat_at in rows.fetchall():
                    if self.is_executed(owner, heartbeat_at):
                        stop = f"abreast ctl {run} stop --store {self.quoted_address}"
                        raise leases.active_error(run, owner, f"stop it first: `{stop}`")
                    for table in schema.OF_A_RUN:
                        connection.execute(f"DELETE FROM {table} WHERE run_id = ?", (run_id,))
                        removed += connection.changes() if table == "trials" else 0
                    connection.execute("DELETE FROM runs WHERE run_id = ?", (run_id,))
                    connection.execute(schema.insert(connection.dialect, "deletions"), (run_id, time.time()))
            if connection.dialect.lock_cases:
                connection.execute(connection.dialect.lock_cases)
            connection.execute(
                "DELETE FROM cases WHERE digest IN (SELECT digest FROM cases EXCEPT SELECT case_digest FROM trials)"
            )
        return removed


def _stored_json(connection: Connection, run_id: int, *columns: str) -> list[Any]:
    (row,) = connection.execute(f"SELECT {', '.join(columns)} FROM runs WHERE run_id = ?", (run_id,)).fetchall()
    return [json.loads(text) for text in row]


def _clean(value: Any) -> Any:
    return storable(value) if isinstance(value, str) else value


def _keep_last_attempts(connection: Connection, run_id: int) -> None:
    """Copy the last attempt of the trials that will be executed again, whose rows will be replaced."""
    connection.execute(
        "INSERT INTO attempts (run_id, position, attempt, started_at, service_s, error_kind, error_blame, error, "
        "waited_s, cost_usd) SELECT run_id, position, attempts, started_at, service_s, error_kind, error_blame, error, "
        "0.0, CASE WHEN cost_basis <> 'included' THEN cost_usd END "
        "FROM trials t WHERE run_id = ? AND status IN ('error', 'cancelled') AND error_blame <> 'variant' "
        "AND NOT EXISTS (SELECT 1 FROM attempts a WHERE a.run_id = t.run_id AND a.position = t.position "
        "AND a.attempt >= t.attempts)",
        (run_id,),
    )
