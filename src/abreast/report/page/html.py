"""The report as one self-contained HTML file: no script, nothing loaded from anywhere, works offline."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from abreast.analyse.run import Analysis, Comparison
from abreast.analyse.variants import failure_modes
from abreast.report import charts, folder
from abreast.report.charts.drawing import Picture, slug
from abreast.report.charts.segments import COMPARISONS as SEGMENT_PICTURES
from abreast.report.formats import json_report
from abreast.report.formats.catalogue import ReportFormat, ReportRequest
from abreast.report.page import listing, rendering
from abreast.report.page.trial_artifacts import Links, RunArtifacts, cut, listed
from abreast.report.sections import NOTHING, Section, sections_of, without_empty_columns
from abreast.report.words import variant_figures as figures
from abreast.report.words import verdict_sentence as sentences
from abreast.report.words.concurrency import describe_findings
from abreast.report.words.flags import flag_lines
from abreast.report.words.verdict_sentence import points
from abreast.store.queries.runs import StoredEvent
from abreast.text import many

CONFIG = 60_000  # characters of the experiment as it was executed
EVENTS = 200
SEGMENTS = 300  # rows
FEW = 3  # variants that fit side by side


class Html(ReportFormat):
    file_name = "report.html"
    is_printed = False

    def pieces(self, request: ReportRequest) -> list[str]:
        return [page(request.analysis, request.pictures)]

    def write(self, request: ReportRequest, place: Path, beside: list[Path]) -> Iterator[Path]:
        left = links = None
        if request.artifacts and (left := listing.artifacts_of(request.analysis)):
            from abreast.report.page import artifact_files  # late: most runs leave nothing

            links = artifact_files.write(request.analysis, left, place, beside.append)
        yield folder.keep(place, self.file_name, [page(request.analysis, request.pictures, left, links).encode()])


def page(analysis: Analysis, draw: bool = True, left: RunArtifacts | None = None, links: Links | None = None) -> str:
    """All of it, or all but pictures; the same rows give the same bytes. `links` lead to what trials left."""
    left = listing.artifacts_of(analysis) if left is None else left
    links = Links() if links is None else links
    mark = charts.mark(analysis)
    found = charts.pictures(analysis)
    pictures = {kind: [_figure(picture, mark) for picture in found[kind] if draw] for kind in found}
    artifacts = listed(left, links)
    listings = listing.listings(analysis, left, links, artifacts.size)
    events = analysis.rows.store.queries.events(analysis.rows.run_id)
    return (
        rendering.environment()
        .get_template("page.html.j2")
        .render(
            run=analysis.run,
            banner=sentences.SIMULATED if analysis.simulated else "",
            style=rendering.style(),
            verdicts=[_verdict(analysis, item) for item in analysis.comparisons],
            preface=[*sentences.preface(analysis), *sentences.circumstances(analysis)],
            headline=[line for line in sentences.verdict_lines(analysis) if line != sentences.SIMULATED],
            retried=analysis.retried_failures,
            flags=flag_lines(analysis),
            not_run=sentences.not_run_line(analysis),
            pictures=pictures,
            variants=_variants(analysis),
            repeats=_repeats(analysis),
            ranking=_ranking(analysis),
            further=_further(analysis),
            segments=_segments(analysis, draw),
            sections=[_section(section, mark, draw) for section in sections_of(analysis)],
            listings=listings,
            missing={one.title: listing.closed_in_words(one) for one in listings},
            unlisted=max(0, len(analysis.comparisons) - listing.LISTED),
            artifacts=artifacts,
            errors=_errors(analysis),
            modes=failure_modes(analysis.rows),
            waits=_waits(analysis),
            facts=_facts(analysis, events),
            events=_events(events),
            config=cut(json.dumps(json_report.config(analysis), ensure_ascii=False, indent=2), CONFIG),
            store=analysis.rows.store.path.name,
            score_name=analysis.score_name,
        )
    )


def _figure(picture: Picture, mark: str) -> dict[str, Any]:
    return {"it": picture, "drawn": Markup(picture.inline(mark))}


def _verdict(analysis: Analysis, item: Comparison) -> dict[str, Any]:
    notes = [*sentences.advice(item), *sentences.scores_behind(analysis, item)]
    return {
        "word": item.verdict.word,
        "sentence": sentences.sentence(item),
        "advice": notes,
        "aside": sentences.aside(item),
    }


Table = dict[str, Any]  # head and rows


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Columns that hold nothing are left out."""
    shown, cells = without_empty_columns(head, rows)
    return {"head": shown, "rows": cells, "turned": False}


