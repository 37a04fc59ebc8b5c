"""The interval of each comparison against zero and the margin."""

from __future__ import annotations

from collections.abc import Sequence

from abreast.analyse.run import Analysis, Comparison
from abreast.report.charts.drawing import Picture
from abreast.report.charts.forest import LOOKS, Bar, forest
from abreast.report.words.verdict_sentence import points, sentence, trusted

MOST = 40


def pictures(analysis: Analysis) -> list[Picture]:
    """One picture for all comparisons by the primary score; none if nothing was compared."""
    drawn = [item for item in analysis.comparisons if item.verdict.interval is not None][:MOST]
    if not drawn:
        return []
    baseline, variant = drawn[0].baseline, drawn[0].variant
    title = "Difference in score, in points"
    if {item.baseline for item in drawn} == {baseline}:
        title += f", against {baseline}"
        labels = [item.variant for item in drawn]
        sides = (f"{baseline} is better", f"{variant if len(drawn) == 1 else 'the variant'} is better")
    else:
        labels = [f"{item.variant} against {item.baseline}" for item in drawn]
        sides = ("the second is better", "the first is better")
    return [picture(drawn, title, labels, sides, analysis.margin, len(analysis.comparisons))]


def picture(
    items: Sequence[Comparison], title: str, labels: Sequence[str], sides: tuple[str, str], margin: float, count: int
) -> Picture:
    """The first of `count` comparisons, which have intervals; `sides` are the labels left and right of zero."""
    bars = [_bar(item, label) for item, label in zip(items, labels, strict=True)]
    in_words = f" The margin is {points(margin)[1:]} points." if margin else ""
    return Picture(
        "difference",
        title,
        " ".join(f"{_in_words(item)}." for item in items) + in_words,
        lambda width: forest(bars, sides, margin, width),
        "; ".join(_notes(margin, count)),
    )


def _notes(margin: float, count: int) -> list[str]:
    notes = [f"the shaded band is the margin of ±{margin * 100:.4g} points"] if margin else []
    if count > MOST:
        notes.append(f"the first {MOST} of {count:,} comparisons")
    return notes


def _bar(item: Comparison, label: str) -> Bar:
    interval, sure = item.verdict.interval, trusted(item.verdict)
    assert interval is not None
    ends = None if sure is None else (sure.low, sure.high)
    return Bar(label, interval.estimate, ends, LOOKS.get(item.verdict.word, "open"))


def _in_words(item: Comparison) -> str:
    interval = trusted(item.verdict)
    if interval is None:
        return sentence(item)
    side = "outside" if interval.low > 0 or interval.high < 0 else "inside"
    return f"{sentence(item)}; zero is {side} the interval"
