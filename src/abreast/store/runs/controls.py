"""Requests to the driver that executes a run, such as to pause or to change limits, and its answers."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from abreast.errors import StoreError
from abreast.store import schema
from abreast.store.base import Connection, Database
from abreast.store.rows import to_json
from abreast.store.run_names import find_run
from abreast.store.runs import leases
from abreast.text import storable

ACTIONS = ("pause", "resume", "stop", "retry", "set")


class Control(NamedTuple):
    """A request. `outcome` is None until the driver answers; one that was refused has no `applied_at`."""

    number: int
    requested_at: float
    requested_by: str  # user@host
    action: str
    value: Any
    applied_at: float | None
    outcome: str | None


class RunControls(Database):
    """Operations on the controls of a run. Any process may request; only the driver of the run answers."""

    def request_control(self, run: str, action: str, value: Any, by: str) -> int:
        """Send a request to the driver of a run; return its number. Raises if no driver executes the run."""
        _, name = find_run([self], run)
        now = self.now()
        with self.change() as connection:
            rows = connection.execute(
                "SELECT run_id, status, owner, heartbeat_at FROM runs WHERE run = ?", (name,)
            ).fetchall()
            for run_id, status, owner, heartbeat_at in rows:
                if leases.is_alive(owner, heartbeat_at, now):
                    row = (run_id, now, storable(by), action, to_json(value), None, None)
                    statement = f"{schema.insert(connection.dialect, 'controls')} RETURNING seq"
                    ((number,),) = connection.execute(statement, row).fetchall()
                    return int(number)
                if status == "complete":
                    report = f"abreast report {name} --store {self.quoted_address}"
                    raise StoreError(f"{name} is complete", f"see `{report}`")
        resume = f"abreast resume {name} --store {self.quoted_address}"
        raise StoreError(f"no process executes {name}", f"run `{resume}` to continue it")

    def controls(self, run_id: int) -> list[Control]:
        """All requests to the drivers of a run, in order."""
        return self._controls("run_id = ?", run_id)

    def pending_controls(self, run_id: int) -> list[Control]:
        """The requests that are not answered yet, in order."""
        return self._controls("run_id = ? AND outcome IS NULL", run_id)

    def control(self, number: int) -> Control | None:
        """One request; None if its run was deleted."""
        return next(iter(self._controls("seq = ?", number)), None)

    def _controls(self, condition: str, parameter: int) -> list[Control]:
        rows = self.rows(
            "SELECT seq, requested_at, requested_by, action, value, applied_at, outcome FROM controls "
            f"WHERE {condition} ORDER BY seq",
            (parameter,),
        )
        return [Control(*row)._replace(value=json.loads(row[4])) for row in rows]

    def answer_control(self, number: int, outcome: str, is_applied: bool = True) -> None:
        """Store the outcome, or the reason for refusing the request. The first answer counts."""
        now = self.now()
        with self.change() as connection:
            connection.execute(
                "UPDATE controls SET outcome = ?, applied_at = ? WHERE seq = ? AND outcome IS NULL",
                (storable(outcome), now if is_applied else None, number),
            )


def refuse_pending(connection: Connection, run_id: int, reason: str) -> None:
    """Answer the requests that no driver will answer any more."""
    connection.execute("UPDATE controls SET outcome = ? WHERE run_id = ? AND outcome IS NULL", (reason, run_id))
