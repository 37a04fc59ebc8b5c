"""`success`: whether an agent ended well and left something."""

from __future__ import annotations

from abreast.model import Answer, Case, Score
from abreast.scorers.base import Settings
from abreast.settings import is_flag


class Success:
    """1 if there is an answer or a change of files; with `changes` only a change counts. Failures count 0 anyway.

    >>> from abreast.scorers import build
    >>> [build("success").score(Case("c", "?"), Answer(text))[0].value for text in ("done", " ")]
    [1.0, 0.0]
    """

    needs_expected = False
    revision = 1

    def __init__(self, settings: Settings) -> None:
        self._changes = settings.take("changes", False, is_flag, "true or false")
        self.columns: tuple[str, ...] = (settings.name("success"),)
        self.version = settings.version(self.revision)

    def score(self, case: Case, answer: Answer) -> tuple[Score, ...]:
        return (Score(self.columns[0], *self._judged(answer)),)

    def _judged(self, answer: Answer) -> tuple[float | None, str]:
        changed = answer.data.get("files_changed")
        if answer.data.get("diff_problem") and not changed:
            return None, f"what it changed is not known: {answer.data['diff_problem']}"
        if changed:
            return 1.0, f"{changed:,} file{'s' if changed != 1 else ''} changed"
        if self._changes:
            return 0.0, "nothing was changed"
        return (1.0, "it answered") if answer.text.strip() else (0.0, "nothing was said or changed")
