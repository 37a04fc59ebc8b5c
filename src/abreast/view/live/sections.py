"""The sections of a run's page, rendered from the store."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from abreast.analyse.decision.interim import RUNNING, why_no_verdict_yet
from abreast.analyse.run import Analysis, analyse
from abreast.analyse.variants import VariantSummary
from abreast.errors import AbreastError
from abreast.report import charts
from abreast.report.charts.drawing import Picture
from abreast.report.page import tables
from abreast.report.words import variant_figures as figures
from abreast.report.words import verdict_sentence as sentences
from abreast.report.words.flags import flag_lines
from abreast.report.words.run_facts import run_facts
from abreast.store import Store
from abreast.store.queries.runs import StoredEvent
from abreast.store.runs.provenance import ImportRecord
from abreast.view.live import timeline
from abreast.view.live.run_progress import RunProgress
from abreast.view.rendering import day_and_time, environment

PROGRESS = ("problem", "status", "progress", "activity", "errors", "events", "controls")
RESULTS = ("verdict", "charts", "figures", "facts")
NAMES = (*PROGRESS, *RESULTS)
TIMED = ("status", "activity", "controls")  # these change without a new row
_INTERIM_CHARTS = ("closing", "difference", "outcomes", "latency")  # drawn before the run ends
_CHARTS_WITHOUT_VERDICT = ("outcomes", "latency")
_FAR_S = 12 * 3600.0  # an end that is later has a date


def _section(name: str, **values: Any) -> Markup:
    return Markup(environment().get_template(f"sections/{name}.html.j2").render(**values))


def problem(error: Exception) -> Markup:
    if isinstance(error, AbreastError):
        return _section("problem", message=error.message, fix=error.fix)
    return _section("problem", message=f"{type(error).__name__}: {error}", fix="")


# -- while the run is executed -----------------------------------------------------------------------------------------


def progress_sections(
    store: Store, run: Mapping[str, Any], progress: RunProgress, read_only: bool
) -> dict[str, Markup]:
    run_id = int(run["run_id"])
    events = progress.events
    is_running = run["status"] == RUNNING
    is_paused = is_running and _is_paused(events)
    limits = timeline.limit_events(events)
    return {
        "problem": Markup(),
        "status": _section("status", run=run, is_paused=is_paused, facts=_status_facts(run)),
        "progress": _section("progress", variants=progress.by_variant()),
        "activity": _section("activity", facts=_activity(store, run, progress, is_paused)),
        "errors": _section("errors", table=_errors(store, run_id, progress)),
        "events": _section(
            "events",
            run=run["run"],
            rows=timeline.listed(limits),
            count=len(limits),
            figure=_figure(_limits_picture(run, limits), ""),
        ),
        "controls": _section(
            "controls",
            run=run["run"],
            is_running=is_running,
            is_paused=is_paused,
            is_over=run["status"] in ("complete", "stopped_early") or _imported(run) is not None,
            read_only=read_only,
            store=store.quoted_address,
        ),
    }


def _imported(run: Mapping[str, Any]) -> ImportRecord | None:
    """Return the log that the run was imported from; no process can continue such a run."""
    return ImportRecord.read(json.loads(run["provenance"]))


def _is_paused(events: Sequence[StoredEvent]) -> bool:
    """Whether the last control of the current execution paused it."""
    for event in reversed(events):
        if event.kind == "control":
            return bool(event.detail["is_paused"])
        if event.kind == "run_started":
            return False
    return False


def _status_facts(run: Mapping[str, Any]) -> list[str]:
    provenance = json.loads(run["provenance"])
    record = ImportRecord.read(provenance)
    commit = provenance.get("commit")
    facts = [
        f"started {time.strftime('%Y-%m-%d %H:%M', time.gmtime(run['created_at']))} UTC",
        f"commit {commit[:10]}{' with uncommitted changes' if provenance.get('dirty') else ''}" if commit else "",
        f"label {run['label']}" if run["label"] else "",
        record.sentence() if record else "",
        run["reason"] or "",
    ]
    return [fact for fact in facts if fact]


def _activity(store: Store, run: Mapping[str, Any], progress: RunProgress, is_paused: bool) -> list[tuple[str, str]]:
    """Return titles and figures: progress, throughput, in flight, spend and estimated end."""
    run_id, rate, is_running = int(run["run_id"]), progress.rate(), run["status"] == RUNNING
    facts = [("trials", f"{progress.done:,} of {run['planned_trials']:,}")]
    if is_running and not is_paused:
        facts.append(_throughput(rate))
    if is_running:
        facts.append(("in flight", f"{run['in_flight'] or 0:,}"))
    spent = progress.cost_usd + sum(store.spent_on_retries(run_id, len(progress.by_variant())))
    if progress.revision.judgements:
        spent += sum(row["cost_usd"] or 0.0 for row in store.queries.judge_totals(run_id))
    budget = _budget(run, progress.events)
    if spent or budget:
        facts.append(("spent", figures.dollars(spent) + (f" of {figures.dollars(budget)}" if budget else "")))
    if is_running and not is_paused and progress.remaining:
        facts.append(("expected end", "unknown" if rate is None else _end_in(progress.remaining / rate)))
    return facts


def _throughput(rate: float | None) -> tuple[str, str]:
    """
    >>> _throughput(12.34), _throughput(0.02), _throughput(None)
    (('per second', '12.3'), ('per minute', '1.2'), ('per second', 'measuring'))
    """
    if rate is None:
        return "per second", "measuring"
    return ("per second", f"{rate:,.1f}") if rate >= 1 else ("per minute", f"{rate * 60:,.1f}")


def _end_in(seconds: float) -> str:
    end = time.time() + seconds
    return f"{day_and_time(end)} UTC" if seconds > _FAR_S else time.strftime("%H:%M:%S UTC", time.gmtime(end))


def _budget(run: Mapping[str, Any], events: Sequence[StoredEvent]) -> float | None:
    """Return the dollars that the run may currently spend."""
    budget = (json.loads(run["spec"]).get("limits") or {}).get("budget_usd")
    for event in events:
        value = event.detail.get("value") if event.kind == "control" and event.detail.get("is_applied") else None
        if isinstance(value, dict) and "budget_usd" in value:
            budget = value["budget_usd"]
    return budget


def _errors(store: Store, run_id: int, progress: RunProgress) -> dict[str, Any] | None:
    errors, names = progress.errors(), [item.name for item in progress.by_variant()]
    rows = [
        (kind, sentences.BLAMES.get(blame, blame), *(f"{errors[index, kind, blame]:,}" for index in range(len(names))))
        for kind, blame in sorted({(kind, blame) for _, kind, blame in errors})
    ]
    return tables.table(("kind", "cause", *names), rows) if rows else None


# -- the results so far ------------------------------------------------------------------------------------------------


def result_sections(store: Store, run: str) -> dict[str, Markup]:
    analysis = analyse(store, run)
    withheld = why_no_verdict_yet(analysis)
    pictures = _pictures(analysis, withheld)
    closing, mark = pictures.pop("closing", []), charts.mark(analysis)
    groups = [[_figure(picture, mark) for picture in group] for group in pictures.values()]
    return {
        "verdict": _verdict(analysis, withheld, closing),
        "charts": _section("charts", groups=[group for group in groups if group], run=analysis.run["run"]),
        "figures": _figures(analysis),
        "facts": _section("facts", facts=run_facts(analysis, store.queries.events(analysis.rows.run_id))),
    }


def _verdict(analysis: Analysis, withheld: str, closing: Sequence[Picture] = ()) -> Markup:
    is_running = analysis.run["status"] == RUNNING
    items = [] if withheld else analysis.comparisons
    headline = [line for line in sentences.verdict_lines(analysis) if line != sentences.SIMULATED]
    mark = charts.mark(analysis)
    return _section(
        "verdict",
        verdicts=[
            {
                "word": item.verdict.word,
                "sentence": sentences.sentence(item),
                "advice": [] if is_running else sentences.notes(analysis, item),
                "aside": "" if is_running else sentences.cost_and_latency(item),
            }
            for item in items
        ],
        preface=[*sentences.preface(analysis), *sentences.circumstances(analysis)] if items else [],
        headline=[] if withheld or items else headline,
        withheld=withheld,
        is_running=is_running,
        scores=_scores(analysis),
        flags=flag_lines(analysis),
        waiting=max((item.waiting for item in analysis.comparisons), default=0),
        closing=[_figure(picture, mark) for picture in closing],
        banner=mark,
        run=analysis.run["run"],
        is_debug=bool(analysis.run["debug"]),
    )


def _scores(analysis: Analysis) -> list[tuple[str, str]]:
    """Return each variant's mean score, without an interval, which would not be valid at every look."""
    return [] if analysis.score_name is None else [(item.name, _score(item)) for item in analysis.variants]


