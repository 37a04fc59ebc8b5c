"""The agents side by side: rates, scores, time, changes, and what it all took."""

from __future__ import annotations

from typing import Any

from abreast.analyse.validate.variants import listed_with_and
from abreast.report.formats.json_report import number
from abreast.report.sections import NamedTable, Section
from abreast.report.words.verdict_sentence import ALL_FAILED
from abreast.suites.coding_agents.report import pictures
from abreast.suites.coding_agents.report.measures import OWN, SOLVED, Measure, Runs, measures_of, runs_of
from abreast.suites.coding_agents.report.words import said
from abreast.suites.coding_agents.report.work import FINISHED, Work


def section(work: Work) -> Section:
    runs, measures, skipped = runs_of(work), measures_of(work), work.not_counted("run")
    not_counted = f"count for nobody and against nobody: {', '.join(skipped)}" if skipped else ""
    return Section(
        "agents",
        "The agents side by side",
        sentences=tuple(filter(None, [not_counted, _apart(work)])),
        tables=(_table(work, runs, measures),),
        pictures=tuple(pictures.summaries(work)),
        data={
            "baseline": work.baseline,
            "agents": list(work.names),
            "score": work.rows.primary,
            "runs": work.by_variant({**each._asdict(), "not_run": each.not_run} for each in runs),
            "common_cases": int(work.common.sum()),
            "measures": [_measure(work, each) for each in measures],
        },
    )


def _apart(work: Work) -> str:
    common, begun = int(work.common.sum()), len(work.rows.cases)
    if common == begun or len(work.names) < 2:
        return ""
    silent = [summary.name for summary in work.analysis.variants if not summary.ok]
    if len(silent) == len(work.names):
        return ""
    who = f"all but {listed_with_and(silent)}" if silent else "all agents" if len(work.names) > 2 else "both agents"
    noun = work.noun if begun == 1 else f"{work.noun}s"
    if not common:
        return f"there is no {work.noun} at which {who} ended well: amounts are of each one's own, and not comparable"
    return f"amounts are compared on {common:,} of {begun:,} {noun}, at which {who} ended well"


def _table(work: Work, runs: list[Runs], measures: list[Measure]) -> NamedTable:
    failed = {summary.name for summary in work.analysis.variants if summary.all_failed}
    baseline = work.baseline if len(work.names) > 1 else None
    head = [f"{name} (baseline)" if name == baseline else name for name in work.names]
    rows = [("runs", *map(_counted, runs))]
    rows += [
        (each.metric.title, *(_cell(each, at, name in failed) for at, name in enumerate(work.names)))
        for each in measures
    ]
    return NamedTable("agents", "", ("", *head), tuple(rows), _how_to_read(work, measures))


def _counted(runs: Runs) -> str:
    """`28 of 30 (2 failed)`."""
    there = runs.planned - runs.not_run
    whole = f"{there:,} of {runs.planned:,}" if runs.not_run else f"{there:,}"
    failed = runs.failed + runs.infrastructure
    return f"{whole} ({failed:,} failed)" if failed else whole


def _cell(measure: Measure, at: int, all_failed: bool) -> str:
    is_score = measure.metric.is_share and not measure.metric.name.endswith("_rate")
    if is_score and all_failed:
        return ALL_FAILED
    return said(measure.metric, measure.values[at], measure.intervals[at])


def _how_to_read(work: Work, measures: list[Measure]) -> str:
    several = work.rows.repeats > 1
    over = f"over {work.noun}s{', runs of each averaged' if several else ''}"
    finished = "ended well and changed something" if work.in_repository else "ended well and left words or files"
    parts = [f"the verdict is on: {work.primary.title}"] if work.primary is not None else []
    parts += [f"rates and scores: {over}; a failure of the agent counts 0 in scores", f"{FINISHED}: {finished}"]
    ratings = [metric for metric in work.metrics if metric.scale]
    if ratings and ratings[0].scale:
        low, high = ratings[0].scale
        parts.append(f"judged from {low:g} to {high:g}, a failure as {low:g}")
    if any(not each.metric.is_share for each in measures):
        what = "time, changes, tokens, cost, turns, CPU and memory"
        parts.append(f"{what}: of a run that ended well, means but where it says otherwise")
    parts += [f"{each.metric.title}: failures are paid for, too" for each in measures if each.metric.name == SOLVED]
    parts.append("brackets: 95 % intervals")
    if any(summary.reused for summary in work.analysis.variants):
        parts.append("time and cost of new runs only")
    if any(summary.included_usd for summary in work.analysis.variants):
        parts.append("cost is what a subscription pays, at list prices")
    return "; ".join(parts)


def _measure(work: Work, each: Measure) -> dict[str, Any]:
    metric = each.metric
    values = (None if value is None else number(metric.on_scale(value)) for value in each.values)
    compared = 0 if metric.is_share or metric.name in OWN else int(work.shared(metric.values).sum())
    return {
        "name": metric.name,
        "kind": metric.kind,
        "scale": list(metric.scale) if metric.scale else None,
        "cases": compared or None,
        "values": work.by_variant(values),
        "intervals": work.by_variant(
            None if interval is None else [number(metric.on_scale(end)) for end in (interval.low, interval.high)]
            for interval in each.intervals
        ),
    }
