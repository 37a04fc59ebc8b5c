"""The distribution of latencies per variant."""

from __future__ import annotations

import math

import numpy as np

from abreast.analyse.rows import Floats
from abreast.analyse.run import Analysis
from abreast.report.charts.colours import SERIES
from abreast.report.charts.drawing import Drawing, Picture, Scale, fitted, steps

MOST = 24  # variants
_WIDE_RANGE = 30  # the ratio of its ends above which the axis is logarithmic


def pictures(analysis: Analysis) -> list[Picture]:
    """One picture; none if all answers were reused or took no time."""
    rows = analysis.rows
    drawn: list[tuple[int, str, Floats]] = []
    for number, name in enumerate(rows.variants):
        measured = (rows.variant == number) & rows.ok & ~rows.reused & (rows.service_s > 0)
        if measured.any() and len(drawn) < MOST:
            drawn.append((number, name, rows.service_s[measured]))
    if not drawn:
        return []
    quantiles = {name: _quantiles(values) for _, name, values in drawn}
    return [
        Picture(
            "latency",
            "Latency: service time of an answer",
            ". ".join(f"{name}: half within {_time(q[0])}, 95 % within {_time(q[1])}" for name, q in quantiles.items())
            + ".",
            lambda width: _draw(drawn, width),
            "without queueing and back-off; diamond: median, vertical line: 95 %",
        )
    ]


def _quantiles(values: Floats) -> tuple[float, float]:
    half, most = np.quantile(values, (0.5, 0.95), method="inverted_cdf")
    return float(half), float(most)


def _draw(drawn: list[tuple[int, str, Floats]], width: float) -> Drawing:
    in_line = width > 600
    step, left, right = (62.0, 170.0, width - 12.0) if in_line else (80.0, 4.0, width - 8.0)
    bottom = len(drawn) * step + 6
    drawing = Drawing(width, bottom + 26)
    seconds = np.concatenate([values for _, _, values in drawn])
    low, high = float(seconds.min()), float(np.quantile(seconds, 0.995, method="inverted_cdf"))
    powers = high / low > _WIDE_RANGE
    ends = (math.log10(low), math.log10(high)) if powers else (0.0, high * 1.02)
    if ends[0] == ends[1]:
        ends = (ends[0] - 0.5, ends[1] + 0.5)
    x = Scale(*ends, left, right)
    for tick, label in _ticks(ends, powers, 4 if width < 600 else 7):
        drawing.line(x(tick), 0, x(tick), bottom, "grid")
        drawing.text(min(max(x(tick), 14), width - 18), bottom + 20, label, "soft", "middle")
    for row, (number, name, values) in enumerate(drawn):
        base = (row + 1) * step - 6
        look = f"k{number % SERIES}"
        scaled = np.log10(values) if powers else values
        heights = _heights(scaled, ends, 72 if in_line else 40)
        bins = len(heights)
        edges = [left + (right - left) * at / bins for at in range(bins + 1)]
        outline = [(left, base)]
        for at, height in enumerate(heights):
            outline += [(edges[at], base - height * (step - 26)), (edges[at + 1], base - height * (step - 26))]
        drawing.path([*outline, (right, base)], look, True, fill_opacity="0.35")
        drawing.stroke(left, base, right, base, look, 1)
        half, most = _quantiles(scaled)
        drawing.dot(3, x(half), base, look, 5)
        drawing.stroke(x(most), base - 9, x(most), base + 5, look, 2.5)
        drawing.dot(number, 6, base - step + (32 if in_line else 20), look, 5)
        label = fitted(name, left - 30 if in_line else width * 0.5)
        drawing.text(18, base - step + (36 if in_line else 24), label, "strong")
        figures = " · ".join(map(_time, _quantiles(values)))
        if in_line:
            drawing.text(18, base - 6, figures, "note")
        else:
            drawing.text(width - 4, base - step + 24, figures, "note", "end")
    return drawing


def _ticks(ends: tuple[float, float], powers: bool, most: int) -> list[tuple[float, str]]:
    if not powers:
        return [(at, _time(at) if at else "0") for at in steps(*ends, most)]
    ticks = [
        (math.log10(factor * 10.0**power), _time(factor * 10.0**power))
        for power in range(math.floor(ends[0]), math.ceil(ends[1]) + 1)
        for factor in ((1, 3) if ends[1] - ends[0] < 2 else (1,))
    ]
    return [(at, label) for at, label in ticks if ends[0] <= at <= ends[1]]


def _heights(values: Floats, ends: tuple[float, float], bins: int) -> list[float]:
    """A lightly smoothed histogram with a maximum of 1."""
    counts, _ = np.histogram(np.clip(values, *ends), bins=bins, range=ends)
    smooth = np.convolve(counts, (0.25, 0.5, 0.25), mode="same") if len(values) > 30 else counts.astype(float)
    return [float(value) for value in smooth / (smooth.max() or 1.0)]


def _time(value: float) -> str:
    """Format a duration; unlike `variant_figures.seconds`, with microseconds.

    >>> _time(0.00004), _time(0.0421), _time(18.24)
    ('40 µs', '42 ms', '18.2 s')
    """
    if value < 0.000_995:
        return f"{value * 1e6:.0f} µs"
    return f"{value * 1e3:.0f} ms" if value < 0.995 else f"{value:.1f} s"
