"""The tables and the views, in one place, for every engine.

The tables are narrow: what is large (prompt, answer, raw response) stands in `payloads`. People read the views
`predictions` and `metrics`, whose columns for parameters, tags, scores and returned values are generated from the
table `columns`; a new parameter never alters a table.

Every table has a `seq` that only grows, also when a row is replaced, so that a DuckDB file can follow by watermark.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Literal, NamedTuple

VERSION = 3
MOST_COLUMNS = 1_900  # generated ones: SQLite allows 2,000 in a result
MOST_RETURNED = 1_000  # of them keys of returned dicts; further ones stay in the JSON of their row
LONGEST_NAME = 200
_KINDS = ("score", "params", "tag", "data")

Dialect = Literal["sqlite", "duckdb"]

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
    "events": {"run_id": "BIGINT", "happened_at": "DOUBLE", "kind": "TEXT", "detail": "TEXT"},
    "columns": {"kind": "TEXT", "name": "TEXT", "type": "TEXT"},
    "deletions": {"run_id": "BIGINT", "deleted_at": "DOUBLE"},
}

UNIQUE: dict[str, str] = {
    "runs": "run",
    "variants": "run_id, variant",
    "cases": "digest",
    "trials": "run_id, position",
    "payloads": "run_id, position",
    "scores": "run_id, position, name",
    "columns": "kind, name",
}

# What belongs to one run and goes with it; cases are shared between runs.
OF_A_RUN = ("variants", "trials", "payloads", "attempts", "scores", "old_scores", "events")

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
    "cost_usd",
    "cost_basis",
    "reused_from",
    "simulated",
    "started_at",
    "finished_at",
    "prompt",
    "raw_response",
]


class Column(NamedTuple):
    """A generated column: `kind` is where its values stand (params, tag, data, score)."""

    kind: str
    name: str
    type: str


def create_tables() -> Iterable[str]:
    """The statements that make an empty SQLite store."""
    for table, columns in TABLES.items():
        body = ", ".join(f"{name} {kind}" for name, kind in columns.items() if name != "run_id" or table != "runs")
        key = "run_id" if table == "runs" else "seq"
        unique = f", UNIQUE({UNIQUE[table]})" if table in UNIQUE else ""
        yield f"CREATE TABLE IF NOT EXISTS {table} ({key} INTEGER PRIMARY KEY AUTOINCREMENT, {body}{unique})"
    yield "CREATE INDEX IF NOT EXISTS attempts_of_trial ON attempts(run_id, position)"
    yield "CREATE INDEX IF NOT EXISTS events_of_run ON events(run_id)"
    yield "CREATE INDEX IF NOT EXISTS variants_by_digest ON variants(digest)"


def upgrades(version: int) -> Iterable[str]:
    """The statements that bring the tables of an older SQLite store up to date; the views are made anew after them."""
    if version < 2:
        yield "ALTER TABLE trials ADD COLUMN error_detail TEXT"
    if version < 3:
        yield "ALTER TABLE trials ADD COLUMN block BIGINT"


# A resume goes on counting the attempts of a trial where its earlier execution ended.
_COUNTED = {
    ("trials", "attempts"): "{} + COALESCE((SELECT attempts FROM trials WHERE run_id = ?1 AND position = ?2), 0)",
    ("attempts", "attempt"): "MAX({}, COALESCE((SELECT MAX(attempt) + 1 FROM attempts WHERE run_id = ?1 "
    "AND position = ?2), 0))",
}


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
    for column in sorted(columns, key=lambda column: (_KINDS.index(column.kind), column.name.swapcase())):
        name = column.name if column.kind == "data" else f"{column.kind}_{column.name}"
        if len(found) >= MOST_COLUMNS or len(name) > LONGEST_NAME or "\0" in name:
            continue  # it can be read from the JSON of its row
        if column.kind == "data" and (name.lower() in taken or not name.strip()):
            name = f"result_{name}"
        same, number = name, 1
        while name.lower() in taken:
            number += 1
            name = f"{same}_{number}"
        taken.add(name.lower())
        found.append((name, column))
    return found


def quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _json_value(dialect: Dialect, source: str, key: str | None, kind: str) -> str:
    if dialect == "sqlite":
        path = "$" if key is None else "$." + json.dumps(key, ensure_ascii=False)
        return f"json_extract({source}, {literal(path)})"
    # A pointer, not a path: a path takes `*` for all keys, and no quotes.
    pointer = "$" if key is None else "/" + key.replace("~", "~0").replace("/", "~1")
    text = f"json_extract_string({source}, {literal(pointer)})"
    cast = {"integer": "BIGINT", "real": "DOUBLE", "boolean": "BOOLEAN"}.get(kind)
    return f"TRY_CAST({text} AS {cast})" if cast else text


def predictions_view(dialect: Dialect, columns: Iterable[Column]) -> str:
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
        "expected": _json_value(dialect, "c.expected", None, "text"),
        "simulated": "r.simulated",
        "prompt": "p.prompt",
        "raw_response": "p.raw_response",
    }
    for name in ("latency_s", "queue_s", "backoff_s", "service_s", "cost_usd"):  # what is reused is not paid again
        fields[name] = f"CASE WHEN t.reused_from IS NULL THEN t.{name} END"
    selected = [f"{fields.get(name, 't.' + name)} AS {name}" for name in CORE_COLUMNS]
    scores: list[str] = []
    for name, column in named(columns):
        if column.kind != "score":
            value = _json_value(dialect, sources[column.kind], column.name, column.type)
        elif dialect == "sqlite":  # not a join: SQLite allows 64 tables in one, and a score nobody asks for is free
            where = f"run_id = t.run_id AND position = t.position AND name = {literal(column.name)}"
            value = f"(SELECT value FROM scores WHERE {where})"
        else:  # one join for all: DuckDB plans two hundred subqueries for seconds
            value = f"w.s{len(scores)}"
            scores.append(f"MAX(CASE WHEN name = {literal(column.name)} THEN value END) AS s{len(scores)}")
        selected.append(f"{value} AS {quote(name)}")
    wide = f"SELECT run_id, position, {', '.join(scores)} FROM scores GROUP BY run_id, position"
    return (
        f"CREATE VIEW predictions AS SELECT {', '.join(selected)} FROM trials t "
        "JOIN runs r ON r.run_id = t.run_id "
        "JOIN variants v ON v.run_id = t.run_id AND v.variant = t.variant "
        "JOIN cases c ON c.digest = t.case_digest "
        "LEFT JOIN payloads p ON p.run_id = t.run_id AND p.position = t.position "
        "LEFT JOIN scores s ON s.run_id = t.run_id AND s.position = t.position AND s.name = r.primary_score"
        + (f" LEFT JOIN ({wide}) w ON w.run_id = t.run_id AND w.position = t.position" if scores else "")
    )


def metrics_view(dialect: Dialect) -> str:
    """A row per run and variant, always derived from the rows. Reused answers add no latency and no cost.

    `score_low` and `score_high` are the interval that reports show: Wilson where every score is 0 or 1, there is one
    repeat and no case has a group; else t over the means of cases, by groups where there are any.
    """
    latency = "CASE WHEN reused_from IS NULL AND status = 'ok' THEN service_s END"
    percentile = "MIN(CASE WHEN new_latency IS NOT NULL AND rank >= {p} * known THEN new_latency END)"
    commit, data = (_json_value(dialect, "provenance", key, "text") for key in ("commit", "data_hash"))
    return f"""
