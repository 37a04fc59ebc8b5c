"""Reading and changing any table of a store: the views, tracked tables, and internal tables."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

from abreast.errors import BadInput, suggestion
from abreast.store import schema
from abreast.store.address import is_url
from abreast.store.base import Connection, Database
from abreast.store.dialect import Dialect, placeholders, quote
from abreast.store.user_tables import tracked_rows
from abreast.store.user_tables.cells import cell, values
from abreast.store.user_tables.result_cache import FILE, Cache
from abreast.store.views import JOINED

MOST_PARAMETERS = 1_000  # most parameters in one statement
_ORDER = {"predictions": ("started_at",), "metrics": (), "runs": ("run_id",)}
_WRITTEN = ("seq",)  # the order of all other tables


class Frame(NamedTuple):
    """Columns by key, and their types where known."""

    types: dict[str, str]
    columns: dict[str, Sequence[Any]]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def rows(self) -> list[dict[str, Any]]:
        return [dict(zip(self.columns, row, strict=True)) for row in zip(*self.columns.values(), strict=True)]


class TableSource(NamedTuple):
    """A table or view in SQL: its name, the column and type of each key, and the order of rows."""

    relation: str
    columns: dict[str, str]
    types: dict[str, str]
    order: tuple[str, ...]


class Condition(NamedTuple):
    """A condition in SQL; {key} stands for the column of a key."""

    text: str = "1 = 1"
    values: tuple[Any, ...] = ()
    keys: tuple[str, ...] = ()
    number: str | None = None  # a key whose values must be numbers

    @property
    def parameters(self) -> tuple[Any, ...]:
        return tuple(cell(value).value for value in self.values)

    @classmethod
    def matching(cls, equal: Mapping[str, Any], sql: str = "", values: Sequence[Any] = ()) -> Condition:
        """Rows with these values that match a user's SQL. A list means any of its values, None means NULL."""
        parts, parameters = [f"({sql})"] if sql.strip() else [], list(values)
        for key, value in equal.items():
            several = isinstance(value, list | tuple | set | frozenset)
            test = f"IN ({placeholders(list(value)) or 'NULL'})" if several else "IS NOT DISTINCT FROM ?"
            parts.append(f"{{{key}}} {test}")
            parameters.extend(value if several else [value])
        return cls(" AND ".join(parts) or "1 = 1", tuple(parameters), tuple(equal))

    @classmethod
    def first_equals(cls, keys: Sequence[str], value: Any) -> Condition:
        """Rows in which the first of these columns that is not NULL has this value."""
        columns = ", ".join(f"{{{key}}}" for key in keys)
        return cls(f"COALESCE({columns}, NULL) = ?", (value,), tuple(keys))

    @classmethod
    def not_null(cls, key: str, only_numbers: bool = False) -> Condition:
        """Rows in which a column is not NULL, or is a number."""
        return cls(f"{{{key}}} IS NOT NULL", keys=(key,), number=key if only_numbers else None)


ALL = Condition()


def names(store: Database) -> list[str]:
    with store.snapshot() as connection:
        return [*dict.fromkeys([*JOINED, *tracked_rows.names(connection), *schema.TABLES])]


def table_summaries(store: Database) -> list[dict[str, Any]]:
    """Views and tracked tables with their numbers of rows and columns."""
    with store.snapshot() as connection:
        summaries = []
        for name in dict.fromkeys([*JOINED, *tracked_rows.names(connection)]):
            table = _table_source(connection, store, name)
            ((rows,),) = connection.execute(f"SELECT COUNT(*) FROM {quote(table.relation)}").fetchall()
            summaries.append({"table": name, "rows": rows, "columns": len(table.columns), "in_sql": table.relation})
        return summaries


def read(
    store: Database,
    name: str,
    condition: Condition = ALL,
    first: int | None = None,
    last: int | None = None,
    keys: Sequence[str] | None = None,
    by: tuple[str, Literal["ASC", "DESC"]] | None = None,
) -> Frame:
    """Read the rows that match a condition, in the order of writing or by a column: all, the first or the last ones."""
    with store.snapshot() as connection:
        table = _table_source(connection, store, name)
        columns = _columns_of(table, name, table.columns if keys is None else keys)
        where = _where(connection.dialect, table, name, condition)
        parameters = condition.parameters
        source = f"FROM {quote(table.relation)} WHERE {where}"
        limit = "" if first is None else f" LIMIT {max(0, first)}"
        order = _order_by(table.order, "ASC")
        if by is not None:
            order = _order_by([quote(column) for column in _columns_of(table, name, by[:1]).values()], by[1])
        selected = ", ".join(map(quote, columns.values())) or "NULL"
        with _explaining(connection, name):
            if last is not None and table.order:  # read backwards from the end, so that other rows are not scanned
                order, limit = _order_by(table.order, "DESC"), f" LIMIT {max(0, last)}"
            elif last is not None:
                ((count,),) = connection.execute(f"SELECT COUNT(*) {source}", parameters).fetchall()
                limit = f" LIMIT {max(0, last)} OFFSET {max(0, count - max(0, last))}"
            rows = connection.execute(f"SELECT {selected} {source}{order}{limit}", parameters)
            cells = _by_column(rows, len(columns))
            if last is not None and table.order:
                for column in cells:
                    column.reverse()
    types = {key: table.types.get(key, "") for key in columns}
    return Frame(types, {key: values(types[key], column) for key, column in zip(columns, cells, strict=True)})


