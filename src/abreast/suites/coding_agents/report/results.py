"""Result files: `NAME.json` (a contract, see docs/how-to/coding-agents.md), `NAME.csv`, `NAME.md`, charts.

They are derived from stored rows: all runs with an outcome, where failed ones have an error instead of metrics, and the
number of planned runs that were not executed.
"""

from __future__ import annotations

import io
import json
import platform
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from abreast import __version__
from abreast.analyse.run import Analysis
from abreast.report import charts
from abreast.report.formats import markdown
from abreast.report.formats.json_report import finite_or_none, moment
from abreast.report.formats.row_files import CsvFile
from abreast.report.results import ResultFile
from abreast.report.sections import plain
from abreast.report.words.verdict_sentence import not_run_line, verdict_lines
from abreast.suites.coding_agents import judge
from abreast.suites.coding_agents.config import PROMPTS, PULL_REQUESTS
from abreast.suites.coding_agents.report import pictures as report_pictures
from abreast.suites.coding_agents.report import sections
from abreast.suites.coding_agents.report.run_table import FORM, SIMILARITY, SUCCESS, TESTS, RunTable
from abreast.suites.coding_agents.settings import FORM as FORM_METRIC
from abreast.suites.coding_agents.settings import SIMILARITY as SIMILARITY_METRIC
from abreast.targets.workspace.git.diff import DiffCounts

COUNTS = tuple(DiffCounts().columns())
DIFF = "diff_metrics"
_IN_DIFF = tuple(name for name in COUNTS if name != "files_changed")
_REPORTED = ("turns", "cpu_s", "peak_memory_mb", "exit_code", "tests_changed", "outside_changes")
_TOKENS = ("input", "output", "cache_read", "cache_write")
_SIMILARITY_SCALE = 10.0  # scale of the metric that Augbench's readers expect


def files(analysis: Analysis, pictures: bool) -> list[ResultFile]:
    name, table = str(analysis.rows.spec["output"]), RunTable(analysis)
    runs = list(runs_of(table))
    text = json.dumps(document(table, runs), ensure_ascii=False, allow_nan=False, indent=2)
    result_files = [
        ResultFile(f"{name}.json", f"{text}\n".encode("utf-8", "replace")),
        ResultFile(f"{name}.csv", _csv([{**run, "run": analysis.run["run"]} for run in runs])),
        ResultFile(f"{name}.md", markdown.text(analysis).encode()),
    ]
    return [*result_files, *(_charts(table, name) if pictures and runs else ())]


def _charts(table: RunTable, name: str) -> Iterator[ResultFile]:
    pixels = charts.draws_pixels()
    for picture in report_pictures.result_pictures(table):
        chart = charts.as_file(table.analysis, picture)
        yield ResultFile(f"{name}_{picture.name}.svg", chart.svg.encode())
        if pixels:
            yield ResultFile(f"{name}_{picture.name}.png", charts.png(chart.svg))


def document(table: RunTable, runs: list[dict[str, Any]]) -> dict[str, Any]:
    rows, analysis = table.rows, table.analysis
    grouped: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for run in runs:
        columns = {key: value for key, value in run.items() if key not in ("prompt", "assistant")}
        grouped.setdefault((run["prompt"], run["assistant"]), []).append(columns)
    ids = [rows.cases[case].id for case in sorted(rows.cases)]
    not_run = analysis.planned - len(runs)
    return {
        "metadata": _metadata(table, len(runs)),
        "incomplete": bool(not_run),
        "not_run": {
            "runs": not_run,
            "prompts_not_begun": rows.planned_cases - len(ids),
            "why": not_run_line(analysis) or None,
        },
        "results": [
            {
                "prompt": case,
                "assistant": agent,
                "agent": agent,
                "runs": grouped.get((case, agent), []),
                "not_run": rows.repeats - len(grouped.get((case, agent), [])),
            }
            for case in ids
            for agent in table.names
        ],
        "summary": {
            "verdict": verdict_lines(analysis),
            "baseline": analysis.run["baseline"],
            "score": rows.primary,
            **{section.name: plain(section.data) for section in sections(analysis)},
        },
    }


