"""SQL that differs between engines; each engine implements it in the `dialect.py` of its folder."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from abreast.store.base import Connection

Mode = Literal["insert", "ignore", "replace"]  # what to do if a row with the same key exists


def quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def placeholders(values: Sequence[object]) -> str:
    """`?, ?, ?`"""
    return ", ".join("?" * len(values))


@dataclass(frozen=True, slots=True, kw_only=True)
class RowInsert:
    """An INSERT of one row. A row that replaces another gets a new row number."""

    table: str
    names: Sequence[str]
    mode: Mode
    key: Sequence[str]
    added: str | None = None  # a column whose value is added to that of the row that is replaced
    computed: Mapping[str, str] = field(default_factory=dict)  # expressions by column; {name} is a value of the row

    @property
    def into(self) -> str:
        return f"INTO {quote(self.table)} ({', '.join(map(quote, self.names))})"

    def values(self, mark: str) -> dict[str, str]:
        """The values by column, with numbered placeholders that begin with `mark`."""
        values = {name: f"{mark}{number}" for number, name in enumerate(self.names, 1)}
        return values | {name: expression.format(**values) for name, expression in self.computed.items()}


class ViewDialect(ABC):
    """SQL for the views. Types are named as in `schema.TABLES`."""

    reads_run_by_run = False  # whether `metrics` must compute each run in a separate subquery
    ordered_join = "JOIN"  # a join that is executed in the order written
    joins_scores = True  # whether one join is faster than a subquery per score
    most_columns = 1_900  # generated columns of a view, and columns of a tracked table: SQLite allows 2,000 in a result
    most_in_a_view = 1_950  # with those of a tracked table; the table itself has the others

    def identifier(self, name: str) -> str:
        """Return the name, or a unique shorter one if it exceeds the engine's limit."""
        return name

    def null(self, type_: str) -> str:
        """NULL in a column of this type."""
        return "NULL"

    @abstractmethod
    def json_value(self, source: str, key: str | None, kind: str) -> str:
        """The value of a key of a JSON object, or for None the whole value; `kind` as in the table `columns`."""

    @abstractmethod
    def json_text(self, source: str, key: str) -> str:
        """The value of a key as JSON."""

    @abstractmethod
    def json_quote(self, text: str) -> str:
        """A text as JSON."""

    @abstractmethod
    def unpivot_tags(self, source: str) -> str:
        """A subquery with one row per row and tag, and the tag in the column `segment`: `category=navigate`."""

    @abstractmethod
    def seconds(self, timestamp: str) -> str:
        """An ISO 8601 text as seconds since 1970, to the microsecond."""

    def join_texts(self, texts: str) -> str:
        """An aggregate: sorted texts, separated by commas."""
        return f"string_agg({texts}, ',' ORDER BY {texts})"

    def try_cast(self, value: str, type_: str) -> str:
        """A text as a number; NULL or 0 if it is not one."""
        return f"TRY_CAST({value} AS {type_})"

    def as_type(self, value: str, type_: str) -> str:
        """A user's value in a column of this type."""
        return self.try_cast(value, type_)

    def derived_metrics(
        self, steps: str, tagged: bool, numbers: Mapping[str, str], of_the_run: Mapping[str, str], nulls: str
    ) -> str:
        """A SELECT of the derived rows of `metrics`. `steps` is a WITH clause that ends with the table `measured`."""
        columns = [f"CAST(m.{name} AS BIGINT)" if kind == "integer" else f"m.{name}" for name, kind in numbers.items()]
        columns = ["r.run", "v.name", "m.segment" if tagged else "'all'", "'derived'", *columns, *of_the_run.values()]
        return (
            f"(SELECT {', '.join(columns)}{nulls} FROM ({steps} SELECT * FROM measured) m "
            "JOIN runs r ON r.run_id = m.run_id JOIN variants v ON v.run_id = m.run_id AND v.variant = m.variant)"
        )

    def first_metrics(self, width: int) -> list[str]:
        """A SELECT without rows to begin the UNION of `metrics` with, if the engine needs one."""
        return []

    def allow_deletes(self, view: str, relation: str) -> Iterable[str]:
        """Statements that let users delete rows of a tracked table through the view that includes them."""
        return ()


class Dialect(ViewDialect):
    """SQL for the tables and views. Statements have `?` for each parameter; an engine whose driver uses other
    placeholders translates them in its connection."""

    row_number: str  # the type of a key that grows with every row and is never reused
    relations: str  # a query for the names that are taken in the database
    reserved_columns: frozenset[str] = frozenset()  # in lower case
    statement_errors: tuple[type[Exception], ...] = ()  # raised for statements that do not match the tables
    reads_in_order = True  # whether the rows of a table are read in the order of writing unless sorted
    locks_row = ""  # added to a SELECT, so that other processes cannot change its rows before this transaction ends
    lock_columns = ""  # a statement: until this transaction ends, no other one adds columns
    lock_cases = ""  # a statement: until this transaction ends, no other one stores cases
    find_text = "strpos"  # a function: the index of the second text in the first one, or 0
    retypes_columns = False  # whether a column is altered when its values get a wider type

    def type_name(self, type_: str) -> str:
        """The engine's name for a type of `schema.TABLES`."""
        return type_

    def checked_columns(self, table: str) -> Iterable[str]:
        """Definitions of columns that the engine needs beyond those of `schema.TABLES`, derived from them."""
        return ()

    def user_column(self, name: str, kind: str) -> str:
        """The definition of a column of a tracked table; its kind may be widened later."""
        return quote(name)

    def as_kind(self, value: str, kind: str) -> str:
        """A value of a tracked table in a column of this kind, which may be wider."""
        return value

    def widen(self, relation: str, column: str, kind: str) -> Iterable[str]:
        """Statements that let a column of a tracked table hold values of a wider kind."""
        return ()

    def drop_views(self, connection: Connection, names: Iterable[str]) -> None:
        for name in names:
            connection.execute(f"DROP VIEW IF EXISTS {name}")

    def replace_views(self, connection: Connection, statements: Iterable[str]) -> None:
        """Recreate the views, now or as soon as no reader is in the way."""
        for statement in statements:
            connection.execute(statement)

    @abstractmethod
    def is_number(self, column: str) -> str:
        """The condition that the value of a column of any type is a number."""

    @abstractmethod
    def insert(self, row: RowInsert) -> str: ...

    @abstractmethod
    def byte_range(self, source: str, first: str = "1") -> str:
        """`?` bytes of a text, from byte number `first` on."""

    @abstractmethod
    def document_text(self, source: str) -> str:
        """A JSON document as text; NULL if it is not valid JSON."""

    @abstractmethod
    def column_names(self, relation: str) -> str:
        """A query for the column names of a table or view, in order."""

    def count_changes(self, relation: str) -> Iterable[str]:
        """Statements that make `tracked_tables.changes` count deletions and updates of rows of a tracked table."""
        return ()
