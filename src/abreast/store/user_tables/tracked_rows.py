"""Tables of users: a row per tracked call or logged dictionary, a real column per key, added when it first appears.

A table is kept under its own name where SQL has that name free, else as `tracked_NAME`: so `predictions` and `metrics`,
which are views over runs and tracked rows together, and names of the store's own tables. SQL does not tell `Lr` from
`lr`; keys do, so the registry `tracked_columns` says which column holds which key, and of what type its values were.

New columns are added inside the transaction that writes the row, after a look at what others added meanwhile: two
threads or processes that meet the same new key at the same moment agree.
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
from abreast.store.user_tables.cells import TypedCell, cell, values, widest
from abreast.store.views import JOINED, make_views
from abreast.text import storable

if TYPE_CHECKING:
    from abreast.store.base import Connection

OWN = {"row_id": "text", "track_id": "text", "timestamp": "text"}  # the columns that every such table has
MOST_COLUMNS = 1_900  # SQLite allows 2,000; keys beyond are kept together, as JSON, in the column MORE
MORE = "more_columns"
OF_THE_FILE = ("watermarks", "batch")  # names that a DuckDB file uses itself


@dataclass(slots=True)
class TrackedTable:
    """One table of a user: which column holds which key."""

    name: str
    relation: str
    columns: dict[str, tuple[str, str]] = field(default_factory=dict)  # key → its column, the type of its values
    statements: dict[tuple[str, ...], str] = field(default_factory=dict)  # keys → INSERT

    def type_of(self, key: str) -> str | None:
        found = self.columns.get(key)
        return found[1] if found else None


def plain_name(table: str) -> str:
    """`db.predictions` is `predictions`: some name tables with their database.

    >>> plain_name("db.predictions"), plain_name("predictions")
    ('predictions', 'predictions')
    """
    name = table.removeprefix("db.").strip() if isinstance(table, str) else ""
    if not name or "\0" in name or len(name) > schema.LONGEST_NAME:
        raise BadInput(f"table {str(table)[:60]!r}: not a name for a table", 'write such as "predictions"')
    return storable(name)


# -- looking up ----------------------------------------------------------------------------------------------------


def find(connection: Connection, name: str) -> TrackedTable | None:
    """The table of this name, as it is now."""
    query = f"SELECT relation FROM tracked_tables WHERE {_exists(connection)} AND name = ?"
    for (relation,) in connection.execute(query, (name,)).fetchall():
        columns = connection.execute(
            "SELECT key, name, type FROM tracked_columns WHERE relation = ? ORDER BY seq", (relation,)
        )
        return TrackedTable(name, relation, {key: (column, kind) for key, column, kind in columns})
    return None


def _exists(connection: Connection) -> str:
    """The condition that nobody's SQL dropped the table."""
    return f"relation IN ({connection.dialect.relations})"


def names(connection: Connection) -> list[str]:
    query = f"SELECT name FROM tracked_tables WHERE {_exists(connection)} ORDER BY seq"
    return [name for (name,) in connection.execute(query)]


# -- writing: inside a transaction ---------------------------------------------------------------------------------


def insert_one(
    connection: Connection, known: Mapping[str, TrackedTable], name: str, row: Mapping[str, TypedCell]
) -> bool:
    """Add a row, in a transaction of its own, if all it needs is known to be there; else it is not added."""
    table = known.get(name)
    if table is None:
        return False
    if not _fits(table, row):
        (row,) = _fold_extra_keys(table.columns, [row])
        if not _fits(table, row):
            return False
    try:
        _insert(connection, table, (row,))
    except connection.dialect.statement_errors:  # somebody renamed a column since
        return False
    return True


def insert(
    connection: Connection, known: dict[str, TrackedTable], name: str, rows: Sequence[Mapping[str, TypedCell]]
) -> None:
    """Add rows. `known` is what this process remembers of the tables; it is brought up to date."""
    table, folded = _ensure_table(connection, name, rows)
    known[name] = table
    _insert(connection, table, folded)


def prepare(
    connection: Connection, known: dict[str, TrackedTable], name: str, types: Mapping[str, str]
) -> TrackedTable:
    """The table with a column for each of these keys, as far as there is room; made if it is not there."""
    known[name], _ = _ensure_table(connection, name, [{key: TypedCell(kind, None) for key, kind in types.items()}])
    return known[name]


def _fits(table: TrackedTable, row: Mapping[str, TypedCell]) -> bool:
    columns = table.columns
    for key, (kind, _) in row.items():
        found = columns.get(key)
        if found is None or (found[1] != kind and widest(found[1], kind) != found[1]):
            return False
    return True


