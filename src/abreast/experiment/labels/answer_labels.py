"""Labels of single answers by people: right, wrong or unsure. No judge is needed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from abreast.analyse.human_labels.labels import (
    SKIPPED,
    LabelAuthor,
    judge_of,
    label_author,
    label_column,
    label_explanation,
)
from abreast.errors import BadInput
from abreast.store import Store
from abreast.store.schema import LABEL_VERSION

NAME = label_column("judge")
OPINIONS: dict[str, float | None] = {"right": 1.0, "wrong": 0.0, "unsure": None}
_UNSURE = f"{SKIPPED} as unsure"
LONGEST_NOTE = 4_000  # characters
LONGEST_AUTHOR = 80


def label_words(value: float | None, author: LabelAuthor) -> str:
    """`right`, `wrong`, `unsure`, or a mark on the scale of a judge; empty if there is no label."""
    if value is None:
        return "unsure" if author.is_skipped else ""
    return author.words


class AnswerLabels:
    """The labels of the answers of a run. Answers to one case in one repeat form a block, whose number is that of its
    first trial divided by the number of variants; `order` is random, but always the same for a run."""

    def __init__(self, store: Store, run: str) -> None:
        self._store, self.run = store, store.run(run)
        self._run_id = int(self.run["run_id"])
        self._variants = len(store.queries.variants(self._run_id))

    @cached_property
    def blocks(self) -> dict[int, list[int]]:
        """The positions of the answers in each block."""
        blocks: dict[int, list[int]] = {}
        for position in self._store.queries.answer_positions(self._run_id):
            blocks.setdefault(position // self._variants, []).append(position)
        return blocks

    @cached_property
    def order(self) -> list[int]:
        """The blocks in the order in which they are labelled."""

        def draw(block: int) -> bytes:
            return hashlib.sha256(f"{self.run['seed']}:{self.run['run']}:{block}".encode()).digest()

        return sorted(self.blocks, key=draw)

    @cached_property
    def labels(self) -> Mapping[int, tuple[float | None, LabelAuthor]]:
        """Value and author of the labels, by position."""
        stored = self._store.queries.labels(self._run_id, NAME)
        labels = {label.position: (label.value, label_author(label.explanation)) for label in stored}
        return {position: label for position, label in labels.items() if label_words(*label)}

    def is_labelled(self, block: int) -> bool:
        return all(position in self.labels for position in self.blocks[block])

    def record(self, position: int, opinion: str, by: str, note: str = "", *, is_blind: bool) -> None:
        """Store a label; the one that it replaces is kept in `old_scores`."""
        if opinion not in OPINIONS:
            raise BadInput(f"a label is {', '.join(OPINIONS)}, not {opinion[:40]!r}")
        if len(note) > LONGEST_NOTE:
            raise BadInput(f"the note has more than {LONGEST_NOTE:,} characters")
        trial = self._store.queries.trial(self._run_id, position)
        if trial is None or trial["status"] != "ok":
            raise BadInput(f"{self.run['run']}: trial {position} has no answer to label")
        self._refuse_others(position)
        value = OPINIONS[opinion]
        explanation = label_explanation(_UNSURE if value is None else opinion, by, note.strip(), is_blind=is_blind)
        self._store.add_labels(self._run_id, [(self._run_id, position, NAME, value, explanation, LABEL_VERSION)], None)
        if self.run["status"] != "running":
            self._store.materialise()

    def _refuse_others(self, position: int) -> None:
        """Refuse to replace a scorer's score, or a label that calibrates a judge."""
        run, queries = self.run["run"], self._store.queries
        if NAME in queries.first_scorer_versions(self._run_id):
            raise BadInput(
                f"{run}: score_{NAME} belongs to a scorer, so labels cannot use that name",
                f"give the scorer another name, then run `abreast rescore {run}`",
            )
        existing = self.labels.get(position)
        if existing and existing[1].is_blind and self._variants > 1 and is_calibrated(self.run):
            raise BadInput(
                "this answer was labelled blind, to calibrate the judge", f"change it with `abreast label {run}`"
            )


def is_calibrated(run: Mapping[str, Any]) -> bool:
    """Whether labels correct the verdict of this run, because its primary score comes from a judge."""
    return run["primary_score"] is not None and judge_of(json.loads(run["spec"]), run["primary_score"]) is not None
