"""The report for programs: the analysis as plain objects, for `--json`. What is not known is None."""

from __future__ import annotations

from typing import Any

from abreast.analyse import Analysis, Comparison, VariantSummary
from abreast.report.sentence import verdict_lines


def summary(analysis: Analysis) -> dict[str, Any]:
    """A run: the verdict in words, then a row for each comparison and for each variant."""
    run = analysis.run
    return {
        "run": run["run"],
        "experiment": run["experiment"],
        "status": run["status"],
        "reason": run["reason"],
        "debug": bool(run["debug"]),
        "simulated": analysis.simulated,
        "planned": analysis.planned,
        "stored": analysis.stored,
        "score": analysis.score_name,
        "verdict": "\n".join(verdict_lines(analysis)),
        "comparisons": [_comparison(analysis, item) for item in analysis.comparisons],
        "variants": [_variant(item, run["baseline"]) for item in analysis.variants],
    }


def _comparison(analysis: Analysis, item: Comparison) -> dict[str, Any]:
    """An interval that the verdict does not trust (`reason` says why) is not given."""
    sides = {side.name: side for side in analysis.variants}
    variant, baseline = sides[item.variant], sides[item.baseline]
    result, interval = item.verdict, item.verdict.interval
    trusted = interval if not result.reason else None
    return {
        "variant": item.variant,
        "baseline": item.baseline,
        "word": result.word,
        "reason": result.reason or None,
        "score": analysis.score_name,
        "difference": interval.estimate if interval else None,
        "low": trusted.low if trusted else None,
        "high": trusted.high if trusted else None,
        "level": trusted.level if trusted else None,
        "wins": result.wins,
        "ties": result.ties,
        "losses": result.losses,
        "cases": item.cases,
        "planned_cases": item.planned,
        "not_compared": {
            "failed": item.failed,
            "unscored": item.unscored,
            "skipped": item.skipped,
            "not_run": item.not_run,
        },
        "repeats_left_out": item.repeats_left_out,
        "cases_to_detect_10_points": item.needed,
        "cost_usd": {"variant": variant.cost_usd, "baseline": baseline.cost_usd},
        "latency_p50": {"variant": variant.latency_p50, "baseline": baseline.latency_p50},
    }


def _variant(item: VariantSummary, baseline: str) -> dict[str, Any]:
    score = item.score
    return {
        "variant": item.name,
        "baseline": item.name == baseline,
        "score": score.estimate if score else None,
        "low": score.low if score else None,
        "high": score.high if score else None,
        "trials": item.trials,
        "ok": item.ok,
        "errors": [
            {"kind": kind, "blame": blame, "count": count} for (kind, blame), count in sorted(item.errors.items())
        ],
        "skipped": item.skipped,
        "unscored": item.unscored,
        "reused": item.reused,
        "cost_usd": item.cost_usd,
        "latency_p50": item.latency_p50,
        "latency_p95": item.latency_p95,
        "input_tokens": item.input_tokens,
        "output_tokens": item.output_tokens,
    }
