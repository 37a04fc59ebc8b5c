"""Rename a parameter or a returned field in stored runs, so that old and new rows share a column.

The digests of variants, which identify reusable answers, remain those of the old name.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

from abreast.errors import BadInput, suggestion
from abreast.store import schema, views
from abreast.store.base import Connection
from abreast.store.dialect import quote
from abreast.store.rows import to_json
from abreast.store.runs import leases
from abreast.store.store import Store
from abreast.store.user_tables import tracked_rows

Kind = Literal["params", "data"]
CHUNK = 5_000  # payload rows read at once
_IN_EXPERIMENT = "run_id IN (SELECT run_id FROM runs WHERE experiment = ?)"

_FIXED = {
    "score": "set `name:` of the scorer in the spec, then run `abreast rescore`",
    "tag": "rename the tag in the case file",
}


class AffectedRows(NamedTuple):
    """The runs that have a column, and the number of their rows in `predictions`."""

    runs: tuple[str, ...]
    rows: int


class _RowWithName(NamedTuple):
    run_id: int
    key: int  # index of the variant for params, position of the trial for data
    content: dict[str, Any]


def resolve_rename(store: Store, old: str, new: str) -> tuple[Kind, str, str]:
    """Return kind, old and new name for two columns of `predictions`, such as `params_lr` and `params_rate`."""
    columns = dict(views.prediction_columns(store.reading().dialect, store.columns()))
    column = columns.get(old)
    if column is None:
        if old in schema.CORE_COLUMNS:
            raise BadInput(f"{old} is a standard column and cannot be renamed")
        raise BadInput(f"{store.address}: no column {old} in predictions{suggestion(old, columns)}")
    if column.kind in _FIXED:
        raise BadInput(f"{old} cannot be renamed here", _FIXED[column.kind])
    is_param = column.kind == "params"
    name = new.removeprefix("params_") if is_param else new
    if is_param and not new.startswith("params_"):
        raise BadInput(f"{old} is a parameter, {new} is not", f"use params_{new}")
    if not name.strip() or not schema.is_column_name(new):
        raise BadInput(f"invalid column name {new!r}")
    if not is_param and (new.lower() in schema.CORE_COLUMNS or new.startswith(("params_", "score_", "tag_"))):
        raise BadInput(f"{new} cannot be the name of a returned field", "use another name")
    if name == column.name:
        raise BadInput(f"{old} already has that name")
    return ("params" if is_param else "data"), column.name, name


def is_prediction_column(store: Store, column: str) -> bool:
    columns = views.prediction_columns(store.reading().dialect, store.columns())
    return column in schema.CORE_COLUMNS or column in dict(columns)


def count_tracked_values(store: Store, table: str, column: str) -> int | None:
    """Number of values in a column of a tracked table; None if it does not exist."""
    with store.change() as connection:
        tracked = tracked_rows.find(connection, table)
        if tracked is None or column not in tracked.columns:
            return None
        name, relation = quote(tracked.columns[column][0]), quote(tracked.relation)
        ((count,),) = connection.execute(f"SELECT COUNT({name}) FROM {relation}").fetchall()
        return int(count)


def rename_tracked(store: Store, table: str, old: str, new: str) -> int:
    """Rename a column of a tracked table. Return the number of its values."""
    if old in tracked_rows.OWN or new in tracked_rows.OWN:
        raise BadInput(f"{old if old in tracked_rows.OWN else new} is a standard column and cannot be renamed")
    if not schema.is_column_name(new):
        raise BadInput(f"invalid column name {new!r}")
    if old == new:
        raise BadInput(f"{old} already has that name")
    with store.change() as connection:
        tracked = tracked_rows.find(connection, table)
        if tracked is None or old not in tracked.columns:
            raise BadInput(f"{store.address}: no column {old} in {table}")
        return tracked_rows.rename(connection, tracked, old, new)


def affected(store: Store, kind: Kind, old: str, experiment: str | None = None) -> AffectedRows:
    with store.change() as connection:
        return _count(connection, kind, _rows_with_name(connection, kind, old, experiment))


def rename(store: Store, kind: Kind, old: str, new: str, experiment: str | None = None) -> AffectedRows:
    """Rename in one transaction. Refuse if a run has both names or is being executed."""
    with store.change() as connection:
        renamed = _count(connection, kind, _rows_with_name(connection, kind, old, experiment))
        _refuse_running(store, connection, renamed.runs)
        others = _names(connection, {row.run_id for row in _rows_with_name(connection, kind, new, experiment)})
        clash = [run for run in renamed.runs if run in others]
        if clash:
            raise BadInput(
                f"{clash[0]} has both {old} and {new}; one of the values would be lost",
                "keep the names, or delete the run",
            )
        rows = _rows_with_name(connection, kind, old, experiment)
        _write(connection, kind, ((row, _renamed(row.content, old, new)) for row in rows))
        _register(connection, kind, old, new)
    store.close()
    return renamed


def _renamed(content: Mapping[str, Any], old: str, new: str) -> str:
    return to_json({new if name == old else name: value for name, value in content.items()})


def _rows_with_name(connection: Connection, kind: Kind, name: str, experiment: str | None) -> Iterator[_RowWithName]:
    """Yield the rows that have this name, of one experiment or of all."""
    condition, parameters = ("1 = 1", ()) if experiment is None else (_IN_EXPERIMENT, (experiment,))
    if kind == "params":
        rows = connection.execute(f"SELECT run_id, variant, params FROM variants WHERE {condition}", parameters)
        yield from _parse_rows(name, rows.fetchall())
        return
    ((last,),) = connection.execute("SELECT COALESCE(MAX(seq), 0) FROM payloads").fetchall()
    seq, like = 0, f"%{to_json(name)}%".replace("\\", "_")
    while True:
        chunk = connection.execute(
            f"SELECT seq, run_id, position, data FROM payloads WHERE {condition} AND seq > ? AND seq <= ? "
            "AND data LIKE ? ORDER BY seq LIMIT ?",
            (*parameters, seq, last, like, CHUNK),
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


def _count(connection: Connection, kind: Kind, rows: Iterable[_RowWithName]) -> AffectedRows:
    runs, number = set[int](), 0
    for row in rows:
        runs.add(row.run_id)
        if kind == "params":
            ((trials,),) = connection.execute(
                "SELECT COUNT(*) FROM trials WHERE run_id = ? AND variant = ?", (row.run_id, row.key)
            ).fetchall()
            number += trials
        else:
            number += 1
    return AffectedRows(_names(connection, runs), number)


def _names(connection: Connection, run_ids: Iterable[int]) -> tuple[str, ...]:
    unique_ids = set(run_ids)
    runs = connection.execute("SELECT run_id, run FROM runs ORDER BY run_id")
    return tuple(run for run_id, run in runs if run_id in unique_ids)


def _refuse_running(store: Store, connection: Connection, runs: Iterable[str]) -> None:
    names = set(runs)
    rows = connection.execute("SELECT run, owner, heartbeat_at FROM runs WHERE owner IS NOT NULL").fetchall()
    for run, owner, heartbeat_at in rows:
        if run in names and store.is_executed(owner, heartbeat_at):
            raise leases.active_error(run, owner, "wait until it is done")


def _write(connection: Connection, kind: Kind, rows: Iterable[tuple[_RowWithName, str]]) -> None:
    """Write the new content. Payloads are replaced, not updated, so that a DuckDB file gets the new rows."""
    names = list(schema.TABLES["payloads"])
    payload = f"SELECT {', '.join(names)} FROM payloads WHERE run_id = ? AND position = ?"
    for row, text in rows:
        key = (row.run_id, row.key)
        if kind == "params":
            connection.execute("UPDATE variants SET params = ? WHERE run_id = ? AND variant = ?", (text, *key))
        else:
            (stored,) = connection.execute(payload, key).fetchall()
            values = dict(zip(names, stored, strict=True)) | {"data": text}
            connection.execute(schema.insert(connection.dialect, "payloads", "replace"), tuple(values.values()))


def _register(connection: Connection, kind: Kind, old: str, new: str) -> None:
    """Register the new column with a type that fits both; remove the old one if no row has it any more."""
    types = dict(connection.execute("SELECT name, type FROM columns WHERE kind = ?", (kind,)).fetchall())
    wide = schema.widest(types.get(new, "null"), types.get(old, "null"))
    connection.execute(schema.insert(connection.dialect, "columns", "replace"), (kind, new, wide))
    if next(_rows_with_name(connection, kind, old, None), None) is None:
        connection.execute("DELETE FROM columns WHERE kind = ? AND name = ?", (kind, old))
    views.make_views(connection)
