"""Another name for a parameter or a returned field of stored runs, so that rows of before and after share a column.

Nothing else moves: answers are reused by the digest of their contender, which has the old name in it and stays.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

from abreast.errors import BadInput, StoreError, suggestion
from abreast.store import schema, views
from abreast.store.base import Connection
from abreast.store.dialect import quote
from abreast.store.rows import to_json
from abreast.store.runs import leases
from abreast.store.store import Store
from abreast.store.user_tables import tracked_rows

Kind = Literal["params", "data"]
CHUNK = 5_000  # rows of payloads at a time
_OF_EXPERIMENT = "run_id IN (SELECT run_id FROM runs WHERE experiment = ?)"

_STAY = {
    "score": "a score has the name of its scorer: give the scorer the setting name: in the spec, then abreast rescore",
    "tag": "a tag belongs to its cases: rename it in the case file",
}


class Renamed(NamedTuple):
    """What was renamed: how many runs have it, and how many rows of `predictions`."""

    runs: tuple[str, ...]
    rows: int


class _RowWithName(NamedTuple):
    """One row that has the old name."""

    run_id: int
    key: int  # of the variant, or the position
    content: dict[str, Any]


def resolve_rename(store: Store, old: str, new: str) -> tuple[Kind, str, str]:
    """The kind and the names behind two columns of `predictions`, such as `params_lr` and `params_learning_rate`."""
    named = dict(views.prediction_columns(store.columns()))
    column = named.get(old)
    if column is None:
        if old in schema.CORE_COLUMNS:
            raise BadInput(f"{old} is a column of every store, and keeps its name")
        raise BadInput(f"{store.path}: predictions has no column {old}{suggestion(old, named)}")
    if column.kind in _STAY:
        raise BadInput(f"{old} cannot be renamed here", _STAY[column.kind])
    is_param = column.kind == "params"
    name = new.removeprefix("params_") if is_param else new
    if is_param and not new.startswith("params_"):
        raise BadInput(f"{old} is a parameter and stays one", f"write params_{new}")
    if not name.strip() or len(new) > schema.LONGEST_NAME or "\0" in name:
        raise BadInput(f"{new!r} cannot be the name of a column")
    if not is_param and (new.lower() in schema.CORE_COLUMNS or new.startswith(("params_", "score_", "tag_"))):
        raise BadInput(f"{new} cannot be the name of a returned field", "choose another name")
    if name == column.name:
        raise BadInput(f"{old} has that name already")
    return ("params" if is_param else "data"), column.name, name


def is_of_runs(store: Store, column: str) -> bool:
    """Whether runs have this column of `predictions`."""
    return column in schema.CORE_COLUMNS or column in dict(views.prediction_columns(store.columns()))


def tracked_values(store: Store, table: str, column: str) -> int | None:
    """How many values a column has in a table of users; None if it has no such column."""
    with store.change() as connection:
        found = tracked_rows.find(connection, table)
        if found is None or column not in found.columns:
            return None
        name, relation = quote(found.columns[column][0]), quote(found.relation)
        ((held,),) = connection.execute(f"SELECT COUNT({name}) FROM {relation}").fetchall()
        return int(held)


def rename_tracked(store: Store, table: str, old: str, new: str) -> int:
    """Another name for a column of a table of users: how many values it has. All at once or not at all."""
    if old in tracked_rows.OWN or new in tracked_rows.OWN:
        raise BadInput(f"{old if old in tracked_rows.OWN else new} is a column of every table, and keeps its name")
    if not new.strip() or len(new) > schema.LONGEST_NAME or "\0" in new:
        raise BadInput(f"{new!r} cannot be the name of a column")
    if old == new:
        raise BadInput(f"{old} has that name already")
    with store.change() as connection:
        found = tracked_rows.find(connection, table)
        if found is None or old not in found.columns:
            raise BadInput(f"{store.path}: {table} has no column {old}")
        return tracked_rows.rename(connection, found, old, new)


def affected(store: Store, kind: Kind, old: str, experiment: str | None = None) -> Renamed:
    """What would be renamed; nothing is changed."""
    with store.change() as connection:
        return _count(connection, kind, _rows_with_name(connection, kind, old, experiment))


def rename(store: Store, kind: Kind, old: str, new: str, experiment: str | None = None) -> Renamed:
    """All at once or not at all. Refused where a run has both names, or is being executed."""
    with store.change() as connection:
        found = _count(connection, kind, _rows_with_name(connection, kind, old, experiment))
        _refuse_running(store, connection, found.runs)
        others = _names(connection, {each.run_id for each in _rows_with_name(connection, kind, new, experiment)})
        clash = [run for run in found.runs if run in others]
        if clash:
            raise BadInput(
                f"{clash[0]} has {old} and {new}: what one of them holds would be lost",
                "leave it as it is, or delete the run",
            )
        rows = _rows_with_name(connection, kind, old, experiment)
        _write(connection, kind, ((each, _renamed(each.content, old, new)) for each in rows))
        _register(connection, kind, old, new)
    store.close()
    return found


def _renamed(content: Mapping[str, Any], old: str, new: str) -> str:
    return to_json({new if name == old else name: value for name, value in content.items()})


def _rows_with_name(connection: Connection, kind: Kind, name: str, experiment: str | None) -> Iterator[_RowWithName]:
    """Rows that have this name, of one experiment or of all."""
    wanted, chosen = ("1 = 1", ()) if experiment is None else (_OF_EXPERIMENT, (experiment,))
    if kind == "params":
        rows = connection.execute(f"SELECT run_id, variant, params FROM variants WHERE {wanted}", chosen)
        yield from _parse_rows(name, rows.fetchall())
        return
    ((last,),) = connection.execute("SELECT COALESCE(MAX(seq), 0) FROM payloads").fetchall()
    seq, like = 0, f"%{to_json(name)}%".replace("\\", "_")
    while True:
        chunk = connection.execute(
            f"SELECT seq, run_id, position, data FROM payloads WHERE {wanted} AND seq > ? AND seq <= ? "
            "AND data LIKE ? ORDER BY seq LIMIT ?",
            (*chosen, seq, last, like, CHUNK),
        ).fetchall()
        if not chunk:
            return
        seq = chunk[-1][0]
        yield from _parse_rows(name, (row[1:] for row in chunk))


def _parse_rows(name: str, rows: Iterable[tuple[int, int, str]]) -> Iterator[_RowWithName]:
    for run_id, key, text in rows:
        content = json.loads(text)
        if isinstance(content, dict) and name in content:
            yield _RowWithName(run_id, key, content)


def _count(connection: Connection, kind: Kind, rows: Iterable[_RowWithName]) -> Renamed:
    runs, number = set[int](), 0
    for each in rows:
        runs.add(each.run_id)
        if kind == "params":
            ((trials,),) = connection.execute(
                "SELECT COUNT(*) FROM trials WHERE run_id = ? AND variant = ?", (each.run_id, each.key)
            ).fetchall()
            number += trials
        else:
            number += 1
    return Renamed(_names(connection, runs), number)


def _names(connection: Connection, run_ids: Iterable[int]) -> tuple[str, ...]:
    wanted = set(run_ids)
    runs = connection.execute("SELECT run_id, run FROM runs ORDER BY run_id")
    return tuple(run for run_id, run in runs if run_id in wanted)


def _refuse_running(store: Store, connection: Connection, runs: Iterable[str]) -> None:
    wanted = set(runs)
    rows = connection.execute("SELECT run, owner, heartbeat_at FROM runs WHERE owner IS NOT NULL").fetchall()
    for run, owner, heartbeat_at in rows:
        if run in wanted and store.is_executed(owner, heartbeat_at):
            raise StoreError(f"{run} is being executed by {leases.describe(owner)}", "rename when it is done")


def _write(connection: Connection, kind: Kind, rows: Iterable[tuple[_RowWithName, str]]) -> None:
    """A payload is written anew, not changed in its place: a DuckDB file follows what is new."""
    names = list(schema.TABLES["payloads"])
    payload = f"SELECT {', '.join(names)} FROM payloads WHERE run_id = ? AND position = ?"
    for each, text in rows:
        key = (each.run_id, each.key)
        if kind == "params":
            connection.execute("UPDATE variants SET params = ? WHERE run_id = ? AND variant = ?", (text, *key))
        else:
            (stored,) = connection.execute(payload, key).fetchall()
            row = dict(zip(names, stored, strict=True)) | {"data": text}
            connection.execute(schema.insert(connection.dialect, "payloads", "replace"), tuple(row.values()))


def _register(connection: Connection, kind: Kind, old: str, new: str) -> None:
    """The new column with a type that holds both; the old one is gone if nothing has it any more."""
    known = dict(connection.execute("SELECT name, type FROM columns WHERE kind = ?", (kind,)).fetchall())
    wide = schema.widest(known.get(new, "null"), known.get(old, "null"))
    connection.execute(schema.insert(connection.dialect, "columns", "replace"), (kind, new, wide))
    if next(_rows_with_name(connection, kind, old, None), None) is None:
        connection.execute("DELETE FROM columns WHERE kind = ? AND name = ?", (kind, old))
    views.make_views(connection)
