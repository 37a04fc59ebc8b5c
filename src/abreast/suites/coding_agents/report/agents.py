"""The agents side by side: rates, scores, time, changes and resource use."""

from __future__ import annotations

from typing import Any

from abreast.analyse.validate.variants import listed_with_and
from abreast.report.formats.json_report import finite_or_none
from abreast.report.sections import NamedTable, Section
from abreast.report.words.verdict_sentence import ALL_FAILED
from abreast.suites.coding_agents.report import pictures
from abreast.suites.coding_agents.report.run_table import FINISHED, RunTable
from abreast.suites.coding_agents.report.summaries import OWN, SOLVED, MetricSummary, summaries_of


def section(table: RunTable) -> Section:
    runs, summaries, skipped = _runs(table), summaries_of(table), table.not_counted("run")
    not_counted = f"not counted for or against any agent: {', '.join(skipped)}" if skipped else ""
    return Section(
        "agents",
        "The agents side by side",
        sentences=tuple(filter(None, [not_counted, _compared_cases(table)])),
        tables=(_table(table, runs, summaries),),
        pictures=tuple(pictures.summary_pictures(table)),
        data={
            "baseline": table.baseline,
            "agents": list(table.names),
            "score": table.rows.primary,
            "runs": table.by_variant(runs),
            "common_cases": int(table.common.sum()),
            "measures": [_summary_data(table, summary) for summary in summaries],
        },
    )


def _compared_cases(table: RunTable) -> str:
    """Describe the cases on which amounts are compared; empty if they are all cases."""
    common, begun = int(table.common.sum()), len(table.rows.cases)
    unsuccessful = [variant.name for variant in table.analysis.variants if not variant.ok]
    if common == begun or len(table.names) < 2 or len(unsuccessful) == len(table.names):
        return ""
    agents = "all agents" if len(table.names) > 2 else "both agents"
    if unsuccessful:
        agents = f"all but {listed_with_and(unsuccessful)}"
    noun = table.noun if begun == 1 else f"{table.noun}s"
    if not common:
        return f"no {table.noun} was completed by {agents}: amounts are of each agent's own runs and not comparable"
    return f"amounts are compared on {common:,} of {begun:,} {noun}, those completed by {agents}"


def _table(table: RunTable, runs: list[dict[str, int]], summaries: list[MetricSummary]) -> NamedTable:
    all_failed = [variant.all_failed for variant in table.analysis.variants]
    baseline = table.baseline if len(table.names) > 1 else None
    head = [f"{name} (baseline)" if name == baseline else name for name in table.names]
    rows = [("runs", *map(_run_counts, runs))]
    rows += [
        (summary.metric.title, *(_cell(summary, agent, all_failed[agent]) for agent in table.variants))
        for summary in summaries
    ]
    return NamedTable("agents", "", ("", *head), tuple(rows), _note(table, summaries))


def _runs(table: RunTable) -> list[dict[str, int]]:
    """Runs by outcome, for each agent; `failed` are failures of its own."""
    rows = table.rows
    outcomes = {
        "ok": rows.ok,
        "failed": rows.own_failure,
        "infrastructure": rows.error & ~rows.own_failure,
        "skipped": rows.skipped,
    }
    planned, runs = rows.planned_cases * rows.repeats, []
    for agent in table.variants:
        counts = {name: int((table.of(agent) & mask).sum()) for name, mask in outcomes.items()}
        runs.append({"planned": planned, **counts, "not_run": planned - sum(counts.values())})
    return runs


def _run_counts(runs: dict[str, int]) -> str:
    """Format counts as `28 of 30 (2 failed)`."""
    executed, failed = runs["planned"] - runs["not_run"], runs["failed"] + runs["infrastructure"]
    total = f"{executed:,} of {runs['planned']:,}" if runs["not_run"] else f"{executed:,}"
    return f"{total} ({failed:,} failed)" if failed else total


def _cell(summary: MetricSummary, agent: int, all_failed: bool) -> str:
    is_score = summary.metric.is_share and not summary.metric.name.endswith("_rate")
    if is_score and all_failed:
        return ALL_FAILED
    return summary.metric.in_words(summary.values[agent], summary.intervals[agent])


def _note(table: RunTable, summaries: list[MetricSummary]) -> str:
    averaged = ", runs of each averaged" if table.rows.repeats > 1 else ""
    finished = "completed and changed something" if table.in_repository else "completed and left text or files"
    parts = [f"the verdict uses: {table.primary.title}"] if table.primary is not None else []
    parts += [f"rates and scores: means over {table.noun}s{averaged}; an agent's failure scores 0"]
    parts.append(f"{FINISHED}: {finished}")
    scales = [metric.scale for metric in table.metrics if metric.scale]
    if scales:
        low, high = scales[0]
        parts.append(f"judged from {low:g} to {high:g}, a failure as {low:g}")
    if any(not summary.metric.is_share for summary in summaries):
        parts.append("time, changes, tokens, cost, turns, CPU and memory: of completed runs, means unless noted")
    titles = {summary.metric.name: summary.metric.title for summary in summaries}
    parts += [f"{titles[SOLVED]}: includes the cost of failures"] if SOLVED in titles else []
    parts.append("brackets: 95 % intervals")
    if any(variant.reused for variant in table.analysis.variants):
        parts.append("time and cost: new runs only")
    if any(variant.included_usd for variant in table.analysis.variants):
        parts.append("cost: what the subscription pays for, at list prices")
    return "; ".join(parts)


def _summary_data(table: RunTable, summary: MetricSummary) -> dict[str, Any]:
    metric = summary.metric
    values = (None if value is None else finite_or_none(metric.on_scale(value)) for value in summary.values)
    compared = 0 if metric.is_share or metric.name in OWN else int(table.shared(metric.values).sum())
    return {
        "name": metric.name,
        "kind": metric.kind,
        "scale": list(metric.scale) if metric.scale else None,
        "cases": compared or None,
        "values": table.by_variant(values),
        "intervals": table.by_variant(
            None
            if interval is None
            else [finite_or_none(metric.on_scale(end)) for end in (interval.low, interval.high)]
            for interval in summary.intervals
        ),
    }
