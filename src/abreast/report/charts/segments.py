"""The difference among the cases of each tag. Exploratory."""

from __future__ import annotations

from abreast.analyse.run import Analysis, Comparison
from abreast.analyse.segments import Segment
from abreast.report.charts.drawing import Picture, slug
from abreast.report.charts.forest import LOOKS, Bar, forest
from abreast.report.words.verdict_sentence import SEGMENT_TITLES, segment_cells, where_it_helps

MOST = 24  # segments drawn
COMPARISONS = 6


def pictures(analysis: Analysis) -> list[Picture]:
    """One picture for each comparison that has segments."""
    found = [(item, of(analysis, item)) for item in analysis.comparisons]
    shown = [(item, mine) for item, mine in found if mine][:COMPARISONS]
    return [_picture(item, mine, number) for number, (item, mine) in enumerate(shown, 1)]


def of(analysis: Analysis, item: Comparison) -> list[Segment]:
    """The segments of a comparison: clear ones first, then by the size of the difference."""
    mine = [each for each in analysis.segments if (each.variant, each.baseline) == (item.variant, item.baseline)]
    return sorted(mine, key=lambda each: (each.word == "inconclusive", -abs(each.estimate.estimate)))


def _picture(item: Comparison, segments: list[Segment], number: int) -> Picture:
    name = f"{item.variant} against {item.baseline}"
    drawn = segments[:MOST]
    bars = [
        Bar(
            f"{each.tag}={each.value}",
            each.estimate.estimate,
            (each.estimate.low, each.estimate.high),
            LOOKS.get(each.word, "open"),
            f"n {each.cases:,}",
        )
        for each in drawn
    ]
    rest = f" {len(segments) - MOST:,} further ones are only in the table." if len(segments) > MOST else ""
    sides = (f"{item.baseline} is better", f"{item.variant} is better")
    return Picture(
        name=f"segments-{number}-{slug(item.variant)}".rstrip("-"),
        title=f"By segment: {name}",
        alternative=f"{name}, by segment, exploratory: {where_it_helps(segments, len(drawn))}.{rest}",
        draw=lambda width: forest(bars, sides, 0.0, width),
        below="exploratory; a run of its own would have to confirm what it shows",
        head=("segment", *SEGMENT_TITLES, "wins", "losses", "ties", "not compared"),
        rows=tuple(
            (
                f"{each.tag}={each.value}",
                *segment_cells(each),
                *(f"{count:,}" for count in (each.wins, each.losses, each.ties, each.dropped)),
            )
            for each in segments[:200]
        ),
    )
