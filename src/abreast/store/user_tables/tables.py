"""Any table of a store, for people: the views, what users track, and the store's own."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Literal, NamedTuple

from abreast.errors import BadInput, suggestion
from abreast.store import schema
from abreast.store.base import Connection, Database
from abreast.store.dialect import placeholders, quote
from abreast.store.user_tables import tracked_rows
from abreast.store.user_tables.cells import cell, values
from abreast.store.user_tables.result_cache import FILE, Cache
from abreast.store.views import JOINED

MOST_PARAMETERS = 1_000  # of one statement
_ORDER = {"predictions": ("started_at",)}  # of the views; tables are in the order of writing


class Frame(NamedTuple):
    """Columns by their keys, and the type of their values where it is known."""

    types: dict[str, str]
    columns: dict[str, Sequence[Any]]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def rows(self) -> list[dict[str, Any]]:
        return [dict(zip(self.columns, row, strict=True)) for row in zip(*self.columns.values(), strict=True)]


class TableSource(NamedTuple):
    """Where the rows of a table are: what it is called in SQL, which column holds which key, and their types."""

    relation: str
    columns: dict[str, str]
    types: dict[str, str]
    order: tuple[str, ...]


class Condition(NamedTuple):
    """In SQL; {key} in it is the column of a key."""

    text: str = "1 = 1"
    values: tuple[Any, ...] = ()
    keys: tuple[str, ...] = ()

    @classmethod
    def matching(cls, equal: Mapping[str, Any], sql: str = "", values: Sequence[Any] = ()) -> Condition:
        """Columns have these values, and what a user wrote in SQL holds. A list stands for any of its values, None for
        NULL."""
        parts, parameters = [f"({sql})"] if sql.strip() else [], list(values)
        for key, value in equal.items():
            several = isinstance(value, list | tuple | set | frozenset)
            test = f"IN ({', '.join('?' * len(value))})" if several else "IS NOT DISTINCT FROM ?"
            parts.append(f"{{{key}}} {test}")
            parameters.extend(value if several else [value])
        return cls(" AND ".join(parts) or "1", tuple(parameters), tuple(equal))

    @classmethod
    def first_known(cls, keys: Sequence[str], value: Any) -> Condition:
        """The first of these columns that is not NULL has a value."""
        columns = ", ".join(f"{{{key}}}" for key in keys)
        return cls(f"COALESCE({columns}, NULL) = ?", (value,), tuple(keys))

    @classmethod
    def known(cls, key: str, only_numbers: bool = False) -> Condition:
        """A column is not NULL, or is a number."""
        return cls(
            f"typeof({{{key}}}) IN ('integer', 'real')" if only_numbers else f"{{{key}}} IS NOT NULL", (), (key,)
        )


ALL = Condition()


def names(store: Database) -> list[str]:
    """Every table: the two views, those of users, the store's own."""
    with store.snapshot() as connection:
        return [*dict.fromkeys([*JOINED, *tracked_rows.names(connection), *schema.TABLES])]


def table_summaries(store: Database) -> list[dict[str, Any]]:
    """The tables that people look at, with how many rows and columns they have."""
    with store.snapshot() as connection:
        found = []
        for name in dict.fromkeys([*JOINED, *tracked_rows.names(connection)]):
            place = _table_source(connection, store, name)
            ((rows,),) = connection.execute(f"SELECT COUNT(*) FROM {quote(place.relation)}").fetchall()
            found.append({"table": name, "rows": rows, "columns": len(place.columns), "in_sql": place.relation})
        return found


def read(
    store: Database,
    name: str,
    condition: Condition = ALL,
    first: int | None = None,
    last: int | None = None,
    keys: Sequence[str] | None = None,
    by: tuple[str, Literal["ASC", "DESC"]] | None = None,
) -> Frame:
    """The rows for which a condition holds, in the order of writing or by a column: all, or the first or the last so
    many.
    """
    with store.snapshot() as connection:
        place = _table_source(connection, store, name)
        chosen = _chosen(place, name, place.columns if keys is None else keys)
        where = _where(place, name, condition)
        given = tuple(cell(value).value for value in condition.values)
        source = f"FROM {quote(place.relation)} WHERE {where}"
        limit = "" if first is None else f" LIMIT {max(0, first)}"
        order = f" ORDER BY {', '.join(place.order)}" if place.order else ""
        if by is not None:
            order = f" ORDER BY {quote(_chosen(place, name, by[:1])[by[0]])} {by[1]}"
        selected = ", ".join(map(quote, chosen.values())) or "NULL"
        try:
            if last is not None and place.order:  # from the end, and turned round: the others are not looked at
                turned = ", ".join(f"{part} DESC" for part in place.order)
                order, limit = f" ORDER BY {turned}", f" LIMIT {max(0, last)}"
            elif last is not None:
                ((count,),) = connection.execute(f"SELECT COUNT(*) {source}", given).fetchall()
                limit = f" LIMIT {max(0, last)} OFFSET {max(0, count - max(0, last))}"
            cells = _by_column(connection.execute(f"SELECT {selected} {source}{order}{limit}", given), len(chosen))
            if last is not None and place.order:
                for column in cells:
                    column.reverse()
        except connection.dialect.statement_errors as error:
            raise BadInput(f"{name}: {error}") from error
    types = {key: place.types.get(key, "") for key in chosen}
    return Frame(types, {key: values(types[key], column) for key, column in zip(chosen, cells, strict=True)})


