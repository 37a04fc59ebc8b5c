"""The interval of each comparison against zero and the margin."""

from __future__ import annotations

from abreast.analyse.run import Analysis, Comparison
from abreast.report.charts.drawing import Picture
from abreast.report.charts.forest import LOOKS, Bar, forest
from abreast.report.words.verdict_sentence import points, sentence, trusted

MOST = 40


def pictures(analysis: Analysis) -> list[Picture]:
    """One picture for all comparisons by the primary score; none if nothing was compared."""
    shown = [item for item in analysis.comparisons if item.verdict.interval is not None][:MOST]
    if not shown:
        return []
    bars = [_bar(item) for item in shown]
    same = len({item.baseline for item in shown}) == 1
    if same:
        bars = [Bar(item.variant, bar.estimate, bar.ends, bar.look) for item, bar in zip(shown, bars, strict=True)]
    only = shown[0]
    sides = (f"{only.baseline} is better", f"{only.variant} is better" if len(shown) == 1 else "the variant is better")
    if not same:
        sides = ("the second is better", "the first is better")
    title = f"Difference in score, in points, against {only.baseline}" if same else "Difference in score, in points"
    margin = f" The margin is {points(analysis.margin)[1:]} points." if analysis.margin else ""
    return [
        Picture(
            "difference",
            title,
            " ".join(f"{_in_words(item)}." for item in shown) + margin,
            lambda width: forest(bars, sides, analysis.margin, width),
            "; ".join(_notes(analysis)),
        )
    ]


def _notes(analysis: Analysis) -> list[str]:
    found = [f"the shaded band is the margin of ±{analysis.margin * 100:.4g} points"] if analysis.margin else []
    if len(analysis.comparisons) > MOST:
        found.append(f"the first {MOST} of {len(analysis.comparisons):,} comparisons")
    return found


def _bar(item: Comparison) -> Bar:
    found = item.verdict.interval
    assert found is not None
    sure = trusted(item.verdict)
    ends = None if sure is None else (sure.low, sure.high)
    return Bar(f"{item.variant} against {item.baseline}", found.estimate, ends, LOOKS.get(item.verdict.word, "open"))


def _in_words(item: Comparison) -> str:
    found = trusted(item.verdict)
    if found is None:
        return sentence(item)
    inside = "outside" if found.low > 0 or found.high < 0 else "inside"
    return f"{sentence(item)}; zero is {inside} the interval"
