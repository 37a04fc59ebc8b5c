"""The report for GitHub Actions: a job summary, annotations and outputs.

The summary goes to the file in `GITHUB_STEP_SUMMARY`, the outputs `outcome`, `verdict` and `run` to the one in
`GITHUB_OUTPUT`. Names, ids and messages come from users and models and may contain anything.
"""

from __future__ import annotations

import html
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

from abreast.analyse.run import Analysis, Comparison
from abreast.report.formats.catalogue import ReportFormat, ReportRequest
from abreast.report.formats.github_commands import append, command, write_outputs
from abreast.report.formats.markdown import safe, section_parts, table, variants_table
from abreast.report.sections import sections_of
from abreast.report.words import run_comparison
from abreast.report.words.flags import flag_lines
from abreast.report.words.run_facts import run_facts
from abreast.report.words.verdict_sentence import (
    SIMULATED,
    circumstances,
    cost_and_latency_lines,
    not_run_line,
    notes,
    points,
    preface,
    sentence,
    trusted,
    verdict_lines,
)
from abreast.text import many, printable

if TYPE_CHECKING:
    from abreast.analyse.compare import AcrossRuns, Contender

LONGEST_SUMMARY = 60_000  # characters; GitHub takes comments of up to 65,536
MOST_ANNOTATIONS = 10  # of each level, which is what GitHub shows for a step
OUTCOMES = ("worse", "no comparison", "inconclusive", "not worse", "equivalent", "better")  # least favourable first
SIGNS = {
    "worse": "❌",
    "no comparison": "⚠️",
    "inconclusive": "❔",
    "not worse": "✅",
    "equivalent": "✅",
    "better": "✅",
}
LEVELS = {"worse": "warning", "no comparison": "warning"}  # of annotations; others are notices


class GitHub(ReportFormat):
    file_name = "github.md"

    def pieces(self, request: ReportRequest) -> list[str]:
        return [of_run(request.analysis, request.unmet).text()]

    def publish(self, request: ReportRequest) -> list[str]:
        return of_run(request.analysis, request.unmet).publish()


@dataclass(frozen=True, slots=True)
class JobSummary:
    """The result as GitHub shows it."""

    title: str
    run: str
    words: Sequence[str]  # the verdict of each comparison
    sentences: Sequence[str]  # on each comparison
    sections: Sequence[str]  # Markdown below the title
    unmet: Sequence[str]  # requirements
    file: str | None = field(default=None)  # the spec, relative to the repository

    @property
    def outcome(self) -> str:
        """The least favourable verdict."""
        return next((word for word in OUTCOMES if word in self.words), "no comparison")

    def text(self) -> str:
        """The summary as Markdown, without sections that would make it too long."""
        is_compared = bool(self.words)
        parts = [
            f"## {SIGNS[self.outcome]} {safe(self.title)}: {self.outcome}" if is_compared else f"## {safe(self.title)}"
        ]
        parts += [f"**Requirement not met**: {safe(line)}" for line in self.unmet]
        length = sum(map(len, parts))
        for section in self.sections:
            length += len(inert(section)) + 2
            if length > LONGEST_SUMMARY:
                parts.append("The rest is too long for a summary; see `abreast report`.")
                break
            parts.append(section)
        return inert(printable("\n\n".join(parts))) + "\n"

    def publish(self) -> list[str]:
        """Write the job summary and the outputs where GitHub reads them, and return the annotations for the log."""
        verdict = dict(zip(reversed(self.words), reversed(self.sentences), strict=True)).get(self.outcome, self.outcome)
        outcome = self.outcome.replace(" ", "_")
        try:
            if path := os.environ.get("GITHUB_STEP_SUMMARY"):
                append(path, self.text() + "\n")
            write_outputs(outcome=outcome, run=self.run, verdict=verdict)
        except OSError as error:
            return [*self.annotations(), command("warning", f"cannot write the job summary or the outputs ({error})")]
        return self.annotations()

    def annotations(self) -> list[str]:
        """Return workflow commands, least favourable verdict first."""
        failed = [command("error", line, title="requirement not met", file=self.file) for line in self.unmet]
        verdicts = sorted(zip(self.words, self.sentences, strict=True), key=lambda item: OUTCOMES.index(item[0]))
        by_level: dict[str, list[str]] = {"error": failed}
        for word, line in verdicts:
            level = LEVELS.get(word, "notice")
            by_level.setdefault(level, []).append(command(level, line, title=f"abreast: {word}", file=self.file))
        return [line for lines in by_level.values() for line in lines[:MOST_ANNOTATIONS]]


def inert(text: str) -> str:
    """Keep GitHub from turning names and messages into mentions, references and links.

    >>> inert("ask @octocat about #12 and GH-7"), inert("see https://a.b or www.a.b &#39;")
    ('ask @&#8288;octocat about #&#8288;12 and GH-&#8288;7', 'see https:&#8288;//a.b or www.&#8288;a.b &#39;')
    """
    return re.sub(
        r"@(?=\w)|(?<!&)#(?=\d)|\b(?:GH-(?=\d)|www\.|(?:https?|ftp):(?=/))", r"\g<0>&#8288;", text, flags=re.I
    )


def collapsible(title: str, content: str) -> str:
    return f"<details><summary>{html.escape(' '.join(title.split()))}</summary>\n\n{content}\n\n</details>"


