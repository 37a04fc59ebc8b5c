"""The progress bar of a terminal. It needs rich, which is slow to import."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from abreast.output.rich_console import PrintableText
from abreast.progress.displays import Counts, notice

SHORTEST_BAR = 8
ROOM_FOR_BAR = 55  # a narrower terminal shows numbers only


class LiveProgress(Counts):
    """A bar that redraws itself a few times a second."""

    def __init__(self, planned: int, done_before: int, targets: Sequence[str], console: Console) -> None:
        super().__init__(planned, done_before, targets)
        self._console = console
        self._live = Live(console=console, refresh_per_second=8, transient=True, get_renderable=self._line)
        self._live.start()

    def _line(self) -> Table | PrintableText:
        available = self._console.width - 3  # minus the margin, and a column to prevent wrapping
        text = self.sentence(available - SHORTEST_BAR - 2 if available >= ROOM_FOR_BAR else available)
        bar = min(32, available - cell_len(text) - 2)
        if bar < SHORTEST_BAR or available < ROOM_FOR_BAR:
            return PrintableText(f"  {text}", no_wrap=True, overflow="crop")
        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_row(
            PrintableText(""), ProgressBar(self.planned, self.done, width=bar), PrintableText(text, no_wrap=True)
        )
        return grid

    def event(self, kind: str, **detail: Any) -> None:
        super().event(kind, **detail)
        if note := notice(kind, detail):
            self._console.print(note)

    def close(self) -> None:
        self._live.stop()
