"""The pictures of a report, as SVG: one file per picture."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from abreast.analyse.run import Analysis
from abreast.filenames import is_file_name, safe_file_name
from abreast.report import folder
from abreast.report.charts import closing, difference, latency, outcomes, pareto, segments, sizes
from abreast.report.charts.drawing import Picture
from abreast.report.formats.catalogue import ReportFormat, ReportRequest
from abreast.report.formats.catalogue import draws_pixels as draws_pixels
from abreast.report.sections import sections_of
from abreast.report.words.verdict_sentence import SIMULATED

_KINDS = {
    "difference": difference,
    "outcomes": outcomes,
    "closing": closing,
    "segments": segments,
    "frontier": pareto,
    "latency": latency,
    "sizes": sizes,
}


class Chart(NamedTuple):
    name: str
    svg: str


def mark(analysis: Analysis) -> str:
    """The mark on every picture of a simulated run; empty for a real one."""
    return SIMULATED if analysis.simulated else ""


def pictures(analysis: Analysis) -> dict[str, list[Picture]]:
    """Every picture that this run has data for, by kind."""
    return {name: kind.pictures(analysis) for name, kind in _KINDS.items()}


def drawn(analysis: Analysis) -> list[Chart]:
    """Render all pictures of this run and of its suite."""
    groups = (*pictures(analysis).values(), *(section.pictures for section in sections_of(analysis)))
    return [as_file(analysis, picture) for group in groups for picture in group]


def as_file(analysis: Analysis, picture: Picture) -> Chart:
    run = f"{analysis.run['experiment']} · {analysis.run['run']}"
    return Chart(picture.name, picture.file(mark(analysis), run))


def png(svg: str) -> bytes:
    """The picture as PNG; requires `draws_pixels()`."""
    import vl_convert  # an optional dependency

    return bytes(vl_convert.svg_to_png(svg, scale=2))


class Svg(ReportFormat):
    suffix = "svg"
    is_printed = False

    def write(self, request: ReportRequest, place: Path, linked: list[Path]) -> Iterator[Path]:
        for chart in drawn(request.analysis):
            name = chart.name if is_file_name(chart.name) else safe_file_name(chart.name)
            yield folder.keep(place / "charts", f"{name}.{self.suffix}", [self.content(chart)])

    def content(self, chart: Chart) -> bytes:
        return chart.svg.encode()


class Png(Svg):
    suffix = "png"

    def content(self, chart: Chart) -> bytes:
        return png(chart.svg)