def _by_column(rows: Iterator[Any], width: int) -> list[list[Any]]:
    """In pieces: a fifth faster than all rows first."""
    columns: list[list[Any]] = [[] for _ in range(width)]
    while piece := list(islice(rows, 2_000)):
        for column, part in zip(columns, zip(*piece, strict=True), strict=False):
            column.extend(part)
    return columns


def stream(
    store: Database, name: str, condition: Condition = ALL, size: int = 10_000
) -> tuple[list[str], Iterator[tuple[Any, ...]]]:
    """The columns, and the rows one by one, for what is too large to hold."""
    with store.snapshot() as connection:
        place = _table_source(connection, store, name)
        where = _where(place, name, condition)
    selected = ", ".join(map(quote, place.columns.values()))
    order = " ORDER BY seq" if place.order == ("seq",) else ""
    asked = f"SELECT {selected} FROM {quote(place.relation)} WHERE {where}{order}"
    types = [place.types.get(key, "") for key in place.columns]

    def rows() -> Iterator[tuple[Any, ...]]:
        for chunk in store.chunks(asked, tuple(cell(value).value for value in condition.values), size):
            columns = zip(*chunk, strict=True)
            yield from zip(*(values(kind, cells) for kind, cells in zip(types, columns, strict=True)), strict=True)

    return list(place.columns), rows()


def count(store: Database, name: str, condition: Condition = ALL) -> int:
    """How many rows there are for which a condition holds."""
    with store.snapshot() as connection:
        place = _table_source(connection, store, name)
        where = _where(place, name, condition)
        given = tuple(cell(value).value for value in condition.values)
        ((rows,),) = connection.execute(f"SELECT COUNT(*) FROM {quote(place.relation)} WHERE {where}", given).fetchall()
    return int(rows)


def _where(place: TableSource, name: str, condition: Condition) -> str:
    where = condition.text
    for key, column in _chosen(place, name, condition.keys).items():
        where = where.replace(f"{{{key}}}", quote(column))
    return where


def _chosen(place: TableSource, name: str, keys: Iterable[str]) -> dict[str, str]:
    for key in keys:
        if key not in place.columns:
            raise BadInput(f'{name}: no column "{key}"{suggestion(key, place.columns)}', "abreast columns tells them")
    return {key: place.columns[key] for key in keys}


def _table_source(connection: Connection, store: Database, name: str) -> TableSource:
    table = tracked_rows.find(connection, name)
    if table is not None and (name not in JOINED or not connection.execute("SELECT 1 FROM runs LIMIT 1").fetchall()):
        columns = {key: column for key, (column, _) in table.columns.items()}
        return TableSource(table.relation, columns, {key: kind for key, (_, kind) in table.columns.items()}, ("seq",))
    if name in JOINED or name in schema.TABLES:
        columns = {column: column for (column,) in connection.execute(connection.dialect.column_names(name))}
        types = {key: kind for key, (_, kind) in table.columns.items()} if table is not None else {}
        return TableSource(name, columns, types, _ORDER.get(name, ()))
    known = list(dict.fromkeys([*JOINED, *tracked_rows.names(connection)]))
    raise BadInput(f'{store.path}: no table "{name}"{suggestion(name, known)}', f"it has {', '.join(known)}")


def row_counts(store: Database, track_id: str) -> dict[str, int]:
    """How many rows of which table were tracked under a name."""
    with store.snapshot() as connection:
        found = {}
        for table in tracked_rows.tables(connection):
            asked = f"SELECT COUNT(*) FROM {quote(table.relation)} WHERE track_id = ?"
            ((rows,),) = connection.execute(asked, (track_id,)).fetchall()
            found[table.name] = rows
    return {name: rows for name, rows in found.items() if rows}


