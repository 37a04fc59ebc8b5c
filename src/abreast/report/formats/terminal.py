"""The report in the terminal: the verdict, then a table, then where to look."""

from __future__ import annotations

import io
import shlex
from dataclasses import replace
from typing import Literal

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table

from abreast.analyse.run import Analysis, Comparison
from abreast.output.rich_console import PrintableConsole, PrintableText
from abreast.report.formats.catalogue import ReportFormat, ReportRequest
from abreast.report.sections import NamedTable, Section, sections_of, without_empty_columns
from abreast.report.words.flags import flag_lines
from abreast.report.words.variant_figures import OTHER_SCORES, TITLES, cells, other_scores
from abreast.report.words.verdict_sentence import (
    SIMULATED,
    cost_and_latency_lines,
    judge_lines,
    not_run_line,
    ranking_line,
    segments_of,
    sentence,
    verdict_lines,
    where_it_helps,
    whose,
)
from abreast.text import printable

MOST_ROWS = 60  # of a suite's table
MOST_NAME = 24  # characters of a row's name, however narrow the terminal
BRIEF = 6  # columns of the table of other scores
_COLOURS = {
    "better": "bold green",
    "worse": "bold red",
    "inconclusive": "bold yellow",
    "no comparison": "bold red",
    "simulated": "bold magenta",
}


def render(analysis: Analysis, where: str = "") -> RenderableType:
    """Render the whole report; `where` is the commands' store option, such as ` --store demo/results.db`.

    Print it with `crop=False`, so that commands are not cut off and can be copied.
    """
    words = {sentence(item): item.verdict.word for item in analysis.comparisons} | {SIMULATED: "simulated"}
    parts: list[RenderableType] = []
    if analysis.run["debug"]:
        parts.append(_indented("DEBUG run of a few cases: not a result", "bold magenta"))
    parts += [_indented(line, _COLOURS.get(words.get(line, ""), "")) for line in verdict_lines(analysis)]
    parts += [_indented(line) for line in (*cost_and_latency_lines(analysis), ranking_line(analysis)) if line]
    parts += [PrintableText(""), _variants(analysis), PrintableText("")]
    if not analysis.rows.spec.get("suite") and (table := other_scores(analysis)):
        head, rows = without_empty_columns(table[0][:BRIEF], [row[:BRIEF] for row in table[1]])
        parts += [_indented(OTHER_SCORES), _named(NamedTable("", "", head, rows)), PrintableText("")]
    for section in sections_of(analysis):
        parts += _section(section, f"abreast report {analysis.run['run']} --format markdown{where}")
    for comparison in analysis.comparisons:
        parts += _where_to_look(analysis, comparison, where)
    parts += [_indented(line, "yellow") for line in flag_lines(analysis)]
    parts += [_indented(line) for line in (*judge_lines(analysis), not_run_line(analysis)) if line]
    return Group(*parts)


def _where_to_look(analysis: Analysis, comparison: Comparison, where: str) -> list[RenderableType]:
    parts: list[RenderableType] = []
    if segments := segments_of(analysis, comparison):
        parts.append(_indented(f"where    {whose(analysis, comparison)}{where_it_helps(segments)} (exploratory)"))
    if comparison.differences:
        cases = ", ".join(
            f"{item.case_id} ({item.baseline:.2g} → {item.variant:.2g})" for item in comparison.differences[:3]
        )
        show = f"abreast show {analysis.run['run']} {shlex.quote(comparison.differences[0].case_id)}{where}"
        parts += [
            _indented(f"look at  {whose(analysis, comparison)}{cases}"),
            PrintableText(f"           {show}", no_wrap=True, overflow="ignore"),
        ]
    return parts


def _indented(line: str, style: str = "") -> Padding:
    """Indent every row by two spaces, however narrow the terminal."""
    return Padding(PrintableText(line, style=style), (0, 0, 0, 2), expand=False)


def _section(section: Section, command: str) -> list[RenderableType]:
    """Render a section of a suite: sentences, then tables, no pictures. `command` prints the rows omitted here."""
    parts: list[RenderableType] = [_indented(section.title, "bold")] if section.title else []
    parts += map(_indented, section.sentences)
    tables = [table for table in section.tables if not table.aside]
    if not section.sentences and not tables:
        return []
    for table in tables:
        parts.append(PrintableText(""))
        parts += [_indented(table.title)] if table.title else []
        parts.append(_named(replace(table, rows=table.rows[:MOST_ROWS])))
        if (more := len(table.rows) - MOST_ROWS) > 0:
            parts.append(PrintableText(f"  {more:,} more: {command}", no_wrap=True, overflow="ignore"))
        parts += [_indented(table.note, "dim")] if table.note else []
    return [*parts, PrintableText("")]


def _named(table: NamedTable) -> _Columns:
    columns = zip(*table.rows, strict=True) if table.rows else ((),) * len(table.head)
    return _Columns(
        [
            (title, list(column), at < table.words)
            for at, (title, column) in enumerate(zip(table.head, columns, strict=True))
        ]
    )


def _variants(analysis: Analysis) -> _Columns:
    rows = [(summary.name, *cells(summary)) for summary in analysis.variants]
    head, body = without_empty_columns(("", *TITLES), rows, kept=3)
    columns = zip(head, zip(*body, strict=True), strict=True)
    return _Columns([(title, list(column), title in ("", "errors")) for title, column in columns])


_Column = tuple[str, list[str], bool]  # title, cells, and whether these are words, which may be wrapped


class _Columns:
    """A table whose first column names the rows. Columns that do not fit the terminal continue below."""

    def __init__(self, columns: list[_Column]) -> None:
        self._columns = [(printable(title), list(map(printable, cells)), words) for title, cells, words in columns]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if len(self._columns) == 1:
            yield _table(self._columns)
            return
        name, *rest = self._columns
        name_width = min(_width(name), max(MOST_NAME, options.max_width // 3))
        room = options.max_width - name_width
        while rest:
            block = [rest.pop(0)]
            while rest and sum(map(_width, [*block, rest[0]])) <= room:
                block.append(rest.pop(0))
            yield _table([name, *block], name_width, folded=_width(block[0]) > room)


def _width(column: _Column) -> int:
    return max(map(cell_len, [column[0], *column[1]])) + 2


def _table(columns: list[_Column], name_width: int | None = None, folded: bool = False) -> Table:
    """`name_width` is that of the first column; figures are wrapped only if `folded`."""
    table = Table(box=None, pad_edge=True, header_style="dim")
    for at, (title, _, words) in enumerate(columns):
        justify: Literal["left", "right"] = "left" if words else "right"
        width = None if at or name_width is None else name_width - 2
        table.add_column(
            PrintableText(title), justify=justify, overflow="fold", no_wrap=not (words or folded), width=width
        )
    for row in zip(*(column for _, column, _ in columns), strict=True):
        table.add_row(*map(PrintableText, row))
    return table


class Terminal(ReportFormat):
    file_name = "report.txt"

    def pieces(self, request: ReportRequest) -> list[str]:
        return [as_text(request.analysis)]


def as_text(analysis: Analysis, width: int = 120) -> str:
    console = PrintableConsole(file=io.StringIO(), width=width, no_color=True)
    console.print(render(analysis), crop=False)
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return text
