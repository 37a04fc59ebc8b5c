"""Cells in rows and columns, shaded by how much is in them."""

from __future__ import annotations

from dataclasses import dataclass

from abreast.report.charts.drawing import Drawing, fitted, wide

_DARKEST = 0.45  # so that words stay readable on it
HEAD = 34.0  # above the cells


@dataclass(frozen=True, slots=True)
class Cell:
    """What stands in it, and how dark it is from 0 to 1."""

    words: str
    shade: float
    below: str = ""  # a second line
    framed: bool = False
    strong: bool = False  # the second line


@dataclass(frozen=True, slots=True)
class Matrix:
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: tuple[tuple[Cell, ...], ...]
    look: str  # a class
    tall: float = 30.0  # of a cell

    @property
    def height(self) -> float:
        return HEAD + len(self.rows) * self.tall

    @property
    def label(self) -> float:
        return 12 + max(wide(row, 12) for row in self.rows)


def draw(drawing: Drawing, matrix: Matrix, left: float, top: float, label: float, cell: float) -> None:
    for at, name in enumerate(matrix.columns):
        _head(drawing, name, left + label + (at + 0.5) * cell, top + HEAD - 8, cell)
    for row, (name, cells) in enumerate(zip(matrix.rows, matrix.cells, strict=True)):
        y = top + HEAD + row * matrix.tall
        drawing.text(left, y + matrix.tall / 2 + 4, fitted(name, label - 6, 12), "note")
        for at, one in enumerate(cells):
            _cell(drawing, one, matrix, left + label + at * cell, y, cell)


def _head(drawing: Drawing, name: str, middle: float, y: float, room: float) -> None:
    if wide(name, 12) <= room:
        drawing.text(middle, y, name, "note", "middle")
        return
    first, second = _halves(name)
    drawing.text(middle, y - (14 if second else 0), fitted(first, room, 12), "note", "middle")
    if second:
        drawing.text(middle, y, fitted(second, room, 12), "note", "middle")


def _halves(name: str) -> tuple[str, str]:
    """A name at its first hyphen or space.

    >>> _halves("left-skewed"), _halves("level shift"), _halves("symmetric")
    (('left-', 'skewed'), ('level', 'shift'), ('symmetric', ''))
    """
    for mark in ("-", " "):
        first, found, second = name.partition(mark)
        if found and first.strip() and second:
            return (first + mark).strip(), second
    return name, ""


def _cell(drawing: Drawing, one: Cell, matrix: Matrix, x: float, y: float, width: float) -> None:
    drawing.box(
        *(x + 1.5, y + 1.5, width - 3, matrix.tall - 3, matrix.look),
        fill="currentColor",
        fill_opacity=f"{0.04 + one.shade * (_DARKEST - 0.04):.2f}",
    )
    if one.framed:
        drawing.box(x + 2.5, y + 2.5, width - 5, matrix.tall - 5, "zero", fill="none")
    middle, centre = x + width / 2, y + matrix.tall / 2
    drawing.text(middle, centre + (-3 if one.below else 4), one.words, "", "middle")
    if one.below:
        drawing.text(middle, centre + 13, one.below, "strong" if one.strong else "", "middle")
