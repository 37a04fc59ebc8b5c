"""Result files: `NAME.json` (a contract, see docs/how-to/coding-agents.md), `NAME.csv`, `NAME.md`, charts.

All of it comes from the rows. Every run that has an outcome is there, failed ones with their error and without metrics;
what was planned and not run is said.
"""

from __future__ import annotations

import io
import json
import platform
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from abreast import __version__
from abreast.analyse.run import Analysis
from abreast.report import charts
from abreast.report.formats import markdown
from abreast.report.formats.json_report import moment, number
from abreast.report.formats.row_files import CsvFile
from abreast.report.results import ResultFile
from abreast.report.sections import plain
from abreast.report.words.verdict_sentence import not_run_line, verdict_lines
from abreast.suites.coding_agents import judge
from abreast.suites.coding_agents.config import PROMPTS, PULL_REQUESTS
from abreast.suites.coding_agents.report import pictures as drawn
from abreast.suites.coding_agents.report import sections
from abreast.suites.coding_agents.report.work import FORM, SIMILARITY, SUCCESS, TESTS, Work
from abreast.suites.coding_agents.settings import FORM as FORM_METRIC
from abreast.suites.coding_agents.settings import SIMILARITY as SIMILARITY_METRIC
from abreast.targets.workspace.git.diff import DiffCounts

COUNTS = tuple(DiffCounts().columns())
DIFF = "diff_metrics"
_IN_DIFF = tuple(name for name in COUNTS if name != "files_changed")
_TOLD = ("turns", "cpu_s", "peak_memory_mb", "exit_code", "tests_changed", "outside_changes")
_TOKENS = ("input", "output", "cache_read", "cache_write")
_SIMILAR = 10.0  # the scale of the metric that older programs read


def files(analysis: Analysis, pictures: bool) -> list[ResultFile]:
    name, work = str(analysis.rows.spec["output"]), Work(analysis)
    runs = list(runs_of(work))
    text = json.dumps(document(work, runs), ensure_ascii=False, allow_nan=False, indent=2)
    found = [
        ResultFile(f"{name}.json", f"{text}\n".encode("utf-8", "replace")),
        ResultFile(f"{name}.csv", _csv([{**run, "run": analysis.run["run"]} for run in runs])),
        ResultFile(f"{name}.md", markdown.text(analysis).encode()),
    ]
    return [*found, *(_charts(work, name) if pictures and runs else ())]


def _charts(work: Work, name: str) -> Iterator[ResultFile]:
    pixels = charts.draws_pixels()
    for picture in drawn.all_of(work):
        chart = charts.as_file(work.analysis, picture)
        yield ResultFile(f"{name}_{picture.name}.svg", chart.svg.encode())
        if pixels:
            yield ResultFile(f"{name}_{picture.name}.png", charts.png(chart.svg))


def document(work: Work, runs: list[dict[str, Any]]) -> dict[str, Any]:
    rows, analysis = work.rows, work.analysis
    by: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for run in runs:
        own = {key: value for key, value in run.items() if key not in ("prompt", "assistant")}
        by.setdefault((run["prompt"], run["assistant"]), []).append(own)
    ids = [rows.cases[case].id for case in sorted(rows.cases)]
    left = analysis.planned - len(runs)
    return {
        "metadata": _metadata(work, len(runs)),
        "incomplete": bool(left),
        "not_run": {
            "runs": left,
            "prompts_not_begun": rows.planned_cases - len(ids),
            "why": not_run_line(analysis) or None,
        },
        "results": [
            {
                "prompt": case,
                "assistant": agent,
                "agent": agent,
                "runs": by.get((case, agent), []),
                "not_run": rows.repeats - len(by.get((case, agent), [])),
            }
            for case in ids
            for agent in work.names
        ],
        "summary": {
            "verdict": verdict_lines(analysis),
            "baseline": analysis.run["baseline"],
            "score": rows.primary,
            **{section.name: plain(section.data) for section in sections(analysis)},
        },
    }


