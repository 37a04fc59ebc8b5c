"""Reports and files of results, as every command that has an analysis writes them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from abreast.cli import store_argument
from abreast.output import say
from abreast.report.formats import catalogue
from abreast.text import many

if TYPE_CHECKING:
    from abreast.analyse.run import Analysis


def write_reports(
    analysis: Analysis,
    words: Sequence[str] = (),
    output: str | None = None,
    unmet: Sequence[str] = (),
    pictures: bool = True,
    artifacts: bool = True,
) -> Path | None:
    """Write the page, or the formats in `words`; return the path of the page, or of the first of them."""
    from abreast.report import folder

    place = Path(output) if output else folder.home(analysis.rows.store, analysis.run["run"])
    try:
        asked = catalogue.ReportRequest(analysis, unmet=unmet, pictures=pictures, artifacts=artifacts)
        written = catalogue.write(asked, catalogue.parse_names(words, pictures) or ["html"], place)
        return next((path for path in written if path.suffix == ".html"), written[0])
    except OSError as error:
        say(f"warning: the report could not be written ({error})")
        return None


def write_results(analysis: Analysis, output: str | None = None, pictures: bool = True) -> list[Path]:
    """Write the files of results that the suite of the run makes, if the run has a name for them."""
    from abreast.report import results

    written = results.write(analysis, output, pictures)
    for warning in written.warnings:
        say(f"warning: {warning}")
    return written.paths


def results_line(paths: Sequence[Path]) -> list[str]:
    """`results  bench.json, bench.csv, bench.md and 6 pictures`; nothing without files."""
    if not paths:
        return []
    pictures = [path for path in paths if path.suffix in (".svg", ".png")]
    named = [store_argument.shown(path) for path in paths if path not in pictures]
    more = f" and {many(len(pictures), 'picture')}" if pictures else ""
    return [f"  results  {', '.join(named or map(store_argument.shown, pictures[:1]))}{more}"]


def tell_unmet(sentences: list[str]) -> int:
    """Print unmet requirements and return the exit code."""
    for sentence in sentences:
        say(f"requirement not met: {sentence}")
    return 1 if sentences else 0
