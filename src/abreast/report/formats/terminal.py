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
from abreast.report.words.variant_figures import TITLES, cells
from abreast.report.words.verdict_sentence import (
    SIMULATED,
    aside,
    judge_lines,
    not_run_line,
    ranking_line,
    sentence,
    verdict_lines,
    where_it_helps,
    whose,
)
from abreast.text import printable

MOST_ROWS = 60  # of a table of a suite
MOST_NAME = 24  # characters for the name of a row, however narrow the terminal
_COLOURS = {
    "better": "bold green",
    "worse": "bold red",
    "inconclusive": "bold yellow",
    "no comparison": "bold red",
    "simulated": "bold magenta",
}


def render(analysis: Analysis, where: str = "") -> RenderableType:
    """The whole report; `where` is what a command needs to find the store, such as ` --store demo/results.db`.

    Print it with `crop=False`: commands are not cut, so that they can be copied.
    """
    words = {sentence(item): item.verdict.word for item in analysis.comparisons} | {SIMULATED: "simulated"}
    parts: list[RenderableType] = []
    if analysis.run["debug"]:
        parts.append(_indented("DEBUG run of a few cases: not a result", "bold magenta"))
    parts += [_indented(line, _COLOURS.get(words.get(line, ""), "")) for line in verdict_lines(analysis)]
    parts += [
        _indented(whose(analysis, comparison) + told)
        for comparison in analysis.comparisons
        if (told := aside(comparison))
    ]
    if analysis.ranking is not None:
        parts.append(_indented(ranking_line(analysis)))
    parts += [PrintableText(""), _variants(analysis), PrintableText("")]
    for section in sections_of(analysis):
        parts += _section(section, f"abreast report {analysis.run['run']} --format markdown{where}")
    for comparison in analysis.comparisons:
        parts += _where_to_look(analysis, comparison, where)
    parts += [_indented(line, "yellow") for line in flag_lines(analysis)]
    parts += [_indented(line) for line in (*judge_lines(analysis), not_run_line(analysis)) if line]
    return Group(*parts)


def _where_to_look(analysis: Analysis, comparison: Comparison, where: str) -> list[RenderableType]:
    parts: list[RenderableType] = []
    mine = [
        item for item in analysis.segments if (item.variant, item.baseline) == (comparison.variant, comparison.baseline)
    ]
    if mine:
        parts.append(_indented(f"where    {whose(analysis, comparison)}{where_it_helps(mine)} (exploratory)"))
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
    """Two spaces in front of every row of it, however narrow the terminal."""
    return Padding(PrintableText(line, style=style), (0, 0, 0, 2), expand=False)


def _section(section: Section, whole: str) -> list[RenderableType]:
    """What a suite adds: its sentences, then its tables; pictures are for paper. `whole` shows what is cut here."""
    parts: list[RenderableType] = [_indented(section.title, "bold")] if section.title else []
    parts += map(_indented, section.sentences)
    tables = [table for table in section.tables if not table.aside]
    if not section.sentences and not tables:
        return []
    for table in tables:
        parts.append(PrintableText(""))
        parts += [_indented(table.title)] if table.title else []
        parts.append(_named(replace(table, rows=table.rows[:MOST_ROWS])))
        if (left := len(table.rows) - MOST_ROWS) > 0:
            parts.append(PrintableText(f"  {left:,} more: {whole}", no_wrap=True, overflow="ignore"))
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
    head, shown = without_empty_columns(("", *TITLES), rows, kept=3)
    columns = zip(head, zip(*shown, strict=True), strict=True)
    return _Columns([(title, list(column), title in ("", "errors")) for title, column in columns])


_Column = tuple[str, list[str], bool]  # title, cells, and whether those are words, which may be folded


class _Columns:
    """A table whose first column names the rows. What is too wide for the terminal goes on below; nothing is cut."""

    def __init__(self, columns: list[_Column]) -> None:
        self._columns = [(printable(title), list(map(printable, cells)), words) for title, cells, words in columns]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if len(self._columns) == 1:
            yield _table(self._columns)
            return
        name, *rest = self._columns
        named = min(_width(name), max(MOST_NAME, options.max_width // 3))
        while rest:
            left = options.max_width - named
            taken = [rest.pop(0)]
            while rest and sum(map(_width, [*taken, rest[0]])) <= left:
                taken.append(rest.pop(0))
            yield _table([name, *taken], named, folded=_width(taken[0]) > left)


def _width(column: _Column) -> int:
    return max(map(cell_len, [column[0], *column[1]])) + 2


def _table(columns: list[_Column], named: int | None = None, folded: bool = False) -> Table:
    """`named` is how wide the first column is; figures are folded only if there is no other way."""
    table = Table(box=None, pad_edge=True, header_style="dim")
    for at, (title, _, words) in enumerate(columns):
        justify: Literal["left", "right"] = "left" if words else "right"
        width = None if at or named is None else named - 2
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
    written: str = console.file.getvalue()  # type: ignore[attr-defined]
    return written
