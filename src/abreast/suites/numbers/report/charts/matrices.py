"""Matrices: confusion of classes, and accuracy under perturbations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from abreast.report.charts.colours import SERIES
from abreast.report.charts.drawing import Drawing, Picture, fitted, wide
from abreast.report.charts.lanes import MOST, of_most
from abreast.report.words.variant_figures import NOTHING
from abreast.report.words.verdict_sentence import points
from abreast.suites.numbers.report.figures import Confusion, Degradation, Figures, percent, with_count

_DARKEST = 0.45  # keeps text readable
HEAD = 34.0  # height of the header


@dataclass(frozen=True, slots=True)
class MatrixCell:
    """One or two lines of text on a shade from 0 to 1."""

    words: str
    shade: float
    below: str = ""  # a second line
    framed: bool = False
    strong: bool = False  # the second line


@dataclass(frozen=True, slots=True)
class Matrix:
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: tuple[tuple[MatrixCell, ...], ...]
    css_class: str
    tall: float = 30.0  # height of a cell

    @property
    def height(self) -> float:
        return HEAD + len(self.rows) * self.tall

    @property
    def label(self) -> float:
        return 12 + max(wide(row, 12) for row in self.rows)


def draw(drawing: Drawing, matrix: Matrix, x: float, top: float, label: float, cell: float) -> None:
    for at, name in enumerate(matrix.columns):
        _head(drawing, name, x + label + (at + 0.5) * cell, top + HEAD - 8, cell)
    for row, (name, cells) in enumerate(zip(matrix.rows, matrix.cells, strict=True)):
        y = top + HEAD + row * matrix.tall
        drawing.text(x, y + matrix.tall / 2 + 4, fitted(name, label - 6, 12), "note")
        for at, content in enumerate(cells):
            _draw_cell(drawing, content, matrix, x + label + at * cell, y, cell)


def _head(drawing: Drawing, name: str, middle: float, y: float, room: float) -> None:
    if wide(name, 12) <= room:
        drawing.text(middle, y, name, "note", "middle")
        return
    first, second = _halves(name)
    drawing.text(middle, y - (14 if second else 0), fitted(first, room, 12), "note", "middle")
    if second:
        drawing.text(middle, y, fitted(second, room, 12), "note", "middle")


def _halves(name: str) -> tuple[str, str]:
    """Split a name at its first hyphen or space.

    >>> _halves("left-skewed"), _halves("level shift"), _halves("symmetric")
    (('left-', 'skewed'), ('level', 'shift'), ('symmetric', ''))
    """
    for mark in ("-", " "):
        first, separator, second = name.partition(mark)
        if separator and first.strip() and second:
            return (first + mark).strip(), second
    return name, ""


def _draw_cell(drawing: Drawing, cell: MatrixCell, matrix: Matrix, x: float, y: float, width: float) -> None:
    drawing.box(
        *(x + 1.5, y + 1.5, width - 3, matrix.tall - 3, matrix.css_class),
        fill="currentColor",
        fill_opacity=f"{0.04 + cell.shade * (_DARKEST - 0.04):.2f}",
    )
    if cell.framed:
        drawing.box(x + 2.5, y + 2.5, width - 5, matrix.tall - 5, "zero", fill="none")
    middle, centre = x + width / 2, y + matrix.tall / 2
    drawing.text(middle, centre + (-3 if cell.below else 4), cell.words, "", "middle")
    if cell.below:
        drawing.text(middle, centre + 13, cell.below, "strong" if cell.strong else "", "middle")


_TITLE, _BETWEEN, _GAP = 28.0, 18.0, 36.0
_WIDEST = 92.0  # maximum width of a cell


def confusion_pictures(figures: Figures) -> list[Picture]:
    """Draw a confusion matrix for each query with classes."""
    queries = dict.fromkeys(confusion.query for confusion in figures.confusions)
    by_query = {query: [item for item in figures.confusions if item.query == query] for query in queries}
    return [_confusion_picture(query, confusions, figures) for query, confusions in by_query.items()]


def _confusion_picture(query: str, confusions: list[Confusion], figures: Figures) -> Picture:
    numbers = {variant.name: number for number, variant in enumerate(figures.variants)}
    drawn = confusions[:MOST]
    return Picture(
        name=f"confusion-{query}",
        title=f"Confusion of classes: {query.replace('_', ' ')}",
        alternative=". ".join(f"{item.variant}: {_confusion_in_words(item)}" for item in drawn) + ".",
        draw=lambda width: _draw_confusions(drawn, numbers, width),
        below=f"rows: right classes; columns: answers; framed: right answers{of_most(len(confusions))}",
        head=("variant", "right", *(f"answered {answer}" for answer in confusions[0].answers)),
        rows=tuple(
            (item.variant, right, *(f"{count:,}" for count in counts))
            for item in confusions
            for right, counts in zip(item.classes, item.counts, strict=True)
        ),
    )


def _right(confusion: Confusion) -> tuple[int, int]:
    return sum(confusion.counts[at][at] for at in range(len(confusion.classes))), sum(map(sum, confusion.counts))


def _confusion_in_words(confusion: Confusion) -> str:
    right, total = _right(confusion)
    mistakes = [
        f"{count:,} × {answer} where {right_class} is right"
        for right_class, counts in zip(confusion.classes, confusion.counts, strict=True)
        for answer, count in zip(confusion.answers, counts, strict=True)
        if answer != right_class and count
    ]
    return f"{right:,} of {total:,} right" + (f"; {', '.join(mistakes)}" if mistakes else "")


def _matrix(confusion: Confusion, number: int) -> Matrix:
    cells = tuple(
        tuple(
            MatrixCell(f"{count:,}", count / (sum(counts) or 1), framed=answer == right)
            for answer, count in zip(confusion.answers, counts, strict=True)
        )
        for right, counts in zip(confusion.classes, confusion.counts, strict=True)
    )
    return Matrix(confusion.classes, confusion.answers, cells, f"k{number % SERIES}")


def _draw_confusions(confusions: Sequence[Confusion], numbers: dict[str, int], width: float) -> Drawing:
    matrices = [_matrix(item, numbers[item.variant]) for item in confusions]
    first = matrices[0]
    label, columns = first.label, len(first.columns)
    per_row = max(1, min(len(confusions), int((width + _GAP) // (label + columns * 62 + _GAP))))
    room = (width - (per_row - 1) * _GAP) / per_row
    cell = min(_WIDEST, (room - label) / columns)
    drawing = Drawing(width)
    for at, (confusion, matrix) in enumerate(zip(confusions, matrices, strict=True)):
        row, column = divmod(at, per_row)
        x, top = column * (room + _GAP), row * (_TITLE + matrix.height + _BETWEEN)
        _title(drawing, confusion, numbers[confusion.variant], x, top, room)
        draw(drawing, matrix, x, top + _TITLE, label, cell)
        drawing.height = top + _TITLE + matrix.height + 4
    return drawing


def _title(drawing: Drawing, confusion: Confusion, number: int, x: float, top: float, room: float) -> None:
    right, total = _right(confusion)
    drawing.dot(number, x + 6, top + 12, f"k{number % SERIES}", 5)
    counts = f" · {right:,} of {total:,} right"
    drawing.text(x + 18, top + 16, f"{fitted(confusion.variant, room - 18 - 8 * len(counts))}{counts}", "strong")


_TALL, _LABEL, _CELL = 48.0, 200.0, 110.0
_COLUMNS = 3  # variants side by side on narrow paper


def robustness_picture(figures: Figures) -> Picture | None:
    """Draw accuracy under perturbations, if there are answers to perturbed cases."""
    by = {(item.variant, item.perturbation): item for item in figures.robustness}
    kinds = list(dict.fromkeys(item.perturbation for item in by.values()))
    kinds = [kind for kind in kinds if any(by[name, kind].accuracy.mean is not None for name, _ in by)]
    names = [variant.name for variant in figures.variants if (variant.name, "none") in by]
    if not kinds or not names:
        return None
    return Picture(
        name="robustness",
        title="Accuracy under perturbations",
        alternative=". ".join(
            f"{name}: " + ", ".join(_change_in_words(by[name, kind]) for kind in kinds) for name in names
        )
        + ".",
        draw=lambda width: _draw_robustness(by, names, kinds, width),
        below="accuracy, and the change in points from the same cases unperturbed, bold if its 95 % interval "
        "excludes 0",
        head=("perturbation", *names),
        rows=tuple((perturbation_name(kind), *(_in_table(by[name, kind]) for name in names)) for kind in kinds),
    )


def perturbation_name(kind: str) -> str:
    return "unperturbed" if kind == "none" else kind


def _change_in_words(item: Degradation) -> str:
    accuracy = percent(item.accuracy.mean.estimate) if item.accuracy.mean else "no score"
    change = f" ({points(item.change.estimate)} points)" if item.change else ""
    return f"{perturbation_name(item.perturbation)} {accuracy}{change}"


def _in_table(item: Degradation) -> str:
    return with_count(item.accuracy) + (f", {points(item.change.estimate)}" if item.change else "")


def _cell(item: Degradation, narrow: bool) -> MatrixCell:
    if item.accuracy.mean is None:
        return MatrixCell(NOTHING, 0.0)
    change = points(item.change.estimate) if item.change else "" if item.perturbation == "none" else NOTHING
    is_clear = item.change is not None and (item.change.low > 0 or item.change.high < 0)
    unit = "" if narrow or item.change is None else " points"
    return MatrixCell(percent(item.accuracy.mean.estimate), item.accuracy.mean.estimate, change + unit, strong=is_clear)


def _draw_robustness(
    by: dict[tuple[str, str], Degradation], names: Sequence[str], kinds: Sequence[str], width: float
) -> Drawing:
    """Return a row for each variant; on narrow paper a row for each perturbation, and several matrices if necessary."""
    drawing = Drawing(width)
    columns = tuple(perturbation_name(kind) for kind in kinds)
    if width > 600:
        label = min(_LABEL, 12 + max(wide(name, 12) for name in names))
        rows = tuple(tuple(_cell(by[name, kind], False) for kind in kinds) for name in names)
        matrix = Matrix(tuple(names), columns, rows, "grey", _TALL)
        draw(drawing, matrix, 0, 0, label, min(_CELL, (width - label) / len(kinds)))
        drawing.height = matrix.height + 4
        return drawing
    for start in range(0, len(names), _COLUMNS):
        part = names[start : start + _COLUMNS]
        rows = tuple(tuple(_cell(by[name, kind], True) for name in part) for kind in kinds)
        matrix = Matrix(columns, tuple(part), rows, "grey", _TALL)
        draw(drawing, matrix, 0, drawing.height, matrix.label, min(_CELL, (width - matrix.label) / len(part)))
        drawing.height += matrix.height + 18
    return drawing
