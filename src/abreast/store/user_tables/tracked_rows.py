"""Tracked tables: a row per tracked call or logged dictionary, and a column per key, added when the key first appears.

A table has its own name in SQL, or `tracked_NAME` if that name is taken, as for the views `predictions` and `metrics`.
SQL ignores case but keys do not, so the registry `tracked_columns` maps keys to columns and their types.

New columns are added in the transaction that writes the row, after reading what other threads and processes added.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from abreast.errors import BadInput
from abreast.store import schema
from abreast.store.dialect import placeholders, quote
from abreast.store.user_tables.cells import TypedCell, cell, widest
from abreast.store.views import JOINED, drop_views, make_views
from abreast.text import storable

if TYPE_CHECKING:
    from abreast.store.base import Connection
    from abreast.store.dialect import Dialect

OWN = {"row_id": "text", "track_id": "text", "timestamp": "text"}  # columns of every tracked table
MORE = "more_columns"  # JSON of the keys beyond the most columns of the engine
DUCKDB_NAMES = ("watermarks", "batch")  # names that a DuckDB file uses internally


@dataclass(slots=True)
class TrackedTable:
    name: str
    relation: str
    columns: dict[str, tuple[str, str]] = field(default_factory=dict)  # key → column, type
    statements: dict[tuple[str, ...], str] = field(default_factory=dict)  # keys → INSERT

    def type_of(self, key: str) -> str | None:
        column = self.columns.get(key)
        return column[1] if column else None


def plain_name(table: str) -> str:
    """Check the name of a tracked table, and remove the prefix `db.`.

    >>> plain_name("db.predictions"), plain_name("predictions")
    ('predictions', 'predictions')
    """
    name = table.removeprefix("db.").strip() if isinstance(table, str) else ""
    if not schema.is_column_name(name):
        raise BadInput(f"invalid table name {str(table)[:60]!r}", 'use a name such as "predictions"')
    return storable(name)


# -- looking up ----------------------------------------------------------------------------------------------------


def find(connection: Connection, name: str) -> TrackedTable | None:
    """Read a tracked table from the registry."""
    query = f"SELECT relation FROM tracked_tables WHERE {_exists(connection)} AND name = ?"
    for (relation,) in connection.execute(query, (name,)).fetchall():
        columns = connection.execute(
            "SELECT key, name, type FROM tracked_columns WHERE relation = ? ORDER BY seq", (relation,)
        )
        return TrackedTable(name, relation, {key: (column, kind) for key, column, kind in columns})
    return None


def _exists(connection: Connection) -> str:
    """The condition that the table was not dropped by a user's SQL."""
    return f"relation IN ({connection.dialect.relations})"


def names(connection: Connection) -> list[str]:
    query = f"SELECT name FROM tracked_tables WHERE {_exists(connection)} ORDER BY seq"
    return [name for (name,) in connection.execute(query)]


# -- writing: inside a transaction ---------------------------------------------------------------------------------


def insert_one(
    connection: Connection, cache: Mapping[str, TrackedTable], name: str, row: Mapping[str, TypedCell]
) -> bool:
    """Insert a row in its own transaction, if the table in `cache` has all its columns. Returns whether it did."""
    table = cache.get(name)
    if table is None:
        return False
    if not _fits(table, row):
        (row,) = _fold_extra_keys(connection.dialect, table.columns, [row])
        if not _fits(table, row):
            return False
    try:
        _insert(connection, table, (row,))
    except connection.dialect.statement_errors:  # a column was renamed in the meantime
        return False
    return True


def insert(
    connection: Connection, cache: dict[str, TrackedTable], name: str, rows: Sequence[Mapping[str, TypedCell]]
) -> None:
    """Insert rows, and update `cache`, which maps names to tables."""
    table, folded = _ensure_table(connection, name, rows)
    cache[name] = table
    _insert(connection, table, folded)


def prepare(
    connection: Connection, cache: dict[str, TrackedTable], name: str, types: Mapping[str, str]
) -> TrackedTable:
    """Create the table and columns for these keys if they are missing, up to the most columns of the engine."""
    cache[name], _ = _ensure_table(connection, name, [{key: TypedCell(kind, None) for key, kind in types.items()}])
    return cache[name]


def _fits(table: TrackedTable, row: Mapping[str, TypedCell]) -> bool:
    columns = table.columns
    for key, (kind, _) in row.items():
        column = columns.get(key)
        if column is None or (column[1] != kind and widest(column[1], kind) != column[1]):
            return False
    return True


def _fold_extra_keys(
    dialect: Dialect, columns: Iterable[str], rows: Sequence[Mapping[str, TypedCell]]
) -> list[Mapping[str, TypedCell]]:
    """Move the keys that get no column, beyond those in `columns`, into one JSON column."""
    keys = {*columns}
    result_rows: list[Mapping[str, TypedCell]] = []
    for row in rows:
        cells: dict[str, TypedCell] = {}
        extra: dict[str, Any] = {}
        for key, value_cell in row.items():
            if key not in keys and len(keys) < dialect.most_columns and schema.is_column_name(key):
                keys.add(key)
            if key in keys:
                cells[key] = value_cell
            else:
                extra[key] = value_cell.to_python()
        if extra and MORE in cells:  # the user has a key with this name
            extra[MORE] = cells[MORE].value
        result_rows.append({**cells, MORE: cell(extra)} if extra else cells)
    return result_rows


