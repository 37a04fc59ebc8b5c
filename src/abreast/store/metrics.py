"""The view `metrics`: a row per run, variant and segment, derived from the trials, and the rows that users logged.

`score_mean`, `score_low` and `score_high` equal those of `mean_score` in `abreast.analyse`, over all scored trials.

Trials are aggregated by case, group, group size and segment. SQLite pushes a condition on an outer query through one
`GROUP BY` only, so there all steps are one subquery per run (`derived_metrics` of its dialect).
"""

from __future__ import annotations

from collections.abc import Sequence

from abreast.store.dialect import ViewDialect, quote

# The derived columns, and the types with which they may be logged.
NUMBERS = {
    "n_predictions": "integer",
    "n_successful": "integer",
    "n_failed": "integer",
    "accuracy": "real",
    "score_mean": "real",
    "score_low": "real",
    "score_high": "real",
    "avg_latency": "real",
    "p50_latency": "real",
    "p95_latency": "real",
    "error_rate": "real",
    "cost_usd": "real",
    "cost_per_correct": "real",
    "mean_confidence": "real",
    "failures": "text",
}
ROW_COLUMNS = ("run", "variant", "segment", "source")
RUN_COLUMNS = ("code_commit", "data_commit", "experiment_version")
COLUMNS = (*ROW_COLUMNS, *NUMBERS, *RUN_COLUMNS)

SQL_TYPES = {"integer": "BIGINT", "real": "DOUBLE", "text": "TEXT", "boolean": "BOOLEAN", "null": "TEXT"}
TYPES = dict.fromkeys((*ROW_COLUMNS, *RUN_COLUMNS), "TEXT") | {name: SQL_TYPES[kind] for name, kind in NUMBERS.items()}
LOOP_DEFAULTS = {"run": "track_id", "segment": "'all'", "source": "'logged'"}  # for tracked rows

Generated = Sequence[tuple[str, str, str]]  # name of a column, its key in the JSON, its type


def metrics_view(dialect: ViewDialect, generated: Generated, tagged: bool, confident: bool, joined: str) -> str:
    """Return the statement that creates the view.

    `tagged`: a case has tags; `confident`: an answer has a confidence; `generated`: the other columns that users
    logged; `joined`: a SELECT of the rows that users tracked under this name.
    """
    parts = dialect.first_metrics(len(COLUMNS) + len(generated))
    for segmented in [False, True] if tagged else [False]:
        steps = _steps(dialect, segmented, confident)
        nulls = "".join(f", {dialect.null(SQL_TYPES[type_])}" for _, _, type_ in generated)
        parts.append(dialect.derived_metrics(steps, segmented, NUMBERS, _run_values(dialect), nulls))
    parts.append(_logged(dialect, generated))
    if joined:
        parts.append(joined)
    names = ", ".join([*COLUMNS, *(quote(name) for name, _, _ in generated)])
    return f"CREATE VIEW metrics ({names}) AS {' UNION ALL '.join(parts)}"


_SCORE = (
    "CASE WHEN t.status = 'ok' THEN s.value WHEN t.status = 'error' AND t.error_blame = 'variant' THEN 0.0 END AS score"
)
_NEW = "t.reused_from IS NULL"  # reused answers add no latency and no cost
# The reason for a missing latency: the kind of error, or '' for a reused answer.
_KIND = (
    "CASE WHEN t.status = 'error' THEN COALESCE(t.error_kind, 'unknown') "
    "WHEN t.reused_from IS NOT NULL OR t.service_s IS NULL THEN '' END"
)
_SUMS = ("trials", "successful", "failed", "score", "scored", "latency", "timed", "cost_usd", "priced")

# The 0.975 quantile of t as a function of 1 / degrees of freedom (at least 1): exp of a polynomial fitted to
# the logarithm. The relative error is at most 1.4e-5.
_QUANTILE = (
    "1.959963984540054 * exp(per_degree * (1.21009 + per_degree * (0.708396 + per_degree * (0.16594 "
    "+ per_degree * (-0.315655 + per_degree * 0.100407)))))"
)

# Read in the order of row numbers instead of the index, so that each page is read once.
_IN_RUN = "t.seq IN (SELECT seq FROM trials WHERE run_id = r.run_id)"