def _variants(analysis: Analysis) -> Table:
    names = list(dict.fromkeys(name for item in analysis.variants for name in item.scores))
    titles = ["score" if len(names) == 1 else name for name in names]
    classes = {"input": "tokens in", "cache_read": "cached", "cache_write": "written", "output": "out"}
    rows = []
    for item in analysis.variants:
        rows.append(
            [
                item.name
                + (" (baseline)" if item.name == analysis.run["baseline"] and len(analysis.variants) > 1 else ""),
                *(figures.score_in_words(item, name) for name in names),
                f"{item.ok:,}",
                f"{item.reused:,}" if item.reused else NOTHING,
                figures.errors_in_words(item),
                figures.cost_in_words(item),
                figures.dollars(item.cost_per_correct.estimate if item.cost_per_correct else None),
                *(figures.seconds(item.latency.get(name)) for name in ("p50", "p90", "p95", "p99")),
                *(figures.count(item.tokens[name]) if item.tokens.get(name) else NOTHING for name in classes),
                figures.repeats_in_words(item.repeats),
            ]
        )
    head = ["variant", *titles, "ok", "reused", "errors", "cost", "cost per correct", "p50", "p90", "p95", "p99"]
    found = table([*head, *classes.values(), "repeats"], rows)
    return found if len(rows) > FEW else _turned(found)


def _turned(found: Table) -> Table:
    """Rows as columns: what is compared stands side by side."""
    columns = list(zip(found["head"], *found["rows"], strict=True))
    return {"head": ["", *columns[0][1:]], "rows": [list(column) for column in columns[1:]], "turned": True}


def _repeats(analysis: Analysis) -> Table | None:
    """pass@k and pass^k for every k."""
    told = [(item.name, item.repeats) for item in analysis.variants if item.repeats and item.repeats.pass_at]
    if not told:
        return None
    ks = sorted({k for _, repeats in told for k in repeats.pass_at})
    rows = []
    for name, repeats in told:
        for sign, chances in (("@", repeats.pass_at), ("^", repeats.pass_hat)):
            rows.append([f"{name}: pass{sign}k", *(f"{chances[k]:.1%}" if k in chances else NOTHING for k in ks)])
    return table(["", *(f"k = {k}" for k in ks)], rows)


def _ranking(analysis: Analysis) -> Table | None:
    ranking = analysis.ranking
    if ranking is None:
        return None
    rows = [
        (f"{place}. {analysis.variants[index].name}", f"{ranking.strengths[index]:.1%}")
        for place, index in enumerate(ranking.order, 1)
    ]
    return {**table(("variant", "share of strength"), rows), "line": sentences.ranking_line(analysis)}


def _further(analysis: Analysis) -> Table | None:
    if not analysis.further:
        return None
    rows = []
    for item in analysis.further:
        found, interval, sure = item.verdict, item.verdict.interval, sentences.trusted(item.verdict)
        rows.append(
            (
                item.metric,
                f"{item.variant} against {item.baseline}",
                found.word,
                points(interval.estimate) if interval else NOTHING,
                f"{points(sure.low)} … {points(sure.high)}" if sure else NOTHING,
                f"{found.wins:,}",
                f"{found.losses:,}",
                f"{found.ties:,}",
                found.reason or NOTHING,
            )
        )
    return table(("score", "", "verdict", "points", "interval", "wins", "losses", "ties", "why"), rows)


def _section(section: Section, mark: str, draw: bool) -> dict[str, Any]:
    return {
        "name": slug(section.name),
        "title": section.title,
        "sentences": section.sentences,
        "tables": section.tables,
        "pictures": [_figure(picture, mark) for picture in section.pictures if draw],
    }


