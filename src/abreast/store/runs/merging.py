"""Stores into one: no row is lost, none doubled, whatever the order, however often.

A row of a user is known by its `row_id`, which no other row has. A run is known by when it began and what it is, not by
its name: a copy that was continued is the same run, and another run that happens to have its name gets a new one. Of a
trial that both have, that one stands whose outcome is final; if both are, that of the run that was continued more
often; then the earlier one.

What comes is read at one moment and not changed; it is written in one transaction.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from abreast.errors import BadInput, StoreError, suggestion
from abreast.store import schema
from abreast.store.base import Connection
from abreast.store.dialect import Mode, placeholders, quote
from abreast.store.rows import to_json
from abreast.store.runs import leases
from abreast.store.store import RUNNING, Store
from abreast.store.user_tables import tracked_rows
from abreast.store.user_tables.assets import Assets
from abreast.store.user_tables.tables import columns_mentioning
from abreast.store.views import add_columns

CHUNK = 5_000
Row = tuple[Any, ...]
_ScoreKey = tuple[int, str]  # of a score: the position of its trial, its name


@dataclass(slots=True)
class Merged:
    """What came from one store."""

    source: Path
    runs: list[str] = field(default_factory=list)  # new ones, by their names here
    continued: list[str] = field(default_factory=list)  # that were here and got something
    renamed: dict[str, str] = field(default_factory=dict)  # there → here
    trials: int = 0
    rows: dict[str, int] = field(default_factory=dict)  # of users, by table
    columns: dict[str, int] = field(default_factory=dict)  # new ones, by table

    def __bool__(self) -> bool:
        return bool(self.runs or self.continued or self.rows or self.columns)


def merge(target: Store, sources: Sequence[Store], only: Sequence[str] | None = None) -> list[Merged]:
    """Bring everything, or only these tables of users, into a store, which is made if it is not there.

    All of it comes, or nothing.
    """
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(source.snapshot(in_place=False)) for source in sources]
        for source, connection in zip(sources, opened, strict=True):
            _check_tables(source, connection, only)
        target.exists()  # refuses files of others
        found = []
        with target.change() as connection:
            for source, there in zip(sources, opened, strict=True):
                merged = Merged(source.path)
                if only is None:
                    _merge_runs(_runs(source, there), _runs(target, connection), there, connection, merged)
                _merge_tables(there, connection, merged, only)
                found.append(merged)
    target.close()
    return found


def copy_assets(target: Store, sources: Sequence[Store], only: Sequence[str] | None = None) -> None:
    """Take over the objects that rows of the sources, or of these tables, refer to."""
    for source in sources:
        there = Assets(source.path)
        used = columns_mentioning(source, list(there), only)
        Assets(target.path).copy(there, [digest for digest, columns in used.items() if columns])


# -- tables of users -----------------------------------------------------------------------------------------------


def _check_tables(store: Store, connection: Connection, only: Sequence[str] | None) -> None:
    known = tracked_rows.names(connection)
    for name in only or ():
        if name not in known:
            told = "its rows are of runs, which go as a whole" if name in ("predictions", "metrics") else ""
            raise BadInput(
                f'{store.path}: nothing was tracked in a table "{name}"{suggestion(name, known)}',
                f"{told}: leave --table away" if told else f"abreast ls {store.path}",
            )


def _merge_tables(source: Connection, target: Connection, merged: Merged, only: Sequence[str] | None) -> None:
    known: dict[str, tracked_rows.TrackedTable] = {}
    for there in tracked_rows.tables(source):
        if only is not None and there.name not in only:
            continue
        old = tracked_rows.find(target, there.name)
        here = tracked_rows.prepare(target, known, there.name, {key: kind for key, (_, kind) in there.columns.items()})
        if new := len(here.columns) - (len(old.columns) if old else 0):
            merged.columns[there.name] = new
        _name_rows(target, here)
        before = target.total_changes()
        columns, rows = _rows_for_target(there, here, _rows(source, there))
        statement = f"INSERT INTO {quote(here.relation)} ({', '.join(map(quote, columns))})"
        target.executemany(f"{statement} VALUES ({placeholders(columns)}) ON CONFLICT DO NOTHING", rows)
        if target.total_changes() > before:
            merged.rows[there.name] = target.total_changes() - before


def _rows(connection: Connection, table: tracked_rows.TrackedTable, where: str = "1 = 1") -> Iterator[Row]:
    """Every row, in the order of the keys. One without a name (somebody's SQL made it) is named after its content."""
    columns = ", ".join(quote(column) for column, _ in table.columns.values())
    at = list(table.columns).index("row_id")
    named: set[str] = set()
    found: Iterator[Any] = connection.execute(
        f"SELECT {columns} FROM {quote(table.relation)} WHERE {where} ORDER BY seq"
    )
    for row in found:
        if row[at] is not None:
            yield row
            continue
        name = _name_for(connection, table, row, named)
        named.add(name)
        yield (*row[:at], name, *row[at + 1 :])


def _name_for(connection: Connection, table: tracked_rows.TrackedTable, row: Row, taken: set[str]) -> str:
    content = repr(sorted((key, value) for key, value in zip(table.columns, row, strict=True) if value is not None))
    asked, number = f"SELECT 1 FROM {quote(table.relation)} WHERE row_id = ?", 0
    while True:
        name = hashlib.sha256(f"{number} {content}".encode()).hexdigest()[:16]
        if name not in taken and not connection.execute(asked, (name,)).fetchall():
            return name
        number += 1


def _name_rows(connection: Connection, table: tracked_rows.TrackedTable) -> None:
    """Rows without a name get the one they would get elsewhere, so that they are known when they come back."""
    relation, at = quote(table.relation), list(table.columns).index("row_id")
    numbers = [row[0] for row in connection.execute(f"SELECT seq FROM {relation} WHERE row_id IS NULL ORDER BY seq")]
    names = [row[at] for row in _rows(connection, table, "row_id IS NULL")]
    connection.executemany(f"UPDATE {relation} SET row_id = ? WHERE seq = ?", list(zip(names, numbers, strict=True)))


def _rows_for_target(
    there: tracked_rows.TrackedTable, here: tracked_rows.TrackedTable, rows: Iterable[Row]
) -> tuple[list[str], Iterable[Row]]:
    """The columns here and the rows for them. What no column could be made for joins what has none already."""
    keys = list(there.columns)
    if all(key in here.columns for key in keys):
        return [here.columns[key][0] for key in keys], rows
    kept = [key for key in keys if key in here.columns and key != tracked_rows.MORE]
    return [here.columns[key][0] for key in (*kept, tracked_rows.MORE)], (
        (*(row[key] for key in kept), _extra_json(here, row))
        for row in (dict(zip(keys, row, strict=True)) for row in rows)
    )


def _extra_json(here: tracked_rows.TrackedTable, row: Mapping[str, Any]) -> str | None:
    beyond = {key: value for key, value in row.items() if key not in here.columns and value is not None}
    more = beyond | json.loads(row.get(tracked_rows.MORE) or "{}")
    return to_json(more) if more else None


# -- runs ----------------------------------------------------------------------------------------------------------


def _runs(store: Store, connection: Connection) -> list[dict[str, Any]]:
    """Every run, the oldest first, with `is_executed`."""
    runs = connection.dicts("SELECT * FROM runs ORDER BY created_at, run_id")
    return [{**run, "is_executed": store.is_executed(run["owner"], run["heartbeat_at"])} for run in runs]


def _merge_runs(
    there: Sequence[dict[str, Any]],
    known: Sequence[dict[str, Any]],
    source: Connection,
    target: Connection,
    merged: Merged,
) -> None:
    add_columns(target, [schema.Column(*row) for row in source.execute("SELECT kind, name, type FROM columns")])
    cases = ", ".join(schema.TABLES["cases"])
    target.executemany(schema.insert(target.dialect, "cases", "ignore"), source.execute(f"SELECT {cases} FROM cases"))
    here = {_identity(run): run for run in known}
    names = _names(there, here)
    merged.renamed = {run: names[run] for run in names if names[run] != run and names[run] not in _run_names(here)}
    for run in there:
        twin = here.get(_identity(run))
        if twin is None:
            merged.trials += _add_run(source, target, run, names)
            merged.runs.append(names[run["run"]])
        else:
            changes, before = target.total_changes(), merged.trials
            merged.trials += _RunMerge(source, target, run, twin, names).merge()
            if target.total_changes() > changes or merged.trials > before:
                merged.continued.append(names[run["run"]])


def _identity(run: Mapping[str, Any]) -> tuple[Any, ...]:
    """What says that two runs are one, whatever they are called."""
    return run["created_at"], run["experiment"], run["fingerprint"], run["seed"]


def _run_names(runs: Mapping[Any, Mapping[str, Any]]) -> set[str]:
    return {run["run"] for run in runs.values()}


def _names(there: Sequence[Mapping[str, Any]], here: Mapping[Any, Mapping[str, Any]]) -> dict[str, str]:
    """What each run that comes is called here: as it was, or with a number where another run has its name."""
    found: dict[str, str] = {}
    taken = _run_names(here)
    for run in there:
        name, number = run["run"], 1
        if _identity(run) in here:
            found[name] = here[_identity(run)]["run"]
            continue
        while name in taken or (number > 1 and any(name == other["run"] for other in there)):
            number += 1
            name = f"{run['run']}-{number}"
        found[run["run"]] = name
        taken.add(name)
    return found


def _add_run(source: Connection, target: Connection, run: Mapping[str, Any], names: Mapping[str, str]) -> int:
    """A run that is not here yet; how many trials it has."""
    columns = [name for name in schema.TABLES["runs"] if name != "run_id"]
    values = {**run, **_ended(run), "run": names[run["run"]]}
    statement = f"{schema.insert(target.dialect, 'runs')} RETURNING run_id"
    ((run_id,),) = target.execute(statement, tuple(values[name] for name in columns)).fetchall()
    trials = 0
    for table in schema.OF_A_RUN:
        rows = _of_run(source, table, run["run_id"], names)
        while chunk := list(islice(rows, CHUNK)):
            target.executemany(_insert(target, table, "insert"), [(run_id, *row) for row in chunk])
            trials += len(chunk) if table == "trials" else 0
    return trials


def _ended(run: Mapping[str, Any]) -> dict[str, Any]:
    """Nobody executes what was copied; it can be resumed."""
    if run["status"] != RUNNING:
        return {"owner": None}
    reason = "copied while it was being executed" if run["is_executed"] else "its process ended without a word"
    return {"owner": None, "status": "incomplete", "reason": reason}


def _of_run(connection: Connection, table: str, run_id: int, names: Mapping[str, str] | None = None) -> Iterator[Row]:
    """The rows of a run without its number, in the order of writing. `names` is what runs are called elsewhere."""
    columns = _columns(table)
    found: Any = connection.execute(
        f"SELECT {', '.join(columns)} FROM {table} WHERE run_id = ? ORDER BY seq", (run_id,)
    )
    if table != "trials" or not names:
        return iter(found)
    at = columns.index("reused_from")
    return ((*row[:at], names.get(row[at], row[at]), *row[at + 1 :]) for row in found)


def _columns(table: str) -> list[str]:
    return [name for name in schema.TABLES[table] if name != "run_id"]


def _insert(connection: Connection, table: str, mode: Mode) -> str:
    return schema.insert(connection.dialect, table, mode, counts=False)


class _RunMerge:
    """A run that both stores have: `run` there, `twin` here."""

    def __init__(
        self,
        source: Connection,
        target: Connection,
        run: Mapping[str, Any],
        twin: Mapping[str, Any],
        names: Mapping[str, str],
    ) -> None:
        self._source, self._target, self._names = source, target, names
        self._run, self._twin = run, twin
        self._there, self._here = int(run["run_id"]), int(twin["run_id"])
        self._stale = False

    def merge(self) -> int:
        """How many trials came or were replaced."""
        self._refuse_at_work()
        ahead = self._progress(self._source, self._run) > self._progress(self._target, self._twin)
        taken, same = self._trials()
        self._put("variants", _of_run(self._source, "variants", self._there), "ignore")
        self._put("trials", taken.values(), "replace")
        for table in ("payloads", "artifacts"):
            self._target.executemany(
                f"DELETE FROM {table} WHERE run_id = ? AND position = ?", [(self._here, position) for position in taken]
            )
            theirs = _of_run(self._source, table, self._there)
            self._put(table, (row for row in theirs if row[0] in taken), "ignore")
        self._put("judgements", _of_run(self._source, "judgements", self._there), "ignore")  # all were paid
        self._scores(set(taken), same)
        for table in ("attempts", "logged_metrics", "events"):
            there, here = self._counted(table)
            self._put(table, (there - here).elements(), "insert")
        self._row(ahead)
        if self._stale:
            _renumber(self._target, self._here)
        return len(taken)

    def _refuse_at_work(self) -> None:
        if self._twin["is_executed"]:
            raise StoreError(
                f"{self._twin['run']} is being executed by {leases.describe(self._twin['owner'])}",
                "wait for it, or stop it, and merge then",
            )

    def _put(self, table: str, rows: Iterable[Row], mode: Mode) -> None:
        self._target.executemany(_insert(self._target, table, mode), ((self._here, *row) for row in rows))

    def _counted(self, table: str) -> tuple[Counter[Row], Counter[Row]]:
        return Counter(_of_run(self._source, table, self._there)), Counter(_of_run(self._target, table, self._here))

    def _trials(self) -> tuple[dict[int, Row], set[int]]:
        """The trials that are taken over, and the positions where both have the very same one."""
        columns = _columns("trials")
        taken: dict[int, Row] = {}
        same: set[int] = set()

        def standing(row: Row, run: Mapping[str, Any]) -> tuple[Any, ...]:
            trial = dict(zip(columns, row, strict=True))
            final = trial["status"] in ("ok", "skipped") or (trial["status"], trial["error_blame"]) == (
                "error",
                "variant",
            )
            return final, run["epoch"], -(trial["finished_at"] or 0.0)

        ours = {row[0]: row for row in _of_run(self._target, "trials", self._here)}
        for row in _of_run(self._source, "trials", self._there, self._names):
            own = ours.get(row[0])
            if own == row:
                same.add(row[0])
            elif own is None or standing(row, self._run) > standing(own, self._twin):
                taken[row[0]] = row
        return taken, same

    def _scores(self, taken: set[int], same: set[int]) -> None:
        """Scores go with their trial. Of a trial that both have, those of the later scoring stand; the others are kept
        aside, as `rescore` does.
        """
        (there, rescored_there), (here, rescored_here) = self._sides()
        old_there, old_here = self._counted("old_scores")
        aside: set[Row] = set()
        fresh: list[Row] = []
        gone: list[_ScoreKey] = []
        for place in {**there, **here}:
            theirs, ours = there.get(place), here.get(place)
            if place[0] in taken:
                fresh += [(*place, *theirs)] if theirs else []
                gone += [place] if ours and not theirs else []
            elif place[0] in same and theirs != ours:
                later, earlier = rescored_there.get(place, 0.0), rescored_here.get(place, 0.0)
                wins = later > earlier or (later == earlier and ours is None)
                loser, at = (ours, later) if wins else (theirs, earlier)
                if loser and at:
                    aside.add((*place, *loser, at))
                if wins:
                    fresh += [(*place, *theirs)] if theirs else []
                    gone += [place] if ours and not theirs else []
        self._put("scores", fresh, "replace")
        self._target.executemany(
            "DELETE FROM scores WHERE run_id = ? AND position = ? AND name = ?",
            [(self._here, *place) for place in gone],
        )
        self._stale = bool(gone)
        old_there |= Counter(aside)
        self._put("old_scores", (old_there - old_here).elements(), "insert")

    def _sides(self) -> list[tuple[dict[_ScoreKey, Row], dict[_ScoreKey, float]]]:
        """For each store: the scores, and when those of another version were last put aside."""
        found = []
        for connection, run_id in ((self._source, self._there), (self._target, self._here)):
            scores = {(row[0], row[1]): row[2:] for row in _of_run(connection, "scores", run_id)}
            rows: Any = connection.execute(
                "SELECT position, name, MAX(replaced_at) FROM old_scores WHERE run_id = ? GROUP BY position, name",
                (run_id,),
            )
            found.append((scores, {(position, name): at for position, name, at in rows}))
        return found

    def _row(self, ahead: bool) -> None:
        """How the run stands: as the one that was continued more often, finished later, or scored anew later."""
        values = {"label": self._twin["label"] or self._run["label"]}
        values["simulated"] = max(self._twin["simulated"], self._run["simulated"])  # for good
        if ahead:
            kept = ("status", "reason", "primary_score", "baseline", "spec", "provenance", "planned_trials")
            values |= {name: self._run[name] for name in (*kept, "epoch", "finished_at")}
            values |= {"label": self._run["label"] or self._twin["label"], **_ended(self._run)}
        changed = {name: value for name, value in values.items() if value != self._twin[name]}
        if changed:
            assigned = ", ".join(f"{name} = ?" for name in changed)
            self._target.execute(f"UPDATE runs SET {assigned} WHERE run_id = ?", (*changed.values(), self._here))

    def _progress(self, connection: Connection, run: Mapping[str, Any]) -> tuple[Any, ...]:
        asked = "SELECT COALESCE(MAX(replaced_at), 0) FROM old_scores WHERE run_id = ?"
        ((rescored,),) = connection.execute(asked, (run["run_id"],)).fetchall()
        return run["epoch"], run["finished_at"] or 0.0, rescored


def _renumber(connection: Connection, run_id: int) -> None:
    """After rows of a run went: a DuckDB file follows by what is new, so it forgets the run and gets all of it anew."""
    connection.execute(schema.insert(connection.dialect, "deletions"), (run_id, 0.0))
    for table in schema.OF_A_RUN:
        rows = list(_of_run(connection, table, run_id))
        connection.execute(f"DELETE FROM {table} WHERE run_id = ?", (run_id,))
        connection.executemany(_insert(connection, table, "insert"), [(run_id, *row) for row in rows])
