"""Files of results that the suite of a run writes, if the run has a name for them (`output`).

A suite's `files(analysis, pictures)` gives a list of `ResultFile`. They are kept with the reports of the run, where
nothing is overwritten, and those of the newest run of that name stand beside the store as well.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from abreast.errors import AbreastError
from abreast.filenames import is_file_name
from abreast.report import folder
from abreast.report.sections import load_suite
from abreast.text import printable

if TYPE_CHECKING:
    from abreast.analyse.run import Analysis


@dataclass(frozen=True, slots=True)
class ResultFile:
    """A file by its plain name, with what is in it."""

    name: str
    content: bytes


@dataclass(slots=True)
class Written:
    """Where the files are, and what is worth a warning."""

    paths: list[Path] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def write(analysis: Analysis, output: str | Path | None = None, pictures: bool = True) -> Written:
    """Write them beside the store, or into a folder where nothing is overwritten. Never raises: rows are safe, and so
    is the verdict."""
    written = Written()
    try:
        files = _made(analysis, pictures)
        if files and output is not None:
            written.paths += [folder.keep(Path(output), file.name, [file.content]) for file in files]
        elif files:
            _write_beside(analysis, files, written)
    except AbreastError as error:
        written.warnings.append(f"no files of results: {error.message}")
    except OSError as error:
        written.warnings.append(f"the files of results could not be written ({error})")
    except Exception as error:  # noqa: BLE001 - code of others; the verdict is worth more than what they add
        what = printable(f"{type(error).__name__}: {error}")
        written.warnings.append(f"the suite {analysis.rows.spec['suite']} could not make its files of results: {what}")
    return written


def _made(analysis: Analysis, pictures: bool) -> list[ResultFile]:
    """What the suite of the run writes; nothing if it has no suite, or no name for files."""
    spec = analysis.rows.spec
    if not spec.get("suite") or not spec.get("output"):
        return []
    suite = load_suite(spec["suite"])
    found = [] if suite is None else list(suite.files(analysis, pictures))
    for file in found:
        if not isinstance(file, ResultFile):
            raise TypeError(f"a file of results must be a ResultFile, got {type(file).__name__}")
        if not is_file_name(file.name):
            raise ValueError(f"{file.name[:60]!r} is not a plain file name")
    return found


def _write_beside(analysis: Analysis, files: list[ResultFile], written: Written) -> None:
    """Into the folder of the run; and beside the store, unless a later run has the same name for its files, or this one
    is only for a try."""
    store, run = analysis.rows.store, str(analysis.run["run"])
    home = folder.home(store, run)
    kept = [folder.keep(home, file.name, [file.content]) for file in files]
    folder.remember(home, kept)
    if analysis.run["debug"] or not _is_newest(analysis):
        written.paths += kept
        return
    for file in files:
        path = folder.publish(store, run, file.name, file.content)
        written.paths.append(path)
        if path.name != file.name:
            left = f"{file.name} was not written by abreast, or changed since: it is left as it is"
            written.warnings.append(f"{left}, and the new one is {path.name}")


def _is_newest(analysis: Analysis) -> bool:
    name, rows = analysis.rows.spec["output"], analysis.rows
    return not any(spec.get("output") == name for spec in rows.store.queries.later_specs(rows.run_id))
