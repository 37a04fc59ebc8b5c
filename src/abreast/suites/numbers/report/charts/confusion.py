"""Which class was answered where which was right: a matrix for each variant, a picture for each query."""

from __future__ import annotations

from collections.abc import Sequence

from abreast.report.charts.colours import SERIES
from abreast.report.charts.drawing import Drawing, Picture, fitted
from abreast.report.charts.lanes import MOST, of_most
from abreast.suites.numbers.report.charts.matrix import Cell, Matrix, draw
from abreast.suites.numbers.report.figures import Confusion, Figures

_TITLE, _BETWEEN, _GAP = 28.0, 18.0, 36.0
_WIDEST = 92.0  # of a cell


def pictures(figures: Figures) -> list[Picture]:
    """One picture for each query with classes that was answered."""
    queries = dict.fromkeys(each.query for each in figures.confusions)
    return [_picture([each for each in figures.confusions if each.query == query], figures) for query in queries]


def _picture(found: list[Confusion], figures: Figures) -> Picture:
    query, numbers = found[0].query, {each.name: number for number, each in enumerate(figures.variants)}
    drawn = found[:MOST]
    return Picture(
        name=f"confusion-{query}",
        title=f"Confusion of classes: {query.replace('_', ' ')}",
        alternative=". ".join(f"{each.variant}: {_in_words(each)}" for each in drawn) + ".",
        draw=lambda width: _draw(drawn, numbers, width),
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


def _in_words(one: Confusion) -> str:
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


def _draw(found: Sequence[Confusion], numbers: dict[str, int], width: float) -> Drawing:
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
