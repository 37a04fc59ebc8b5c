"""The report as Markdown: for a pull request, a wiki, a notebook."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from abreast.analyse.run import Analysis, Comparison
from abreast.report.formats.catalogue import ReportFormat, ReportRequest
from abreast.report.formats.json_report import events, provenance
from abreast.report.sections import Section, sections_of, without_empty_columns
from abreast.report.words.concurrency import describe_findings
from abreast.report.words.flags import flag_lines
from abreast.report.words.variant_figures import TITLES, cells
from abreast.report.words.verdict_sentence import (
    SEGMENT_TITLES,
    aside,
    not_run_line,
    ranking_line,
    segment_cells,
    verdict_lines,
    whose,
)
from abreast.text import printable

SEGMENTS = 20


class Markdown(ReportFormat):
    file_name = "report.md"

    def pieces(self, request: ReportRequest) -> list[str]:
        return [printable(text(request.analysis))]


def text(analysis: Analysis) -> str:
    """Verdict, variants, segments, the cases that differ most, and how it was run."""
    run = analysis.run
    parts = [f"## {safe(run['experiment'])} · {run['run']}"]
    if run["debug"]:
        parts.append("**DEBUG run of a few cases: not a result**")
    first, *rest = [safe(line) for line in verdict_lines(analysis)]
    parts += [f"**{first}**", *rest]
    parts += [safe(f"{whose(analysis, item)}{told}") for item in analysis.comparisons if (told := aside(item))]
    if analysis.ranking is not None:
        parts.append(safe(ranking_line(analysis)))
    parts.append(_variants(analysis))
    if analysis.segments:
        parts += ["### Where it helps (exploratory)", _segments(analysis)]
    for section in sections_of(analysis):
        parts += _section(section)
    for item in analysis.comparisons:
        if item.differences:
            parts += [f"### Cases that differ most: {safe(item.variant)} against {safe(item.baseline)}", _cases(item)]
    parts += [safe(line) for line in flag_lines(analysis)]
    if left := not_run_line(analysis):
        parts.append(safe(left))
    parts += ["### How it was run", _provenance(analysis)]
    return "\n\n".join(parts) + "\n"


def _variants(analysis: Analysis) -> str:
    rows = [
        (item.name + (" (baseline)" if item.name == analysis.run["baseline"] else ""), *cells(item))
        for item in analysis.variants
    ]
    return table(("variant", *TITLES), rows)


def _section(section: Section) -> list[str]:
    """What a suite adds; pictures are for paper."""
    parts = [f"### {safe(section.title)}"] if section.title else []
    parts += [safe(told) for told in section.sentences]
    for one in section.tables:
        parts += [f"**{safe(one.title)}**"] if one.title else []
        parts.append(table(one.head, one.rows))
        parts += [safe(one.note)] if one.note else []
    return parts


def _segments(analysis: Analysis) -> str:
    largest = sorted(analysis.segments, key=lambda item: -abs(item.estimate.estimate))[:SEGMENTS]
    rows = [(f"{item.tag}={item.value}", item.variant, *segment_cells(item), f"{item.cases:,}") for item in largest]
    return table(("segment", "variant", *SEGMENT_TITLES, "cases"), rows)


def _cases(item: Comparison) -> str:
    rows = [(each.case_id, f"{each.baseline:.3g}", f"{each.variant:.3g}") for each in item.differences]
    return table(("case", item.baseline, item.variant), rows)


def _provenance(analysis: Analysis) -> str:
    found = provenance(analysis)
    models = ", ".join(sorted({model for models in found["models"].values() for model in models}))
    facts = {
        "commit": (found["commit"] or "none") + (" with uncommitted changes" if found["dirty"] else ""),
        "data": found["data_hash"],
        "seed": found["seed"],
        "models": models or "none told",
        "Python": found["python"],
        "packages": ", ".join(f"{name} {version}" for name, version in found["packages"].items()),
        "started": found["created_at"],
        "concurrency": "; ".join(describe_findings(events(analysis))),
    }
    return "\n".join(f"- {name}: {safe(str(value))}" for name, value in facts.items() if value != "")


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; columns that hold nothing are left out."""
    head, shown = without_empty_columns(titles, list(rows))
    lines = [map(safe, head), ["---"] * len(head), *(map(safe, row) for row in shown)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def safe(words: str) -> str:
    """Text that Markdown takes for nothing but text: names, ids and tags are anybody's.

    >>> safe("a|b <b>*c*\\nd"), safe("wins - losses")
    ('a\\\\|b &lt;b&gt;\\\\*c\\\\* d', 'wins - losses')
    """
    plain = re.sub(r"\s+", " ", words.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"))
    return re.sub(r"([\\`*_\[\]|#!~])", r"\\\1", plain)
