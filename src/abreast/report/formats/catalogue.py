"""Report formats: the base class, the registry, and writing reports."""

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
    analysis: Analysis
    trials: bool = True  # in the formats json and junit
    unmet: Sequence[str] = ()  # unmet requirements
    pictures: bool = True  # on the page and as files
    artifacts: bool = True  # next to the page
    escape_formulas: bool = True  # in the format csv


class ReportFormat:
    """A report format. Each is a subclass in its own file, listed in `BUILT_IN`; other packages register theirs as
    entry points of the group `abreast.formats`, under the name of the format.
    """

    file_name: str
    is_printed = True  # to standard output, unless there is an output folder

    def pieces(self, request: ReportRequest) -> Iterable[str]:
        """Return the report as text, in several pieces if it may be large."""
        raise NotImplementedError

    def publish(self, request: ReportRequest) -> Iterable[str]:
        """Pass the report to the CI system that executes this process, and return lines for its log."""
        return ()

    def write(self, request: ReportRequest, place: Path, linked: list[Path]) -> Iterator[Path]:
        """Write files into the folder `place`, without overwriting any, and yield their paths. Paths of files that the
        report links to are added to `linked` instead.
        """
        yield folder.keep(place, self.file_name, _Encoded(self, request))


@dataclass(frozen=True, slots=True)
class _Encoded:
    """The bytes of a report, generated on each iteration."""

    report_format: ReportFormat
    request: ReportRequest

    def __iter__(self) -> Iterator[bytes]:
        return (piece.encode() for piece in self.report_format.pieces(self.request))


TEXTS = {
    "terminal": "formats.terminal:Terminal",
    "markdown": "formats.markdown:Markdown",
    "html": "page.html:Html",
    "json": "formats.json_report:Json",
    "csv": "formats.row_files:Csv",
    "junit": "formats.junit:JUnit",
    "github": "formats.github:GitHub",
}
NOT_IN_ALL = ("terminal", "github")
PICTURES = {"svg": "charts:Svg", "png": "charts:Png"}
BUILT_IN = {**TEXTS, **PICTURES}  # imported on use


def load(name: str) -> ReportFormat:
    if name in BUILT_IN:
        module, _, attribute = BUILT_IN[name].partition(":")
        built_in: ReportFormat = getattr(import_module(f"abreast.report.{module}"), attribute)()
        return built_in
    plugin = find_plugin("format", name)
    if plugin is None:
        names = [*BUILT_IN, *plugin_names("format"), "all"]
        fix = f"use {', '.join(names[:-1])} or all"
        raise BadInput(f"--format {name}: unknown format{suggestion(name, names)}", fix)
    loaded = plugin.build("a subclass of abreast.report.formats.catalogue.ReportFormat", ())
    if not isinstance(loaded, ReportFormat):
        plugin.refuse("its entry point must be a ReportFormat", loaded)
    return loaded


def parse_names(options: Sequence[str], pictures: bool = True) -> list[str]:
    """Return the distinct formats in these options, which may be comma-separated lists. `all` means all formats except
    those in `NOT_IN_ALL`. Without `pictures`, formats that consist of pictures are omitted.

    >>> parse_names(["json,html", "json"])
    ['json', 'html']
    """
    names: list[str] = []
    for name in (part.strip() for option in options for part in option.split(",")):
        if name == "all":
            names += [item for item in BUILT_IN if item not in NOT_IN_ALL and (item != "png" or draws_pixels())]
            names += plugin_names("format")
            continue
        if name not in BUILT_IN:
            load(name)
        if name == "png" and not draws_pixels():
            raise BadInput("--format png needs the package vl-convert-python", 'run `pip install "abreast[charts]"`')
        names.append(name)
    usable = [name for name in dict.fromkeys(names) if pictures or name not in PICTURES]
    if names and not usable:
        raise BadInput(f"--format {','.join(names)} has only pictures", "omit it, or omit --no-pictures")
    return usable


def draws_pixels() -> bool:
    """Whether the dependency of the format png is installed."""
    return find_spec("vl_convert") is not None


def text(request: ReportRequest, name: str) -> str:
    return "".join(pieces(request, name))


def pieces(request: ReportRequest, name: str) -> Iterable[str]:
    """Return the report in a text format, piece by piece if it may be large."""
    if name not in TEXTS and find_plugin("format", name) is None:
        raise BadInput(f"unknown format {name}{suggestion(name, TEXTS)}", f"use {', '.join(TEXTS)}")
    return load(name).pieces(request)


def write(request: ReportRequest, names: Sequence[str], place: Path) -> list[Path]:
    """Write these formats into a folder without overwriting anything."""
    reports: list[Path] = []
    linked: list[Path] = []
    try:
        for name in names:
            reports.extend(load(name).write(request, place, linked))
    finally:
        analysis, store = request.analysis, request.analysis.rows.store
        if place == folder.home(store, analysis.run["run"]) and (reports or linked):
            folder.remember(store, place, [*reports, *linked])
    return reports