CREATE VIEW metrics AS
WITH timed AS (
  SELECT run, variant, status, score, reused_from, cost_usd, {latency} AS new_latency,
    COUNT({latency}) OVER (PARTITION BY run, variant) AS known,
    ROW_NUMBER() OVER (PARTITION BY run, variant ORDER BY ({latency}) IS NULL, {latency}) AS rank
  FROM predictions
), {_SPREAD}
SELECT t.run, t.variant, 'all' AS segment, 'derived' AS source,
  COUNT(*) AS n_predictions,
  SUM(CASE WHEN status = 'ok' THEN 1 ELSE 0 END) AS n_successful,
  SUM(CASE WHEN status = 'error' THEN 1 ELSE 0 END) AS n_failed,
  AVG(score) AS accuracy,
  MIN(b.centre) AS score_mean,
  MIN(b.low) AS score_low,
  MIN(b.high) AS score_high,
  AVG(new_latency) AS avg_latency,
  {percentile.format(p="0.5")} AS p50_latency,
  {percentile.format(p="0.95")} AS p95_latency,
  AVG(CASE status WHEN 'error' THEN 1.0 WHEN 'ok' THEN 0.0 END) AS error_rate,
  SUM(CASE WHEN reused_from IS NULL THEN cost_usd END) AS cost_usd,
  CASE WHEN COUNT(cost_usd) = SUM(CASE WHEN status = 'ok' THEN 1 ELSE 0 END)
    THEN SUM(cost_usd) / NULLIF(SUM(score), 0) END AS cost_per_correct,
  MIN(code_commit) AS code_commit,
  MIN(data_commit) AS data_commit,
  MIN(label) AS experiment_version