def track_ids(store: Database) -> list[str]:
    """Every name under which something was tracked."""
    with store.snapshot() as connection:
        asked = [f"SELECT track_id FROM {quote(table.relation)}" for table in tracked_rows.tables(connection)]
        rows = connection.execute(" UNION ".join(asked)).fetchall() if asked else []
    return [str(row[0]) for row in rows if row[0] is not None]


def extent(store: Database, name: str, up_to: int | None = None) -> tuple[int, int]:
    """How many rows a table of users has, or had when its last one had this number; and the number of the last."""
    with store.snapshot() as connection:
        table = tracked_rows.find(connection, name)
        if table is None:
            return 0, 0
        query = f"SELECT COUNT(*), COALESCE(MAX(seq), 0) FROM {quote(table.relation)}"
        if up_to is None:
            ((rows, last),) = connection.execute(query).fetchall()
        else:
            ((rows, last),) = connection.execute(f"{query} WHERE seq <= ?", (up_to,)).fetchall()
    return rows, last


# -- changing --------------------------------------------------------------------------------------------------------


def rows_with(store: Database, name: str, equal: Mapping[str, Any]) -> int:
    """How many rows of a table have these values in their columns."""
    text = " AND ".join(f"{{{key}}} IS NOT DISTINCT FROM ?" for key in equal) or "1 = 1"
    return count(store, name, Condition(text, tuple(equal.values()), tuple(equal)))


def set_values(store: Database, name: str, key: str, value: Any, equal: Mapping[str, Any]) -> int:
    """Write a value into a column of the rows of a user's table whose columns have these values; how many rows."""
    if key in tracked_rows.OWN:
        raise BadInput(f"{key} is a column of every table, and keeps its values")
    with store.change() as connection:
        table = tracked_rows.find(connection, name)
        if table is None:
            raise BadInput(f'{store.path}: nothing was tracked in a table "{name}"', f"abreast ls {store.path}")
        for other in equal:
            if other not in table.columns:
                raise BadInput(f'{name}: no column "{other}"{suggestion(other, table.columns)}')
        return tracked_rows.update(
            connection, name, key, cell(value), {other: cell(item) for other, item in equal.items()}
        )


def columns_mentioning(
    store: Database, texts: Collection[str], only: Collection[str] | None = None
) -> dict[str, list[str]]:
    """Which columns of which tables of users hold one of these texts, as TABLE.COLUMN."""
    found: dict[str, list[str]] = {text: [] for text in texts}
    if not texts:
        return found
    wanted = tuple(found)
    with store.snapshot() as connection:
        for table in tracked_rows.tables(connection):
            if only is not None and table.name not in only:
                continue
            for key, (column, kind) in table.columns.items():
                if kind == "text" and key not in tracked_rows.OWN:
                    query = f"SELECT DISTINCT {quote(column)} FROM {quote(table.relation)} WHERE {quote(column)} IN"
                    for at in range(0, len(wanted), MOST_PARAMETERS):
                        chunk = wanted[at : at + MOST_PARAMETERS]
                        for (text,) in connection.execute(f"{query} ({placeholders(chunk)})", chunk):
                            found[text].append(f"{table.name}.{key}")
    return found


# -- deleting ------------------------------------------------------------------------------------------------------


def delete(store: Database, track_id: str) -> dict[str, int]:
    """Remove what was tracked under a name, with what is cached of it: how many rows of which table."""
    with store.change() as connection:
        removed = tracked_rows.delete(connection, track_id)
    if removed:
        forget_missing(store)
    return removed


def forget_missing(store: Database) -> None:
    """Remove cached results whose rows were deleted."""
    store.close()
    folders = [store.path.resolve().parent / path for (path,) in store.rows("SELECT path FROM tracked_caches")]
    for folder in folders:
        if (folder / FILE).is_file():
            cache = Cache.open(folder)
            try:
                cached = cache.rows_of(store.path)
                cache.forget_rows(store.path, _missing(store, cached))
            finally:
                cache.close()


def _missing(store: Database, rows: Sequence[tuple[str, str]]) -> list[str]:
    found: list[str] = []
    with store.snapshot() as connection:
        for name in {table for table, _ in rows}:
            table = tracked_rows.find(connection, name)
            kept = (
                {row for (row,) in connection.execute(f"SELECT row_id FROM {quote(table.relation)}")}
                if table
                else set()
            )
            found += [row for other, row in rows if other == name and row not in kept]
    return found
