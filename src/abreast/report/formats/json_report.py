"""The report for programs: one JSON object in a stable format (docs/reference/report.md).

Unknown values are null.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from abreast.analyse.variants import QUANTILES, VariantSummary, failure_modes
from abreast.report.formats.catalogue import ReportFormat, ReportRequest
from abreast.report.sections import suite_part
from abreast.report.words.calibration import calibration_object
from abreast.report.words.flags import flags_of
from abreast.report.words.mcp_calls import mcp_section
from abreast.report.words.verdict_sentence import doubt, trusted, verdict_lines
from abreast.stats import Interval, holm
from abreast.stats.intervals.population import THESE_CASES
from abreast.text import dump_json
from abreast.text import moment as moment

if TYPE_CHECKING:
    from abreast.analyse.run import Analysis, Comparison
    from abreast.analyse.segments import Segment

SCHEMA = "abreast.report/1"
CHUNK = 1_000  # trials encoded at once


class Json(ReportFormat):
    file_name = "report.json"

    def pieces(self, request: ReportRequest) -> Iterator[str]:
        text = dump_json(report(request.analysis), allow_nan=False, indent=1)
        if not request.trials:
            yield text + "\n"
            return
        yield text.removesuffix("\n}") + ',\n "trials": ['
        separator = "\n"
        rows = trials_of(request.analysis)
        while chunk := list(islice(rows, CHUNK)):
            text = dump_json(chunk, allow_nan=False, indent=1)
            yield f"{separator} " + text[2:-2].replace("\n", "\n ")  # without the brackets, one level deeper
            separator = ",\n"
        yield "]\n}\n" if separator == "\n" else "\n ]\n}\n"


def report(analysis: Analysis) -> dict[str, Any]:
    """The report of a run without its trials."""
    run, modes = analysis.run, failure_modes(analysis.rows)
    verdicts = [verdict(item, primary=True) for item in analysis.comparisons]
    verdicts += [verdict(item, primary=False) for item in analysis.further]
    content = {
        "schema": SCHEMA,
        "run": run["run"],
        "experiment": run["experiment"],
        "simulated": analysis.simulated,
        "debug": bool(run["debug"]),
        "status": run["status"] if run["status"] in ("complete", "stopped_early") else "incomplete",
        "reason": run["reason"],
        "label": run["label"],
        "planned_trials": analysis.planned,
        "executed_trials": analysis.stored,
        "saved_trials": analysis.planned - analysis.stored if run["status"] == "stopped_early" else 0,
        "reused_trials": sum(summary.reused for summary in analysis.variants),
        "metric": analysis.score_name,
        "baseline": run["baseline"],
        "margin": analysis.margin or None,
        "summary": verdict_lines(analysis),
        "verdicts": adjusted(verdicts),
        "variants": {
            summary.name: {
                **variant(summary),
                "failure_modes": [{"mode": mode, "trials": count} for mode, count in modes[summary.name]],
            }
            for summary in analysis.variants
        },
        "judges": analysis.rows.judges,
        "flags": [flag._asdict() for flag in flags_of(analysis)],
        "segments": [segment(item) for item in analysis.segments],
        "suite": _suite(analysis),
        "provenance": provenance(analysis),
        "config": config(analysis),
    }
    if (calls := mcp_section(analysis)) is not None:
        content["mcp"] = calls.data["variants"]
    if analysis.ranking is not None:
        names = [analysis.variants[index].name for index in analysis.ranking.order]
        strengths = [analysis.ranking.strengths[index] for index in analysis.ranking.order]
        content["ranking"] = [
            {"variant": name, "strength": value} for name, value in zip(names, strengths, strict=True)
        ]
    return content


def _suite(analysis: Analysis) -> dict[str, Any] | None:
    part = suite_part(analysis)
    if part is None:
        return None
    sections = {section.name: section.data for section in part.sections}
    return {"name": part.name, "problem": part.problem, "sections": sections}


def adjusted(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Set `p_adjusted`: the p value after Holm's correction over all verdicts on the same score."""
    for row in rows:
        row["p_adjusted"] = None
    compared = [row for row in rows if row["p"] is not None]
    for metric in dict.fromkeys(row["metric"] for row in compared):
        same_metric = [row for row in compared if row["metric"] == metric]
        for row, p in zip(same_metric, holm([row["p"] for row in same_metric]), strict=True):
            row["p_adjusted"] = p
    return rows


def verdict(item: Comparison, primary: bool) -> dict[str, Any]:
    result, pairs = item.verdict, item.pairs
    interval = result.interval
    sure = trusted(result)
    cost = pairs.cost
    return {
        "metric": item.metric,
        "primary": primary,
        "variant": item.variant,
        "baseline": item.baseline,
        "verdict": result.word,
        "demoted_from": result.demoted,
        "reason": result.reason or None,
        "caution": f"{result.demoted}, unless {doubt(item)}" if result.demoted else None,
        "effect": finite_or_none(interval.estimate) if interval else None,
        "interval": ends(sure),
        "level": sure.level if sure else None,
        "weight": item.weight,
        "population": result.population if interval else None,
        "on_these_cases": _on_these_cases(item),
        "scores": dict(zip(("baseline", "variant"), item.scores, strict=True)) if item.scores else None,
        "p": result.p if result.interval else None,
        "wins": result.wins,
        "losses": result.losses,
        "ties": result.ties,
        "cases": item.cases,
        "planned_cases": item.planned,
        "dropped_cases": pairs.dropped,
        "dropped": {"failed": pairs.failed, "unscored": pairs.unscored, "skipped": pairs.skipped},
        "not_run_cases": item.not_run,
        "waiting_cases": item.waiting,
        "repeats_left_out": pairs.repeats_left_out,
        "censoring": {kind.kind: {"baseline": kind.baseline, "variant": kind.variant} for kind in item.censoring},
        "bounds": list(item.bounds) if item.bounds else None,
        "cases_needed": None if result.population == THESE_CASES else result.needed,
        "repeats_needed": result.needed if result.population == THESE_CASES else None,
        "effect_to_detect": result.effect,
        "calibration": calibration_object(item.calibration),
        "latency_ratio": _ratio(pairs.latency),
        "cost_per_correct_ratio": _ratio(cost.ratio if cost else None),
    }


