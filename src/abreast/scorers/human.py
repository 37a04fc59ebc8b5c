"""`human`: labels that people give to the answers after the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from abreast.model import Answer, Case, Score
from abreast.scorers.base import Scorer, ScorerSettings
from abreast.store.schema import LABEL_VERSION

HUMAN = "human"


def counted_label(spec: Mapping[str, Any]) -> str:
    """Return the name of the labels that count as scores in a run with this spec; empty if none do.

    >>> counted_label({"scorers": ["exact", "human"]})
    'human'
    """
    kinds = {next(iter(item)) if isinstance(item, Mapping) else item for item in spec.get("scorers") or ()}
    return HUMAN if HUMAN in kinds else ""


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
