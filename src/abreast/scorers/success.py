"""`success`: whether an agent ended well and left something."""

from __future__ import annotations

from typing import Any

from abreast.model import Answer
from abreast.scorers.base import Mark, Settings, SingleColumn
from abreast.settings import is_flag


class Success(SingleColumn):
    """1 if there is an answer or a change of files; with `changes` only a change counts. Failures count 0 anyway.

    >>> from abreast.model import Case
    >>> from abreast.scorers import build
    >>> [build("success").score(Case("c", "?"), Answer(text))[0].value for text in ("done", " ")]
    [1.0, 0.0]
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings, needs_expected=False)
        self._changes = settings.take("changes", False, is_flag, "true or false")

    def mark(self, expected: Any, answer: Answer) -> Mark:
        changed = answer.data.get("files_changed")
        if answer.data.get("diff_problem") and not changed:
            return None, f"what it changed is not known: {answer.data['diff_problem']}"
        if changed:
            return 1.0, f"{changed:,} file{'s' if changed != 1 else ''} changed"
        if self._changes:
            return 0.0, "nothing was changed"
        return (1.0, "it answered") if answer.text.strip() else (0.0, "nothing was said or changed")
