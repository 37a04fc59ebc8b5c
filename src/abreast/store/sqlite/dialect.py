"""SQLite's SQL."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

import apsw

from abreast.store.dialect import Dialect, RowInsert, literal, quote

_INSERT = {"insert": "INSERT", "ignore": "INSERT OR IGNORE", "replace": "INSERT OR REPLACE"}


class SQLiteDialect(Dialect):
    """A column holds values of any type; a condition on a view is pushed through one GROUP BY only."""

    row_number = "INTEGER PRIMARY KEY AUTOINCREMENT"
    relations = "SELECT name FROM sqlite_master"
    reserved_columns = frozenset({"rowid", "oid", "_rowid_"})
    reads_run_by_run = True
    ordered_join = "CROSS JOIN"
    joins_scores = False  # SQLite allows 64 tables in a join, and skips subqueries of unused columns
    statement_errors = (apsw.SQLError, apsw.BindingsError)

    def insert(self, row: RowInsert) -> str:
        values = row.values("?")
        if row.added is not None:
            same = " AND ".join(f"{name} = {values[name]}" for name in row.key)
            values[row.added] += f" + COALESCE((SELECT {row.added} FROM {row.table} WHERE {same}), 0)"
        return f"{_INSERT[row.mode]} {row.into} VALUES ({', '.join(values.values())})"

    def first_bytes(self, source: str) -> str:  # its text functions stop at a NUL
        return f"SUBSTR(CAST({source} AS BLOB), 1, ?)"

    def document_text(self, source: str) -> str:
        return f"json_extract(CASE WHEN json_valid({source}, 2) THEN {source} END, '$')"

    def is_number(self, column: str) -> str:
        return f"typeof({column}) IN ('integer', 'real')"

    def column_names(self, relation: str) -> str:
        return f"SELECT name FROM pragma_table_xinfo({literal(relation)})"

    def json_value(self, source: str, key: str | None, kind: str) -> str:
        path = "$" if key is None else "$." + json.dumps(key, ensure_ascii=False)
        return f"json_extract({source}, {literal(path)})"

    def json_text(self, source: str, key: str) -> str:
        return f"{source} -> '$.{key}'"

    def json_quote(self, text: str) -> str:
        return f"json_quote({text})"

    def unpivot_tags(self, source: str) -> str:
        return f"(SELECT o.*, j.key || '=' || j.value AS segment FROM {source} o CROSS JOIN json_each(o.tags) j)"

    def seconds(self, timestamp: str) -> str:  # `subsec` stops at milliseconds
        return f"(unixepoch(substr({timestamp}, 1, 19)) + CAST(substr({timestamp}, 20) AS REAL))"

    def join_texts(self, texts: str) -> str:
        return f"group_concat({texts})"

    def try_cast(self, value: str, type_: str) -> str:
        return f"CAST({value} AS {type_})"

    def as_type(self, value: str, type_: str) -> str:
        return value

    def derived_metrics(
        self, steps: str, tagged: bool, numbers: Mapping[str, str], of_the_run: Mapping[str, str], nulls: str
    ) -> str:
        """The numbers of a run are packed as JSON, because a subquery in FROM cannot refer to the run."""
        segment = "segment" if tagged else literal("all")
        packed = f"SELECT json_group_object({segment}, json_array(variant, {', '.join(numbers)}))"
        columns = ["r.run AS run", "v.name AS variant", "CAST(j.key AS TEXT) AS segment", "'derived' AS source"]
        columns += [f"json_extract(j.value, '$[{index}]') AS {name}" for index, name in enumerate(numbers, 1)]
        columns += [f"{value} AS {name}" for name, value in of_the_run.items()]
        rows = (
            f"FROM runs r CROSS JOIN json_each(({steps} {packed} FROM measured)) j "
            "CROSS JOIN variants v ON v.run_id = r.run_id AND v.variant = json_extract(j.value, '$[0]')"
        )
        if not tagged:
            columns[2] = "'all' AS segment"
            return f"SELECT {', '.join(columns)}{nulls} {rows}"
        # DISTINCT only keeps SQLite from flattening this subquery, so that it can skip it (see `first_metrics`).
        return f"SELECT *{nulls} FROM (SELECT DISTINCT {', '.join(columns)} {rows}) WHERE segment <> 'all'"

    def first_metrics(self, width: int) -> list[str]:
        """The first part of a UNION determines its collations. With those of plain columns SQLite sees that
        `segment = 'all'` and `segment <> 'all'` exclude each other, and skips the part that is not needed."""
        nulls = ", ".join(["NULL"] * (width - 3))
        return [f"SELECT r.run, v.name, v.name, {nulls} FROM runs r JOIN variants v ON v.run_id = r.run_id WHERE 0"]

    def allow_deletes(self, view: str, relation: str) -> Iterable[str]:
        refusal = literal("cannot delete single rows of a run; use `abreast delete RUN`")
        yield (
            f"CREATE TRIGGER {quote(f'{view} delete')} INSTEAD OF DELETE ON {view} BEGIN "
            f"SELECT RAISE(ABORT, {refusal}) WHERE OLD.row_id IS NULL; "
            f"DELETE FROM {quote(relation)} WHERE row_id = OLD.row_id; END"
        )

    def count_changes(self, relation: str) -> Iterable[str]:
        for event in ("DELETE", "UPDATE"):
            yield (
                f"CREATE TRIGGER {quote(f'{relation} {event.lower()}')} AFTER {event} ON {quote(relation)} BEGIN "
                f"UPDATE tracked_tables SET changes = changes + 1 WHERE relation = {literal(relation)}; END"
            )


SQLITE = SQLiteDialect()
