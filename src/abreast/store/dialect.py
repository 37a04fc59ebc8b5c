"""How SQL is spelled: what all engines share, and what each one answers in the `dialect.py` of its folder."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

Mode = Literal["insert", "ignore", "replace"]  # what happens if a row with the same key exists


def quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def placeholders(values: Sequence[object]) -> str:
    """`?, ?, ?`"""
    return ", ".join("?" * len(values))


class ViewDialect(ABC):
    """What the views are made of. Types are named as in `schema.TABLES`."""

    reads_run_by_run = False  # whether `metrics` must compute each run in a subquery of its own
    joins_scores = True  # whether one join is better than a subquery for each score

    @abstractmethod
    def json_value(self, source: str, key: str | None, kind: str) -> str:
        """The value of a key of a JSON object, or with None the value itself; `kind` as in the table `columns`."""

    @abstractmethod
    def json_text(self, source: str, key: str) -> str:
        """The value of a key as JSON."""

    @abstractmethod
    def json_quote(self, text: str) -> str:
        """A text as JSON."""

    @abstractmethod
    def unpivot_tags(self, source: str) -> str:
        """A subquery with each row as often as it has tags, and the column `segment`: `category=navigate`."""

    @abstractmethod
    def seconds(self, timestamp: str) -> str:
        """Seconds since 1970 of an ISO 8601 text, to the microsecond."""

    def join_texts(self, texts: str) -> str:
        """An aggregate: texts with commas between them, in their order."""
        return f"string_agg({texts}, ',' ORDER BY {texts})"

    def try_cast(self, value: str, type_: str) -> str:
        """A number of a text; unless it is one, NULL or 0."""
        return f"TRY_CAST({value} AS {type_})"

    def as_type(self, value: str, type_: str) -> str:
        """A value of a user's in a column of this type."""
        return self.try_cast(value, type_)

    def derived_metrics(
        self, steps: str, tagged: bool, numbers: Mapping[str, str], of_the_run: Mapping[str, str], nulls: str
    ) -> str:
        """A SELECT of the derived rows of `metrics`; `steps` is a WITH clause whose last table is `measured`."""
        columns = [f"CAST(m.{name} AS BIGINT)" if kind == "integer" else f"m.{name}" for name, kind in numbers.items()]
        columns = ["r.run", "v.name", "m.segment" if tagged else "'all'", "'derived'", *columns, *of_the_run.values()]
        return (
            f"(SELECT {', '.join(columns)}{nulls} FROM ({steps} SELECT * FROM measured) m "
            "JOIN runs r ON r.run_id = m.run_id JOIN variants v ON v.run_id = m.run_id AND v.variant = m.variant)"
        )

    def first_metrics(self, width: int) -> list[str]:
        """A SELECT without rows that `metrics` begins with, if the engine needs one."""
        return []

    def allow_deletes(self, view: str, relation: str) -> Iterable[str]:
        """Statements that let people delete rows of a user's table through the view that it joins."""
        return ()


class Dialect(ViewDialect):
    """What the tables are made of, too. Statements have `?` for each parameter; an engine whose driver wants something
    else translates them in its connection."""

    row_number: str  # the type of a key that grows with every row, and is never used again
    relations: str  # a query for the names that a new table cannot have
    reserved_columns: frozenset[str] = frozenset()  # names in lower case that mean something else
    statement_errors: tuple[type[Exception], ...] = ()  # raised for a statement that does not fit the tables

    def type_name(self, type_: str) -> str:
        """The engine's name of a type in `schema.TABLES`."""
        return type_

    def user_column(self, name: str, kind: str) -> str:
        """The definition of a column for values of users; its kind may become wider later."""
        return quote(name)

    def widen(self, relation: str, column: str, kind: str) -> Iterable[str]:
        """Statements that let a column of users hold values of a wider kind."""
        return ()

    @abstractmethod
    def insert(self, table: str, names: Sequence[str], mode: Mode, unique: str, sums: Mapping[str, str]) -> str:
        """An INSERT of one row. A row that replaces another gets a new row number. `unique` are the columns of the key.
        `sums` are expressions for values; {value} in them is the value, {run_id} and {position} those of the row."""

    @abstractmethod
    def first_bytes(self, source: str) -> str:
        """The first so many (`?`) bytes of a text."""

    @abstractmethod
    def document_text(self, source: str) -> str:
        """The value of a JSON document as text; NULL if it is not valid JSON."""

    @abstractmethod
    def column_names(self, relation: str) -> str:
        """A query for the columns of a table or view, in their order."""

    def count_changes(self, relation: str) -> Iterable[str]:
        """Statements that count in `tracked_tables` how often rows of a user's table are deleted or changed."""
        return ()
