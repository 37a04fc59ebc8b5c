"""What trials left behind: which artifacts there are, and whose."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from abreast.analyse.rows import Rows
from abreast.report.words.verdict_sentence import many
from abreast.store.queries.artifacts import ArtifactSize

DIFF = "diff"  # the artifact that is a change
LISTED = 6_000  # artifacts that a page and the files beside it know of


@dataclass(frozen=True, slots=True)
class Trial:
    """A trial that left something."""

    position: int
    case: int
    variant: int
    repeat: int
    outcome: str
    scores: tuple[float | None, ...]
    artifacts: tuple[ArtifactSize, ...]

    @property
    def has_change(self) -> bool:
        return any(artifact.name == DIFF for artifact in self.artifacts)


class Left:
    """The trials of a run that left something, by case. Those of the cases that come `first` are always among them, and
    of the others as many as a page knows of."""

    def __init__(self, rows: Rows, first: Sequence[int]) -> None:
        self.rows = rows
        queries, run_id, per_case = rows.store.queries, rows.run_id, rows.per_case
        self.count = queries.count_artifacts(run_id)
        found: list[ArtifactSize] = []
        if self.count:
            for case in first:
                found += queries.artifact_sizes(run_id, LISTED, range(case * per_case, (case + 1) * per_case))
            known, rest = set(first), queries.artifact_sizes(run_id, LISTED)
            found += [artifact for artifact in rest if artifact.position // per_case not in known]
        self.listed = found[:LISTED]
        self.trials = dict(self._trials(self.listed))
        cases: dict[int, list[Trial]] = {}
        for trial in self.trials.values():
            cases.setdefault(trial.case, []).append(trial)
        self.cases = cases  # those that come first are the first

    def __bool__(self) -> bool:
        return bool(self.trials)

    def _trials(self, artifacts: Iterable[ArtifactSize]) -> Iterator[tuple[int, Trial]]:
        rows = self.rows
        by_position: dict[int, list[ArtifactSize]] = {}
        for artifact in artifacts:
            by_position.setdefault(artifact.position, []).append(artifact)
        for position, found in by_position.items():
            if (at := rows.index_of(position)) is None:
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