@contextmanager
def _explaining(connection: Connection, name: str) -> Iterator[None]:
    """Raise errors of a user's condition as `BadInput`."""
    try:
        yield
    except connection.dialect.statement_errors as error:
        message = str(error).partition("\n")[0]  # without the query
        raise BadInput(f"{name}: {message}") from error


def _order_by(columns: Sequence[str], direction: Literal["ASC", "DESC"]) -> str:
    """Order by a column; a missing value is the smallest, in every engine."""
    nulls = "FIRST" if direction == "ASC" else "LAST"
    return f" ORDER BY {', '.join(f'{column} {direction} NULLS {nulls}' for column in columns)}" if columns else ""


def _by_column(rows: Iterator[Any], width: int) -> list[list[Any]]:
    """Transpose rows, in chunks: a fifth faster than all at once."""
    columns: list[list[Any]] = [[] for _ in range(width)]
    while chunk := list(islice(rows, 2_000)):
        for column, cells in zip(columns, zip(*chunk, strict=True), strict=False):
            column.extend(cells)
    return columns


def stream(store: Database, name: str, condition: Condition = ALL) -> tuple[list[str], Iterator[tuple[Any, ...]]]:
    """Return the column names and an iterator of rows, for tables that do not fit in memory."""
    with store.snapshot() as connection:
        table = _table_source(connection, store, name)
        where = _where(connection.dialect, table, name, condition)
    selected = ", ".join(map(quote, table.columns.values()))
    is_sorted = table.order == _WRITTEN or not connection.dialect.reads_in_order  # sorting a view takes memory
    order = _order_by(table.order, "ASC") if is_sorted else ""
    query = f"SELECT {selected} FROM {quote(table.relation)} WHERE {where}{order}"
    types = [table.types.get(key, "") for key in table.columns]

    def rows() -> Iterator[tuple[Any, ...]]:
        for chunk in store.chunks(query, condition.parameters):
            columns = zip(*chunk, strict=True)
            yield from zip(*(values(kind, cells) for kind, cells in zip(types, columns, strict=True)), strict=True)

    return list(table.columns), rows()


def count(store: Database, name: str, condition: Condition = ALL) -> int:
    with store.snapshot() as connection:
        table = _table_source(connection, store, name)
        where = _where(connection.dialect, table, name, condition)
        query = f"SELECT COUNT(*) FROM {quote(table.relation)} WHERE {where}"
        with _explaining(connection, name):
            ((rows,),) = connection.execute(query, condition.parameters).fetchall()
    return int(rows)


def _where(dialect: Dialect, table: TableSource, name: str, condition: Condition) -> str:
    where = condition.text
    for key, column in _columns_of(table, name, condition.keys).items():
        where = where.replace(f"{{{key}}}", quote(column))
        if key == condition.number:
            where += f" AND {dialect.is_number(quote(column))}"
    return where


def _columns_of(table: TableSource, name: str, keys: Iterable[str]) -> dict[str, str]:
    for key in keys:
        if key not in table.columns:
            raise BadInput(f'{name}: no column "{key}"{suggestion(key, table.columns)}', "see `abreast columns`")
    return {key: table.columns[key] for key in keys}


def _table_source(connection: Connection, store: Database, name: str) -> TableSource:
    table = tracked_rows.find(connection, name)
    if table is not None and (name not in JOINED or not connection.execute("SELECT 1 FROM runs LIMIT 1").fetchall()):
        columns = {key: column for key, (column, _) in table.columns.items()}
        return TableSource(table.relation, columns, {key: kind for key, (_, kind) in table.columns.items()}, _WRITTEN)
    if name in JOINED or name in schema.TABLES:
        columns = {column: column for (column,) in connection.execute(connection.dialect.column_names(name))}
        types = {key: kind for key, (_, kind) in table.columns.items()} if table is not None else {}
        return TableSource(name, columns, types, _ORDER.get(name, _WRITTEN))
    tables = list(dict.fromkeys([*JOINED, *tracked_rows.names(connection)]))
    raise BadInput(f'{store.address}: no table "{name}"{suggestion(name, tables)}', f"use one of {', '.join(tables)}")


