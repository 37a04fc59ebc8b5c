"""The report in the terminal: the verdict, then a table, then where to look."""

from __future__ import annotations

import io
import math
import shlex
from collections.abc import Mapping
from typing import Literal

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from abreast.analyse import Analysis, Comparison, Repeats, VariantSummary
from abreast.report.sentence import aside, many, verdict_lines, where_it_helps, whose

_COLOURS = {"better": "bold green", "worse": "bold red", "inconclusive": "bold yellow", "SIMULATED": "bold magenta"}


def render(analysis: Analysis, where: str = "") -> RenderableType:
    """The whole report; `where` is what a command needs to find the store, such as ` --store demo/results.db`.

    Print it with `crop=False`: commands are not cut, so that they can be copied.
    """
    parts: list[RenderableType] = [_indented(_verdict_line(line)) for line in verdict_lines(analysis)]
    if analysis.run["debug"]:
        parts.insert(0, _indented(Text("DEBUG run of a few cases: not a result", style="bold magenta")))
    for comparison in analysis.comparisons:
        if told := aside(comparison):
            parts.append(_indented(Text(whose(analysis, comparison) + told)))
    if analysis.ranking is not None:
        parts.append(_indented(Text(ranking_line(analysis))))
    parts += [Text(""), _Variants(analysis), Text("")]
    for comparison in analysis.comparisons:
        parts += _where_to_look(analysis, comparison, where)
    if left := not_run_line(analysis):
        parts.append(_indented(Text(left)))
    return Group(*parts)


def not_run_line(analysis: Analysis) -> str:
    """How many trials were not run, and why; empty if none."""
    left = analysis.planned - analysis.stored
    if not left:
        return ""
    reason = analysis.run["reason"] or "unknown"
    return f"{left:,} of {many(analysis.planned, 'trial')} {'was' if left == 1 else 'were'} not run: {reason}"


def _where_to_look(analysis: Analysis, comparison: Comparison, where: str) -> list[RenderableType]:
    parts: list[RenderableType] = []
    mine = [
        item for item in analysis.segments if (item.variant, item.baseline) == (comparison.variant, comparison.baseline)
    ]
    if mine:
        parts.append(_indented(Text(f"where    {whose(analysis, comparison)}{where_it_helps(mine)} (exploratory)")))
    if comparison.differences:
        cases = ", ".join(
            f"{item.case_id} ({item.baseline:.2g} → {item.variant:.2g})" for item in comparison.differences[:3]
        )
        show = f"abreast show {analysis.run['run']} {shlex.quote(comparison.differences[0].case_id)}{where}"
        parts += [
            _indented(Text(f"look at  {whose(analysis, comparison)}{cases}")),
            Text(f"           {show}", no_wrap=True, overflow="ignore"),
        ]
    return parts


def ranking_line(analysis: Analysis) -> str:
    """`ranking: short (52 %), long (30 %), none (18 %)`: each one's share of the strength of all."""
    ranking = analysis.ranking
    assert ranking is not None
    told = [f"{analysis.variants[index].name} ({ranking.strengths[index]:.0%})" for index in ranking.order]
    return f"ranking by wins (Bradley–Terry, strengths of 100 % in all): {', '.join(told)}"


def _indented(line: Text) -> Padding:
    """Two spaces in front of every row of it, however narrow the terminal."""
    return Padding(line, (0, 0, 0, 2), expand=False)


def _verdict_line(line: str) -> Text:
    word = line.split(":")[0].split(" ")[0]
    return Text(line, style=_COLOURS.get(word, ""))


class _Variants:
    """The table of variants. What is too wide for the terminal goes on below, and nothing is cut."""

    def __init__(self, analysis: Analysis) -> None:
        titles = ("", "score", "ok", "errors", "cost", "per correct", "p50", "p95", "tokens", "repeats")
        rows = [_cells(summary) for summary in analysis.variants]
        told = [at for at in range(len(titles)) if at < 3 or any(row[at] not in _NOTHING for row in rows)]
        self._columns = [(titles[at], [row[at] for row in rows]) for at in told]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        name, *rest = self._columns
        while rest:
            left = options.max_width - _width(name)
            taken = [rest.pop(0)]
            while rest and sum(map(_width, [*taken, rest[0]])) <= left:
                taken.append(rest.pop(0))
            yield _table([name, *taken])


_Column = tuple[str, list[str]]


def _width(column: _Column) -> int:
    return max(map(cell_len, [column[0], *column[1]])) + 2