def of_run(analysis: Analysis, unmet: Sequence[str] = ()) -> JobSummary:
    """Summarise the verdicts on the variants of a run against its baseline."""
    items, run = analysis.comparisons, analysis.run
    sections = [f"**{SIMULATED}**"] if analysis.simulated else []
    sections += ["**DEBUG run of a few cases: not a result**"] if run["debug"] else []
    sections += [safe(line) for line in preface(analysis)] if items else []
    for item in items:
        sections.append(_claim(sentence(item), notes(analysis, item)))
    if not items:
        first, *rest = [line for line in verdict_lines(analysis) if line != SIMULATED]
        sections.append(_claim(first, rest))
    sections += [_verdict_table(items)] if len(items) > 1 else []
    lines = [*cost_and_latency_lines(analysis), *(circumstances(analysis) if items else ()), *flag_lines(analysis)]
    sections += [_bullets([*lines, not_run_line(analysis)])]
    sections.append(variants_table(analysis))
    for section in sections_of(analysis):
        content = "\n\n".join(section_parts(replace(section, title="")))
        sections.append(collapsible(section.title, content) if section.title else content)
    sections += [_changed(item, several=len(items) > 1) for item in items if item.changed]
    facts = run_facts(analysis, analysis.rows.store.queries.events(analysis.rows.run_id))
    sections.append(collapsible("How it was run", _bullets(f"{name}: {fact}" for name, fact in facts)))
    return JobSummary(
        title=run["experiment"],
        run=run["run"],
        words=[item.verdict.word for item in items],
        sentences=[sentence(item) for item in items],
        sections=[section for section in sections if section],
        unmet=unmet,
        file=_in_repository(analysis.rows.spec.get("origin")),
    )


def of_runs(items: Sequence[AcrossRuns], unmet: Sequence[str] = ()) -> JobSummary:
    """Summarise the verdicts of `abreast compare`. Variants without new answers do not count."""
    counted = [item for item in items if not item.is_unchanged]
    sections = [f"**{SIMULATED}**"] if any(item.simulated for item in items) else []
    for item in items:
        first, *rest = run_comparison.lines(item)
        sections.append(_claim(first, rest))
    comparisons = [item.comparison for item in items]
    sections += [_verdict_table(comparisons)] if len(items) > 1 else []
    sections += [_bullets(run_comparison.cautions(items))]
    sections += [_changed(item, several=len(items) > 1) for item in comparisons if item.changed]
    runs = {contender.run for item in items for contender in (item.first, item.second)}
    name = _run_name if len(runs) > 1 else attrgetter("variant")
    later = list(dict.fromkeys(name(item.second) for item in items))
    return JobSummary(
        title=f"{', '.join(later)} against {name(items[0].first)}{'' if counted else ': no new answers'}",
        run=items[-1].second.run,
        words=[item.comparison.verdict.word for item in counted],
        sentences=[run_comparison.lines(item)[0] for item in counted],
        sections=[section for section in sections if section],
        unmet=unmet,
    )


def _run_name(contender: Contender) -> str:
    """`main (brave-otter-4821)`."""
    return f"{contender.label} ({contender.run})" if contender.label else contender.run


def _claim(line: str, details: Iterable[str]) -> str:
    """Format the sentence of a verdict with its qualifications."""
    return "\n\n".join(filter(None, [f"**{safe(line)}**", _bullets(details)]))


def _bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {safe(line)}" for line in lines if line)


def _verdict_table(items: Iterable[Comparison]) -> str:
    rows = []
    for item in items:
        result, interval = item.verdict, trusted(item.verdict)
        rows.append(
            (
                f"{item.variant} against {item.baseline}",
                f"{SIGNS[result.word]} {result.word}",
                points(result.interval.estimate) if result.interval else "",
                f"{points(interval.low)} … {points(interval.high)}" if interval else "",
                f"{result.wins:,} / {result.losses:,} / {result.ties:,}" if result.interval else "",
            )
        )
    return table(("comparison", "verdict", "points", "interval", "wins / losses / ties"), rows)


def _changed(item: Comparison, several: bool) -> str:
    """List the cases whose score changed, those that became worse first."""
    result = item.verdict
    count = result.wins + result.losses
    title = f"{many(count, item.case_noun)} changed: {result.wins:,} better, {result.losses:,} worse"
    title += f"; the {len(item.changed):,} that differ most" if len(item.changed) < count else ""
    ordered = sorted(item.changed, key=lambda case: case.variant > case.baseline)  # stable: the largest stay first
    rows = [
        (case.case_id, f"{case.baseline:.3g}", f"{case.variant:.3g}", _direction(case.variant > case.baseline))
        for case in ordered
    ]
    content = table((item.case_noun, item.baseline, item.variant, "change"), rows)
    return collapsible(f"{item.variant} against {item.baseline}: {title}" if several else title, content)


def _direction(is_better: bool) -> str:
    return "better" if is_better else "worse"


def _in_repository(path: str | None) -> str | None:
    """Return the path of a file relative to the workflow's checkout; None if it is elsewhere."""
    workspace = os.environ.get("GITHUB_WORKSPACE")
    if not path or not workspace or not Path(path).is_relative_to(Path(workspace).resolve()):
        return None
    return Path(path).relative_to(Path(workspace).resolve()).as_posix()
