"""What a suite's report has besides: sections of sentences, tables and pictures, and which suite that is.

A suite's `sections(analysis)` gives a list of `Section`. What it says is text of anybody: here it becomes lines without
anything that works in secret, and every format escapes it once more in its own way.
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

NOTHING = "–"  # a column of nothing else is left out


@dataclass(frozen=True, slots=True)
class NamedTable:
    """Cells are texts; `–` is nothing, and a column of nothing else is left out."""

    name: str
    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""  # how to read it
    aside: bool = False  # not in the terminal, where there is less room

    @property
    def words(self) -> int:
        """How many columns, from the first on, hold words and not figures."""
        columns = list(zip(*self.rows, strict=True))
        return next((at for at, cells in enumerate(columns) if at and all(map(_is_figure, cells))), len(self.head))


def without_empty_columns(
    head: Sequence[str], rows: Sequence[Sequence[str]], kept: int = 1
) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Head and rows without the columns that hold nothing; the first `kept` columns stay."""
    shown = [at for at in range(len(head)) if at < kept or any(row[at] != NOTHING for row in rows)]
    return tuple(head[at] for at in shown), tuple(tuple(row[at] for at in shown) for row in rows)


def _is_figure(cell: str) -> bool:
    return cell == NOTHING or cell.lstrip("+-−–$<>≤≥×~→ ")[:1].isdigit() or cell[:1] == "∞"


@dataclass(frozen=True, slots=True)
class Section:
    """One part of a report. `data` is the same for programs: what JSON can say."""

    name: str
    title: str
    sentences: tuple[str, ...] = ()
    tables: tuple[NamedTable, ...] = ()
    pictures: tuple[Picture, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)


class SuiteReport:
    """What a suite adds to the reports of its runs; `abreast.suites.Suite` is the whole of a suite."""

    def sections(self, analysis: Analysis) -> Sequence[Section]:
        """Sections of every report."""
        return ()

    def files(self, analysis: Analysis, pictures: bool) -> Sequence[ResultFile]:
        """Files written at the end of a run whose spec has an `output`, their base name; without `pictures`, no
        pictures among them.
        """
        return ()


@dataclass(frozen=True, slots=True)
class SuitePart:
    """What the suite of a run adds to its report; `problem` says why that is nothing."""

    name: str
    sections: tuple[Section, ...] = ()
    problem: str | None = None


def sections_of(analysis: Analysis) -> list[Section]:
    """What the suite of this run adds, and the MCP calls. If the suite cannot, a sentence says why."""
    from abreast.report.words.mcp_calls import mcp_section

    found, calls = suite_part(analysis), mcp_section(analysis)
    further = [] if calls is None else [_sound(calls)]
    if found is None:
        return further
    if found.problem is not None:
        return [Section("suite", "", (found.problem,)), *further]
    return [*found.sections, *further]


def suite_part(analysis: Analysis) -> SuitePart | None:
    """What the suite of this run adds; None if the run is of no suite. Whatever it does, the report is not lost."""
    name = analysis.rows.spec.get("suite")
    if name is None:
        return None
    try:
        suite = load_suite(name)
        if suite is None:
            return SuitePart(name, problem=_line(f"the suite {name} is not installed here: its sections are left out"))
        found = tuple(map(_sound, suite.sections(analysis)))
        if len({section.name for section in found}) < len(found):
            raise ValueError("two sections have the same name")
        return SuitePart(name, found)
    except AbreastError as error:
        return SuitePart(name, problem=_line(f"its sections are left out: {error.message}"))
    except Exception as error:  # noqa: BLE001 - code of others; the verdict is worth more than what they add
        what = f"{type(error).__name__}: {error}"
        return SuitePart(name, problem=_line(f"the sections of the suite {name} could not be made: {what}"))


def _sound(section: Section) -> Section:
    """The same, in plain lines and with its pictures drawn; raises what would break a report later."""
    if not isinstance(section, Section):
        raise TypeError(f"a section must be a Section, got {type(section).__name__}")
    return Section(
        name=_line(section.name),
        title=_line(section.title),
        sentences=tuple(map(_line, section.sentences)),
        tables=tuple(map(_sound_table, section.tables)),
        pictures=tuple(map(_drawn, section.pictures)),
        data=json.loads(json.dumps(plain(section.data), allow_nan=False)),
    )


def _sound_table(table: NamedTable) -> NamedTable:
    head = tuple(map(_line, table.head))
    rows = tuple(tuple(map(_line, row)) for row in table.rows)
    for number, row in enumerate(rows, 1):
        if len(row) != len(head):
            raise ValueError(f"table {table.name}: row {number} fills {len(row)} of {len(head)} columns")
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
    """The same picture, drawn now, so that what goes wrong goes wrong here; its name is fit for a file."""
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
    """One line of text, and nothing in it that works in secret."""
    if not isinstance(text, str):
        raise TypeError(f"what is shown must be text, got {text!r}")
    return printable(" ".join(text.split()))


def plain(value: Any) -> Any:
    """What JSON can say; what is not a number is nothing, and half a character is none."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {plain(str(key)): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return plain(value.tolist()) if hasattr(value, "tolist") else value  # numbers of numpy's


def load_suite(name: str) -> SuiteReport | None:
    """The suite of this name; None if it is not installed."""
    plugin = find_plugin("suite", name)
    return None if plugin is None else completed(plugin.load(), SuiteReport)
