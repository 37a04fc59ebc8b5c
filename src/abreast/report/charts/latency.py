"""How long answers took, variant by variant."""

from __future__ import annotations

import math

import numpy as np

from abreast.analyse.rows import Floats
from abreast.analyse.run import Analysis
from abreast.report.charts.colours import SERIES
from abreast.report.charts.drawing import Drawing, Picture, Scale, fitted, steps

MOST = 24  # variants
_WIDE_RANGE = 30  # from there on in powers of ten


def pictures(analysis: Analysis) -> list[Picture]:
    """One picture, if there are new answers that took time."""
    rows, found = analysis.rows, []
    for number, name in enumerate(rows.variants):
        mine = (rows.variant == number) & rows.ok & ~rows.reused & (rows.service_s > 0)
        if mine.any():
            found.append((number, name, rows.service_s[mine]))
    shown = found[:MOST]
    if not shown:
        return []
    quantiles = {name: _quantiles(values) for _, name, values in shown}
    return [
        Picture(
            "latency",
            "Latency: service time of an answer",
            ". ".join(f"{name}: half within {_time(q[0])}, 95 % within {_time(q[1])}" for name, q in quantiles.items())
            + ".",
            lambda width: _draw(shown, width),
            "without queueing and back-off; diamond: half of the answers, upright line: 95 %",
        )
    ]


def _quantiles(values: Floats) -> tuple[float, float]:
    half, most = np.quantile(values, (0.5, 0.95), method="inverted_cdf")
    return float(half), float(most)


def _draw(shown: list[tuple[int, str, Floats]], width: float) -> Drawing:
    beside = width > 600
    step, left, right = (62.0, 170.0, width - 12.0) if beside else (80.0, 4.0, width - 8.0)
    bottom = len(shown) * step + 6
    drawing = Drawing(width, bottom + 26)
    everything = np.concatenate([values for _, _, values in shown])
    low, high = float(everything.min()), float(np.quantile(everything, 0.995, method="inverted_cdf"))
    powers = high / low > _WIDE_RANGE
    ends = (math.log10(low), math.log10(high)) if powers else (0.0, high * 1.02)
    if ends[0] == ends[1]:
        ends = (ends[0] - 0.5, ends[1] + 0.5)
    x = Scale(*ends, left, right)
    for tick, label in _ticks(ends, powers, 4 if width < 600 else 7):
        drawing.line(x(tick), 0, x(tick), bottom, "grid")
        drawing.text(min(max(x(tick), 14), width - 18), bottom + 20, label, "soft", "middle")
    for row, (number, name, values) in enumerate(shown):
        base = (row + 1) * step - 6
        look = f"k{number % SERIES}"
        placed = np.log10(values) if powers else values
        heights = _heights(placed, ends, 72 if beside else 40)
        bins = len(heights)
        edges = [left + (right - left) * at / bins for at in range(bins + 1)]
        outline = [(left, base)]
        for at, height in enumerate(heights):
            outline += [(edges[at], base - height * (step - 26)), (edges[at + 1], base - height * (step - 26))]
        drawing.path([*outline, (right, base)], look, True, fill_opacity="0.35")
        drawing.stroke(left, base, right, base, look, 1)
        half, most = _quantiles(placed)
        drawing.dot(3, x(half), base, look, 5)
        drawing.stroke(x(most), base - 9, x(most), base + 5, look, 2.5)
        drawing.dot(number, 6, base - step + (32 if beside else 20), look, 5)
        drawing.text(
            18, base - step + (36 if beside else 24), fitted(name, left - 30 if beside else width * 0.5), "strong"
        )
        told = f"{_time(_quantiles(values)[0])} · {_time(_quantiles(values)[1])}"
        if beside:
            drawing.text(18, base - 6, told, "note")
        else:
            drawing.text(width - 4, base - step + 24, told, "note", "end")
    return drawing


def _ticks(ends: tuple[float, float], powers: bool, most: int) -> list[tuple[float, str]]:
    if not powers:
        return [(at, _time(at) if at else "0") for at in steps(*ends, most)]
    found = [
        (math.log10(factor * 10.0**power), _time(factor * 10.0**power))
        for power in range(math.floor(ends[0]), math.ceil(ends[1]) + 1)
        for factor in ((1, 3) if ends[1] - ends[0] < 2 else (1,))
    ]
    return [(at, label) for at, label in found if ends[0] <= at <= ends[1]]


def _heights(values: Floats, ends: tuple[float, float], bins: int) -> list[float]:
    """How many in each part of the axis, the fullest being 1; a little smoothed."""
    counted, _ = np.histogram(np.clip(values, *ends), bins=bins, range=ends)
    smooth = np.convolve(counted, (0.25, 0.5, 0.25), mode="same") if len(values) > 30 else counted.astype(float)
    return [float(value) for value in smooth / (smooth.max() or 1.0)]


def _time(value: float) -> str:
    """Short, also where answers take no time to speak of.

    >>> _time(0.00004), _time(0.0421), _time(18.24)
    ('40 µs', '42 ms', '18.2 s')
    """
    if value < 0.000_995:
        return f"{value * 1e6:.0f} µs"
    return f"{value * 1e3:.0f} ms" if value < 0.995 else f"{value:.1f} s"