def _segments(analysis: Analysis, drawn: bool) -> Table | None:
    """Those of all comparisons, where not each has a picture."""
    if not analysis.segments:
        return None
    if drawn and len({(item.variant, item.baseline) for item in analysis.segments}) <= SEGMENT_PICTURES:
        return None
    rows = [
        (
            f"{item.variant} against {item.baseline}",
            f"{item.tag}={item.value}",
            *sentences.segment_cells(item),
            f"{item.cases:,}",
        )
        for item in sorted(analysis.segments, key=lambda item: item.q)[:SEGMENTS]
    ]
    return table(("", "segment", *sentences.SEGMENT_TITLES, "cases"), rows)


def _errors(analysis: Analysis) -> Table | None:
    found = sorted({key for item in analysis.variants for key in item.errors})
    rows = [
        (
            kind,
            sentences.BLAMES.get(blame, blame),
            *(f"{item.errors.get((kind, blame), 0):,}" for item in analysis.variants),
        )
        for kind, blame in found
    ]
    for word in ("skipped", "unscored"):
        if any(getattr(item, word) for item in analysis.variants):
            rows.append((word, NOTHING, *(f"{getattr(item, word):,}" for item in analysis.variants)))
    return table(("kind", "whose", *(item.name for item in analysis.variants)), rows) if rows else None


def _waits(analysis: Analysis) -> Table | None:
    """Service, queue and back-off apart."""
    rows = [
        (item.name, what, *(figures.seconds(found.get(name)) for name in ("p50", "p90", "p95", "p99")))
        for item in analysis.variants
        for what, found in (("service", item.latency), ("queue", item.queue), ("back-off", item.backoff))
        if found
    ]
    return table(("variant", "time", "p50", "p90", "p95", "p99"), rows) if rows else None


def _facts(analysis: Analysis, events: Sequence[StoredEvent]) -> list[tuple[str, str]]:
    found, run = json_report.provenance(analysis), analysis.run
    commit = (found["commit"] or "none") + (" with uncommitted changes" if found["dirty"] else "")
    models = "; ".join(f"{name}: {', '.join(models)}" for name, models in found["models"].items())
    cores = many(found["cores"], "core") if found.get("cores") else "cores not known"
    facts = {
        "started": found["created_at"],
        "finished": found["finished_at"] or "not yet",
        "status": run["status"] + (f": {run['reason']}" if run["reason"] else ""),
        "label": run["label"],
        "trials": f"{analysis.stored:,} of {analysis.planned:,} planned are stored",
        "not run": sentences.not_run_line(analysis),
        "in flight": _in_flight(events),
        "concurrency": "; ".join(describe_findings((kind, detail) for _, kind, detail in events)),
        "seed": str(run["seed"]),
        "commit": commit,
        "branch": found.get("branch"),
        "data": f"{many(found.get('cases') or 0, 'case')}, hash {found['data_hash']}",
        "models": models or "none told",
        "programs": ", ".join(f"{name} {version}" for name, version in found["cli_versions"].items()),
        "software": ", ".join(
            [f"Python {found['python']}", *(f"{k} {v}" for k, v in (found["packages"] or {}).items())]
        ),
        "machine": f"{found['host']}, {found.get('platform') or 'unknown'}, {cores}",
    }
    return [(name, str(told)) for name, told in facts.items() if told]


_QUIET = ("run_started", "run_finished", "in_flight")


def _in_flight(events: Sequence[StoredEvent]) -> str:
    """How many trials at once; several times, if the run was resumed."""
    lines = [
        figures.in_flight_line(told["asked"], told["mean"], told["most"])
        for _, kind, told in events
        if kind == "in_flight"
    ]
    return "; ".join(line.removeprefix("in flight: ") for line in lines)


def _events(events: Sequence[StoredEvent]) -> dict[str, Any]:
    """What the limits did: how often each, and the first of them one by one."""
    worth = [event for event in events if event[1] not in _QUIET]
    kinds = Counter(kind for _, kind, _ in worth)
    listed = [
        (
            time.strftime("%H:%M:%S", time.gmtime(at)),
            kind,
            cut(", ".join(f"{key} {value}" for key, value in detail.items() if value is not None), 300),
        )
        for at, kind, detail in worth[:EVENTS]
    ]
    return {
        "told": ", ".join(f"{kind} {number:,}×" for kind, number in kinds.items()),
        "left_out": max(0, len(worth) - EVENTS),
        **table(("UTC", "event", "detail"), listed),
    }
