"""Result files that the suite of a run writes, if its spec has an `output`, their base name.

A suite's `files(analysis, pictures)` returns a list of `ResultFile`. They are written to the folder of the run's
reports, where nothing is overwritten; those of the newest run with this `output` also go next to the store.
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
    name: str
    content: bytes


@dataclass(slots=True)
class WrittenResults:
    paths: list[Path] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def write(analysis: Analysis, output: str | Path | None = None, pictures: bool = True) -> WrittenResults:
    """Write the files next to the store, or into the folder `output`, where nothing is overwritten. Never raises."""
    written = WrittenResults()
    try:
        files = _files(analysis, pictures)
        if files and output is not None:
            written.paths += [folder.keep(Path(output), file.name, [file.content]) for file in files]
        elif files:
            _write_next_to_store(analysis, files, written)
    except AbreastError as error:
        written.warnings.append(f"no result files: {error.message}")
    except OSError as error:
        written.warnings.append(f"cannot write the result files ({error})")
    except Exception as error:  # noqa: BLE001 - a bug in a suite must not cost the report
        cause = printable(f"{type(error).__name__}: {error}")
        written.warnings.append(f"suite {analysis.rows.spec['suite']} failed to create its result files: {cause}")
    return written


def _files(analysis: Analysis, pictures: bool) -> list[ResultFile]:
    """The files of the run's suite; none without a suite or an `output`."""
    spec = analysis.rows.spec
    if not spec.get("suite") or not spec.get("output"):
        return []
    suite = load_suite(spec["suite"])
    files = [] if suite is None else list(suite.files(analysis, pictures))
    for file in files:
        if not isinstance(file, ResultFile):
            raise TypeError(f"a result file must be a ResultFile, got {type(file).__name__}")
        if not is_file_name(file.name):
            raise ValueError(f"{file.name[:60]!r} is not a plain file name")
    return files


def _write_next_to_store(analysis: Analysis, files: list[ResultFile], written: WrittenResults) -> None:
    """Write into the folder of the run, and next to the store unless this is a debug run or a later run has the same
    `output`."""
    store, run = analysis.rows.store, str(analysis.run["run"])
    home = folder.home(store, run)
    paths = [folder.keep(home, file.name, [file.content]) for file in files]
    folder.remember(store, home, paths)
    if analysis.run["debug"] or not _is_newest(analysis):
        written.paths += paths
        return
    for file in files:
        path = folder.publish(store, run, file.name, file.content)
        written.paths.append(path)
        if path.name != file.name:
            reason = f"{file.name} was not written by abreast, or has changed since"
            written.warnings.append(f"{reason}: kept it, and wrote {path.name}")


def _is_newest(analysis: Analysis) -> bool:
    name, rows = analysis.rows.spec["output"], analysis.rows
    return not any(spec.get("output") == name for spec in rows.store.queries.later_specs(rows.run_id))