def _insert(connection: Connection, table: TrackedTable, rows: Sequence[Mapping[str, TypedCell]]) -> None:
    for row in rows:
        keys = tuple(row)
        statement = table.statements.get(keys)
        if statement is None:
            columns = ", ".join(quote(table.columns[key][0]) for key in keys)
            # An existing row was committed by an attempt that seemed to fail.
            statement = (
                f"INSERT INTO {quote(table.relation)} ({columns}) VALUES ({placeholders(keys)}) ON CONFLICT DO NOTHING"
            )
            if len(table.statements) < 1_000:
                table.statements[keys] = statement
        connection.execute(statement, tuple([value_cell.value for value_cell in row.values()]))


def _ensure_table(
    connection: Connection, name: str, rows: Sequence[Mapping[str, TypedCell]]
) -> tuple[TrackedTable, list[Mapping[str, TypedCell]]]:
    """Create or extend the table for these rows. Returns the table and the rows to insert."""
    if connection.dialect.lock_columns:
        connection.execute(connection.dialect.lock_columns)
    table = find(connection, name)
    folded = _fold_extra_keys(connection.dialect, table.columns if table is not None else OWN, rows)
    changed = table is None
    if table is None:
        table = TrackedTable(name, _free_relation(connection, name))
        _create(connection, table, folded)
    changed = _add_columns(connection, table, folded) or changed
    if changed and name in JOINED:
        make_views(connection)
    return table, folded


def _create(connection: Connection, table: TrackedTable, rows: Iterable[Mapping[str, TypedCell]]) -> None:
    """Create a table with all its columns at once: adding a thousand one by one takes seconds."""
    used = {*_reserved_columns(connection)}
    keys = dict.fromkeys([*OWN, *(key for row in rows for key in row)])
    dialect, relation = connection.dialect, quote(table.relation)
    table.columns = {key: (schema.unique_name(dialect.identifier(key), used), OWN.get(key, "null")) for key in keys}
    columns = ", ".join(dialect.user_column(column, kind) for column, kind in table.columns.values())
    connection.execute(f"CREATE TABLE {relation} (seq {dialect.row_number}, {columns}, UNIQUE(row_id))")
    index = schema.unique_name(dialect.identifier(f"{table.relation} by track"), _used_names(connection))
    connection.execute(f"CREATE INDEX {quote(index)} ON {relation}(track_id)")
    for statement in dialect.count_changes(table.relation):  # changes that a watermark does not show
        connection.execute(statement)
    connection.execute("DELETE FROM tracked_columns WHERE relation = ?", (table.relation,))
    connection.execute(schema.insert(dialect, "tracked_tables", "replace"), (table.name, table.relation, 0))
    connection.executemany(
        schema.insert(dialect, "tracked_columns"),
        [(table.relation, key, column, kind) for key, (column, kind) in table.columns.items()],
    )


def _free_relation(connection: Connection, name: str) -> str:
    """Choose the name of a table in SQL: its own unless that is taken or reserved."""
    used = _used_names(connection)
    name = connection.dialect.identifier(name)
    lower = name.lower()
    if lower not in used and not lower.startswith(("sqlite_", "tracked_")):
        return name
    return schema.unique_name(connection.dialect.identifier(f"tracked_{name}"), used)


def _used_names(connection: Connection) -> set[str]:
    names = {name.lower() for (name,) in connection.execute(connection.dialect.relations)}
    return names | {"predictions", "metrics", *schema.TABLES, *DUCKDB_NAMES}


def _add_columns(connection: Connection, table: TrackedTable, rows: Iterable[Mapping[str, TypedCell]]) -> bool:
    """Add or widen columns for these rows. Returns whether anything changed."""
    dialect = connection.dialect
    used = {column.lower() for column, _ in table.columns.values()} | _reserved_columns(connection)
    changed = False
    for row in rows:
        for key, (kind, _) in row.items():
            old = table.columns.get(key)
            if old is None:
                column = schema.unique_name(dialect.identifier(key), used)
                definition = dialect.user_column(column, kind)
                connection.execute(f"ALTER TABLE {quote(table.relation)} ADD COLUMN {definition}")
                connection.execute(schema.insert(dialect, "tracked_columns"), (table.relation, key, column, kind))
                table.columns[key] = (column, kind)
                changed = True
            elif (wide := widest(old[1], kind)) != old[1]:
                if dialect.retypes_columns and table.name in JOINED:
                    drop_views(connection)
                _widen(connection, table, key, wide)
                changed = True
    return changed


