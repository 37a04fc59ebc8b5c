"""Every format a report has: its name, its file, and who writes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from abreast.errors import BadInput, suggestion
from abreast.filenames import is_file_name, safe_file_name
from abreast.report import folder
from abreast.text import printable

if TYPE_CHECKING:
    from abreast.analyse.run import Analysis


@dataclass(frozen=True, slots=True)
class Asked:
    """A report as it was asked for."""

    analysis: Analysis
    trials: bool = True  # in the formats json and junit
    unmet: Sequence[str] = ()  # requirements that are not met
    pictures: bool = True  # on the page and as files
    artifacts: bool = True  # beside the page
    escape_formulas: bool = True  # in the format csv


TEXTS: dict[str, tuple[str, Callable[[Asked], Iterable[str]]]] = {
    "terminal": ("report.txt", lambda asked: [_as_terminal(asked)]),
    "markdown": ("report.md", lambda asked: [_as_markdown(asked)]),
    "html": ("report.html", lambda asked: [_page(asked.analysis, asked.pictures)]),
    "json": ("report.json", lambda asked: _as_json(asked)),
    "csv": ("trials.csv", lambda asked: [_as_csv(asked)]),
    "junit": ("junit.xml", lambda asked: [_as_junit(asked)]),
}
PICTURES = ("svg", "png")
ALL = (*TEXTS, *PICTURES)


def named(words: Sequence[str], pictures: bool = True) -> list[str]:
    """The formats that were asked for, each once; `all` is all of them but the one for the terminal. Without
    `pictures`, those that are nothing else are left out.

    >>> named(["json,html", "json"])
    ['json', 'html']
    """
    found: list[str] = []
    for word in (part.strip() for text in words for part in text.split(",")):
        if word not in (*ALL, "all"):
            raise BadInput(
                f"--format {word}: no such format{suggestion(word, [*ALL, 'all'])}", f"write {', '.join(ALL)} or all"
            )
        if word == "png" and not _draws_pixels():
            raise BadInput("--format png needs the package vl-convert-python", 'pip install "abreast[charts]"')
        found += _everything() if word == "all" else [word]
    kept = [form for form in dict.fromkeys(found) if pictures or form not in PICTURES]
    if found and not kept:
        raise BadInput(f"--format {','.join(found)} is pictures and nothing else", "leave it out, or --no-pictures")
    return kept


def _everything() -> list[str]:
    return [form for form in ALL if form != "terminal" and (form != "png" or _draws_pixels())]


def _draws_pixels() -> bool:
    from abreast.report.charts import draws_pixels  # late: most reports have no pictures

    return draws_pixels()


def _page(analysis: Analysis, pictures: bool) -> str:
    from abreast.report.page import html  # late: templates and pictures, which no run needs before its end

    return html.page(analysis, pictures)


def text(asked: Asked, form: str) -> str:
    """The report in a format that is text."""
    return "".join(pieces(asked, form))


def pieces(asked: Asked, form: str) -> Iterable[str]:
    """The report in a format that is text, piece by piece if it may be large."""
    if form not in TEXTS:
        raise BadInput(f"no format {form}{suggestion(form, TEXTS)}", f"write {', '.join(TEXTS)}")
    return TEXTS[form][1](asked)


@dataclass(frozen=True, slots=True)
class Content:
    """The bytes of a report, generated each time they are read."""

    asked: Asked
    form: str

    def __iter__(self) -> Iterator[bytes]:
        return (piece.encode() for piece in pieces(self.asked, self.form))


# Each format is imported when it is written: most runs write one of them.


def _as_terminal(asked: Asked) -> str:
    from abreast.report.formats.terminal import as_text

    return as_text(asked.analysis)


def _as_markdown(asked: Asked) -> str:
    from abreast.report.formats import markdown

    return printable(markdown.text(asked.analysis))


def _as_junit(asked: Asked) -> str:
    from abreast.report.formats import junit

    return junit.text(asked.analysis, asked.unmet, asked.trials)


def _as_csv(asked: Asked) -> str:
    from abreast.report.formats import row_files

    return row_files.as_csv(asked.analysis.rows.store, asked.analysis.run["run"], asked.escape_formulas)


def _as_json(asked: Asked) -> Iterator[str]:
    from abreast.report.formats import json_report

    return json_report.json_text(asked.analysis, asked.trials)


def write(asked: Asked, forms: Sequence[str], place: Path) -> list[Path]:
    """Write these formats into a folder; nothing in it is overwritten."""
    written: list[Path] = []
    beside: list[Path] = []
    analysis = asked.analysis
    try:
        for form in forms:
            if form in PICTURES:
                from abreast.report.charts import drawn, png

                for chart in drawn(analysis):
                    name = chart.name if is_file_name(chart.name) else safe_file_name(chart.name)
                    content = chart.svg.encode() if form == "svg" else png(chart.svg)
                    written.append(folder.keep(place / "charts", f"{name}.{form}", [content]))
            elif form == "html" and asked.artifacts:
                written.append(folder.keep(place, TEXTS[form][0], [_linked(asked, place, beside).encode()]))
            else:
                written.append(folder.keep(place, TEXTS[form][0], Content(asked, form)))
    finally:
        if place == folder.home(analysis.rows.store, analysis.run["run"]) and (written or beside):
            folder.remember(place, [*written, *beside])
    return written


def _linked(asked: Asked, place: Path, beside: list[Path]) -> str:
    """The page with what trials left beside it; those files are told, and not part of the report's own list."""
    from abreast.report.page import html, listing

    left = listing.left_by(asked.analysis)
    links = None
    if left:
        from abreast.report.page import artifact_files as files  # late: most runs leave nothing

        links = files.write(asked.analysis, left, place, beside.append)
    return html.page(asked.analysis, asked.pictures, left, links)