def _fold_extra_keys(columns: Iterable[str], rows: Sequence[Mapping[str, TypedCell]]) -> list[Mapping[str, TypedCell]]:
    """The rows with what no column can be made for, beside these, kept together as JSON."""
    known = {*columns}
    found: list[Mapping[str, TypedCell]] = []
    for row in rows:
        kept: dict[str, TypedCell] = {}
        more: dict[str, Any] = {}
        for key, one in row.items():
            if key not in known and len(known) < MOST_COLUMNS and _is_name(key):
                known.add(key)
            if key in known:
                kept[key] = one
            else:
                more[key] = values(one.type, [one.value])[0]
        if more and MORE in kept:  # a key of the user's own
            more[MORE] = kept[MORE].value
        found.append({**kept, MORE: cell(more)} if more else kept)
    return found


def _is_name(key: str) -> bool:
    return bool(key.strip()) and "\0" not in key and len(key) <= schema.LONGEST_NAME


def _insert(connection: Connection, table: TrackedTable, rows: Sequence[Mapping[str, TypedCell]]) -> None:
    for row in rows:
        keys = tuple(row)
        statement = table.statements.get(keys)
        if statement is None:
            columns = ", ".join(quote(table.columns[key][0]) for key in keys)
            # a row that is there already was written before its writer knew
            statement = (
                f"INSERT INTO {quote(table.relation)} ({columns}) VALUES ({placeholders(keys)}) ON CONFLICT DO NOTHING"
            )
            if len(table.statements) < 1_000:
                table.statements[keys] = statement
        connection.execute(statement, tuple([one.value for one in row.values()]))


def _ensure_table(
    connection: Connection, name: str, rows: Sequence[Mapping[str, TypedCell]]
) -> tuple[TrackedTable, list[Mapping[str, TypedCell]]]:
    """The table as it is now, with every column these rows need, and the rows as they go into it."""
    table = find(connection, name)
    folded = _fold_extra_keys(table.columns if table is not None else OWN, rows)
    changed = table is None
    if table is None:
        table = TrackedTable(name, _free_relation(connection, name))
        _create(connection, table, folded)
    changed = _add_columns(connection, table, folded) or changed
    if changed and name in JOINED:
        make_views(connection)
    return table, folded


def _create(connection: Connection, table: TrackedTable, rows: Iterable[Mapping[str, TypedCell]]) -> None:
    """All columns at once: a thousand of them one by one take seconds."""
    taken = {*_reserved_columns(connection)}
    keys = dict.fromkeys([*OWN, *(key for row in rows for key in row)])
    table.columns = {key: (schema.unique_name(key, taken), OWN.get(key, "null")) for key in keys}
    relation = quote(table.relation)
    dialect = connection.dialect
    columns = ", ".join(dialect.user_column(column, kind) for column, kind in table.columns.values())
    connection.execute(f"CREATE TABLE {relation} (seq {dialect.row_number}, {columns}, UNIQUE(row_id))")
    index = schema.unique_name(f"{table.relation} by track", _used_names(connection))
    connection.execute(f"CREATE INDEX {quote(index)} ON {relation}(track_id)")
    for statement in dialect.count_changes(table.relation):  # what a DuckDB file cannot follow by watermark
        connection.execute(statement)
    connection.execute("DELETE FROM tracked_columns WHERE relation = ?", (table.relation,))
    connection.execute(schema.insert(dialect, "tracked_tables", "replace"), (table.name, table.relation, 0))
    connection.executemany(
        schema.insert(dialect, "tracked_columns"),
        [(table.relation, key, column, kind) for key, (column, kind) in table.columns.items()],
    )


def _free_relation(connection: Connection, name: str) -> str:
    """What the table is called in SQL: its own name unless that is taken or means something."""
    taken = _used_names(connection)
    lower = name.lower()
    if lower not in taken and not lower.startswith(("sqlite_", "tracked_")):
        return name
    return schema.unique_name(f"tracked_{name}", taken)


def _used_names(connection: Connection) -> set[str]:
    names = {name.lower() for (name,) in connection.execute(connection.dialect.relations)}
    return names | {"predictions", "metrics", *schema.TABLES, *OF_THE_FILE}


