"""The tables and the views, in one place, for every engine.

The tables are narrow: what is large (prompt, answer, raw response) stands in `payloads`. People read the views
`predictions` and `metrics`, whose columns for parameters, tags, scores and returned values are generated from the
table `columns`; a new parameter never alters a table.

Every table has a `seq` that only grows, also when a row is replaced, so that a DuckDB file can follow by watermark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

from abreast.store import metrics
from abreast.store.dialect import Dialect, json_value, literal, quote
from abreast.store.user_tables.tracked_views import Tracked, deletable, joining

VERSION = 6
MOST_COLUMNS = 1_900  # generated ones: SQLite allows 2,000 in a result
MOST_RETURNED = 1_000  # of them keys of returned dicts; further ones stay in the JSON of their row
LONGEST_NAME = 200
MOST_LOGGED = 1_000  # names that were logged; what comes after them is refused
LABEL_VERSION = "label"  # of score rows that people gave; no scorer has it
_KINDS = ("score", "params", "tag", "data")  # of predictions; `metric` is of metrics

TABLES: dict[str, dict[str, str]] = {
    "runs": {
        "run_id": "BIGINT",
        "run": "TEXT",
        "experiment": "TEXT",
        "status": "TEXT",
        "reason": "TEXT",
        "debug": "BIGINT",
        "simulated": "BIGINT",
        "label": "TEXT",
        "fingerprint": "TEXT",
        "planned_trials": "BIGINT",
        "primary_score": "TEXT",
        "baseline": "TEXT",
        "seed": "BIGINT",
        "created_at": "DOUBLE",
        "finished_at": "DOUBLE",
        "spec": "TEXT",
        "provenance": "TEXT",
        "owner": "TEXT",
        "epoch": "BIGINT",
        "heartbeat_at": "DOUBLE",
    },
    "variants": {
        "run_id": "BIGINT",
        "variant": "BIGINT",
        "name": "TEXT",
        "target": "TEXT",
        "params": "TEXT",
        "digest": "TEXT",
        "occurrence": "BIGINT",
    },
    "cases": {
        "digest": "TEXT",
        "id": "TEXT",
        "input_digest": "TEXT",
        "input": "TEXT",
        "expected": "TEXT",
        "tags": "TEXT",
        "case_group": "TEXT",
    },
    "trials": {
        "run_id": "BIGINT",
        "position": "BIGINT",
        "case_digest": "TEXT",
        "variant": "BIGINT",
        "repeat": "BIGINT",
        "occurrence": "BIGINT",
        "status": "TEXT",
        "error_kind": "TEXT",
        "error_blame": "TEXT",
        "error": "TEXT",
        "model": "TEXT",
        "latency_s": "DOUBLE",
        "queue_s": "DOUBLE",
        "backoff_s": "DOUBLE",
        "service_s": "DOUBLE",
        "attempts": "BIGINT",
        "in_flight": "BIGINT",
        "input_tokens": "BIGINT",
        "output_tokens": "BIGINT",
        "cache_read_tokens": "BIGINT",
        "cache_write_tokens": "BIGINT",
        "cost_usd": "DOUBLE",
        "cost_basis": "TEXT",
        "reused_from": "TEXT",
        "started_at": "DOUBLE",
        "finished_at": "DOUBLE",
        "error_detail": "TEXT",
        "block": "BIGINT",
        "reasoning_tokens": "BIGINT",
    },
    "payloads": {
        "run_id": "BIGINT",
        "position": "BIGINT",
        "prompt": "TEXT",
        "answer": "TEXT",
        "value": "TEXT",
        "data": "TEXT",
        "raw_response": "TEXT",
    },
    "artifacts": {"run_id": "BIGINT", "position": "BIGINT", "name": "TEXT", "content": "TEXT"},
    "attempts": {
        "run_id": "BIGINT",
        "position": "BIGINT",
        "attempt": "BIGINT",
        "started_at": "DOUBLE",
        "service_s": "DOUBLE",
        "error_kind": "TEXT",
        "error_blame": "TEXT",
        "error": "TEXT",
        "waited_s": "DOUBLE",
        "cost_usd": "DOUBLE",
    },
    "scores": {
        "run_id": "BIGINT",
        "position": "BIGINT",
        "name": "TEXT",
        "value": "DOUBLE",
        "explanation": "TEXT",
        "version": "TEXT",
    },
    "old_scores": {
        "run_id": "BIGINT",
        "position": "BIGINT",
        "name": "TEXT",
        "value": "DOUBLE",
        "explanation": "TEXT",
        "version": "TEXT",
        "replaced_at": "DOUBLE",
    },
    "logged_metrics": {
        "run_id": "BIGINT",
        "variant": "BIGINT",
        "segment": "TEXT",
        "logged_at": "DOUBLE",
        "data": "TEXT",
    },
    "judgements": {
        "run_id": "BIGINT",
        "position": "BIGINT",
        "scorer": "TEXT",
        "item": "TEXT",
        "key": "TEXT",
        "status": "TEXT",
        "error_kind": "TEXT",
        "error": "TEXT",
        "prompt": "TEXT",
        "answer": "TEXT",
        "model": "TEXT",
        "input_tokens": "BIGINT",
        "output_tokens": "BIGINT",
        "cost_usd": "DOUBLE",
        "cost_basis": "TEXT",
        "started_at": "DOUBLE",
        "service_s": "DOUBLE",
        "reused_from": "TEXT",
    },
    "events": {"run_id": "BIGINT", "happened_at": "DOUBLE", "kind": "TEXT", "detail": "TEXT"},
    "columns": {"kind": "TEXT", "name": "TEXT", "type": "TEXT"},
    "deletions": {"run_id": "BIGINT", "deleted_at": "DOUBLE"},
    "tracked_tables": {"name": "TEXT", "relation": "TEXT", "changes": "BIGINT"},
    "tracked_columns": {"relation": "TEXT", "key": "TEXT", "name": "TEXT", "type": "TEXT"},
    "tracked_caches": {"path": "TEXT"},
}

UNIQUE: dict[str, str] = {
    "runs": "run",
    "variants": "run_id, variant",
    "cases": "digest",
    "trials": "run_id, position",
    "payloads": "run_id, position",
    "artifacts": "run_id, position, name",
    "judgements": "run_id, position, scorer, item, key",  # what was asked before stays, and what it cost
    "scores": "run_id, position, name",
    "columns": "kind, name",
    "tracked_tables": "name",
    "tracked_columns": "relation, key",
    "tracked_caches": "path",
}

# What belongs to one run and goes with it; cases are shared between runs.
OF_A_RUN = (
    *("variants", "trials", "payloads", "artifacts", "attempts", "scores", "old_scores", "judgements"),
    *("logged_metrics", "events"),
)

CORE_COLUMNS = [
    "run",
    "case_id",
    "variant",
    "repeat",
    "status",
    "error_kind",
    "error_blame",
    "error",
    "score",
    "answer",
    "expected",
    "model",
    "latency_s",
    "queue_s",
    "backoff_s",
    "service_s",
    "attempts",
    "in_flight",
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
    "cost_usd",
    "cost_basis",
    "reused_from",
    "simulated",
    "started_at",
    "finished_at",
    "prompt",
    "raw_response",
]
_CORE_TYPES = {
    **dict.fromkeys(CORE_COLUMNS, "TEXT"),
    **{name: kind for name, kind in TABLES["trials"].items() if name in CORE_COLUMNS and name != "variant"},
    "score": "DOUBLE",
    "simulated": "BIGINT",
}
# What a tracked call says of itself in the words of a trial, where its own columns do not say it.
_OF_A_CALL = {
    "run": "track_id",
    "status": "CASE WHEN {error} IS NULL THEN 'ok' ELSE 'error' END",
    "latency_s": "{function_time}",
    "service_s": "{function_time}",
    "reused_from": "{cache}",
}


class Column(NamedTuple):
    """A generated column: `kind` is where its values stand (params, tag, data, score, metric)."""

    kind: str
    name: str
    type: str


def create_tables() -> Iterable[str]:
    """The statements that make an empty SQLite store."""
    for table in TABLES:
        yield _create_table(table)
    yield "CREATE INDEX IF NOT EXISTS attempts_of_trial ON attempts(run_id, position)"
    yield "CREATE INDEX IF NOT EXISTS events_of_run ON events(run_id)"
    yield "CREATE INDEX IF NOT EXISTS variants_by_digest ON variants(digest)"
    yield _JUDGEMENTS_BY_KEY


_JUDGEMENTS_BY_KEY = "CREATE INDEX IF NOT EXISTS judgements_by_key ON judgements(key)"


def _create_table(table: str) -> str:
    body = ", ".join(f"{name} {kind}" for name, kind in TABLES[table].items() if name != "run_id" or table != "runs")
    key = "run_id" if table == "runs" else "seq"
    unique = f", UNIQUE({UNIQUE[table]})" if table in UNIQUE else ""
    return f"CREATE TABLE IF NOT EXISTS {table} ({key} INTEGER PRIMARY KEY AUTOINCREMENT, {body}{unique})"


def upgrades(version: int) -> Iterable[str]:
    """The statements that bring the tables of an older SQLite store up to date.

    Views are always created again, so a view that changes needs a new version and no statement here.
    """
    if version < 2:
        yield "ALTER TABLE trials ADD COLUMN error_detail TEXT"
    if version < 3:
        yield "ALTER TABLE trials ADD COLUMN block BIGINT"
        yield _create_table("logged_metrics")
    if version < 4:
        yield from map(_create_table, ("tracked_tables", "tracked_columns", "tracked_caches"))
    if version < 5:
        yield "ALTER TABLE trials ADD COLUMN reasoning_tokens BIGINT"
        yield "ALTER TABLE attempts ADD COLUMN cost_usd DOUBLE"
        yield from map(_create_table, ("artifacts", "judgements"))
        yield _JUDGEMENTS_BY_KEY


# A resume goes on counting the attempts of a trial where its earlier execution ended.
_COUNTED = {
    ("trials", "attempts"): "{} + COALESCE((SELECT attempts FROM trials WHERE run_id = ?1 AND position = ?2), 0)",
    ("attempts", "attempt"): "MAX({}, COALESCE((SELECT MAX(attempt) + 1 FROM attempts WHERE run_id = ?1 "
    "AND position = ?2), 0))",
}


@cache
def insert(table: str, mode: str = "INSERT") -> str:
    """`INSERT INTO trials (...) VALUES (?1, ...)`."""
    names = [name for name in TABLES[table] if name != "run_id" or table != "runs"]
    values = [_COUNTED.get((table, name), "{}").format(f"?{number}") for number, name in enumerate(names, 1)]
    return f"{mode} INTO {table} ({', '.join(names)}) VALUES ({', '.join(values)})"


def named(columns: Iterable[Column]) -> list[tuple[str, Column]]:
    """What the generated columns of `predictions` are called. What abreast itself knows is named first, so that no key
    of a returned dict can stand for a score; SQL does not tell `Model` from `model`, so the names do.

    >>> [name for name, _ in named([Column("params", "model", "text"), Column("data", "score", "real")])]
    ['params_model', 'result_score']
    """
    taken = set(CORE_COLUMNS)
    found: list[tuple[str, Column]] = []
    known = (column for column in columns if column.kind in _KINDS)
    for column in sorted(known, key=lambda column: (_KINDS.index(column.kind), column.name.swapcase())):
        name = column.name if column.kind == "data" else f"{column.kind}_{column.name}"
        if len(found) >= MOST_COLUMNS or len(name) > LONGEST_NAME or "\0" in name:
            continue  # it can be read from the JSON of its row
        if column.kind == "data" and (name.lower() in taken or not name.strip()):
            name = f"result_{name}"
        found.append((distinct(name, taken), column))
    return found


def named_metrics(columns: Iterable[Column]) -> list[tuple[str, Column]]:
    """What the columns of `metrics` are called that users logged and abreast does not know.

    >>> [name for name, _ in named_metrics([Column("metric", "Note", "text"), Column("metric", "note", "text")])]
    ['note', 'Note_2']
    """
    taken = set(metrics.COLUMNS)
    logged = [column for column in columns if column.kind == "metric" and column.name not in metrics.COLUMNS]
    return [(distinct(one.name, taken), one) for one in sorted(logged, key=lambda column: column.name.swapcase())]


def distinct(name: str, taken: set[str]) -> str:
    """The name, with a number where SQL could not tell it from one that is taken; taken is then this one too."""
    same, number = name, 1
    while name.lower() in taken:
        number += 1
        name = f"{same}_{number}"
    taken.add(name.lower())
    return name


def predictions_view(dialect: Dialect, columns: Iterable[Column], tracked: Sequence[Tracked] = ()) -> str:
    """A row per trial with plain columns. Failures of the variant's own score 0, so that a plain average is honest."""
    sources = {"params": "v.params", "tag": "c.tags", "data": "p.data"}
    fields = {
        "run": "r.run",
        "case_id": "c.id",
        "variant": "v.name",
        "repeat": "t.repeat",
        "score": "CASE WHEN t.status = 'ok' THEN s.value WHEN t.status = 'error' AND t.error_blame = 'variant' "
        "THEN 0.0 END",
        "answer": "p.answer",
        "expected": json_value(dialect, "c.expected", None, "text"),
        "simulated": "r.simulated",
        "prompt": "p.prompt",
        "raw_response": "p.raw_response",
    }
    for name in ("latency_s", "queue_s", "backoff_s", "service_s", "cost_usd"):  # what is reused is not paid again
        fields[name] = f"CASE WHEN t.reused_from IS NULL THEN t.{name} END"
    selected = [f"{fields.get(name, 't.' + name)} AS {name}" for name in CORE_COLUMNS]
    names = list(CORE_COLUMNS)
    scores: list[str] = []
    for name, column in named(columns):
        if column.kind != "score":
            value = json_value(dialect, sources[column.kind], column.name, column.type)
        elif dialect == "sqlite":  # not a join: SQLite allows 64 tables in one, and a score nobody asks for is free
            where = f"run_id = t.run_id AND position = t.position AND name = {literal(column.name)}"
            value = f"(SELECT value FROM scores WHERE {where})"
        else:  # one join for all: DuckDB plans two hundred subqueries for seconds
            value = f"w.s{len(scores)}"
            scores.append(f"MAX(CASE WHEN name = {literal(column.name)} THEN value END) AS s{len(scores)}")
        selected.append(f"{value} AS {quote(name)}")
        names.append(name)
    moment = "epoch(TRY_CAST({timestamp} AS TIMESTAMP))"
    if dialect == "sqlite":  # its own `subsec` ends with milliseconds
        moment = "(unixepoch(substr({timestamp}, 1, 19)) + CAST(substr({timestamp}, 20) AS REAL))"
    times = {"started_at": f"{moment} - COALESCE({{function_time}}, 0)", "finished_at": moment}
    more, joined = joining(dialect, tracked, names, _CORE_TYPES, _OF_A_CALL | times)
    selected += [f"NULL AS {quote(name)}" for name in more]
    wide = f"SELECT run_id, position, {', '.join(scores)} FROM scores GROUP BY run_id, position"
    return (
        f"CREATE VIEW predictions AS SELECT {', '.join(selected)} FROM trials t "
        "JOIN runs r ON r.run_id = t.run_id "
        "JOIN variants v ON v.run_id = t.run_id AND v.variant = t.variant "
        "JOIN cases c ON c.digest = t.case_digest "
        "LEFT JOIN payloads p ON p.run_id = t.run_id AND p.position = t.position "
        "LEFT JOIN scores s ON s.run_id = t.run_id AND s.position = t.position AND s.name = r.primary_score"
        + (f" LEFT JOIN ({wide}) w ON w.run_id = t.run_id AND w.position = t.position" if scores else "")
        + (f" UNION ALL {joined}" if joined else "")
    )


