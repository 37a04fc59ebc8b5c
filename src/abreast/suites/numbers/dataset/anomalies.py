"""Insert anomalies into a series, and detect them. The truth is the result of the detection, not of the insertion."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from abreast.suites.numbers.dataset.series import Random, Values

Kind = Literal["spike", "drop", "level shift"]

FAR = 7.0  # robust standard deviations from its neighbours: a spike or a drop
SHIFTED = 8.0  # robust standard deviations of level changes elsewhere: a level shift
ABOVE_NOISE = 3.0  # robust standard deviations of neighbouring points, also needed for a level shift
NEIGHBOURS = 3  # points on either side that a point is compared with
LEVEL = 20  # points on either side of a level shift
EDGE = 12  # points without anomalies at either end
SPACING = 12  # points between two anomalies


class Anomaly(NamedTuple):
    """An event at, or from, this position."""

    position: int
    kind: Kind


def put(random: Random, values: Values, kind: Kind) -> tuple[Values, list[Anomaly]]:
    """Insert one to five clearly visible events (a single level shift), and return the series and the events."""
    changed = values.copy()
    middle = _between(values)
    scale = _deviation(values - middle)
    if kind == "level shift":
        at = int(random.integers(len(values) // 4, 3 * len(values) // 4))
        changed[at:] += random.choice([-1.0, 1.0]) * _reach(values) * random.uniform(2.0, 3.0)
        return changed, [Anomaly(at, kind)]
    sign = 1.0 if kind == "spike" else -1.0
    positions = _positions(random, len(values), int(random.integers(1, 6)))
    for at in positions:
        changed[at] = middle[at] + sign * scale * random.uniform(12.0, 20.0)
    return changed, [Anomaly(at, kind) for at in positions]


def _positions(random: Random, size: int, number: int) -> list[int]:
    """Random positions away from the ends, at least `SPACING` apart."""
    room = size - 2 * EDGE
    number = min(number, (room - 1) // SPACING + 1)
    chosen = np.sort(random.choice(room - (number - 1) * (SPACING - 1), number, replace=False))
    return [EDGE + int(at) + index * (SPACING - 1) for index, at in enumerate(chosen)]


def _reach(values: Values) -> float:
    return float(np.ptp(values - np.polyval(np.polyfit(np.arange(len(values)), values, 1), np.arange(len(values)))))


def find(values: Values) -> list[Anomaly]:
    """Detect level shifts and points far from their neighbours, in order.

    >>> values = np.tile([1.0, 2.0, 3.0, 2.0], 50)
    >>> values[[70, 130]] += 40
    >>> find(values)
    [Anomaly(position=70, kind='spike'), Anomaly(position=130, kind='spike')]
    """
    filled = _fill_gaps(values)
    events: list[Anomaly] = []
    at = _shift(filled)
    if at is not None:
        events.append(Anomaly(at, "level shift"))
        filled = filled.copy()
        filled[at:] -= np.median(filled[at : at + LEVEL]) - np.median(filled[at - LEVEL : at])
    residuals = filled - _between(filled)
    limit = FAR * _deviation(residuals)
    for position in np.flatnonzero(np.abs(residuals) > limit).tolist():
        if at is None or abs(position - at) > 1:
            events.append(Anomaly(position, "spike" if residuals[position] > 0 else "drop"))
    return sorted(events)


def _fill_gaps(values: Values) -> Values:
    is_finite = np.isfinite(values)
    at = np.arange(len(values))
    return np.interp(at, at[is_finite], values[is_finite])


def _between(values: Values) -> Values:
    """Return the expected value of each point: half way between the medians of its neighbours on either side."""
    padded = np.pad(values, NEIGHBOURS, mode="reflect")
    sides = np.median(np.lib.stride_tricks.sliding_window_view(padded, NEIGHBOURS), axis=1)
    expected: Values = (sides[: len(values)] + sides[NEIGHBOURS + 1 :]) / 2
    return expected


def _deviation(values: Values) -> float:
    """Return a robust standard deviation, slightly above 0 for constant series."""
    spread = 1.4826 * float(np.median(np.abs(values - np.median(values))))
    return max(spread, 1e-9 * (1.0 + float(np.max(np.abs(values)))))


def _shift(values: Values) -> int | None:
    if len(values) < 4 * LEVEL:
        return None
    windows = np.median(np.lib.stride_tricks.sliding_window_view(values, LEVEL), axis=1)
    steps = windows[LEVEL:] - windows[:-LEVEL]  # level changes before the positions LEVEL, LEVEL + 1, ...
    steps = steps - np.median(steps)
    most = int(np.argmax(np.abs(steps)))
    if abs(steps[most]) <= max(SHIFTED * _deviation(steps), ABOVE_NOISE * _deviation(values - _between(values))):
        return None
    near = np.arange(max(1, most + LEVEL // 2), min(len(values), most + LEVEL + LEVEL // 2 + 1))
    return int(near[np.argmax(np.abs(values[near] - values[near - 1]))])
