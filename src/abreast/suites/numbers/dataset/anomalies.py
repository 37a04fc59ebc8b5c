"""Anomalies: put into a series, and found in one. What is found in the numbers that are shown is the truth."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from abreast.suites.numbers.dataset.series import Random, Values

Kind = Literal["spike", "drop", "level shift"]

FAR = 7.0  # robust standard deviations from its neighbours: a spike or a drop
SHIFTED = 8.0  # the same of a change of level, by how much the level changes elsewhere
ABOVE_NOISE = 3.0  # and by how much points differ from their neighbours
BESIDE = 3  # points on either side that a point is compared with
LEVEL = 20  # points on either side of a change of level
EDGE = 12  # points at either end that nothing is put into
APART = 12  # points between two anomalies


class Anomaly(NamedTuple):
    """One event: where it is, or begins, and of what kind."""

    position: int
    kind: Kind


def put(random: Random, values: Values, kind: Kind) -> tuple[Values, list[Anomaly]]:
    """The series with one to five events of a kind in it, clearly visible (a change of level only once), and them."""
    changed = values.copy()
    middle = _between(values)
    scale = _deviation(values - middle)
    if kind == "level shift":
        at = int(random.integers(len(values) // 4, 3 * len(values) // 4))
        changed[at:] += random.choice([-1.0, 1.0]) * _reach(values) * random.uniform(2.0, 3.0)
        return changed, [Anomaly(at, kind)]
    sign = 1.0 if kind == "spike" else -1.0
    places = _places(random, len(values), int(random.integers(1, 6)))
    for at in places:
        changed[at] = middle[at] + sign * scale * random.uniform(12.0, 20.0)
    return changed, [Anomaly(at, kind) for at in places]


def _places(random: Random, size: int, number: int) -> list[int]:
    """Positions anywhere but near the ends, each at least `APART` from the next."""
    room = size - 2 * EDGE
    number = min(number, (room - 1) // APART + 1)
    chosen = np.sort(random.choice(room - (number - 1) * (APART - 1), number, replace=False))
    return [EDGE + int(at) + index * (APART - 1) for index, at in enumerate(chosen)]


def _reach(values: Values) -> float:
    return float(np.ptp(values - np.polyval(np.polyfit(np.arange(len(values)), values, 1), np.arange(len(values)))))


def find(values: Values) -> list[Anomaly]:
    """Every anomaly, in order: a lasting change of level, and points far from their neighbours.

    >>> values = np.tile([1.0, 2.0, 3.0, 2.0], 50)
    >>> values[[70, 130]] += 40
    >>> find(values)
    [Anomaly(position=70, kind='spike'), Anomaly(position=130, kind='spike')]
    """
    filled = _filled(values)
    found: list[Anomaly] = []
    at = _shift(filled)
    if at is not None:
        found.append(Anomaly(at, "level shift"))
        filled = filled.copy()
        filled[at:] -= np.median(filled[at : at + LEVEL]) - np.median(filled[at - LEVEL : at])
    away = filled - _between(filled)
    limit = FAR * _deviation(away)
    for position in np.flatnonzero(np.abs(away) > limit).tolist():
        if at is None or abs(position - at) > 1:
            found.append(Anomaly(position, "spike" if away[position] > 0 else "drop"))
    return sorted(found)


def _filled(values: Values) -> Values:
    there = np.isfinite(values)
    at = np.arange(len(values))
    return np.interp(at, at[there], values[there])


def _between(values: Values) -> Values:
    """Where each point would be by its neighbours: half way between the medians on either side."""
    padded = np.pad(values, BESIDE, mode="reflect")
    sides = np.median(np.lib.stride_tricks.sliding_window_view(padded, BESIDE), axis=1)
    found: Values = (sides[: len(values)] + sides[BESIDE + 1 :]) / 2
    return found


def _deviation(values: Values) -> float:
    """A standard deviation that outliers do not change; a little above 0 for a series that never changes."""
    spread = 1.4826 * float(np.median(np.abs(values - np.median(values))))
    return max(spread, 1e-9 * (1.0 + float(np.max(np.abs(values)))))


def _shift(values: Values) -> int | None:
    if len(values) < 4 * LEVEL:
        return None
    windows = np.median(np.lib.stride_tricks.sliding_window_view(values, LEVEL), axis=1)
    steps = windows[LEVEL:] - windows[:-LEVEL]  # of a change before position LEVEL, LEVEL + 1, ...
    steps = steps - np.median(steps)
    most = int(np.argmax(np.abs(steps)))
    if abs(steps[most]) <= max(SHIFTED * _deviation(steps), ABOVE_NOISE * _deviation(values - _between(values))):
        return None
    near = np.arange(max(1, most + LEVEL // 2), min(len(values), most + LEVEL + LEVEL // 2 + 1))
    return int(near[np.argmax(np.abs(values[near] - values[near - 1]))])
