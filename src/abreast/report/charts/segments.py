"""The difference among the cases of each tag. Exploratory."""

from __future__ import annotations

from abreast.analyse.run import Analysis, Comparison
from abreast.analyse.segments import Segment
from abreast.report.charts.drawing import Picture, slug
from abreast.report.charts.forest import LOOKS, Bar, forest
from abreast.report.words.verdict_sentence import SEGMENT_TITLES, by_size, segment_cells, segments_of, where_it_helps

MOST = 24  # segments drawn
COMPARISONS = 6


def pictures(analysis: Analysis) -> list[Picture]:
    """One picture for each comparison that has segments."""
    by_comparison = [(item, by_size(segments_of(analysis, item))) for item in analysis.comparisons]
    drawn = [(item, segments) for item, segments in by_comparison if segments][:COMPARISONS]
    return [_picture(item, segments, number) for number, (item, segments) in enumerate(drawn, 1)]


def _picture(item: Comparison, segments: list[Segment], number: int) -> Picture:
    name = f"{item.variant} against {item.baseline}"
    drawn = segments[:MOST]
    bars = [
        Bar(
            f"{segment.tag}={segment.value}",
            segment.estimate.estimate,
            (segment.estimate.low, segment.estimate.high),
            LOOKS.get(segment.word, "open"),
            f"n {segment.cases:,}",
        )
        for segment in drawn
    ]
    rest = f" The table has {len(segments) - MOST:,} more." if len(segments) > MOST else ""
    sides = (f"{item.baseline} is better", f"{item.variant} is better")
    return Picture(
        name=f"segments-{number}-{slug(item.variant)}".rstrip("-"),
        title=f"By segment: {name}",
        alternative=f"{name}, by segment, exploratory: {where_it_helps(segments, len(drawn))}.{rest}",
        draw=lambda width: forest(bars, sides, 0.0, width),
        below="exploratory, to be confirmed by a run of its own",
        head=("segment", *SEGMENT_TITLES, "wins", "losses", "ties", "not compared"),
        rows=tuple(
            (
                f"{segment.tag}={segment.value}",
                *segment_cells(segment),
                *(f"{count:,}" for count in (segment.wins, segment.losses, segment.ties, segment.dropped)),
            )
            for segment in segments[:200]
        ),
    )