def _score(item: VariantSummary) -> str:
    if item.score is not None:
        return f"{item.score.estimate:.1%}"
    return sentences.ALL_FAILED if item.all_failed else "no score yet"


def shown_pictures(store: Store, analysis: Analysis) -> list[Picture]:
    """The pictures on the page."""
    groups = _pictures(analysis, why_no_verdict_yet(analysis)).values()
    limits = _limits_picture(analysis.run, store.queries.events(analysis.rows.run_id))
    return [*(picture for group in groups for picture in group), *([limits] if limits else [])]


def _pictures(analysis: Analysis, withheld: str) -> dict[str, list[Picture]]:
    """Return pictures by kind; before the run ends, only those that are not misleading."""
    kinds = _CHARTS_WITHOUT_VERDICT if withheld else _INTERIM_CHARTS
    pictures = charts.pictures(analysis).items()
    return {kind: group for kind, group in pictures if kind in kinds or analysis.run["status"] != RUNNING}


def _limits_picture(run: Mapping[str, Any], events: Sequence[StoredEvent]) -> Picture | None:
    end = time.time() if run["status"] == RUNNING else run["finished_at"] or time.time()
    return timeline.picture(timeline.limit_events(events), run["created_at"], end)


def _figure(picture: Picture | None, mark: str) -> dict[str, Any] | None:
    return None if picture is None else {"picture": picture, "svg": Markup(picture.inline(mark))}


def _figures(analysis: Analysis) -> Markup:
    others = figures.other_scores(analysis) if analysis.further else None
    is_running = analysis.run["status"] == RUNNING
    return _section(
        "figures",
        variants=None if is_running else tables.variants(analysis),
        score_name=analysis.score_name,
        further=tables.table(*others) if others and not is_running else None,
        segments=[] if is_running else tables.segments(analysis, False),
        waits=tables.waits(analysis),
    )
