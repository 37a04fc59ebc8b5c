"""SVG drawings from a few shapes. Colours are CSS classes, so that one drawing serves the page and a file."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rich.cells import cell_len

from abreast.report.charts.colours import DARK, LIGHT, rules
from abreast.text import printable

WIDE, NARROW = 880, 358  # widths for desktops and phones
_HEAD, _MARK = 62, 32  # heights of a file's head and of the mark of simulated runs
_LETTER = 0.6  # average width of a letter, as a share of the font size


def number(value: float) -> str:
    """Format a coordinate.

    >>> number(12.0), number(12.3456)
    ('12', '12.3')
    """
    return f"{value:.1f}".removesuffix(".0")


def wide(text: str, size: float = 13) -> float:
    """Approximate width of a text in pixels."""
    return cell_len(text) * size * _LETTER


def fitted(text: str, max_width: float, size: float = 13) -> str:
    """Cut a text to this width.

    >>> fitted("without_mcp", 40), fitted("short", 400)
    ('with…', 'short')
    """
    text = " ".join(printable(text[:400]).split())
    if wide(text, size) <= max_width:
        return text
    while text and wide(text + "…", size) > max_width:
        text = text[:-1]
    return text + "…"


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps numbers to coordinates."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        inside = min(max(value, self.low), self.high)
        return self.start + (inside - self.low) / ((self.high - self.low) or 1.0) * (self.end - self.start)


def steps(low: float, high: float, most: int) -> list[float]:
    """At most about `most` round numbers in a range.

    >>> steps(-0.07, 0.31, 5)
    [0.0, 0.1, 0.2, 0.3]
    """
    span = high - low
    if not span > 0 or not math.isfinite(span):
        return [low]
    rough = span / max(1, most)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(at * step, 12) + 0.0 for at in range(first, last + 1)]


_CORNERS: dict[int, list[tuple[float, float]]] = {
    1: [(-1, -1), (1, -1), (1, 1), (-1, 1)],
    2: [(0, -1.2), (1.15, 0.9), (-1.15, 0.9)],
    3: [(0, -1.35), (1.35, 0), (0, 1.35), (-1.35, 0)],
    4: [(0, 1.2), (1.15, -0.9), (-1.15, -0.9)],
    5: [(0, -1.3), (0.3, -0.3), (1.3, 0), (0.3, 0.3), (0, 1.3), (-0.3, 0.3), (-1.3, 0), (-0.3, -0.3)],
}


class Drawing:
    def __init__(self, width: float, height: float = 0) -> None:
        self.width = width
        self.height = height
        self._parts: list[str] = []

    def _add(self, name: str, look: str, **attributes: float | str) -> None:
        written = "".join(
            f' {key.replace("_", "-")}="{value if isinstance(value, str) else number(value)}"'
            for key, value in attributes.items()
        )
        kind = f' class="{look}"' if look else ""
        self._parts.append(f"<{name}{kind}{written}/>")

    def line(self, x1: float, y1: float, x2: float, y2: float, look: str, **more: float | str) -> None:
        self._add("line", look, x1=x1, y1=y1, x2=x2, y2=y2, **more)

    def stroke(self, x1: float, y1: float, x2: float, y2: float, look: str, width: float, dash: str = "") -> None:
        """A line in the colour of its class."""
        more: dict[str, float | str] = {"stroke_dasharray": dash} if dash else {}
        self.line(x1, y1, x2, y2, look, stroke="currentColor", stroke_width=width, stroke_linecap="round", **more)

    def box(self, x: float, y: float, width: float, height: float, look: str, **more: float | str) -> None:
        self._add("rect", look, x=x, y=y, width=max(0.0, width), height=max(0.0, height), **more)

    def path(self, points: Sequence[tuple[float, float]], look: str, closed: bool = False, **more: float | str) -> None:
        """A line through points, or the area that they enclose."""
        way = "M" + "L".join(f"{number(x)} {number(y)}" for x, y in points)
        paint: dict[str, float | str] = (
            {"fill": "currentColor", **more} if closed else {"fill": "none", "stroke": "currentColor", **more}
        )
        self._add("path", look, d=way + ("Z" if closed else ""), **paint)

    def text(self, x: float, y: float, words: str, look: str = "", anchor: str = "start") -> None:
        at = "" if anchor == "start" else f' text-anchor="{anchor}"'
        kind = f' class="{look}"' if look else ""
        escaped = html.escape(printable(words))
        self._parts.append(f'<text x="{number(x)}" y="{number(y)}"{kind}{at}>{escaped}</text>')

    def dot(self, shape: int, x: float, y: float, look: str, size: float = 5.5, hollow: bool = False) -> None:
        """A mark in one of several shapes, so that colour is not needed to tell them apart."""
        paint = {"fill": "none" if hollow else "currentColor", "stroke": "currentColor", "stroke_width": "2"}
        kind = shape % 6
        if kind == 0:
            self._add("circle", look, cx=x, cy=y, r=size, **paint)
            return
        self.path([(x + dx * size * 0.95, y + dy * size * 0.95) for dx, dy in _CORNERS[kind]], look, True, **paint)

    def inline(self, alternative: str, mark: str, look: str) -> str:
        """SVG for a page, which has the styles."""
        above = _MARK if mark else 0
        return (
            f'<svg class="chart {look}" viewBox="0 {-above} {number(self.width)} {number(self.height + above)}" '
            f'role="img" aria-label="{html.escape(printable(alternative))}">{self._marked(mark, -18)}'
            f"{''.join(self._parts)}</svg>"
        )

    def file(self, title: str, below: str, alternative: str, mark: str) -> str:
        """A standalone SVG file, light or dark as the reader prefers."""
        above = _HEAD + (_MARK if mark else 0)
        edge = 24
        width, height = self.width + 2 * edge, self.height + above + 2 * edge
        style = f"{rules(LIGHT)}@media (prefers-color-scheme:dark){{{rules(DARK)}}}"
        head = Drawing(0)
        head.text(0, edge - above - 10, fitted(title, self.width, 16), "title")
        head.text(0, edge - above + 12, fitted(below, self.width, 12), "note")
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{number(width)}" height="{number(height)}" '
            f'viewBox="{-edge} {-above - edge} {number(width)} {number(height)}" role="img">'
            f"<title>{html.escape(printable(title))}</title><desc>{html.escape(printable(alternative))}</desc>"
            f"<style>{style}</style>"
            f'<rect class="paper" x="{-edge}" y="{-above - edge}" width="100%" height="100%"/>'
            f"{''.join(head._parts)}{self._marked(mark, -18)}{''.join(self._parts)}</svg>\n"
        )

    def _marked(self, mark: str, y: float) -> str:
        head = Drawing(0)
        if mark:
            head.text(0, y, mark, "mark")
        return "".join(head._parts)


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture that can be drawn at any width, with a text alternative and its figures as a table."""

    name: str
    title: str
    alternative: str
    draw: Callable[[float], Drawing] = field(repr=False)
    below: str = ""  # how to read it
    head: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()

    def inline(self, mark: str) -> str:
        """SVG for the page: wide and narrow, of which CSS shows one."""
        return "".join(
            self.draw(width).inline(self.alternative, mark, look)
            for width, look in ((WIDE, "wide"), (NARROW, "narrow"))
        )

    def file(self, mark: str, run: str) -> str:
        below = f"{run} · {self.below}" if self.below else run
        return self.draw(WIDE).file(self.title, below, self.alternative, mark)


def slug(text: str) -> str:
    """A text as part of a file name.

    >>> slug("GPT 4o / short"), slug("短い")
    ('gpt-4o-short', '')
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()[:60]).strip("-")
