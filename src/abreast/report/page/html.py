"""The report as one self-contained HTML file, without scripts; works offline."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from abreast.analyse.run import Analysis, Comparison
from abreast.analyse.variants import QUANTILES, failure_modes
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
from abreast.report.words.flags import flag_lines
from abreast.report.words.run_facts import run_facts
from abreast.store.address import is_url
from abreast.store.queries.runs import StoredEvent

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
        artifacts = links = None
        if request.artifacts and (artifacts := listing.artifacts_of(request.analysis)):
            from abreast.report.page import artifact_files  # late: most runs have no artifacts

            links = artifact_files.write(request.analysis, artifacts, place, beside.append)
        text = page(request.analysis, request.pictures, artifacts, links)
        yield folder.keep(place, self.file_name, [text.encode()])


def page(
    analysis: Analysis, draw: bool = True, artifacts: RunArtifacts | None = None, links: Links | None = None
) -> str:
    """The page; the same rows give the same bytes. `links` lead to the artifacts of trials."""
    artifacts = listing.artifacts_of(analysis) if artifacts is None else artifacts
    links = Links() if links is None else links
    mark = charts.mark(analysis)
    pictures = {
        kind: [_figure(picture, mark) for picture in group if draw] for kind, group in charts.pictures(analysis).items()
    }
    artifact_list = listed(artifacts, links)
    listings = listing.listings(analysis, artifacts, links, artifact_list.size)
    events = analysis.rows.store.queries.events(analysis.rows.run_id)
    address = analysis.rows.store.address
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
            retried=sentences.RETRIED if analysis.retried_failures else "",
            flags=flag_lines(analysis),
            not_run=sentences.not_run_line(analysis),
            pictures=pictures,
            variants=_variants(analysis),
            repeats=_repeats(analysis),
            ranking=_ranking(analysis),
            further=table(*others) if analysis.further and (others := figures.other_scores(analysis)) else None,
            segments=_segments(analysis, draw),
            sections=[_section(section, mark, draw) for section in sections_of(analysis)],
            listings=listings,
            missing={item.title: listing.omissions(item) for item in listings},
            unlisted=max(0, len(analysis.comparisons) - listing.MAX_LISTED_COMPARISONS),
            artifacts=artifact_list,
            errors=_errors(analysis),
            modes=failure_modes(analysis.rows),
            waits=_waits(analysis),
            facts=run_facts(analysis, events),
            events=_events(events),
            config=cut(json.dumps(json_report.config(analysis), ensure_ascii=False, indent=2), CONFIG),
            store=address if is_url(address) else Path(address).name,
            score_name=analysis.score_name,
        )
    )


def _figure(picture: Picture, mark: str) -> dict[str, Any]:
    return {"picture": picture, "svg": Markup(picture.inline(mark))}


def _verdict(analysis: Analysis, item: Comparison) -> dict[str, Any]:
    return {
        "word": item.verdict.word,
        "sentence": sentences.sentence(item),
        "advice": sentences.notes(analysis, item),
        "aside": sentences.cost_and_latency(item),
    }


Table = dict[str, Any]  # head and rows


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """A table without its empty columns."""
    head, rows = without_empty_columns(head, rows)
    return {"head": head, "rows": rows, "turned": False}


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
                *(figures.seconds(item.latency.get(name)) for name in QUANTILES),
                *(figures.count(item.tokens[name]) if item.tokens.get(name) else NOTHING for name in classes),
                figures.repeats_in_words(item.repeats),
            ]
        )
    head = ["variant", *titles, "ok", "reused", "errors", "cost", "cost per correct", *QUANTILES]
    variants = table([*head, *classes.values(), "repeats"], rows)
    return variants if len(rows) > FEW else _transposed(variants)


def _transposed(rows: Table) -> Table:
    """A column for each variant, so that figures to compare are side by side."""
    columns = list(zip(rows["head"], *rows["rows"], strict=True))
    return {"head": ["", *columns[0][1:]], "rows": [list(column) for column in columns[1:]], "turned": True}


def _repeats(analysis: Analysis) -> Table | None:
    by_variant = [(item.name, item.repeats) for item in analysis.variants if item.repeats and item.repeats.pass_at]
    if not by_variant:
        return None
    ks = sorted({k for _, repeats in by_variant for k in repeats.pass_at})
    rows = []
    for name, repeats in by_variant:
        for sign, chances in (("@", repeats.pass_at), ("^", repeats.pass_hat)):
            rows.append([f"{name}: pass{sign}k", *(f"{chances[k]:.1%}" if k in chances else NOTHING for k in ks)])
    return table(["", *(f"k = {k}" for k in ks)], rows)


def _ranking(analysis: Analysis) -> Table | None:
    ranking = analysis.ranking
    if ranking is None:
        return None
    rows = [
        (f"{rank}. {analysis.variants[index].name}", f"{ranking.strengths[index]:.1%}")
        for rank, index in enumerate(ranking.order, 1)
    ]
    return {**table(("variant", "share of strength"), rows), "line": sentences.ranking_line(analysis)}


def _section(section: Section, mark: str, draw: bool) -> dict[str, Any]:
    return {
        "name": slug(section.name),
        "title": section.title,
        "sentences": section.sentences,
        "tables": section.tables,
        "pictures": [_figure(picture, mark) for picture in section.pictures if draw],
    }


def _segments(analysis: Analysis, drawn: bool) -> Table | None:
    """The segments of all comparisons, unless each comparison has a picture of them."""
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
    keys = sorted({key for item in analysis.variants for key in item.errors})
    rows = [
        (
            kind,
            sentences.BLAMES.get(blame, blame),
            *(f"{item.errors.get((kind, blame), 0):,}" for item in analysis.variants),
        )
        for kind, blame in keys
    ]
    for word in ("skipped", "unscored"):
        if any(getattr(item, word) for item in analysis.variants):
            rows.append((word, NOTHING, *(f"{getattr(item, word):,}" for item in analysis.variants)))
    return table(("kind", "cause", *(item.name for item in analysis.variants)), rows) if rows else None


def _waits(analysis: Analysis) -> Table | None:
    rows = [
        (item.name, title, *(figures.seconds(times.get(name)) for name in QUANTILES))
        for item in analysis.variants
        for title, times in (("service", item.latency), ("queue", item.queue), ("back-off", item.backoff))
        if times
    ]
    return table(("variant", "time", *QUANTILES), rows) if rows else None


_NOT_LISTED = ("run_started", "run_finished", "in_flight")


def _events(events: Sequence[StoredEvent]) -> dict[str, Any]:
    """Counts of scheduler events by kind, and a table of the first ones."""
    listed_events = [event for event in events if event[1] not in _NOT_LISTED]
    kinds = Counter(kind for _, kind, _ in listed_events)
    rows = [
        (
            time.strftime("%H:%M:%S", time.gmtime(at)),
            kind,
            cut(", ".join(f"{key} {value}" for key, value in detail.items() if value is not None), 300),
        )
        for at, kind, detail in listed_events[:EVENTS]
    ]
    return {
        "counts": ", ".join(f"{kind} {number:,}×" for kind, number in kinds.items()),
        "left_out": max(0, len(listed_events) - EVENTS),
        **table(("UTC", "event", "detail"), rows),
    }