def _metadata(table: RunTable, runs: int) -> dict[str, Any]:
    meta = table.analysis.run
    provenance = json.loads(meta["provenance"])
    return {
        "timestamp": moment(meta["finished_at"] or meta["created_at"]),
        "mode": PULL_REQUESTS if table.is_history else PROMPTS,
        "version": __version__,
        "totalRuns": runs,
        "plannedRuns": table.analysis.planned,
        "platform": {"platform": sys.platform, "arch": platform.machine(), "python": provenance.get("python")},
        "generator": "abreast",
        "run": meta["run"],
        "experiment": meta["experiment"],
        "status": meta["status"],
        "simulated": table.analysis.simulated,
    }


def runs_of(table: RunTable) -> Iterator[dict[str, Any]]:
    """Yield the runs with an outcome, by prompt, agent and repeat."""
    rows = table.rows
    trials = rows.store.queries.trials(rows.run_id)
    for at in np.lexsort((rows.repeat, rows.variant, rows.case)).tolist():
        if rows.present[at]:
            yield _run(table, at, trials[int(rows.position[at])])


def _run(table: RunTable, at: int, row: Mapping[str, Any]) -> dict[str, Any]:
    rows, reported = table.rows, table.reported[at]
    ok = row["status"] == "ok"
    return {
        "prompt": rows.cases[int(rows.case[at])].id,
        "assistant": table.names[int(rows.variant[at])],
        "run_id": int(rows.repeat[at]) + 1,
        "response_time": row["service_s"] if ok else None,
        **{name: value if ok else None for name, value in _metrics(table, at).items()},
        "steps_per_task": reported.get("turns") if ok else None,
        DIFF: {name: reported.get(name) for name in _IN_DIFF} if ok and "files_changed" in reported else None,
        "error": None if ok else f"{row['error_kind'] or row['status']}: {row['error'] or 'no reason given'}",
        "status": row["status"],
        "error_kind": row["error_kind"],
        "error_blame": row["error_blame"],
        "score": finite_or_none(float(rows.score[at])),
        "duration_s": row["service_s"],
        **{name: reported.get(name) for name in _REPORTED},
        "tokens": {name: row[f"{name}_tokens"] for name in _TOKENS},
        "cost_usd": row["cost_usd"],
        "model": row["model"],
        "attempts": row["attempts"],
        "reused_from": row["reused_from"],
    }


def _metrics(table: RunTable, at: int) -> dict[str, Any]:
    metrics: dict[str, Any] = {}
    for name, values in table.rows.scores.items():
        value = finite_or_none(float(values[at]))
        if name in table.scales and value is not None:
            low, high = table.scales[name]
            value = low + value * (high - low)
        metrics |= dict.fromkeys(_metric_names(name), value)
        if name == SIMILARITY:
            metrics[SIMILARITY_METRIC] = None if value is None else value * _SIMILARITY_SCALE
    return metrics


def _metric_names(score: str) -> list[str]:
    """Return the names of a score in Augbench and here."""
    dimension = score.removeprefix("judge_")
    if dimension in judge.DIMENSIONS:
        return [dimension, *(older for older, newer in judge.SAME.items() if newer == dimension)]
    return [{FORM: FORM_METRIC, TESTS: "tests_passed", SUCCESS: SUCCESS}.get(score, score)]


def _csv(runs: list[dict[str, Any]]) -> bytes:
    flat = [_flat(run) for run in runs]
    names = list(dict.fromkeys(name for run in flat for name in run))
    file = io.StringIO()
    writer = CsvFile(file, escape_formulas=True)
    writer.write_row(names)
    for run in flat:
        writer.write_row(run.get(name) for name in names)
    return file.getvalue().encode("utf-8", "replace")


def _flat(run: Mapping[str, Any]) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    for name, value in run.items():
        if name == DIFF:
            columns |= value or dict.fromkeys(_IN_DIFF)
        elif name == "tokens":
            columns |= {f"{kind}_tokens": number for kind, number in value.items()}
        else:
            columns[name] = value
    return columns
