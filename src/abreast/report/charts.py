"""The pictures of a report, as SVG."""

from __future__ import annotations

from dataclasses import dataclass

from abreast.analyse import Analysis
from abreast.errors import BadInput


@dataclass(frozen=True, slots=True)
class Chart:
    """One picture: a file of its own, and the words for those who cannot see it."""

    name: str
    title: str
    alternative: str
    svg: str


def drawn(analysis: Analysis) -> list[Chart]:
    """Every picture that this run has data for."""
    return []


def png(svg: str) -> bytes:
    """The same picture in pixels."""
    try:
        import vl_convert
    except ImportError:
        raise BadInput("png needs the package vl-convert-python", 'pip install "abreast[charts]"') from None
    return bytes(vl_convert.svg_to_png(svg, scale=2))