def row_counts(store: Database, track_id: str) -> dict[str, int]:
    """Number of rows tracked under a name, by table."""
    with store.snapshot() as connection:
        counts = {}
        for table in tracked_rows.tables(connection):
            query = f"SELECT COUNT(*) FROM {quote(table.relation)} WHERE track_id = ?"
            ((rows,),) = connection.execute(query, (track_id,)).fetchall()
            counts[table.name] = rows
    return {name: rows for name, rows in counts.items() if rows}


def track_ids(store: Database) -> list[str]:
    with store.snapshot() as connection:
        queries = [f"SELECT track_id FROM {quote(table.relation)}" for table in tracked_rows.tables(connection)]
        rows = connection.execute(" UNION ".join(queries)).fetchall() if queries else []
    return sorted(str(row[0]) for row in rows if row[0] is not None)


def extent(store: Database, name: str, up_to: int | None = None) -> tuple[int, int]:
    """Number of rows of a tracked table, up to a row number if given, and the number of the last of them."""
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
    return count(store, name, Condition.matching(equal))


def set_values(store: Database, name: str, key: str, value: Any, equal: Mapping[str, Any]) -> int:
    """Set a column of a tracked table in the rows with these values. Returns their number."""
    if key in tracked_rows.OWN:
        raise BadInput(f"{key}: the values of this column cannot be changed")
    with store.change() as connection:
        table = tracked_rows.find(connection, name)
        if table is None:
            raise BadInput(f'{store.address}: no tracked table "{name}"', f"see `abreast ls {store.quoted_address}`")
        for other in equal:
            if other not in table.columns:
                raise BadInput(f'{name}: no column "{other}"{suggestion(other, table.columns)}')
        with _explaining(connection, name):
            same = {other: cell(item) for other, item in equal.items()}
            return tracked_rows.update(connection, name, key, cell(value), same)


def columns_mentioning(
    store: Database, texts: Collection[str], only: Collection[str] | None = None
) -> dict[str, list[str]]:
    """Find texts in tracked tables; return for each the columns that contain it, as TABLE.COLUMN."""
    mentions: dict[str, list[str]] = {text: [] for text in texts}
    if not texts:
        return mentions
    parameters = tuple(mentions)
    with store.snapshot() as connection:
        for table in tracked_rows.tables(connection):
            if only is not None and table.name not in only:
                continue
            for key, (column, kind) in table.columns.items():
                if kind == "text" and key not in tracked_rows.OWN:
                    query = f"SELECT DISTINCT {quote(column)} FROM {quote(table.relation)} WHERE {quote(column)} IN"
                    for start in range(0, len(parameters), MOST_PARAMETERS):
                        chunk = parameters[start : start + MOST_PARAMETERS]
                        for (text,) in connection.execute(f"{query} ({placeholders(chunk)})", chunk):
                            mentions[text].append(f"{table.name}.{key}")
    return mentions


# -- deleting ------------------------------------------------------------------------------------------------------


def delete(store: Database, track_id: str) -> dict[str, int]:
    """Delete the rows tracked under a name and their cached results. Returns the number of rows by table."""
    with store.change() as connection:
        removed = tracked_rows.delete(connection, track_id)
    if removed:
        forget_missing(store)
    return removed


def forget_missing(store: Database) -> None:
    store.close()
    base = Path() if is_url(store.address) else Path(store.address).resolve().parent
    for (path,) in store.rows("SELECT path FROM tracked_caches"):
        folder = base / path
        if (folder / FILE).is_file():
            cache = Cache.open(folder)
            try:
                cached = cache.rows_of(store.address)
                cache.forget_rows(store.address, _missing(store, cached))
            finally:
                cache.close()


def _missing(store: Database, rows: Sequence[tuple[str, str]]) -> list[str]:
    missing: list[str] = []
    with store.snapshot() as connection:
        for name in {table for table, _ in rows}:
            table = tracked_rows.find(connection, name)
            row_ids = (
                {row_id for (row_id,) in connection.execute(f"SELECT row_id FROM {quote(table.relation)}")}
                if table
                else set()
            )
            missing += [row_id for table_name, row_id in rows if table_name == name and row_id not in row_ids]
    return missing
