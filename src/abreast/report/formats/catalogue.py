"""Report formats: what a format is, which there are, and writing reports in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from abreast.errors import BadInput, suggestion
from abreast.plugins import find_plugin, plugin_names
from abreast.report import folder

if TYPE_CHECKING:
    from abreast.analyse.run import Analysis


@dataclass(frozen=True, slots=True)
class ReportRequest:
    """What a report shall contain."""

    analysis: Analysis
    trials: bool = True  # in the formats json and junit
    unmet: Sequence[str] = ()  # requirements that are not met
    pictures: bool = True  # on the page and as files
    artifacts: bool = True  # beside the page
    escape_formulas: bool = True  # in the format csv


class ReportFormat:
    """A format of reports. A format is one file with a subclass, which `BUILT_IN` names. Other packages register theirs
    as entry points of the group `abreast.formats`, by the name of the format.
    """

    file_name: str
    is_printed = True  # on standard output, unless a folder is named

    def pieces(self, request: ReportRequest) -> Iterable[str]:
        """The report as text, in several pieces if it may be large."""
        raise NotImplementedError

    def write(self, request: ReportRequest, place: Path, beside: list[Path]) -> Iterator[Path]:
        """Write files into a folder where nothing is overwritten, and yield their paths. Files that the report links to
        are added to `beside` instead.
        """
        yield folder.keep(place, self.file_name, _Encoded(self, request))


@dataclass(frozen=True, slots=True)
class _Encoded:
    """The bytes of a report, generated each time they are read."""

    form: ReportFormat
    request: ReportRequest

    def __iter__(self) -> Iterator[bytes]:
        return (piece.encode() for piece in self.form.pieces(self.request))


TEXTS = {
    "terminal": "formats.terminal:Terminal",
    "markdown": "formats.markdown:Markdown",
    "html": "page.html:Html",
    "json": "formats.json_report:Json",
    "csv": "formats.row_files:Csv",
    "junit": "formats.junit:JUnit",
}
PICTURES = {"svg": "charts:Svg", "png": "charts:Png"}
BUILT_IN = {**TEXTS, **PICTURES}  # imported when they are used: most runs write one of them


def load(name: str) -> ReportFormat:
    if name in BUILT_IN:
        module, _, attribute = BUILT_IN[name].partition(":")
        form: ReportFormat = getattr(import_module(f"abreast.report.{module}"), attribute)()
        return form
    plugin = find_plugin("format", name)
    if plugin is None:
        known = [*BUILT_IN, *plugin_names("format"), "all"]
        listed = f"{', '.join(known[:-1])} or all"
        raise BadInput(f"--format {name}: no such format{suggestion(name, known)}", f"write {listed}")
    loaded = plugin.build("a subclass of abreast.report.formats.catalogue.ReportFormat", ())
    if not isinstance(loaded, ReportFormat):
        plugin.refuse("its entry point must give a ReportFormat", loaded)
    return loaded


def named(words: Sequence[str], pictures: bool = True) -> list[str]:
    """The formats that were asked for, each once; `all` is all of them but the one for the terminal. Without
    `pictures`, those that are nothing else are left out.

    >>> named(["json,html", "json"])
    ['json', 'html']
    """
    found: list[str] = []
    for word in (part.strip() for text in words for part in text.split(",")):
        if word == "all":
            found += [form for form in BUILT_IN if form != "terminal" and (form != "png" or draws_pixels())]
            found += plugin_names("format")
            continue
        if word not in BUILT_IN:
            load(word)
        if word == "png" and not draws_pixels():
            raise BadInput("--format png needs the package vl-convert-python", 'pip install "abreast[charts]"')
        found.append(word)
    kept = [form for form in dict.fromkeys(found) if pictures or form not in PICTURES]
    if found and not kept:
        raise BadInput(f"--format {','.join(found)} is pictures and nothing else", "leave it out, or --no-pictures")
    return kept


def draws_pixels() -> bool:
    """Whether there is what the format png needs."""
    return find_spec("vl_convert") is not None


def text(request: ReportRequest, name: str) -> str:
    return "".join(pieces(request, name))


def pieces(request: ReportRequest, name: str) -> Iterable[str]:
    """The report in a format that is text, piece by piece if it may be large."""
    if name not in TEXTS and find_plugin("format", name) is None:
        raise BadInput(f"no format {name}{suggestion(name, TEXTS)}", f"write {', '.join(TEXTS)}")
    return load(name).pieces(request)


def write(request: ReportRequest, names: Sequence[str], place: Path) -> list[Path]:
    """Write these formats into a folder; nothing in it is overwritten."""
    written: list[Path] = []
    beside: list[Path] = []
    try:
        for name in names:
            written.extend(load(name).write(request, place, beside))
    finally:
        analysis = request.analysis
        if place == folder.home(analysis.rows.store, analysis.run["run"]) and (written or beside):
            folder.remember(place, [*written, *beside])
    return written
