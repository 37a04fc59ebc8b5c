"""Any table of a store, for people: the views, what users track, and the store's own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import apsw

from abreast.errors import BadInput, suggestion
from abreast.store import schema, sqlite, tracked
from abreast.store.cached import FILE, Cache
from abreast.store.cells import cell, values
from abreast.store.dialect import quote
from abreast.store.joining import JOINED
from abreast.store.store import Store

_ORDER = {"predictions": "started_at"}  # of the views; tables are in the order of writing


class Frame(NamedTuple):
    """Columns by their keys, and the type of their values where it is known."""

    types: dict[str, str]
    columns: dict[str, Sequence[Any]]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def rows(self) -> list[dict[str, Any]]:
        return [dict(zip(self.columns, row, strict=True)) for row in zip(*self.columns.values(), strict=True)]


class Place(NamedTuple):
    """Where the rows of a table are: what it is called in SQL, which column holds which key, and their types."""

    relation: str
    columns: dict[str, str]
    types: dict[str, str]
    order: str


class Condition(NamedTuple):
    """In SQL; {key} in it is the column of a key."""

    text: str = "1"
    values: tuple[Any, ...] = ()
    keys: tuple[str, ...] = ()


ALL = Condition()


def names(store: Store) -> list[str]:
    """Every table: the two views, those of users, the store's own."""
    with _reading(store) as connection:
        return [*dict.fromkeys([*JOINED, *tracked.names(connection), *schema.TABLES])]


def listed(store: Store) -> list[dict[str, Any]]:
    """The tables that people look at, with how many rows and columns they have."""
    with _reading(store) as connection:
        found = []
        for name in dict.fromkeys([*JOINED, *tracked.names(connection)]):
            place = _place(connection, store, name)
            ((rows,),) = connection.execute(f"SELECT COUNT(*) FROM {quote(place.relation)}").fetchall()
            found.append({"table": name, "rows": rows, "columns": len(place.columns), "in_sql": place.relation})
        return found


def read(
    store: Store,
    name: str,
    condition: Condition = ALL,
    first: int | None = None,
    last: int | None = None,
    keys: Sequence[str] | None = None,
) -> Frame:
    """The rows for which a condition holds, in the order of writing: all, or the first or the last so many."""
    with _reading(store) as connection:
        place = _place(connection, store, name)
        chosen = _chosen(place, name, place.columns if keys is None else keys)
        where = _where(place, name, condition)
        given = tuple(cell(value).value for value in condition.values)
        source = f"FROM {quote(place.relation)} WHERE {where}"
        limit = ""
        try:
            if last is not None:
                ((count,),) = connection.execute(f"SELECT COUNT(*) {source}", given).fetchall()
                limit = f" LIMIT {max(0, last)} OFFSET {max(0, int(str(count)) - max(0, last))}"
            elif first is not None:
                limit = f" LIMIT {max(0, first)}"
            selected = ", ".join(map(quote, chosen.values())) or "NULL"
            order = f" ORDER BY {place.order}" if place.order else ""
            cells = _by_column(connection.execute(f"SELECT {selected} {source}{order}{limit}", given), len(chosen))
        except (apsw.SQLError, apsw.BindingsError) as error:
            raise BadInput(f"{name}: {error}") from error
    types = {key: place.types.get(key, "") for key in chosen}
    return Frame(types, {key: values(types[key], column) for key, column in zip(chosen, cells, strict=True)})


def _by_column(rows: apsw.Cursor, width: int) -> list[list[Any]]:
    """In pieces: a fifth faster than all rows first."""
    columns: list[list[Any]] = [[] for _ in range(width)]
    while piece := list(islice(rows, 2_000)):
        for column, part in zip(columns, zip(*piece, strict=True), strict=False):
            column.extend(part)
    return columns


def count(store: Store, name: str, condition: Condition = ALL) -> int:
    """How many rows there are for which a condition holds."""
    with _reading(store) as connection:
        place = _place(connection, store, name)
        where = _where(place, name, condition)
        given = tuple(cell(value).value for value in condition.values)
        ((rows,),) = connection.execute(f"SELECT COUNT(*) FROM {quote(place.relation)} WHERE {where}", given).fetchall()
    return int(str(rows))


def _where(place: Place, name: str, condition: Condition) -> str:
    where = condition.text
    for key, column in _chosen(place, name, condition.keys).items():
        where = where.replace(f"{{{key}}}", quote(column))
    return where


def _chosen(place: Place, name: str, keys: Iterable[str]) -> dict[str, str]:
    for key in keys:
        if key not in place.columns:
            raise BadInput(f'{name}: no column "{key}"{suggestion(key, place.columns)}', "abreast columns tells them")
    return {key: place.columns[key] for key in keys}


@contextlib.contextmanager
def _reading(store: Store) -> Iterator[apsw.Connection]:
    """One moment of the store, whatever is written meanwhile."""
    with sqlite.explained(store.journal):
        connection = store.reading()
        connection.execute("BEGIN")
        try:
            yield connection
        finally:
            connection.execute("ROLLBACK")


def _place(connection: apsw.Connection, store: Store, name: str) -> Place:
    table = tracked.find(connection, name)
    if table is not None and (name not in JOINED or not connection.execute("SELECT 1 FROM runs LIMIT 1").fetchall()):
        columns = {key: column for key, (column, _) in table.columns.items()}
        return Place(table.relation, columns, {key: kind for key, (_, kind) in table.columns.items()}, "seq")
    if name in JOINED or name in schema.TABLES:
        columns = {str(row[1]): str(row[1]) for row in connection.execute(f"PRAGMA table_xinfo({quote(name)})")}
        types = {key: kind for key, (_, kind) in table.columns.items()} if table is not None else {}
        return Place(name, columns, types, _ORDER.get(name, ""))
    known = [*JOINED, *tracked.names(connection)]
    raise BadInput(f'{store.path}: no table "{name}"{suggestion(name, known)}', f"it has {', '.join(known)}")


# -- deleting ------------------------------------------------------------------------------------------------------


def delete(store: Store, track_id: str) -> dict[str, int]:
    """Remove what was tracked under a name, with what is cached of it: how many rows of which table."""
    with store.change() as connection:
        removed = tracked.delete(connection, track_id)
    if removed:
        forget_missing(store)
    return removed


def forget_missing(store: Store) -> None:
    """Remove cached results whose rows were deleted."""
    store.close()
    folders = [store.path.resolve().parent / path for (path,) in store.rows("SELECT path FROM tracked_caches")]
    for folder in folders:
        if (folder / FILE).is_file():
            cache = Cache(folder)
            try:
                cached = cache.rows_of(store.path)
                cache.forget_rows(store.path, _missing(store, cached))
            finally:
                cache.close()


def _missing(store: Store, rows: Sequence[tuple[str, str]]) -> list[str]:
    found: list[str] = []
    with _reading(store) as connection:
        for name in {table for table, _ in rows}:
            table = tracked.find(connection, name)
            kept = (
                {row for (row,) in connection.execute(f"SELECT row_id FROM {quote(table.relation)}")}
                if table
                else set()
            )
            found += [row for other, row in rows if other == name and row not in kept]
    return found
