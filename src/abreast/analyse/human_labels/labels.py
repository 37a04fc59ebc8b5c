"""Human labels of a judged run: the sampled cases, and their labels."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from abreast.analyse.rows import Bools, Floats, Ints, Rows
from abreast.errors import AbreastError
from abreast.redaction import redact
from abreast.scorers import build
from abreast.scorers.judge import Judge
from abreast.text import moment, storable

SAMPLED = "labels"  # the event that records a sample
SKIPPED = "skipped"  # start of the explanation if the labeller skipped the answer
NOT_BLIND = " (not blind)"  # marks a label whose author saw the name of the variant
_EXPLANATION = re.compile(
    r"(?P<words>[^,]*), by (?P<by>.*?) at (?P<at>\d{4}-\d\d-\d\dT[\d:]+Z)(?:, sample seed -?\d+)?(?:: (?P<note>.*))?",
    re.DOTALL,
)


def label_column(metric: str) -> str:
    """The score name under which labels for a score are stored.

    >>> label_column("judge"), label_column("judge_tone")
    ('human', 'human_judge_tone')
    """
    return "human" if metric == "judge" else f"human_{metric}"


class LabelAuthor(NamedTuple):
    """The content of a label's explanation: the label in words, its author and time, and a note."""

    words: str
    by: str = ""
    at: str = ""
    note: str = ""
    is_blind: bool = True

    @property
    def is_skipped(self) -> bool:
        return self.words.startswith(SKIPPED)


def label_explanation(words: str, by: str, note: str = "", *, seed: int | None = None, is_blind: bool = True) -> str:
    """Write the explanation of a new label; `seed` is that of the sample to which the answer belongs."""
    sample = "" if seed is None else f", sample seed {seed}"
    how = "" if is_blind else NOT_BLIND
    return redact(storable(f"{words}{how}, by {by} at {moment(time.time())}{sample}{f': {note}' if note else ''}"))


def label_author(explanation: str) -> LabelAuthor:
    """
    >>> label_author("right (not blind), by ann at 2026-01-02T03:04:05Z: the unit is missing")
    LabelAuthor(words='right', by='ann', at='2026-01-02T03:04:05Z', note='the unit is missing', is_blind=False)
    >>> label_author("4, by ann at 2026-01-02T03:04:05Z, sample seed 7").is_blind
    True
    """
    match = _EXPLANATION.fullmatch(explanation)
    if match is None:
        return LabelAuthor(explanation)
    words = match["words"]
    return LabelAuthor(
        words.removesuffix(NOT_BLIND), match["by"], match["at"], match["note"] or "", not words.endswith(NOT_BLIND)
    )


def judge_of(spec: Mapping[str, Any], metric: str) -> Judge | None:
    """The judge in this spec that gives a score; None if another scorer does."""
    for scorer in spec.get("scorers") or ():
        if not isinstance(scorer, Mapping) or "judge" not in scorer:
            continue
        try:
            judge = build("judge", scorer["judge"])
        except AbreastError:  # written by another version
            continue
        if isinstance(judge, Judge) and metric in judge.columns:
            return judge
    return None


@dataclass(frozen=True, slots=True)
class LabelSample:
    """A random sample of the cases of a run: the seed of its order, and the sizes it had, growing."""

    seed: int
    sizes: tuple[int, ...]

    @property
    def size(self) -> int:
        return self.sizes[-1] if self.sizes else 0


def recorded_sample(rows: Rows) -> LabelSample | None:
    """The sample that was drawn for this run; None if there is none."""
    events = sorted(rows.store.queries.events(rows.run_id, SAMPLED), key=lambda event: event.happened_at)
    details = [event.detail for event in events]  # sorted, because a merge appends older events
    if not details:
        return None
    seed = int(details[0]["seed"])
    return LabelSample(seed, tuple(sorted({int(detail["sample"]) for detail in details if detail["seed"] == seed})))


def random_order(rows: Rows, seed: int, score: Floats) -> Ints:
    """The cases that can be compared, in an order that depends only on the seed and on the cases.

    A sample is a prefix of it, so that a larger sample contains the smaller one.
    """
    scored = ~np.isnan(score)
    variants = np.zeros((rows.planned_cases, len(rows.variants)), dtype=bool)
    variants[rows.case[scored], rows.variant[scored]] = True
    cases = np.flatnonzero(rows.complete & (variants.sum(axis=1) > 1))
    digests = rows.case_column("digest")

    def draw(case: int) -> bytes:
        return hashlib.sha256(f"{seed}:{digests[case]}".encode()).digest()

    return np.array(sorted(cases.tolist(), key=draw), dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Labels:
    """Human labels of each trial of a run for one score."""

    value: Floats  # nan without a label; 0 where the variant failed in a labelled case
    is_answered: Bools  # labelled, skipped, or failed in a labelled case


def read_labels(rows: Rows, metric: str) -> Labels:
    """The blind labels of all trials, in the order of the rows: only these can correct a judge."""
    value = np.full(len(rows.position), np.nan)
    is_answered = np.zeros(len(rows.position), dtype=bool)
    for label in rows.store.queries.labels(rows.run_id, label_column(metric)):
        index = rows.index_of(label.position)
        if index is not None:
            author = label_author(label.explanation)
            if not author.is_blind:
                continue
            value[index] = np.nan if label.value is None else label.value
            is_answered[index] = label.value is not None or bool(rows.own_failure[index]) or author.is_skipped
    return Labels(np.where(is_answered, rows.usable(value), np.nan), is_answered)
