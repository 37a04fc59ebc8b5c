"""The views `predictions` and `metrics`, and the registry of their generated columns.

Rows that users track under the name of a view are included in it, so that experiments and loops share one table.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from abreast.store import metrics, schema
from abreast.store.dialect import ViewDialect, literal, placeholders, quote
from abreast.store.schema import CORE_COLUMNS, CORE_TYPES, LONGEST_NAME, Column, unique_name

if TYPE_CHECKING:
    from abreast.store.base import Connection

JOINED = ("predictions", "metrics")
_KINDS = ("score", "params", "tag", "data")  # of `predictions`; columns of `metrics` have the kind `metric`
# Values for columns of `predictions` that a tracked call does not have.
_CALL_DEFAULTS = {
    "run": "track_id",
    "status": "CASE WHEN {error} IS NULL THEN 'ok' ELSE 'error' END",
    "latency_s": "{function_time}",
    "service_s": "{function_time}",
    "reused_from": "{cache}",
}


def prediction_columns(dialect: ViewDialect, columns: Iterable[Column]) -> list[tuple[str, Column]]:
    """Name the generated columns of `predictions`. Returned values come last: none can take the name of a score.
    Names that differ only in case get a number, because SQL ignores case.

    >>> from abreast.store.sqlite.dialect import SQLITE
    >>> columns = [Column("params", "model", "text"), Column("data", "score", "real")]
    >>> [name for name, _ in prediction_columns(SQLITE, columns)]
    ['params_model', 'result_score']
    """
    used = set(CORE_COLUMNS)
    columns_by_name: list[tuple[str, Column]] = []
    generated = (column for column in columns if column.kind in _KINDS)
    for column in sorted(generated, key=lambda column: (_KINDS.index(column.kind), column.name.swapcase())):
        name = column.name if column.kind == "data" else f"{column.kind}_{column.name}"
        if len(columns_by_name) >= dialect.most_columns or len(name) > LONGEST_NAME or "\0" in name:
            continue  # it is in the JSON of its row
        if column.kind == "data" and (name.lower() in used or not name.strip()):
            name = f"result_{name}"
        columns_by_name.append((unique_name(dialect.identifier(name), used), column))
    return columns_by_name


def metric_columns(dialect: ViewDialect, columns: Iterable[Column]) -> list[tuple[str, Column]]:
    """Name the columns of `metrics` that only users log.

    >>> from abreast.store.sqlite.dialect import SQLITE
    >>> columns = [Column("metric", "Note", "text"), Column("metric", "note", "text")]
    >>> [name for name, _ in metric_columns(SQLITE, columns)]
    ['note', 'Note_2']
    """
    used = set(metrics.COLUMNS)
    logged = [column for column in columns if column.kind == "metric" and column.name not in metrics.COLUMNS]
    return [
        (unique_name(dialect.identifier(column.name), used), column)
        for column in sorted(logged, key=lambda column: column.name.swapcase())
    ]


class TrackedView(NamedTuple):
    """A tracked table whose rows are included in a view, and its columns with their types."""

    relation: str
    columns: dict[str, str]

    def shared_type(self, name: str, type_: str) -> str:
        """Return the type of a generated column that also contains the tracked column of the same name."""
        types = {column.lower(): _generated_type(kind) for column, kind in self.columns.items()}
        return schema.widest(type_, types.get(name.lower(), "null"))

    def extra_columns(self, dialect: ViewDialect, names: Collection[str]) -> dict[str, str]:
        """Return the columns that a view with these names lacks, as far as there is room, and their types."""
        existing = {name.lower() for name in names}
        extra = [(name, kind) for name, kind in self.columns.items() if name.lower() not in existing]
        return dict(extra[: max(0, dialect.most_in_a_view - len(names))])

    def select(self, dialect: ViewDialect, types: Mapping[str, str | None], defaults: Mapping[str, str]) -> str:
        """Return the SELECT of the tracked rows, with the view's columns in SQL types; None leaves values unchanged.

        `defaults` are values for columns that the tracked table lacks; {name} in them is one of its columns.
        """
        own = {name.lower(): quote(name) for name in self.columns}
        selected = []
        for name, type_ in types.items():
            default = re.sub(r"\{(\w+)\}", lambda match: own.get(match[1], "NULL"), defaults.get(name, "NULL"))
            value = own.get(name.lower(), default)
            selected.append(f"{dialect.as_type(value, type_) if type_ else value} AS {quote(name)}")
        return f"SELECT {', '.join(selected)} FROM {quote(self.relation)}"


def _generated_type(cell_type: str) -> str:
    """The type of a generated column for values of a tracked table."""
    return cell_type if cell_type in metrics.SQL_TYPES else "text"


def predictions_view(dialect: ViewDialect, columns: Iterable[Column], tracked: TrackedView | None) -> str:
    """Return the view with a row per trial. Failures of the variant score 0, so that a plain average is fair."""
    sources = {"params": "v.params", "tag": "c.tags", "data": "p.data"}
    fields = {
        "run": "r.run",
        "case_id": "c.id",
        "variant": "v.name",
        "repeat": "t.repeat",
        "score": "CASE WHEN t.status = 'ok' THEN s.value WHEN t.status = 'error' AND t.error_blame = 'variant' "
        "THEN 0.0 END",
        "answer": "p.answer",
        "expected": dialect.json_value("c.expected", None, "text"),
        "simulated": "r.simulated",
        "prompt": "p.prompt",
        "raw_response": "p.raw_response",
    }
    for name in ("latency_s", "queue_s", "backoff_s", "service_s", "cost_usd"):  # reused answers cost nothing
        fields[name] = f"CASE WHEN t.reused_from IS NULL THEN t.{name} END"
    selected = [f"{fields.get(name, 't.' + name)} AS {name}" for name in CORE_COLUMNS]
    types: dict[str, str | None] = {**CORE_TYPES}
    scores: list[str] = []
    for name, column in prediction_columns(dialect, columns):
        type_ = column.type
        if column.kind != "score":
            type_ = type_ if tracked is None else tracked.shared_type(name, type_)
            value = dialect.json_value(sources[column.kind], column.name, type_)
        elif not dialect.joins_scores:
            where = f"run_id = t.run_id AND position = t.position AND name = {literal(column.name)}"
            value = f"(SELECT value FROM scores WHERE {where})"
        else:
            value = f"w.s{len(scores)}"
            scores.append(f"MAX(CASE WHEN name = {literal(column.name)} THEN value END) AS s{len(scores)}")
        selected.append(f"{value} AS {quote(name)}")
        types[name] = metrics.SQL_TYPES[type_]
    moment = dialect.seconds("{timestamp}")
    duration = dialect.as_type("{function_time}", "DOUBLE")
    times = {"started_at": f"{moment} - COALESCE({duration}, 0)", "finished_at": moment}
    joined = ""
    if tracked is not None:
        extra = dict.fromkeys(tracked.extra_columns(dialect, types))
        selected += [f"NULL AS {quote(name)}" for name in extra]
        joined = f" UNION ALL {tracked.select(dialect, types | extra, _CALL_DEFAULTS | times)}"
    wide = f"SELECT run_id, position, {', '.join(scores)} FROM scores GROUP BY run_id, position"
    return (
        f"CREATE VIEW predictions AS SELECT {', '.join(selected)} FROM trials t "
        "JOIN runs r ON r.run_id = t.run_id "
        "JOIN variants v ON v.run_id = t.run_id AND v.variant = t.variant "
        "JOIN cases c ON c.digest = t.case_digest "
        "LEFT JOIN payloads p ON p.run_id = t.run_id AND p.position = t.position "
        "LEFT JOIN scores s ON s.run_id = t.run_id AND s.position = t.position AND s.name = r.primary_score"
        + (f" LEFT JOIN ({wide}) w ON w.run_id = t.run_id AND w.position = t.position" if scores else "")
        + joined
    )


def create_views(dialect: ViewDialect, columns: Iterable[Column], tracked: Mapping[str, TrackedView]) -> Iterable[str]:
    """Yield statements that recreate the views. `tracked` are the tracked tables by view."""
    columns = list(columns)
    generated = [(name, column.name, column.type) for name, column in metric_columns(dialect, columns)]
    yield "DROP VIEW IF EXISTS metrics"
    yield "DROP VIEW IF EXISTS predictions"
    yield predictions_view(dialect, columns, tracked.get("predictions"))
    tagged = any(column.kind == "tag" for column in columns)
    confident = any((column.kind, column.name) == ("data", "confidence") for column in columns)
    joined = ""
    if (table := tracked.get("metrics")) is not None:
        generated = [(name, key, table.shared_type(name, type_)) for name, key, type_ in generated]
        extra = table.extra_columns(dialect, [*metrics.COLUMNS, *(name for name, _, _ in generated)])
        generated += [(name, name, _generated_type(kind)) for name, kind in extra.items()]
        types = {name: metrics.TYPES[name] for name in metrics.COLUMNS}
        types |= {name: metrics.SQL_TYPES[type_] for name, _, type_ in generated}
        joined = table.select(dialect, types, metrics.LOOP_DEFAULTS)
    yield metrics.metrics_view(dialect, generated, tagged, confident, joined)
    for view, table in tracked.items():
        yield from dialect.allow_deletes(view, table.relation)


def make_views(connection: Connection) -> None:
    """Recreate the views, inside a transaction, after columns changed."""
    connection.dialect.replace_views(connection, create_views(connection.dialect, *view_columns(connection)))


def drop_views(connection: Connection) -> None:
    """Drop the views, which may block changes to a table that they include. `make_views` must follow."""
    connection.dialect.drop_views(connection, JOINED)


def view_columns(connection: Connection) -> tuple[list[Column], dict[str, TrackedView]]:
    """Return what the views are generated from: the column registry, and the tracked tables by view."""
    columns = [Column(*row) for row in connection.execute("SELECT kind, name, type FROM columns")]
    tracked: dict[str, TrackedView] = {}
    for view, relation, name, type_ in connection.execute(
        "SELECT t.name, t.relation, c.name, c.type FROM tracked_tables t "
        "JOIN tracked_columns c ON c.relation = t.relation "
        f"WHERE t.name IN ({placeholders(JOINED)}) ORDER BY c.seq",
        JOINED,
    ):
        tracked.setdefault(view, TrackedView(relation, {})).columns[name] = type_
    return columns, tracked


def add_columns(connection: Connection, columns: Iterable[Column]) -> None:
    """Add columns to the registry or widen them, inside a transaction, and recreate the views if that changed it."""
    columns = list(columns)
    if _new_columns(connection, columns):
        if connection.dialect.lock_columns:
            connection.execute(connection.dialect.lock_columns)
        insert = schema.insert(connection.dialect, "columns", "replace")
        connection.executemany(insert, _new_columns(connection, columns))
        make_views(connection)


def _new_columns(connection: Connection, columns: Iterable[Column]) -> list[Column]:
    """Return the columns that the registry lacks or has with a narrower type, with the type to store."""
    types = {(kind, name): type_ for kind, name, type_ in connection.execute("SELECT kind, name, type FROM columns")}
    returned = sum(kind == "data" for kind, _ in types)
    changed: dict[tuple[str, str], Column] = {}
    for column in columns:
        key = (column.kind, column.name)
        old = types.get(key)
        if old is None and column.kind == "data":
            returned += 1
            if returned > schema.MOST_RETURNED:
                continue
        wide = column.type if old is None else schema.widest(old, column.type)
        if wide != old:
            types[key] = wide
            changed[key] = Column(column.kind, column.name, wide)
    return list(changed.values())
