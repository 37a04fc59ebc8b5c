"""What trials left behind: which artifacts there are, and whose."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from markupsafe import escape

from abreast.analyse.rows import Rows
from abreast.store.queries.artifacts import ArtifactSize
from abreast.text import many, printable

DIFF = "diff"  # the artifact that is a change
LISTED = 6_000  # artifacts that a page and the files beside it know of


@dataclass(frozen=True, slots=True)
class TrialArtifacts:
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


class RunArtifacts:
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
        self.trials = {trial.position: trial for trial in self._trials(self.listed)}
        cases: dict[int, list[TrialArtifacts]] = {}
        for trial in self.trials.values():
            cases.setdefault(trial.case, []).append(trial)
        self.cases = cases  # those that come first are the first

    def __bool__(self) -> bool:
        return bool(self.trials)

    def _trials(self, artifacts: Iterable[ArtifactSize]) -> Iterator[TrialArtifacts]:
        rows = self.rows
        by_position: dict[int, list[ArtifactSize]] = {}
        for artifact in artifacts:
            by_position.setdefault(artifact.position, []).append(artifact)
        for position, found in by_position.items():
            if (at := rows.index_of(position)) is None:
                continue  # a run at work went on meanwhile
            yield TrialArtifacts(
                position=position,
                case=int(rows.case[at]),
                variant=int(rows.variant[at]),
                repeat=int(rows.repeat[at]),
                outcome=str(rows.kind[at] if rows.status[at] == "error" else rows.status[at]),
                scores=tuple(None if np.isnan(score[at]) else float(score[at]) for score in rows.scores.values()),
                artifacts=tuple(found),
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


class SizeBudget:
    """So much is left, of bytes or of anything else; who finds too little takes nothing."""

    def __init__(self, left: int) -> None:
        self.left = left
        self.used_up = False

    def takes(self, needed: int) -> bool:
        if needed > self.left:
            self.used_up = True
            return False
        self.left -= needed
        return True


def size(text: str) -> int:
    """How many bytes a text takes on the page."""
    return len(str(escape(printable(text))).encode())


def cut(text: str, most: int) -> str:
    """A text, or its beginning and how long it is.

    >>> cut("short", 10), cut("x" * 2000, 3)
    ('short', 'xxx … (2,000 characters in all)')
    """
    return text if len(text) <= most else f"{text[:most]} … ({len(text):,} characters in all)"


LIST = 600_000  # bytes of a page for this list
SCORES = 5  # columns
_TRIAL = 230  # bytes of a line besides its words
_LINK = 60


@dataclass(slots=True)
class Links:
    """Where files are, seen from the page: artifacts by position and name, pages of changes by case."""

    artifacts: dict[tuple[int, str], str] = field(default_factory=dict)
    changes: dict[int, str] = field(default_factory=dict)

    def of(self, trial: TrialArtifacts | None, above: str = "") -> tuple[Link, ...]:
        """Those of a trial, from a page that is `above` so much."""
        found = []
        for artifact in trial.artifacts if trial else ():
            href = self.artifacts.get((artifact.position, artifact.name), "")
            found.append(Link(cut(artifact.name, 60), f"{above}{href}" if href else "", in_bytes(artifact.size)))
        return tuple(found)


class Link(NamedTuple):
    """An artifact; no `href` if it is not written."""

    name: str
    href: str
    size: str


class TrialLine(NamedTuple):
    variant: str
    repeat: str
    outcome: str
    scores: tuple[float | None, ...]
    links: tuple[Link, ...]

    def size(self) -> int:
        told = [self.variant, *(part for link in self.links for part in link)]
        return _TRIAL + _LINK * len(self.links) + sum(map(size, told))


class ArtifactCase(NamedTuple):
    id: str
    changes: str  # where its page is
    lines: list[TrialLine]


@dataclass(slots=True)
class ArtifactList:
    """The list, and what is not in it."""

    cases: list[ArtifactCase] = field(default_factory=list)
    scores: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    size: int = 0


def line(left: RunArtifacts, trial: TrialArtifacts, links: Links, above: str = "") -> TrialLine:
    return TrialLine(
        left.rows.variants[trial.variant],
        f"{trial.repeat + 1}" if left.rows.repeats > 1 else "",
        trial.outcome,
        trial.scores[:SCORES],
        links.of(trial, above),
    )


def scores(left: RunArtifacts) -> list[str]:
    """The titles of their columns."""
    return list(left.rows.scores)[:SCORES]


def listed(left: RunArtifacts, links: Links) -> ArtifactList:
    """The trials by case, in the order of the plan, as many as have room."""
    found, room, trials = ArtifactList(scores=scores(left)), SizeBudget(LIST), 0
    for case in sorted(left.cases):
        lines = [line(left, trial, links) for trial in sorted(left.cases[case], key=lambda trial: trial.position)]
        name = cut(left.rows.cases[case].id, 120)
        if not room.takes(300 + size(name) + sum(one.size() for one in lines)):
            break
        trials += len(lines)
        found.cases.append(ArtifactCase(name, links.changes.get(case, ""), lines))
    found.size = LIST - room.left
    if (missing := left.count - len(links.artifacts)) and links.artifacts:
        found.notes.append(f"{many(missing, 'artifact')} of {left.count:,} not beside this page, to keep it small")
    elif missing:
        found.notes.append(f"{many(missing, 'artifact')} in the store, none beside this page")
    changed = [case for case, each in left.cases.items() if any(trial.has_change for trial in each)]
    if links.changes and len(links.changes) < len(changed):
        found.notes.append(f"{many(len(changed) - len(links.changes), 'case')} without a page of changes")
    if len(left.trials) > trials:
        found.notes.append(f"{many(len(left.trials) - trials, 'further trial')} not listed")
    return found