def _table(columns: list[_Column]) -> Table:
    table = Table(box=None, pad_edge=True, header_style="dim")
    for title, _ in columns:
        justify: Literal["left", "right"] = "left" if title in ("", "errors") else "right"
        table.add_column(title, justify=justify, overflow="fold", no_wrap=title not in ("", "errors"))
    for row in zip(*(cells for _, cells in columns), strict=True):
        table.add_row(*map(Text, row))
    return table


_NOTHING = ("–",)  # a column of nothing else is left out


def _cells(summary: VariantSummary) -> tuple[str, ...]:
    score = summary.score
    shown = "–" if score is None else f"{score.estimate:.1%} ({score.low:.1%} … {score.high:.1%})"
    ok = f"{summary.ok:,}" + (f" ({summary.reused:,} reused)" if summary.reused else "")
    return (
        summary.name,
        shown,
        ok,
        errors_in_words(summary),
        cost_in_words(summary),
        dollars(summary.cost_per_correct.estimate if summary.cost_per_correct else None),
        seconds(summary.latency_p50),
        seconds(summary.latency_p95),
        tokens_in_words(summary.tokens),
        repeats_in_words(summary.repeats),
    )


def dollars(value: float | None) -> str:
    """`$4.12`, `$0.0031`, `∞` if nothing was correct."""
    if value is None:
        return "–"
    if math.isinf(value):
        return "∞"
    return f"${value:,.2f}" if value >= 0.1 or value == 0 else f"${value:.2g}"


def cost_in_words(summary: VariantSummary) -> str:
    """`$4.12`, and of how many answers it is not known, if some of them say it."""
    told = dollars(summary.cost_usd)
    return f"{told} ({summary.unpriced:,} unknown)" if summary.unpriced and summary.cost_usd is not None else told


def tokens_in_words(tokens: Mapping[str, int]) -> str:
    """By class, those that there are.

    >>> tokens_in_words({"input": 700_000, "output": 71_000, "cache_read": 500_000, "cache_write": 0})
    '700.0 k in / 500.0 k cached / 71.0 k out'
    """
    names = {"input": "in", "cache_read": "cached", "cache_write": "written", "output": "out"}
    return " / ".join(f"{count(tokens[key])} {name}" for key, name in names.items() if tokens.get(key)) or "–"


def repeats_in_words(repeats: Repeats | None) -> str:
    """`pass@3 81.0 %, pass^3 44.0 %, 62 % consistent`."""
    if repeats is None:
        return "–"
    told, most = [], max(repeats.pass_at, default=0)
    if most:
        told = [f"pass@{most} {repeats.pass_at[most]:.1%}", f"pass^{most} {repeats.pass_hat[most]:.1%}"]
    return ", ".join([*told, f"{repeats.consistent:.0%} consistent"])


def errors_in_words(summary: VariantSummary) -> str:
    """`2 timeout (its), 1 network`."""
    whose = {"variant": " (its)", "infrastructure": "", "unknown": " (unclear whose)"}
    parts = [
        f"{number:,} {kind}{whose.get(blame, whose['unknown'])}"
        for (kind, blame), number in sorted(summary.errors.items())
    ]
    if summary.skipped:
        parts.append(f"{summary.skipped:,} skipped")
    if summary.unscored:
        parts.append(f"{summary.unscored:,} unscored")
    return ", ".join(parts) or "–"


def seconds(value: float | None) -> str:
    """`18.2 s`, `42 ms`."""
    if value is None:
        return "–"
    if value < 0.0005:
        return "<1 ms"
    return f"{value * 1000:.0f} ms" if value < 0.995 else f"{value:.1f} s"


def count(value: int) -> str:
    """`88 k`, `1.2 M`."""
    for size, unit in ((1_000_000, " M"), (1_000, " k")):
        if value >= size:
            return f"{value / size:.1f}{unit}"
    return str(value)


def in_flight_line(asked: int | None, mean: float, most: int) -> str:
    """How much happened at once.

    >>> in_flight_line(8, 7.62, 8), in_flight_line(None, 11.0, 12)
    ('in flight: 8 asked for, 7.6 on average, 8 at most', 'in flight: as many as go, 11.0 on average, 12 at most')
    """
    wish = "as many as go" if asked is None else f"{asked:,} asked for"
    return f"in flight: {wish}, {mean:,.1f} on average, {most:,} at most"


def as_text(analysis: Analysis, width: int = 120) -> str:
    """The report as plain text."""
    console = Console(file=io.StringIO(), width=width, no_color=True, highlight=False)
    console.print(render(analysis), crop=False)
    written: str = console.file.getvalue()  # type: ignore[attr-defined]
    return written
