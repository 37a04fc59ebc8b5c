"""What trials left behind: which artifacts there are, and whose."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from abreast.analyse.rows import Rows
from abreast.model import STATE
from abreast.report.words.verdict_sentence import many

DIFF = "diff"  # the artifact that is a change
LISTED = 6_000  # artifacts that a page and the files beside it know of


class Artifact(NamedTuple):
    """A text that a trial left, by its name; `size` in bytes."""

    position: int
    name: str
    size: int


@dataclass(frozen=True, slots=True)
class Trial:
    """A trial that left something."""

    position: int
    case: int
    variant: int
    repeat: int
    outcome: str
    scores: tuple[float | None, ...]
    artifacts: tuple[Artifact, ...]

    @property
    def has_change(self) -> bool:
        return any(artifact.name == DIFF for artifact in self.artifacts)


_OF_PEOPLE = f"FROM artifacts WHERE run_id = ? AND name <> '{STATE}'"
_ARTIFACTS = f"SELECT position, name, octet_length(content) {_OF_PEOPLE}"


class Left:
    """The trials of a run that left something, by case. Those of the cases that come `first` are always among them, and
    of the others as many as a page knows of."""

    def __init__(self, rows: Rows, first: Sequence[int]) -> None:
        self.rows = rows
        ((self.count,),) = rows.store.rows(f"SELECT COUNT(*) {_OF_PEOPLE}", (rows.run_id,))
        found = [artifact for case in first for artifact in self._of_case(case)] if self.count else []
        known = set(first)
        if self.count:
            rest = rows.store.rows(f"{_ARTIFACTS} ORDER BY position, name LIMIT ?", (rows.run_id, LISTED))
            found += [Artifact(*row) for row in rest if row[0] // rows.per_case not in known]
        self.listed = found[:LISTED]
        self.trials = dict(self._trials(self.listed))
        cases: dict[int, list[Trial]] = {}
        for trial in self.trials.values():
            cases.setdefault(trial.case, []).append(trial)
        self.cases = cases  # those that come first are the first

    def __bool__(self) -> bool:
        return bool(self.trials)

    def _of_case(self, case: int) -> Iterator[Artifact]:
        begin = case * self.rows.per_case
        where = f"{_ARTIFACTS} AND position >= ? AND position < ? ORDER BY position, name LIMIT ?"
        for row in self.rows.store.rows(where, (self.rows.run_id, begin, begin + self.rows.per_case, LISTED)):
            yield Artifact(*row)

    def _trials(self, artifacts: Iterable[Artifact]) -> Iterator[tuple[int, Trial]]:
        rows = self.rows
        by_position: dict[int, list[Artifact]] = {}
        for artifact in artifacts:
            by_position.setdefault(artifact.position, []).append(artifact)
        for position, found in by_position.items():
            at = int(np.searchsorted(rows.position, position))
            if at == len(rows.position) or rows.position[at] != position:
                continue  # a run at work went on meanwhile
            yield (
                position,
                Trial(
                    position,
                    int(rows.case[at]),
                    int(rows.variant[at]),
                    int(rows.repeat[at]),
                    str(rows.kind[at] if rows.status[at] == "error" else rows.status[at]),
                    tuple(None if np.isnan(score[at]) else float(score[at]) for score in rows.scores.values()),
                    tuple(found),
                ),
            )

    def who(self, variant: int, repeat: int) -> str:
        """`mine`, or `mine, repeat 2` if there are several."""
        name = self.rows.variants[variant]
        return f"{name}, repeat {repeat + 1}" if self.rows.repeats > 1 else name


def in_bytes(size: int) -> str:
    """
    >>> in_bytes(812), in_bytes(40_200), in_bytes(2_500_000)
    ('812 bytes', '40 kB', '2.5 MB')
    """
    if size < 1_000:
        return many(size, "byte")
    return f"{size / 1_000:.0f} kB" if size < 1_000_000 else f"{size / 1_000_000:.1f} MB"
