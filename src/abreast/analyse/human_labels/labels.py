"""Human labels of a judged run: the sampled cases, and their labels."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from abreast.analyse.rows import Bools, Floats, Ints, Rows
from abreast.errors import AbreastError
from abreast.scorers import build
from abreast.scorers.judge import Judge

SAMPLED = "labels"  # the event that records a sample
SKIPPED = "skipped"  # begins the explanation of a label that the labeller declined to give


def label_column(metric: str) -> str:
    """The score name under which labels for a score are stored.

    >>> label_column("judge"), label_column("judge_tone")
    ('human', 'human_judge_tone')
    """
    return "human" if metric == "judge" else f"human_{metric}"


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
    """The labels of all trials, in the order of the rows."""
    value = np.full(len(rows.position), np.nan)
    is_answered = np.zeros(len(rows.position), dtype=bool)
    for label in rows.store.queries.labels(rows.run_id, label_column(metric)):
        index = rows.index_of(label.position)
        if index is not None:
            value[index] = np.nan if label.value is None else label.value
            is_skipped = label.explanation.startswith(SKIPPED)
            is_answered[index] = label.value is not None or bool(rows.own_failure[index]) or is_skipped
    return Labels(np.where(is_answered, rows.usable(value), np.nan), is_answered)
