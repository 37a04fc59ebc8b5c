"""A rich console that applies our own styles and none in foreign text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from abreast.text import printable


class PrintableText(Text):
    """Text made printable before its width is measured, so that it is not cropped."""

    def __init__(self, text: str = "", **options: Any) -> None:
        super().__init__(printable(text), **options)


class PrintableConsole(Console):
    """A console without markup, emoji codes and highlighting, on which all text is made printable."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"markup": False, "emoji": False, "highlight": False, **options})

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)
