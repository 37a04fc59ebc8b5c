"""Matrices: classes answered where others were right, and accuracy under perturbations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from abreast.report.charts.colours import SERIES
from abreast.report.charts.drawing import Drawing, Picture, fitted, wide
from abreast.report.charts.lanes import MOST, of_most
from abreast.report.words.variant_figures import NOTHING
from abreast.report.words.verdict_sentence import points
from abreast.suites.numbers.report.figures import Confusion, Degradation, Figures, percent, with_count

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
            _draw_cell(drawing, one, matrix, left + label + at * cell, y, cell)


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


def _draw_cell(drawing: Drawing, one: Cell, matrix: Matrix, x: float, y: float, width: float) -> None:
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


_TITLE, _BETWEEN, _GAP = 28.0, 18.0, 36.0
_WIDEST = 92.0  # of a cell


def confusion_pictures(figures: Figures) -> list[Picture]:
    """One picture for each query with classes that was answered."""
    queries = dict.fromkeys(each.query for each in figures.confusions)
    return [_picture([each for each in figures.confusions if each.query == query], figures) for query in queries]


def _picture(found: list[Confusion], figures: Figures) -> Picture:
    query, numbers = found[0].query, {each.name: number for number, each in enumerate(figures.variants)}
    drawn = found[:MOST]
    return Picture(
        name=f"confusion-{query}",
        title=f"Confusion of classes: {query.replace('_', ' ')}",
        alternative=". ".join(f"{each.variant}: {_confusion_in_words(each)}" for each in drawn) + ".",
        draw=lambda width: _draw_confusions(drawn, numbers, width),
        below=f"rows: what is right; columns: what was answered; framed: right answers{of_most(len(found))}",
        head=("variant", "right", *(f"answered {said}" for said in found[0].answers)),
        rows=tuple(
            (each.variant, right, *(f"{count:,}" for count in counts))
            for each in found
            for right, counts in zip(each.classes, each.counts, strict=True)
        ),
    )


def _right(one: Confusion) -> tuple[int, int]:
    return sum(one.counts[at][at] for at in range(len(one.classes))), sum(map(sum, one.counts))


def _confusion_in_words(one: Confusion) -> str:
    right, total = _right(one)
    mistakes = [
        f"{one.counts[row][at]:,} × {said} where {is_right} is right"
        for row, is_right in enumerate(one.classes)
        for at, said in enumerate(one.answers)
        if said != is_right and one.counts[row][at]
    ]
    return f"{right:,} of {total:,} right" + (f"; {', '.join(mistakes)}" if mistakes else "")


def _matrix(one: Confusion, number: int) -> Matrix:
    cells = tuple(
        tuple(
            Cell(f"{count:,}", count / (sum(counts) or 1), framed=said == right)
            for said, count in zip(one.answers, counts, strict=True)
        )
        for right, counts in zip(one.classes, one.counts, strict=True)
    )
    return Matrix(one.classes, one.answers, cells, f"k{number % SERIES}")


def _draw_confusions(found: Sequence[Confusion], numbers: dict[str, int], width: float) -> Drawing:
    matrices = [_matrix(each, numbers[each.variant]) for each in found]
    first = matrices[0]
    label, columns = first.label, len(first.columns)
    beside = max(1, min(len(found), int((width + _GAP) // (label + columns * 62 + _GAP))))
    room = (width - (beside - 1) * _GAP) / beside
    cell = min(_WIDEST, (room - label) / columns)
    drawing = Drawing(width)
    for at, (one, matrix) in enumerate(zip(found, matrices, strict=True)):
        row, column = divmod(at, beside)
        left, top = column * (room + _GAP), row * (_TITLE + matrix.height + _BETWEEN)
        _title(drawing, one, numbers[one.variant], left, top, room)
        draw(drawing, matrix, left, top + _TITLE, label, cell)
        drawing.height = top + _TITLE + matrix.height + 4
    return drawing


def _title(drawing: Drawing, one: Confusion, number: int, left: float, top: float, room: float) -> None:
    right, total = _right(one)
    drawing.dot(number, left + 6, top + 12, f"k{number % SERIES}", 5)
    said = f" · {right:,} of {total:,} right"
    drawing.text(left + 18, top + 16, f"{fitted(one.variant, room - 18 - 8 * len(said))}{said}", "strong")


_TALL, _LABEL, _CELL = 48.0, 200.0, 110.0
_COLUMNS = 3  # variants beside each other on narrow paper


def robustness_pictures(figures: Figures) -> list[Picture]:
    """One picture, if cases were perturbed and answered."""
    found = {(each.variant, each.perturbation): each for each in figures.robustness}
    answered = {kind for (_, kind), each in found.items() if each.accuracy.of is not None}
    kinds = [kind for kind in dict.fromkeys(kind for _, kind in found) if kind in answered]
    names = [each.name for each in figures.variants if (each.name, "none") in found]
    if not kinds or not names:
        return []
    return [
        Picture(
            name="robustness",
            title="Accuracy under perturbations",
            alternative=". ".join(
                f"{name}: " + ", ".join(_change_in_words(found[name, kind]) for kind in kinds) for name in names
            )
            + ".",
            draw=lambda width: _draw_robustness(found, names, kinds, width),
            below="accuracy; below it the change in points from the same cases unperturbed, bold if its 95 % interval "
            "is clear of 0",
            head=("perturbation", *names),
            rows=tuple((called(kind), *(_in_table(found[name, kind]) for name in names)) for kind in kinds),
        )
    ]


def called(kind: str) -> str:
    """A perturbation by its name; what is none is unperturbed."""
    return "unperturbed" if kind == "none" else kind


def _change_in_words(one: Degradation) -> str:
    accuracy = percent(one.accuracy.of.estimate) if one.accuracy.of else "no score"
    change = f" ({points(one.change.estimate)} points)" if one.change else ""
    return f"{called(one.perturbation)} {accuracy}{change}"


def _in_table(one: Degradation) -> str:
    return with_count(one.accuracy) + (f", {points(one.change.estimate)}" if one.change else "")


def _cell(one: Degradation, narrow: bool) -> Cell:
    if one.accuracy.of is None:
        return Cell(NOTHING, 0.0)
    said = points(one.change.estimate) if one.change else "" if one.perturbation == "none" else NOTHING
    is_clear = one.change is not None and (one.change.low > 0 or one.change.high < 0)
    unit = "" if narrow or one.change is None else " points"
    return Cell(percent(one.accuracy.of.estimate), one.accuracy.of.estimate, said + unit, strong=is_clear)


def _draw_robustness(
    found: dict[tuple[str, str], Degradation], names: Sequence[str], kinds: Sequence[str], width: float
) -> Drawing:
    """Variants below each other; on narrow paper perturbations are, and as many variants beside each other as fit."""
    drawing = Drawing(width)
    columns = tuple(called(kind) for kind in kinds)
    if width > 600:
        label = min(_LABEL, 12 + max(wide(name, 12) for name in names))
        rows = tuple(tuple(_cell(found[name, kind], False) for kind in kinds) for name in names)
        matrix = Matrix(tuple(names), columns, rows, "grey", _TALL)
        draw(drawing, matrix, 0, 0, label, min(_CELL, (width - label) / len(kinds)))
        drawing.height = matrix.height + 4
        return drawing
    for start in range(0, len(names), _COLUMNS):
        part = names[start : start + _COLUMNS]
        rows = tuple(tuple(_cell(found[name, kind], True) for name in part) for kind in kinds)
        matrix = Matrix(columns, tuple(part), rows, "grey", _TALL)
        draw(drawing, matrix, 0, drawing.height, matrix.label, min(_CELL, (width - matrix.label) / len(part)))
        drawing.height += matrix.height + 18
    return drawing