def _add_columns(connection: Connection, table: TrackedTable, rows: Iterable[Mapping[str, TypedCell]]) -> bool:
    """Whether a column came or became wider."""
    dialect = connection.dialect
    taken = {column.lower() for column, _ in table.columns.values()} | _reserved_columns(connection)
    changed = False
    for row in rows:
        for key, (kind, _) in row.items():
            old = table.columns.get(key)
            if old is None:
                column = schema.unique_name(key, taken)
                definition = dialect.user_column(column, kind)
                connection.execute(f"ALTER TABLE {quote(table.relation)} ADD COLUMN {definition}")
                connection.execute(schema.insert(dialect, "tracked_columns"), (table.relation, key, column, kind))
                table.columns[key] = (column, kind)
                changed = True
            elif (wide := widest(old[1], kind)) != old[1]:
                for statement in dialect.widen(table.relation, old[0], wide):
                    connection.execute(statement)
                connection.execute(
                    "UPDATE tracked_columns SET type = ? WHERE relation = ? AND key = ?", (wide, table.relation, key)
                )
                table.columns[key] = (old[0], wide)
                changed = True
    return changed


def _reserved_columns(connection: Connection) -> frozenset[str]:
    return connection.dialect.reserved_columns | {"seq"}


def cells_of(row: Mapping[str, Any]) -> dict[str, TypedCell]:
    """A row of a user as cells."""
    return {storable(key): value if type(value) is TypedCell else cell(value) for key, value in row.items()}


def new_row_id() -> str:
    """A name for a row that no other row has, in whatever store."""
    return f"{_chance.getrandbits(64):016x}"


_chance = random.Random()  # of its own: who seeds the one of all must not get the same names again
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_chance.seed)


def rename(connection: Connection, table: TrackedTable, old: str, new: str) -> int:
    """Another name for a column; if both are there, what the old one holds goes into the new one. How many values."""
    relation, (before, kind) = quote(table.relation), table.columns[old]
    ((count,),) = connection.execute(f"SELECT COUNT({quote(before)}) FROM {relation}").fetchall()
    for view in JOINED:  # SQLite changes no table that a view would no longer fit
        connection.execute(f"DROP VIEW IF EXISTS {view}")
    if new in table.columns:
        after, other = table.columns[new]
        clash = f"SELECT 1 FROM {relation} WHERE {quote(before)} IS NOT NULL AND {quote(after)} IS NOT NULL LIMIT 1"
        if connection.execute(clash).fetchall():
            raise BadInput(f"{table.name}: rows have {old} and {new}: what one of them holds would be lost")
        connection.execute(f"UPDATE {relation} SET {quote(after)} = COALESCE({quote(after)}, {quote(before)})")
        connection.execute("DELETE FROM tracked_columns WHERE relation = ? AND key = ?", (table.relation, old))
        connection.execute(
            "UPDATE tracked_columns SET type = ? WHERE relation = ? AND key = ?",
            (widest(kind, other), table.relation, new),
        )
        connection.execute(f"ALTER TABLE {relation} DROP COLUMN {quote(before)}")
    else:
        taken = {column.lower() for column, _ in table.columns.values() if column != before}
        taken |= _reserved_columns(connection)
        column = schema.unique_name(new, taken)
        connection.execute(f"ALTER TABLE {relation} RENAME COLUMN {quote(before)} TO {quote(column)}")
        connection.execute(
            "UPDATE tracked_columns SET key = ?, name = ? WHERE relation = ? AND key = ?",
            (new, column, table.relation, old),
        )
    connection.execute("UPDATE tracked_tables SET changes = changes + 1 WHERE relation = ?", (table.relation,))
    make_views(connection)
    return int(count)


def update(connection: Connection, name: str, key: str, new: TypedCell, equal: Mapping[str, TypedCell]) -> int:
    """Write a value into a column, added if there is none, of the rows with these values; how many rows."""
    table = prepare(connection, {}, name, {key: new.type})
    if key not in table.columns:
        raise BadInput(f"{name}: there is no room for a column {key!r}")
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


def delete(connection: Connection, track_id: str, only: str | None = None) -> dict[str, int]:
    """Remove what was written under this name: how many rows of which table."""
    removed: dict[str, int] = {}
    for table in tables(connection):
        if only is None or table.name == only:
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
    """Whether something was written under this name, or a run is called so."""
    query = f"SELECT relation FROM tracked_tables WHERE {_exists(connection)}"
    selects = ["SELECT 1 FROM runs WHERE run = ?"]
    selects += [f"SELECT 1 FROM {quote(relation)} WHERE track_id = ?" for (relation,) in connection.execute(query)]
    pieces = (selects[at : at + 400] for at in range(0, len(selects), 400))  # SQLite takes 500 at a time
    return any(connection.execute(" UNION ALL ".join(piece), (track_id,) * len(piece)).fetchall() for piece in pieces)


def note_cache(connection: Connection, path: str) -> None:
    """Remember a folder that caches results, by its path from the store."""
    connection.execute("INSERT INTO tracked_caches (path) VALUES (?) ON CONFLICT DO NOTHING", (path,))