def _steps(dialect: ViewDialect, tagged: bool, confident: bool) -> str:
    """`WITH ... measured AS (...)`: a row per variant (and run, unless the outer query has a run `r`) and segment.

    A unit is a case without a group, or all cases of a group. It is weighted by its number of cases, or by 1 if all
    groups weigh the same. Standard error and degrees of freedom equal `Units.standard_error` in `abreast.stats`. They
    need the mean c over all units first; Σ(m - c)² = Σm² - 2cΣm + c²n, so one row for all units of one size is enough.
    """
    per_run = dialect.reads_run_by_run
    trial = "variant" if per_run else "run_id, variant"
    key = f"{trial}, segment" if tagged else trial
    run = "" if per_run else "t.run_id, "
    runs = "" if per_run else "JOIN runs r ON r.run_id = t.run_id"
    case = "c.seq" if per_run else "c.digest"
    condition = _IN_RUN if per_run else "TRUE"
    sums = ", ".join(f"SUM({name}) AS {name}" for name in _SUMS)
    nulls = ", ".join(["NULL"] * (len(_SUMS) + 9))
    weighted = dialect.json_value("r.spec", "weight", "text")
    repeats = dialect.json_value("r.spec", "repeats", "integer")
    of_group = "total / NULLIF(cases, 0)"
    radicand = "centre * (1 - centre) / units + 0.960364705173531 / (units * units)"
    payloads, sure, number = "", dialect.null("TEXT"), dialect.null("DOUBLE")
    if confident:  # nothing else needs the payloads
        payloads = " LEFT JOIN payloads p ON p.run_id = t.run_id AND p.position = t.position"
        sure = dialect.json_text("p.data", "confidence")
        cast = dialect.try_cast("sure", "DOUBLE")
        is_number = "(sure LIKE '-%' OR SUBSTR(sure, 1, 1) BETWEEN '0' AND '9')"  # not true, "high", Infinity
        number = f"CASE WHEN {is_number} AND ABS({cast}) < 1e300 THEN {cast} END"
    return f"""WITH settings AS MATERIALIZED (
  SELECT {weighted} AS weighted, COALESCE({repeats}, 1) AS repeats{"" if per_run else ", r.run_id FROM runs r"}
), graded AS (
  SELECT {run}t.variant, {case} AS case_key, c.case_group, c.tags, t.status, {_SCORE},
    CASE WHEN {_NEW} AND t.status = 'ok' THEN t.service_s END AS latency,
    CASE WHEN {_NEW} THEN t.cost_usd END AS cost_usd
  FROM trials t {runs} JOIN cases c ON c.digest = t.case_digest
  LEFT JOIN scores s ON s.run_id = t.run_id AND s.position = t.position AND s.name = r.primary_score
  WHERE {condition}{" AND c.tags <> '{}'" if tagged else ""}
), by_case AS (
  SELECT {trial}, MIN(case_group) AS case_group, {"MIN(tags) AS tags, " if tagged else ""}COUNT(*) AS trials,
    COUNT(CASE WHEN status = 'ok' THEN 1 END) AS successful, COUNT(CASE WHEN status = 'error' THEN 1 END) AS failed,
    SUM(score) AS score, COUNT(score) AS scored, AVG(score) AS mean,
    MIN(CASE WHEN score IN (0.0, 1.0) THEN 1 WHEN score IS NOT NULL THEN 0 END) AS plain,
    SUM(latency) AS latency, COUNT(latency) AS timed, SUM(cost_usd) AS cost_usd,
    COUNT(CASE WHEN status = 'ok' THEN cost_usd END) AS priced
  FROM graded GROUP BY {trial}, case_key
), by_group AS (
  SELECT {key}, case_group, {sums},
    COUNT(mean) AS cases, SUM(mean) AS total, SUM(mean * mean) AS squares, MIN(mean) AS lowest, MAX(mean) AS highest,
    MIN(plain) AS plain
  FROM {dialect.unpivot_tags("by_case") if tagged else "by_case"} GROUP BY {key}, case_group
), by_size AS (
  SELECT {key}, CASE WHEN case_group IS NULL THEN 1 ELSE NULLIF(cases, 0) END AS size, {sums},
    SUM(CASE WHEN case_group IS NULL THEN cases WHEN cases > 0 THEN 1 END) AS units,
    SUM(CASE WHEN case_group IS NULL THEN total ELSE {of_group} END) AS means,
    SUM(CASE WHEN case_group IS NULL THEN squares ELSE {of_group} * ({of_group}) END) AS squares,
    MIN(CASE WHEN case_group IS NULL THEN lowest ELSE {of_group} END) AS lowest,
    MAX(CASE WHEN case_group IS NULL THEN highest ELSE {of_group} END) AS highest,
    MIN(CASE WHEN case_group IS NULL THEN plain ELSE 0 END) AS plain
  FROM by_group GROUP BY {key}, size
), with_weight AS (
  SELECT *, CASE weighted WHEN 'group' THEN 1.0 ELSE 1.0 * size END AS weight
  FROM by_size {"CROSS JOIN settings" if per_run else "JOIN settings USING (run_id)"}
), centred AS (
  SELECT *, SUM(weight * units) OVER per_segment AS total_weight,
    SUM(weight * means) OVER per_segment / NULLIF(SUM(weight * units) OVER per_segment, 0) AS centre
  FROM with_weight WINDOW per_segment AS (PARTITION BY {key})
), with_leverage AS (
  SELECT *, weight * weight / (NULLIF(total_weight, 0) * NULLIF(total_weight - weight, 0)) AS leverage FROM centred
), outcomes AS (
  SELECT {run}t.variant, {"c.tags, " if tagged else ""}{_KIND} AS kind, t.service_s AS latency, {sure} AS sure
  FROM trials t{" JOIN cases c ON c.digest = t.case_digest" if tagged else ""}{payloads}
  WHERE {condition} AND t.status IN ('ok', 'error')
), ranked AS (
  SELECT {key}, kind, latency, {number} AS confidence,
    CUME_DIST() OVER (PARTITION BY {key}, kind ORDER BY latency) AS share
  FROM {dialect.unpivot_tags("outcomes") if tagged else "outcomes"}
), combined AS (
  SELECT {key}, {", ".join(_SUMS)}, units, lowest, highest, centre,
    CASE WHEN repeats = 1 THEN plain ELSE 0 END AS plain,
    leverage * (squares - 2 * centre * means + centre * centre * units) AS variance,
    units * weight * weight / NULLIF(total_weight * total_weight, 0) AS squared_shares,
    units * leverage AS leverages, units * leverage * leverage AS squared_leverages,
    NULL AS p50, NULL AS p95, NULL AS failure, NULL AS confidence, NULL AS confident
  FROM with_leverage UNION ALL
  SELECT {key}, {nulls}, MIN(CASE WHEN kind IS NULL AND share >= 0.5 THEN latency END),
    MIN(CASE WHEN kind IS NULL AND share >= 0.95 THEN latency END),
    CASE WHEN kind <> '' THEN {dialect.json_quote("kind")} || ':' || COUNT(*) END,
    SUM(confidence), COUNT(confidence)
  FROM ranked{"" if confident else " WHERE share >= 0.5 OR kind IS NOT NULL"} GROUP BY {key}, kind
), summed AS (
  SELECT {key}, {sums}, NULLIF(SUM(units), 0) AS units, MIN(lowest) AS lowest, MAX(highest) AS highest,
    MIN(plain) AS plain, MAX(centre) AS centre, SUM(variance) AS variance,
    SUM(squared_shares) + SUM(leverages) * SUM(leverages) - SUM(squared_leverages) AS per_degree,
    MAX(p50) AS p50, MAX(p95) AS p95,
    '{{' || {dialect.join_texts("failure")} || '}}' AS failures,
    SUM(confidence) AS confidence, SUM(confident) AS confident
  FROM combined GROUP BY {key}
), spread AS (
  SELECT *, CASE WHEN centre IS NULL THEN NULL WHEN plain = 1 THEN 'wilson' WHEN units < 2 THEN 'unknown'
    WHEN highest - lowest < 1e-9 THEN 'wilson' ELSE 't' END AS method
  FROM summed
), widths AS (
  SELECT *, (centre + 1.920729410347062 / units) / (1 + 3.841458820694124 / units) AS middle,
    CASE WHEN {radicand} >= 0 THEN 1.959963984540054 * sqrt({radicand}) / (1 + 3.841458820694124 / units) END
      AS wilson_half,
    CASE WHEN method = 't' AND variance > 0 THEN sqrt(variance) * {_QUANTILE} ELSE 0.0 END AS half
  FROM spread
), measured AS (
  SELECT {key}, trials AS n_predictions, successful AS n_successful, failed AS n_failed,
    CASE WHEN successful > 0 THEN score / NULLIF(scored, 0) END AS accuracy, centre AS score_mean,
    CASE method WHEN 'unknown' THEN 0.0 WHEN 't' THEN CASE WHEN centre > half THEN centre - half ELSE 0.0 END
      WHEN 'wilson' THEN middle - wilson_half END AS score_low,
    CASE method WHEN 'unknown' THEN 1.0 WHEN 't' THEN CASE WHEN centre + half < 1 THEN centre + half ELSE 1.0 END
      WHEN 'wilson' THEN middle + wilson_half END AS score_high,
    latency / NULLIF(timed, 0) AS avg_latency, p50 AS p50_latency, p95 AS p95_latency,
    1.0 * failed / NULLIF(successful + failed, 0) AS error_rate, cost_usd,
    CASE WHEN priced = successful THEN cost_usd / NULLIF(score, 0) END AS cost_per_correct,
    confidence / NULLIF(confident, 0) AS mean_confidence, failures
  FROM widths
)"""


def _run_values(dialect: ViewDialect) -> dict[str, str]:
    commit, tracked, content = (
        dialect.json_value("r.provenance", key, "text") for key in ("commit", "data_commit", "data_hash")
    )
    values = [commit, f"COALESCE({tracked}, {content})", "r.label"]  # the version of DVC if there is one
    return dict(zip(RUN_COLUMNS, values, strict=True))


def _logged(dialect: ViewDialect, generated: Generated) -> str:
    values = [dialect.json_value("l.data", name, kind) for name, kind in NUMBERS.items()]
    for name, value in _run_values(dialect).items():
        values.append(f"COALESCE({dialect.json_value('l.data', name, 'text')}, {value})")
    values += [dialect.json_value("l.data", key, kind) for _, key, kind in generated]
    return (
        f"SELECT r.run, v.name, l.segment, 'logged', {', '.join(values)} FROM logged_metrics l "
        "JOIN runs r ON r.run_id = l.run_id LEFT JOIN variants v ON v.run_id = l.run_id AND v.variant = l.variant"
    )
