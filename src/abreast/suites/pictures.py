"""Pictures of lanes, as several suites draw them: with the same in words, and all figures as a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from abreast.report.charts.drawing import Picture
from abreast.report.charts.lanes import MOST, Group, Lane, lanes, of_most


def lanes_picture(
    name: str,
    title: str,
    *,
    names: Sequence[str],
    groups: Sequence[Group],
    axis: tuple[float, Callable[[float], str]],
    alternative: str,
    below: str,
    label: str,
    rows: Sequence[tuple[str, ...]],
) -> Picture:
    """A picture of groups of lanes; `axis` has its end and how steps are written, `label` heads the table."""
    return Picture(
        name=name,
        title=title,
        alternative=alternative,
        draw=lambda width: lanes(names[:MOST], groups, *axis, width),
        below=below + of_most(len(names)),
        head=(label, *names),
        rows=tuple(rows),
    )


def lanes_in_words(
    names: Sequence[str], groups: Sequence[Group], say: Callable[[Lane], str] = lambda lane: lane.figure
) -> str:
    """`trend: baseline 40.0 %, treatment 90.0 %. anomaly: baseline 20.0 %.`"""
    return (
        ". ".join(
            f"{group.label}: " + ", ".join(f"{names[lane.number]} {say(lane)}" for lane in group.lanes)
            for group in groups
        )
        + "."
    )