def _widen(connection: Connection, table: TrackedTable, key: str, kind: str) -> None:
    """Let a column hold values of a wider type. The views must be dropped if they include the table."""
    column, _ = table.columns[key]
    for statement in connection.dialect.widen(table.relation, column, kind):
        connection.execute(statement)
    connection.execute(
        "UPDATE tracked_columns SET type = ? WHERE relation = ? AND key = ?", (kind, table.relation, key)
    )
    table.columns[key] = (column, kind)


def _reserved_columns(connection: Connection) -> frozenset[str]:
    return connection.dialect.reserved_columns | {"seq"}


def cells_of(row: Mapping[str, Any]) -> dict[str, TypedCell]:
    return {storable(key): value if type(value) is TypedCell else cell(value) for key, value in row.items()}


def new_row_id() -> str:
    return f"{_random.getrandbits(64):016x}"


_random = random.Random()  # private, so that a seed of the global one does not repeat ids
os.register_at_fork(after_in_child=_random.seed)


def rename(connection: Connection, table: TrackedTable, old: str, new: str) -> int:
    """Rename a column, or move its values into an existing one. Returns the number of values."""
    relation, (before, kind) = quote(table.relation), table.columns[old]
    ((count,),) = connection.execute(f"SELECT COUNT({quote(before)}) FROM {relation}").fetchall()
    drop_views(connection)  # SQLite refuses to alter a table if a view would break
    if new in table.columns:
        after, other = table.columns[new]
        clash = f"SELECT 1 FROM {relation} WHERE {quote(before)} IS NOT NULL AND {quote(after)} IS NOT NULL LIMIT 1"
        if connection.execute(clash).fetchall():
            raise BadInput(f"{table.name}: some rows have both {old} and {new}; one of the values would be lost")
        wide = widest(kind, other)
        if wide != other:
            _widen(connection, table, new, wide)
        value = connection.dialect.as_kind(quote(before), wide)
        connection.execute(f"UPDATE {relation} SET {quote(after)} = COALESCE({quote(after)}, {value})")
        connection.execute("DELETE FROM tracked_columns WHERE relation = ? AND key = ?", (table.relation, old))
        connection.execute(f"ALTER TABLE {relation} DROP COLUMN {quote(before)}")
    else:
        used = {column.lower() for column, _ in table.columns.values() if column != before}
        used |= _reserved_columns(connection)
        column = schema.unique_name(connection.dialect.identifier(new), used)
        connection.execute(f"ALTER TABLE {relation} RENAME COLUMN {quote(before)} TO {quote(column)}")
        connection.execute(
            "UPDATE tracked_columns SET key = ?, name = ? WHERE relation = ? AND key = ?",
            (new, column, table.relation, old),
        )
    connection.execute("UPDATE tracked_tables SET changes = changes + 1 WHERE relation = ?", (table.relation,))
    make_views(connection)
    return int(count)


def update(connection: Connection, name: str, key: str, new: TypedCell, equal: Mapping[str, TypedCell]) -> int:
    """Set a column, added if missing, in the rows with these values. Returns their number."""
    table = prepare(connection, {}, name, {key: new.type})
    if key not in table.columns:
        raise BadInput(f"{name}: no room for a column {key!r}")
    same = (f"{quote(table.columns[other][0])} IS NOT DISTINCT FROM ?" for other in equal)
    where = " AND ".join(same) or "1 = 1"
    connection.execute(
        f"UPDATE {quote(table.relation)} SET {quote(table.columns[key][0])} = ? WHERE {where}",
        (new.value, *(item.value for item in equal.values())),
    )
    return connection.changes()


def tables(connection: Connection) -> Iterator[TrackedTable]:
    for name in names(connection):
        table = find(connection, name)
        if table is not None:
            yield table


def delete(connection: Connection, track_id: str) -> dict[str, int]:
    """Delete the rows written under a name. Returns the number of rows by table."""
    removed: dict[str, int] = {}
    for table in tables(connection):
        connection.execute(f"DELETE FROM {quote(table.relation)} WHERE track_id = ?", (track_id,))
        if connection.changes():
            removed[table.name] = connection.changes()
    return removed


def has_row(connection: Connection, name: str, row_id: str) -> bool:
    table = find(connection, name)
    return table is not None and bool(
        connection.execute(f"SELECT 1 FROM {quote(table.relation)} WHERE row_id = ?", (row_id,)).fetchall()
    )


def is_track_id_used(connection: Connection, track_id: str) -> bool:
    query = f"SELECT relation FROM tracked_tables WHERE {_exists(connection)}"
    selects = ["SELECT 1 FROM runs WHERE run = ?"]
    selects += [f"SELECT 1 FROM {quote(relation)} WHERE track_id = ?" for (relation,) in connection.execute(query)]
    batches = (selects[start : start + 400] for start in range(0, len(selects), 400))  # SQLite allows 500 terms
    return any(connection.execute(" UNION ALL ".join(batch), (track_id,) * len(batch)).fetchall() for batch in batches)


def note_cache(connection: Connection, path: str) -> None:
    """Record a folder with cached results, relative to the store."""
    connection.execute("INSERT INTO tracked_caches (path) VALUES (?) ON CONFLICT DO NOTHING", (path,))
