"""Sections that a suite adds to reports: sentences, tables and pictures.

A suite's `sections(analysis)` returns a list of `Section`. Their text is untrusted: here it becomes printable single
lines, and every format escapes it in its own way.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from abreast.errors import AbreastError
from abreast.plugins import completed, find_plugin
from abreast.text import printable

if TYPE_CHECKING:
    from abreast.analyse.run import Analysis
    from abreast.report.charts.drawing import Picture
    from abreast.report.results import ResultFile

NOTHING = "–"  # an empty cell; columns of empty cells are left out


@dataclass(frozen=True, slots=True)
class NamedTable:
    """A table of texts; `–` is an empty cell, and empty columns are left out."""

    name: str
    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""  # how to read it
    aside: bool = False  # not in the terminal

    @property
    def words(self) -> int:
        """Number of leading columns with words rather than figures."""
        columns = list(zip(*self.rows, strict=True))
        return next((at for at, cells in enumerate(columns) if at and all(map(_is_figure, cells))), len(self.head))


def without_empty_columns(
    head: Sequence[str], rows: Sequence[Sequence[str]], kept: int = 1
) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Head and rows without empty columns; the first `kept` columns stay."""
    columns = [at for at in range(len(head)) if at < kept or any(row[at] != NOTHING for row in rows)]
    return tuple(head[at] for at in columns), tuple(tuple(row[at] for at in columns) for row in rows)


def _is_figure(cell: str) -> bool:
    return cell == NOTHING or cell.lstrip("+-−–$<>≤≥×~→ ")[:1].isdigit() or cell[:1] == "∞"


@dataclass(frozen=True, slots=True)
class Section:
    """One part of a report. `data` has the same content for JSON."""

    name: str
    title: str
    sentences: tuple[str, ...] = ()
    tables: tuple[NamedTable, ...] = ()
    pictures: tuple[Picture, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)


class SuiteReport:
    """The part of `abreast.suites.Suite` that adds to the reports of its runs."""

    def sections(self, analysis: Analysis) -> Sequence[Section]:
        """Sections for every report."""
        return ()

    def files(self, analysis: Analysis, pictures: bool) -> Sequence[ResultFile]:
        """Files to write at the end of a run whose spec has an `output`, which is their base name; without `pictures`,
        none of them may be a picture.
        """
        return ()


@dataclass(frozen=True, slots=True)
class SuitePart:
    """The sections that the suite of a run adds to its report; `problem` says why it adds none."""

    name: str
    sections: tuple[Section, ...] = ()
    problem: str | None = None


def sections_of(analysis: Analysis) -> list[Section]:
    """The sections of the run's suite, or why there are none, and the section on MCP calls."""
    from abreast.report.words.mcp_calls import mcp_section

    part, calls = suite_part(analysis), mcp_section(analysis)
    sections = [] if part is None else list(part.sections)
    if part is not None and part.problem is not None:
        sections = [Section("suite", "", (part.problem,))]
    return sections if calls is None else [*sections, _printable(calls)]


def suite_part(analysis: Analysis) -> SuitePart | None:
    """Call the run's suite; None without a suite. An error in the suite becomes the `problem`."""
    name = analysis.rows.spec.get("suite")
    if name is None:
        return None
    try:
        suite = load_suite(name)
        if suite is None:
            return SuitePart(name, problem=_line(f"suite {name} is not installed: its sections are left out"))
        sections = tuple(map(_printable, suite.sections(analysis)))
        if len({section.name for section in sections}) < len(sections):
            raise ValueError("two sections have the same name")
        return SuitePart(name, sections)
    except AbreastError as error:
        return SuitePart(name, problem=_line(f"its sections are left out: {error.message}"))
    except Exception as error:  # noqa: BLE001 - a bug in a suite must not cost the report
        cause = f"{type(error).__name__}: {error}"
        return SuitePart(name, problem=_line(f"suite {name} failed to create its sections: {cause}"))


def _printable(section: Section) -> Section:
    """Return the section with printable text and drawn pictures. Raises for whatever would break a report later."""
    if not isinstance(section, Section):
        raise TypeError(f"a section must be a Section, got {type(section).__name__}")
    return Section(
        name=_line(section.name),
        title=_line(section.title),
        sentences=tuple(map(_line, section.sentences)),
        tables=tuple(map(_printable_table, section.tables)),
        pictures=tuple(map(_drawn, section.pictures)),
        data=json.loads(json.dumps(plain(section.data), allow_nan=False)),
    )


def _printable_table(table: NamedTable) -> NamedTable:
    head = tuple(map(_line, table.head))
    rows = tuple(tuple(map(_line, row)) for row in table.rows)
    for number, row in enumerate(rows, 1):
        if len(row) != len(head):
            raise ValueError(f"table {table.name}: row {number} has {len(row)} of {len(head)} columns")
    head, rows = without_empty_columns(head, rows)
    return NamedTable(
        name=_line(table.name),
        title=_line(table.title),
        head=head,
        rows=rows,
        note=_line(table.note),
        aside=bool(table.aside),
    )


def _drawn(picture: Picture) -> Picture:
    """Draw the picture, so that errors are raised here, and make its name safe for a file."""
    from abreast.report.charts.drawing import NARROW, WIDE, slug

    drawings = {float(width): picture.draw(width) for width in (WIDE, NARROW)}
    for drawing in drawings.values():
        drawing.inline("", "", "")
    return replace(
        picture,
        name=slug(picture.name) or "picture",
        title=_line(picture.title),
        alternative=_line(picture.alternative),
        draw=drawings.__getitem__,
        below=_line(picture.below),
        head=tuple(map(_line, picture.head)),
        rows=tuple(tuple(map(_line, row)) for row in picture.rows),
    )


def _line(text: str) -> str:
    """The text as one printable line."""
    if not isinstance(text, str):
        raise TypeError(f"expected text, got {text!r}")
    return printable(" ".join(text.split()))


def plain(value: Any) -> Any:
    """Convert the value for JSON: null for infinity and nan, no lone surrogates, Python numbers."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {plain(str(key)): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return plain(value.tolist()) if hasattr(value, "tolist") else value  # numpy


def load_suite(name: str) -> SuiteReport | None:
    """The suite of this name; None if it is not installed."""
    plugin = find_plugin("suite", name)
    return None if plugin is None else completed(plugin.load(), SuiteReport)