def _on_these_cases(item: Comparison) -> dict[str, Any] | None:
    """Return the verdict on these cases only, if there are repeats and the main verdict is about cases in general."""
    result = item.on_these_cases
    if result is None or result.interval is None:
        return None
    sure = trusted(result)
    return {
        "verdict": result.word,
        "effect": finite_or_none(result.interval.estimate),
        "interval": ends(sure),
        "level": sure.level if sure else None,
        "p": result.p,
    }


def segment(item: Segment) -> dict[str, Any]:
    return {
        "tag": item.tag,
        "value": item.value,
        "exploratory": True,
        "metric": item.metric,
        "variant": item.variant,
        "baseline": item.baseline,
        "verdict": item.word,
        "effect": item.estimate.estimate,
        "interval": ends(item.estimate),
        "level": item.estimate.level,
        "p": item.estimate.p,
        "q": item.q,
        "wins": item.wins,
        "losses": item.losses,
        "ties": item.ties,
        "cases": item.cases,
        "dropped_cases": item.dropped,
        "cases_needed": item.needed,
    }


def variant(summary: VariantSummary) -> dict[str, Any]:
    kinds: dict[str, int] = {}
    blames: dict[str, int] = {}
    for (kind, blame), count in sorted(summary.errors.items()):
        kinds[kind] = kinds.get(kind, 0) + count
        blames[blame] = blames.get(blame, 0) + count
    price, repeats = summary.cost_per_correct, summary.repeats
    return {
        "trials": summary.trials,
        "ok": summary.ok,
        "all_failed": summary.all_failed,
        "accuracy": summary.accuracy,
        "errors": kinds,
        "errors_by_blame": blames,
        "skipped": summary.skipped,
        "unscored": summary.unscored,
        "reused": summary.reused,
        "scores": {name: {"mean": score.estimate, "interval": ends(score)} for name, score in summary.scores.items()},
        "cost_usd": summary.cost_usd,
        "included_usd": summary.included_usd,
        "in_vain_usd": summary.in_vain_usd,
        "unpriced": summary.unpriced,
        "cost_per_correct": finite_or_none(price.estimate) if price else None,
        "cost_per_correct_interval": ends(price),
        "tokens": summary.tokens,
        "latency_s": _quantiles(summary.latency),
        "queue_s": _quantiles(summary.queue),
        "backoff_s": _quantiles(summary.backoff),
        "pass_at_k": {str(k): value for k, value in repeats.pass_at.items()} if repeats else {},
        "pass_hat_k": {str(k): value for k, value in repeats.pass_hat.items()} if repeats else {},
        "consistent": repeats.consistent if repeats else None,
    }


def provenance(analysis: Analysis) -> dict[str, Any]:
    rows, run = analysis.rows, analysis.run
    record = rows.provenance
    first = ("commit", "dirty", "data_hash", "seed", "python", "packages", "host")
    return {
        **{key: record.get(key) for key in first},
        "models": {
            rows.variants[variant]: models for variant, models in rows.store.queries.models(rows.run_id).items()
        },
        "cli_versions": record.get("cli_versions", {}),
        "created_at": moment(run["created_at"]),
        "finished_at": moment(run["finished_at"]),
        **{key: value for key, value in record.items() if key not in (*first, "cli_versions", "first_cases")},
    }


def config(analysis: Analysis) -> dict[str, Any]:
    return {key: value for key, value in analysis.rows.spec.items() if key not in ("origin_digest", "origin")}


def trials_of(analysis: Analysis) -> Iterator[dict[str, Any]]:
    rows = analysis.rows
    for at in range(len(rows.position)):
        yield {
            "case_id": rows.cases[int(rows.case[at])].id,
            "variant": rows.variants[rows.variant[at]],
            "repeat": int(rows.repeat[at]),
            "status": rows.status[at],
            "error_kind": rows.kind[at],
            "scores": {name: finite_or_none(float(values[at])) for name, values in rows.scores.items()},
        }


def finite_or_none(value: float) -> float | None:
    """Return the value, or None for infinity and nan, which JSON lacks."""
    return value if math.isfinite(value) else None


def ends(interval: Interval | None) -> list[float | None] | None:
    return None if interval is None else [finite_or_none(interval.low), finite_or_none(interval.high)]


def _ratio(interval: Interval | None) -> dict[str, Any] | None:
    if interval is None:
        return None
    return {"estimate": finite_or_none(interval.estimate), "interval": ends(interval)}


def _quantiles(values: dict[str, float]) -> dict[str, float | None]:
    return {name: values.get(name) for name in QUANTILES}
