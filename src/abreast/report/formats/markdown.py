"""The report as Markdown, such as for a pull request, wiki or notebook."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from abreast.analyse.run import Analysis, Comparison
from abreast.report.formats.catalogue import ReportFormat, ReportRequest
from abreast.report.sections import Section, sections_of, without_empty_columns
from abreast.report.words.flags import flag_lines
from abreast.report.words.run_facts import run_facts
from abreast.report.words.variant_figures import OTHER_SCORES, TITLES, cells, other_scores
from abreast.report.words.verdict_sentence import (
    SEGMENT_TITLES,
    cost_and_latency_lines,
    not_run_line,
    ranking_line,
    segment_cells,
    verdict_lines,
)
from abreast.text import printable

SEGMENTS = 20


class Markdown(ReportFormat):
    file_name = "report.md"

    def pieces(self, request: ReportRequest) -> list[str]:
        return [printable(text(request.analysis))]


def text(analysis: Analysis) -> str:
    """Render the verdict, variants, segments, the cases that differ most, and how the run was made."""
    run = analysis.run
    parts = [f"## {safe(run['experiment'])} · {run['run']}"]
    if run["debug"]:
        parts.append("**DEBUG run of a few cases: not a result**")
    first, *rest = [safe(line) for line in verdict_lines(analysis)]
    parts += [f"**{first}**", *rest]
    parts += [safe(line) for line in (*cost_and_latency_lines(analysis), ranking_line(analysis)) if line]
    parts.append(variants_table(analysis))
    if scores := other_scores(analysis):
        parts += [f"### {OTHER_SCORES}", table(*scores)]
    if analysis.segments:
        parts += ["### Where it helps (exploratory)", _segments(analysis)]
    for section in sections_of(analysis):
        parts += section_parts(section)
    for item in analysis.comparisons:
        if item.differences:
            title = f"### Cases that differ most: {safe(item.variant)} against {safe(item.baseline)}"
            parts += [title, case_table(item)]
    parts += [safe(line) for line in (*flag_lines(analysis), not_run_line(analysis)) if line]
    facts = run_facts(analysis, analysis.rows.store.queries.events(analysis.rows.run_id))
    parts += ["### How it was run", "\n".join(f"- {name}: {safe(fact)}" for name, fact in facts)]
    return "\n\n".join(parts) + "\n"


def variants_table(analysis: Analysis) -> str:
    rows = [
        (item.name + (" (baseline)" if item.name == analysis.run["baseline"] else ""), *cells(item))
        for item in analysis.variants
    ]
    return table(("variant", *TITLES), rows)


def section_parts(section: Section) -> list[str]:
    """Render a section of a suite, without its pictures."""
    parts = [f"### {safe(section.title)}"] if section.title else []
    parts += [safe(sentence) for sentence in section.sentences]
    for item in section.tables:
        parts += [f"**{safe(item.title)}**"] if item.title else []
        parts.append(table(item.head, item.rows))
        parts += [safe(item.note)] if item.note else []
    return parts


def _segments(analysis: Analysis) -> str:
    largest = sorted(analysis.segments, key=lambda item: -abs(item.estimate.estimate))[:SEGMENTS]
    rows = [(f"{item.tag}={item.value}", item.variant, *segment_cells(item), f"{item.cases:,}") for item in largest]
    return table(("segment", "variant", *SEGMENT_TITLES, "cases"), rows)


def case_table(item: Comparison) -> str:
    rows = [(case.case_id, f"{case.baseline:.3g}", f"{case.variant:.3g}") for case in item.differences]
    return table(("case", item.baseline, item.variant), rows)


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Render a table without its empty columns."""
    head, cells = without_empty_columns(titles, list(rows))
    lines = [map(safe, head), ["---"] * len(head), *(map(safe, row) for row in cells)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def safe(words: str) -> str:
    """Escape text for Markdown; names, ids and tags may contain anything.

    >>> safe("a|b <b>*c*\\nd"), safe("wins - losses")
    ('a\\\\|b &lt;b&gt;\\\\*c\\\\* d', 'wins - losses')
    """
    plain = re.sub(r"\s+", " ", words.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"))
    return re.sub(r"([\\`*_\[\]|#!~])", r"\\\1", plain)
