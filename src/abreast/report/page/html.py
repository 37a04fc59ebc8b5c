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
from abreast.analyse.variants import failure_modes
from abreast.report import charts, folder
from abreast.report.charts.drawing import Picture, slug
from abreast.report.formats import json_report
from abreast.report.formats.catalogue import ReportFormat, ReportRequest
from abreast.report.page import listing, rendering, tables
from abreast.report.page.trial_artifacts import Links, RunArtifacts, cut, listed
from abreast.report.sections import Section, sections_of
from abreast.report.words import variant_figures as figures
from abreast.report.words import verdict_sentence as sentences
from abreast.report.words.flags import flag_lines
from abreast.report.words.run_facts import run_facts
from abreast.store.address import is_url
from abreast.store.queries.runs import StoredEvent

CONFIG = 60_000  # characters of the spec as executed
EVENTS = 200


class Html(ReportFormat):
    file_name = "report.html"
    is_printed = False

    def pieces(self, request: ReportRequest) -> list[str]:
        return [page(request.analysis, request.pictures)]

    def write(self, request: ReportRequest, place: Path, linked: list[Path]) -> Iterator[Path]:
        artifacts = links = None
        if request.artifacts and (artifacts := listing.artifacts_of(request.analysis)):
            from abreast.report.page import artifact_files  # late: most runs have no artifacts

            links = artifact_files.write(request.analysis, artifacts, place, linked.append)
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
            variants=tables.variants(analysis),
            repeats=tables.repeats(analysis),
            ranking=tables.ranking(analysis),
            further=tables.table(*others) if analysis.further and (others := figures.other_scores(analysis)) else None,
            segments=tables.segments(analysis, draw),
            sections=[_section(section, mark, draw) for section in sections_of(analysis)],
            listings=listings,
            missing={item.title: listing.omissions(item) for item in listings},
            unlisted=max(0, len(analysis.comparisons) - listing.MAX_LISTED_COMPARISONS),
            artifacts=artifact_list,
            errors=tables.errors(analysis),
            modes=failure_modes(analysis.rows),
            waits=tables.waits(analysis),
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


def _section(section: Section, mark: str, draw: bool) -> dict[str, Any]:
    return {
        "name": slug(section.name),
        "title": section.title,
        "sentences": section.sentences,
        "tables": section.tables,
        "pictures": [_figure(picture, mark) for picture in section.pictures if draw],
    }


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
        **tables.table(("UTC", "event", "detail"), rows),
    }
