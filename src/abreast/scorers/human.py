"""`human`: what people say about the answers, after the run."""

from __future__ import annotations

from abreast.model import Answer, Case, Score
from abreast.scorers.base import Scorer, ScorerSettings
from abreast.store.schema import LABEL_VERSION

HUMAN = "human"


class Human(Scorer):
    """Labels from `abreast view` or `abreast label`. They are stored as the score itself."""

    columns = (HUMAN,)
    version = LABEL_VERSION
    needs_expected = False
    scored_by = "people"

    def __init__(self, settings: ScorerSettings) -> None:
        return

    def score(self, case: Case, answer: Answer) -> tuple[Score, ...]:
        return self.fill(None, "not labelled")
