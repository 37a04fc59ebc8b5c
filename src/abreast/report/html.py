"""The report as one self-contained HTML file: no script, nothing loaded from anywhere, works offline."""

from __future__ import annotations

import json
import time
from importlib import resources
from typing import Any

import jinja2

from abreast.analyse import Analysis, Comparison
from abreast.report.sentence import SIMULATED, advice, failure, many, points, sentence, verdict_lines
from abreast.report.terminal import count, errors_in_words, seconds
from abreast.store import Store

ANSWER_LIMIT = 2_000  # characters of an answer shown


def page(analysis: Analysis) -> str:
    store = analysis.rows.store
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    environment.filters.update(points=points, seconds=seconds, count=count, many=many)
    source = resources.files("abreast.report").joinpath("page.html.j2").read_text(encoding="utf-8")
    return environment.from_string(source).render(
        analysis=analysis,
        run=analysis.run,
        banner=SIMULATED if analysis.simulated else "",
        headline=[line for line in verdict_lines(analysis) if line != SIMULATED],
        comparisons=[_shown(analysis, comparison, store) for comparison in analysis.comparisons],
        errors={summary.name: errors_in_words(summary) for summary in analysis.variants},
        provenance=json.loads(analysis.run["provenance"]),
        created=time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(analysis.run["created_at"])),
    )


def _shown(analysis: Analysis, comparison: Comparison, store: Store) -> dict[str, Any]:
    return {
        "it": comparison,
        "sentence": sentence(comparison),
        "advice": advice(comparison),
        "picture": picture(comparison),
        "cases": [
            {
                "it": item,
                "answers": _answers(analysis, store, item.case_id, (comparison.baseline, comparison.variant)),
            }
            for item in comparison.differences
        ],
    }


def _answers(analysis: Analysis, store: Store, case_id: str, variants: tuple[str, str]) -> dict[str, Any]:
    rows = store.dicts(
        "SELECT variant, answer, status, error_kind, error_blame, error, expected, prompt FROM predictions "
        "WHERE run = ? AND case_id = ? AND repeat = 0",
        (analysis.run["run"], case_id),
    )
    found = {row["variant"]: row for row in rows}
    return {
        "sides": [(name, _answer_text(found.get(name))) for name in variants],
        "expected": _cut(str(rows[0]["expected"])) if rows else "",
        "prompt": _cut(rows[0]["prompt"] or "") if rows else "",
    }


def _answer_text(row: dict[str, Any] | None) -> str:
    if row is None:
        return "not run"
    return _cut(row["answer"] if row["status"] == "ok" else failure(row))


def _cut(text: str) -> str:
    return text if len(text) <= ANSWER_LIMIT else text[:ANSWER_LIMIT] + " …"


def picture(comparison: Comparison) -> dict[str, Any] | None:
    """The interval against zero, as coordinates of a drawing 1000 wide."""
    interval = comparison.verdict.interval
    if interval is None or comparison.verdict.reason:
        return None
    reach = max(0.05, abs(interval.low), abs(interval.high)) * 1.15
    reach = min(1.0, reach)

    def x(value: float) -> float:
        return round(500 + 480 * value / reach, 1)

    return {
        "low": x(interval.low),
        "high": x(interval.high),
        "middle": x(interval.estimate),
        "zero": x(0.0),
        "ticks": [(x(at * reach), points(at * reach) if at else "0") for at in (-1, -0.5, 0, 0.5, 1)],
        "alternative": f"{points(interval.estimate)} points, interval from {points(interval.low)} to "
        f"{points(interval.high)}, zero is {'outside' if interval.low > 0 or interval.high < 0 else 'inside'}",
    }