def _metadata(work: Work, runs: int) -> dict[str, Any]:
    meta, found = work.analysis.run, json.loads(work.analysis.run["provenance"])
    return {
        "timestamp": moment(meta["finished_at"] or meta["created_at"]),
        "mode": PULL_REQUESTS if work.is_history else PROMPTS,
        "version": __version__,
        "totalRuns": runs,
        "plannedRuns": work.analysis.planned,
        "platform": {"platform": sys.platform, "arch": platform.machine(), "python": found.get("python")},
        "generator": "abreast",
        "run": meta["run"],
        "experiment": meta["experiment"],
        "status": meta["status"],
        "simulated": work.analysis.simulated,
    }


def runs_of(work: Work) -> Iterator[dict[str, Any]]:
    """Each run that has an outcome, in plan order: of a prompt all runs of the first agent, then of the next."""
    rows = work.rows
    order = sorted(
        (at for at in range(len(rows.position)) if rows.present[at]),
        key=lambda at: (int(rows.case[at]), int(rows.variant[at]), int(rows.repeat[at])),
    )
    said = rows.store.queries.trials(rows.run_id)
    for at in order:
        yield _run(work, at, said[int(rows.position[at])])


def _run(work: Work, at: int, row: Mapping[str, Any]) -> dict[str, Any]:
    rows, told = work.rows, work.reported[at]
    ok = row["status"] == "ok"
    return {
        "prompt": rows.cases[int(rows.case[at])].id,
        "assistant": work.names[int(rows.variant[at])],
        "run_id": int(rows.repeat[at]) + 1,
        "response_time": row["service_s"] if ok else None,
        **{name: value if ok else None for name, value in _metrics(work, at).items()},
        "steps_per_task": told.get("turns") if ok else None,
        DIFF: {name: told.get(name) for name in _IN_DIFF} if ok and "files_changed" in told else None,
        "error": None if ok else f"{row['error_kind'] or row['status']}: {row['error'] or 'no reason was given'}",
        "status": row["status"],
        "error_kind": row["error_kind"],
        "error_blame": row["error_blame"],
        "score": number(float(rows.score[at])),
        "duration_s": row["service_s"],
        **{name: told.get(name) for name in _TOLD},
        "tokens": {name: row[f"{name}_tokens"] for name in _TOKENS},
        "cost_usd": row["cost_usd"],
        "model": row["model"],
        "attempts": row["attempts"],
        "reused_from": row["reused_from"],
    }


def _metrics(work: Work, at: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, values in work.rows.scores.items():
        value = number(float(values[at]))
        if name in work.scales and value is not None:
            low, high = work.scales[name]
            value = low + value * (high - low)
        found |= dict.fromkeys(_called(name), value)
        if name == SIMILARITY:
            found[SIMILARITY_METRIC] = None if value is None else value * _SIMILAR
    return found


def _called(name: str) -> list[str]:
    plain = name.removeprefix("judge_")
    if plain in judge.DIMENSIONS:
        return [plain, *(older for older, newer in judge.SAME.items() if newer == plain)]
    return [{FORM: FORM_METRIC, TESTS: "tests_passed", SUCCESS: SUCCESS}.get(name, name)]


def _csv(runs: list[dict[str, Any]]) -> bytes:
    flat = [_flat(run) for run in runs]
    names = list(dict.fromkeys(name for run in flat for name in run))
    file = io.StringIO()
    table = CsvFile(file, escape_formulas=True)
    table.write_row(names)
    for run in flat:
        table.write_row(run.get(name) for name in names)
    return file.getvalue().encode("utf-8", "replace")


def _flat(run: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in run.items():
        if name == DIFF:
            found |= value or dict.fromkeys(_IN_DIFF)
        elif name == "tokens":
            found |= {f"{kind}_tokens": number for kind, number in value.items()}
        else:
            found[name] = value
    return found
