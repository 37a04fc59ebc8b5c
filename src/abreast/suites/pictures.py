"""Lane charts of suites, with a text alternative and a table of all figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from abreast.report.charts.drawing import Picture
from abreast.report.charts.lanes import MOST, Group, Lane, lanes, of_most

Value = TypeVar("Value")


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
    """Return a lane chart; `axis` has its end and the format of its ticks, `label` is the first column of the table."""
    return Picture(
        name=name,
        title=title,
        alternative=alternative,
        draw=lambda width: lanes(names[:MOST], groups, *axis, width),
        below=below + of_most(len(names)),
        head=(label, *names),
        rows=tuple(rows),
    )


def lane_groups(rows: Iterable[tuple[str, Sequence[Value | None]]], lane: Callable[[int, Value], Lane]) -> list[Group]:
    """Return a group for each row with a lane for each known value of a variant, by its number; no empty groups."""
    groups = [
        Group(label, tuple(lane(number, value) for number, value in enumerate(values[:MOST]) if value is not None))
        for label, values in rows
    ]
    return [group for group in groups if group.lanes]


def lanes_in_words(
    names: Sequence[str], groups: Sequence[Group], say: Callable[[Lane], str] = lambda lane: lane.figure
) -> str:
    """Describe lanes: `trend: baseline 40.0 %, treatment 90.0 %. anomaly: baseline 20.0 %.`"""
    return (
        ". ".join(
            f"{group.label}: " + ", ".join(f"{names[lane.number]} {say(lane)}" for lane in group.lanes)
            for group in groups
        )
        + "."
    )
