"""A run in a cell of a notebook: the verdict and the table of variants."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from abreast.report.sections import without_empty_columns
from abreast.report.words.variant_figures import TITLES, cells
from abreast.report.words.verdict_sentence import SIMULATED, not_run_line, sentence, verdict_lines
from abreast.text import printable

if TYPE_CHECKING:
    from abreast.analyse.run import Analysis


def result_html(analysis: Analysis) -> str:
    """Return HTML without scripts or styles, so that the notebook's styles apply. Everything is escaped."""
    lines = [*verdict_lines(analysis), *filter(None, [not_run_line(analysis)])]
    verdicts = {SIMULATED, lines[0], *map(sentence, analysis.comparisons)}
    rows = [(summary.name, *cells(summary)) for summary in analysis.variants]
    head, body = without_empty_columns(("variant", *TITLES), rows)
    table = [
        f"<tr>{''.join(f'<th>{_text(title)}</th>' for title in head)}</tr>",
        *(f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in row)}</tr>" for row in body),
    ]
    paragraphs = [f"<strong>{_text(line)}</strong>" if line in verdicts else _text(line) for line in lines]
    run = f"run {analysis.run['run']}, {analysis.run['status'].replace('_', ' ')}"
    return (
        f"<div><p>{'<br>'.join(paragraphs)}</p><table>{''.join(table)}</table><p><small>{_text(run)}</small></p></div>"
    )


def _text(value: str) -> str:
    return escape(printable(value)).replace("$", "&#36;")  # a notebook renders text between two dollars as a formula
