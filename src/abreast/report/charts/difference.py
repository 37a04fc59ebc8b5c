"""The interval of each comparison against zero and the margin."""

from __future__ import annotations

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
    bars = [_bar(item, label) for item, label in zip(drawn, labels, strict=True)]
    margin = f" The margin is {points(analysis.margin)[1:]} points." if analysis.margin else ""
    return [
        Picture(
            "difference",
            title,
            " ".join(f"{_in_words(item)}." for item in drawn) + margin,
            lambda width: forest(bars, sides, analysis.margin, width),
            "; ".join(_notes(analysis)),
        )
    ]


def _notes(analysis: Analysis) -> list[str]:
    notes = [f"the shaded band is the margin of ±{analysis.margin * 100:.4g} points"] if analysis.margin else []
    if len(analysis.comparisons) > MOST:
        notes.append(f"the first {MOST} of {len(analysis.comparisons):,} comparisons")
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
