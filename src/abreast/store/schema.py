"""The tables, for every engine.

Large values (prompt, answer, raw response) are stored separately, in `payloads`. Users read the views `predictions` and
`metrics`, whose columns for parameters, tags, scores and returned values are generated from the table `columns`; a new
parameter never alters a table.

Every table has a `seq` that grows even when a row is replaced, so that a DuckDB file can be updated from a watermark.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from typing import NamedTuple

from abreast.errors import StoreError
from abreast.store.dialect import Dialect, Mode, RowInsert

VERSION = 7
MOST_RETURNED = 1_000  # columns for keys of returned dicts; further keys are only in the JSON of their row
LONGEST_NAME = 200
MOST_LOGGED = 1_000  # columns for logged names; further names are refused
LABEL_VERSION = "label"  # the version of scores given by people; no scorer has it


def _columns(definition: str) -> dict[str, str]:
    return dict(column.split() for column in definition.split(","))


TABLES: dict[str, dict[str, str]] = {
    "runs": _columns(
        "run_id BIGINT, run TEXT, experiment TEXT, status TEXT, reason TEXT, debug BIGINT, simulated BIGINT, "
        "label TEXT, fingerprint TEXT, planned_trials BIGINT, primary_score TEXT, baseline TEXT, seed BIGINT, "
        "created_at DOUBLE, finished_at DOUBLE, spec TEXT, provenance TEXT, owner TEXT, epoch BIGINT, "
        "heartbeat_at DOUBLE, in_flight BIGINT"
    ),
    "variants": _columns(
        "run_id BIGINT, variant BIGINT, name TEXT, target TEXT, params TEXT, digest TEXT, occurrence BIGINT"
    ),
    "cases": _columns("digest TEXT, id TEXT, input_digest TEXT, input TEXT, expected TEXT, tags TEXT, case_group TEXT"),
    "trials": _columns(
        "run_id BIGINT, position BIGINT, case_digest TEXT, variant BIGINT, repeat BIGINT, occurrence BIGINT, "
        "status TEXT, error_kind TEXT, error_blame TEXT, error TEXT, model TEXT, latency_s DOUBLE, "
        "queue_s DOUBLE, backoff_s DOUBLE, service_s DOUBLE, attempts BIGINT, in_flight BIGINT, "
        "input_tokens BIGINT, output_tokens BIGINT, cache_read_tokens BIGINT, cache_write_tokens BIGINT, "
        "cost_usd DOUBLE, cost_basis TEXT, reused_from TEXT, started_at DOUBLE, finished_at DOUBLE, "
        "error_detail TEXT, block BIGINT, reasoning_tokens BIGINT"
    ),
    "payloads": _columns(
        "run_id BIGINT, position BIGINT, prompt TEXT, answer TEXT, value TEXT, data TEXT, raw_response TEXT"
    ),
    "artifacts": _columns("run_id BIGINT, position BIGINT, name TEXT, content TEXT"),
    "attempts": _columns(
        "run_id BIGINT, position BIGINT, attempt BIGINT, started_at DOUBLE, service_s DOUBLE, error_kind TEXT, "
        "error_blame TEXT, error TEXT, waited_s DOUBLE, cost_usd DOUBLE"
    ),
    "scores": _columns("run_id BIGINT, position BIGINT, name TEXT, value DOUBLE, explanation TEXT, version TEXT"),
    "old_scores": _columns(
        "run_id BIGINT, position BIGINT, name TEXT, value DOUBLE, explanation TEXT, version TEXT, replaced_at DOUBLE"
    ),
    "logged_metrics": _columns("run_id BIGINT, variant BIGINT, segment TEXT, logged_at DOUBLE, data TEXT"),
    "judgements": _columns(
        "run_id BIGINT, position BIGINT, scorer TEXT, item TEXT, key TEXT, status TEXT, error_kind TEXT, "
        "error TEXT, prompt TEXT, answer TEXT, model TEXT, input_tokens BIGINT, output_tokens BIGINT, "
        "cost_usd DOUBLE, cost_basis TEXT, started_at DOUBLE, service_s DOUBLE, reused_from TEXT"
    ),
    "events": _columns("run_id BIGINT, happened_at DOUBLE, kind TEXT, detail TEXT"),
    "controls": _columns(
        "run_id BIGINT, requested_at DOUBLE, requested_by TEXT, action TEXT, value TEXT, applied_at DOUBLE, "
        "outcome TEXT"
    ),
    "columns": _columns("kind TEXT, name TEXT, type TEXT"),
    "deletions": _columns("run_id BIGINT, deleted_at DOUBLE"),
    "tracked_tables": _columns("name TEXT, relation TEXT, changes BIGINT"),
    "tracked_columns": _columns("relation TEXT, key TEXT, name TEXT, type TEXT"),
    "tracked_caches": _columns("path TEXT"),
}

UNIQUE: dict[str, str] = {
    "runs": "run",
    "variants": "run_id, variant",
    "cases": "digest",
    "trials": "run_id, position",
    "payloads": "run_id, position",
    "artifacts": "run_id, position, name",
    "judgements": "run_id, position, scorer, item, key",  # earlier questions and their cost stay
    "scores": "run_id, position, name",
    "columns": "kind, name",
    "tracked_tables": "name",
    "tracked_columns": "relation, key",
    "tracked_caches": "path",
}

# Tables whose rows belong to one run; cases are shared between runs.
OF_A_RUN = (
    *("variants", "trials", "payloads", "artifacts", "attempts", "scores", "old_scores", "judgements"),
    *("logged_metrics", "events", "controls"),
)

# The columns of `predictions` in every store.
CORE_TYPES = _columns(
    "run TEXT, case_id TEXT, variant TEXT, repeat BIGINT, status TEXT, error_kind TEXT, error_blame TEXT, error TEXT, "
    "score DOUBLE, answer TEXT, expected TEXT, model TEXT, latency_s DOUBLE, queue_s DOUBLE, backoff_s DOUBLE, "
    "service_s DOUBLE, attempts BIGINT, in_flight BIGINT, input_tokens BIGINT, output_tokens BIGINT, "
    "cache_read_tokens BIGINT, cache_write_tokens BIGINT, reasoning_tokens BIGINT, cost_usd DOUBLE, cost_basis TEXT, "
    "reused_from TEXT, simulated BIGINT, started_at DOUBLE, finished_at DOUBLE, prompt TEXT, raw_response TEXT"
)
CORE_COLUMNS = list(CORE_TYPES)


class Column(NamedTuple):
    """A generated column: `kind` says where its values are (params, tag, data, score, metric)."""

    kind: str
    name: str
    type: str


_JUDGEMENTS_BY_KEY = "CREATE INDEX IF NOT EXISTS judgements_by_key ON judgements(key)"
# For what changed in a run since its last row was read. The condition keeps other queries from using these indexes:
# SQLite reads the rows of a run in the order of the plan, through the unique index.
_BY_ROW_NUMBER = tuple(
    f"CREATE INDEX IF NOT EXISTS new_{table} ON {table}(run_id, seq) WHERE seq IS NOT NULL"
    for table in ("trials", "scores", "judgements", "events")
)


def create_tables(dialect: Dialect) -> Iterable[str]:
    for table in TABLES:
        yield _create_table(dialect, table)
    yield "CREATE INDEX IF NOT EXISTS attempts_of_trial ON attempts(run_id, position)"
    yield "CREATE INDEX IF NOT EXISTS variants_by_digest ON variants(digest)"
    yield _JUDGEMENTS_BY_KEY
    yield from _BY_ROW_NUMBER


def _create_table(dialect: Dialect, table: str) -> str:
    columns = {name: type_ for name, type_ in TABLES[table].items() if name != "run_id" or table != "runs"}
    body = ", ".join(
        [*(f"{name} {dialect.type_name(type_)}" for name, type_ in columns.items()), *dialect.checked_columns(table)]
    )
    key = "run_id" if table == "runs" else "seq"
    unique = f", UNIQUE({UNIQUE[table]})" if table in UNIQUE else ""
    return f"CREATE TABLE IF NOT EXISTS {table} ({key} {dialect.row_number}, {body}{unique})"


def upgrades(dialect: Dialect, version: int) -> Iterable[str]:
    """The statements that migrate the tables of an older store.

    Views are always recreated, so a changed view needs a new version but no statement here.
    """
    if version < 2:
        yield _add_column(dialect, "trials", "error_detail")
    if version < 3:
        yield _add_column(dialect, "trials", "block")
        yield _create_table(dialect, "logged_metrics")
    if version < 4:
        yield from (_create_table(dialect, table) for table in ("tracked_tables", "tracked_columns", "tracked_caches"))
    if version < 5:
        yield _add_column(dialect, "trials", "reasoning_tokens")
        yield _add_column(dialect, "attempts", "cost_usd")
        yield from (_create_table(dialect, table) for table in ("artifacts", "judgements"))
        yield _JUDGEMENTS_BY_KEY
    if version < 7:
        yield _add_column(dialect, "runs", "in_flight")
        yield _create_table(dialect, "controls")
        yield "DROP INDEX IF EXISTS events_of_run"
        yield from _BY_ROW_NUMBER


def _add_column(dialect: Dialect, table: str, column: str) -> str:
    return f"ALTER TABLE {table} ADD COLUMN {column} {dialect.type_name(TABLES[table][column])}"


# A resumed trial continues to count its attempts.
_ADDED = {"trials": "attempts"}
_COMPUTED = {
    "attempts": {
        "attempt": "(SELECT CASE WHEN MAX(attempt) >= {attempt} THEN MAX(attempt) + 1 ELSE {attempt} END "
        "FROM attempts WHERE run_id = {run_id} AND position = {position})"
    }
}


@cache
def insert(dialect: Dialect, table: str, mode: Mode = "insert", counts: bool = True) -> str:
    """An INSERT of one row; unless `counts`, attempt numbers are stored unchanged."""
    names = [name for name in TABLES[table] if name != "run_id" or table != "runs"]
    key = UNIQUE[table].split(", ") if table in UNIQUE else ()
    row = RowInsert(table=table, names=names, mode=mode, key=key)
    return dialect.insert(replace(row, added=_ADDED.get(table), computed=_COMPUTED.get(table, {})) if counts else row)


def refuse_newer(version: int, address: object) -> None:
    if version > VERSION:
        raise StoreError(
            f"{address}: made by a newer abreast (format {version}; this version reads up to {VERSION})",
            "update abreast, or name another store with --store",
        )


def unique_name(name: str, used: set[str]) -> str:
    """Return the name, with a number if it is in `used` (in lower case, as SQL compares names), and add it there."""
    stem, number = name, 1
    while name.lower() in used:
        number += 1
        name = f"{stem}_{number}"
    used.add(name.lower())
    return name


def is_column_name(name: str) -> bool:
    """Whether a generated column can have this name."""
    return bool(name.strip()) and "\0" not in name and len(name) <= LONGEST_NAME


def type_of(value: object) -> str:
    """The column type of a value.

    >>> type_of(True), type_of(3), type_of(0.5), type_of("x"), type_of(None)
    ('boolean', 'integer', 'real', 'text', 'null')
    """
    if hasattr(value, "tolist"):  # numpy
        value = value.tolist()
    if value is None:
        return "null"
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return "real"
    for kind, name in ((bool, "boolean"), (int, "integer"), (float, "real")):
        if isinstance(value, kind):
            return name
    return "text"


def widest(first: str, second: str) -> str:
    """The narrowest type that holds both.

    >>> widest("integer", "real"), widest("boolean", "text"), widest("null", "integer")
    ('real', 'text', 'integer')
    """
    if first == second or second == "null":
        return first
    if first == "null":
        return second
    return "real" if {first, second} == {"integer", "real"} else "text"
