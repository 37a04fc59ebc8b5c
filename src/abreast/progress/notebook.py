"""The progress of a run below the notebook cell that started it."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from abreast.progress.displays import Counts, notice
from abreast.text import printable

if TYPE_CHECKING:
    from abreast.execute.job import Job

EVERY_S = 0.25
NOTICES = 5  # number of notices that stay visible


def is_in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


class NotebookProgress(Counts):
    """A line of plain text that is updated in place, below the last notices."""

    def __init__(self, planned: int, done_before: int, targets: Sequence[str]) -> None:
        from IPython.display import display  # not a dependency, but every notebook has it

        super().__init__(planned, done_before, targets)
        self._notices: deque[str] = deque(maxlen=NOTICES)
        self._last = self._clock()
        self._display: Any = display(self._content(), raw=True, display_id=True)

    def _content(self) -> dict[str, str]:
        return {"text/plain": printable("\n".join([*self._notices, self.sentence()]))}

    def _show(self) -> None:
        self._last = self._clock()
        self._display.update(self._content(), raw=True)

    def stored(self, jobs: Sequence[Job]) -> None:
        super().stored(jobs)
        if self._clock() - self._last >= EVERY_S:
            self._show()

    def tick(self) -> None:
        self._show()

    def event(self, kind: str, **detail: Any) -> None:
        super().event(kind, **detail)
        if note := notice(kind, detail):
            self._notices.append(note)
            self._show()

    def close(self) -> None:
        self._show()