def create_views(
    dialect: Dialect, columns: Iterable[Column], tracked: Mapping[str, Sequence[Tracked]] = MappingProxyType({})
) -> Iterable[str]:
    """`tracked`: the columns of what users track under the names of the views."""
    columns = list(columns)
    generated = [(name, column.name, column.type) for name, column in named_metrics(columns)]
    yield "DROP VIEW IF EXISTS metrics"
    yield "DROP VIEW IF EXISTS predictions"
    yield predictions_view(dialect, columns, tracked.get("predictions", ()))
    tagged = any(column.kind == "tag" for column in columns)
    confident = any((column.kind, column.name) == ("data", "confidence") for column in columns)
    yield metrics.metrics_view(dialect, generated, tagged, confident, tracked.get("metrics", ()))
    for view, own in tracked.items() if dialect == "sqlite" else ():
        yield from deletable(view, own)


def type_of(value: object) -> str:
    """The column type of one value.

    >>> type_of(True), type_of(3), type_of(0.5), type_of("x"), type_of(None)
    ('boolean', 'integer', 'real', 'text', 'null')
    """
    if hasattr(value, "tolist"):  # of numpy
        value = value.tolist()
    if value is None:
        return "null"
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return "real"
    for kind, name in ((bool, "boolean"), (int, "integer"), (float, "real")):
        if isinstance(value, kind):
            return name
    return "text"


def widest(one: str, other: str) -> str:
    """The narrowest type that holds both.

    >>> widest("integer", "real"), widest("boolean", "text"), widest("null", "integer")
    ('real', 'text', 'integer')
    """
    if one == other or other == "null":
        return one
    if one == "null":
        return other
    return "real" if {one, other} == {"integer", "real"} else "text"
