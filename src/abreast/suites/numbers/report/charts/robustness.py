"""What perturbations do to each variant: accuracy as shade and number, and the change below."""

from __future__ import annotations

from collections.abc import Sequence

from abreast.report.charts.drawing import Drawing, Picture, wide
from abreast.report.words.variant_figures import NOTHING
from abreast.report.words.verdict_sentence import points
from abreast.suites.numbers.report.charts.matrix import Cell, Matrix, draw
from abreast.suites.numbers.report.figures import Degradation, Figures, percent, with_count

_TALL, _LABEL, _CELL = 48.0, 200.0, 110.0
_COLUMNS = 3  # variants beside each other on narrow paper


def pictures(figures: Figures) -> list[Picture]:
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
                f"{name}: " + ", ".join(_in_words(found[name, kind]) for kind in kinds) for name in names
            )
            + ".",
            draw=lambda width: _draw(found, names, kinds, width),
            below="accuracy; below it the change in points from the same cases unperturbed, bold if its 95 % interval "
            "is clear of 0",
            head=("perturbation", *names),
            rows=tuple((called(kind), *(_in_table(found[name, kind]) for name in names)) for kind in kinds),
        )
    ]


def called(kind: str) -> str:
    """A perturbation by its name; what is none is unperturbed."""
    return "unperturbed" if kind == "none" else kind


def _in_words(one: Degradation) -> str:
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


def _draw(
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