FROM timed t
JOIN (SELECT run, {commit} AS code_commit, {data} AS data_commit, label FROM runs) r ON r.run = t.run
LEFT JOIN bounds b ON b.run = t.run AND b.variant = t.variant
GROUP BY t.run, t.variant
"""


# From the scores of trials to the interval of their mean: trials, cases, groups, run and variant. The quantile of t is
# an expansion around the normal one (1.95996), right to four digits from 5 degrees of freedom on.
_SPREAD = """scored AS (
  SELECT r.run, v.name AS variant, t.case_digest, c.case_group, t.repeat,
    CASE WHEN t.status = 'ok' THEN s.value ELSE 0.0 END AS score
  FROM trials t JOIN runs r ON r.run_id = t.run_id
  JOIN variants v ON v.run_id = t.run_id AND v.variant = t.variant
  JOIN cases c ON c.digest = t.case_digest
  LEFT JOIN scores s ON s.run_id = t.run_id AND s.position = t.position AND s.name = r.primary_score
  WHERE (t.status = 'ok' AND s.value IS NOT NULL) OR (t.status = 'error' AND t.error_blame = 'variant')
), by_case AS (
  SELECT run, variant, case_digest, MIN(case_group) AS case_group, AVG(score) AS score, MAX(repeat) AS repeats,
    MIN(CASE WHEN score IN (0.0, 1.0) THEN 1 ELSE 0 END) AS plain
  FROM scored GROUP BY run, variant, case_digest
), centred AS (
  SELECT *, AVG(score) OVER (PARTITION BY run, variant) AS centre,
    COALESCE('g' || case_group, 'c' || case_digest) AS unit
  FROM by_case
), by_unit AS (
  SELECT run, variant, unit, MIN(centre) AS centre, SUM(score - centre) AS residual, COUNT(*) AS cases,
    MIN(plain) AS plain, MAX(repeats) AS repeats, COUNT(case_group) AS grouped
  FROM centred GROUP BY run, variant, unit
), summed AS (
  SELECT run, variant, MIN(centre) AS centre, CAST(COUNT(*) AS DOUBLE) AS units, COUNT(*) - 1.0 AS degrees,
    SUM(cases) AS cases, SUM(residual * residual) AS squares,
    MIN(plain) = 1 AND MAX(repeats) = 0 AND SUM(grouped) = 0 AS is_plain
  FROM by_unit GROUP BY run, variant
), spread AS (
  SELECT run, variant, centre, units,
    CASE WHEN is_plain THEN 'wilson' WHEN units < 2 THEN 'unknown' WHEN squares < 1e-18 THEN 'wilson' ELSE 't' END
      AS method,
    (centre + 1.920729410347062 / units) / (1 + 3.841458820694124 / units) AS middle,
    1.959963984540054 * sqrt(centre * (1 - centre) / units + 0.960364705173531 / (units * units))
      / (1 + 3.841458820694124 / units) AS wilson_half,
    CASE WHEN units > 1 THEN sqrt(units / degrees * squares) / cases * CASE degrees WHEN 1 THEN 12.706205
      WHEN 2 THEN 4.302653 WHEN 3 THEN 3.182446 WHEN 4 THEN 2.776445 ELSE 1.959963984540054 + 2.372271 / degrees
      + 2.822499 / (degrees * degrees) + 2.555850 / (degrees * degrees * degrees)
      + 1.589534 / (degrees * degrees * degrees * degrees) END END AS half
  FROM summed
), bounds AS (
  SELECT run, variant, centre,
    CASE method WHEN 'unknown' THEN 0.0 WHEN 't' THEN CASE WHEN centre > half THEN centre - half ELSE 0.0 END
      ELSE middle - wilson_half END AS low,
    CASE method WHEN 'unknown' THEN 1.0 WHEN 't' THEN CASE WHEN centre + half < 1 THEN centre + half ELSE 1.0 END
      ELSE middle + wilson_half END AS high
  FROM spread
)"""


def create_views(dialect: Dialect, columns: Iterable[Column]) -> Iterable[str]:
    yield "DROP VIEW IF EXISTS metrics"
    yield "DROP VIEW IF EXISTS predictions"
    yield predictions_view(dialect, columns)
    yield metrics_view(dialect)


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
