"""Reports and result files, for every command that has an analysis."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from abreast.filenames import relative_path
from abreast.output import say, say_problem
from abreast.report.formats import catalogue
from abreast.text import many

if TYPE_CHECKING:
    from abreast.analyse.run import Analysis


def write_reports(
    analysis: Analysis,
    formats: Sequence[str] = (),
    output: str | None = None,
    unmet: Sequence[str] = (),
    pictures: bool = True,
    artifacts: bool = True,
) -> Path | None:
    """Write the page, or these formats; return the path of the page, or of the first file."""
    from abreast.report import folder

    target = Path(output) if output else folder.home(analysis.rows.store, analysis.run["run"])
    try:
        request = catalogue.ReportRequest(analysis, unmet=unmet, pictures=pictures, artifacts=artifacts)
        names = catalogue.parse_names(formats, pictures) or ["html"]
        written = catalogue.write(request, names, target)
        for name in names:
            publish(catalogue.load(name).publish(request))
        return next((path for path in written if path.suffix == ".html"), written[0])
    except OSError as error:
        say_problem("warning", f"cannot write the report ({error})")
        return None


def publish(lines: Iterable[str]) -> None:
    """Print the lines of a report for the log of a CI system."""
    for line in lines:
        say(line)


def write_results(analysis: Analysis, output: str | None = None, pictures: bool = True) -> list[Path]:
    """Write the result files of the run's suite, if the run has an output name."""
    from abreast.report import results

    written = results.write(analysis, output, pictures)
    for warning in written.warnings:
        say_problem("warning", warning)
    return written.paths


def results_line(paths: Sequence[Path]) -> list[str]:
    """`results  bench.json, bench.csv, bench.md and 6 pictures`; empty without files."""
    if not paths:
        return []
    pictures = [path for path in paths if path.suffix in (".svg", ".png")]
    names = [relative_path(path) for path in paths if path not in pictures]
    more = f" and {many(len(pictures), 'picture')}" if pictures else ""
    return [f"  results  {', '.join(names or map(relative_path, pictures[:1]))}{more}"]


def print_unmet(sentences: list[str]) -> int:
    """Print unmet requirements and return the exit code."""
    for sentence in sentences:
        say(f"requirement not met: {sentence}")
    return 1 if sentences else 0
