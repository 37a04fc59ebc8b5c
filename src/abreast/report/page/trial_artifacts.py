"""The artifacts of trials, and the list of them on the page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from markupsafe import escape

from abreast.analyse.rows import Rows
from abreast.store.queries.artifacts import ArtifactSize
from abreast.text import many, printable

DIFF = "diff"  # name of the artifact with the changes of an agent
LISTED = 6_000  # artifacts of a page and of the files next to it


@dataclass(frozen=True, slots=True)
class TrialArtifacts:
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
    """The trials of a run with artifacts, by case; at most `LISTED` artifacts, starting with those of the cases in
    `first`."""

    def __init__(self, rows: Rows, first: Sequence[int]) -> None:
        self.rows = rows
        queries, run_id, per_case = rows.store.queries, rows.run_id, rows.per_case
        self.count = queries.count_artifacts(run_id)
        artifacts: list[ArtifactSize] = []
        if self.count:
            for case in first:
                artifacts += queries.artifact_sizes(run_id, LISTED, range(case * per_case, (case + 1) * per_case))
            included, rest = set(first), queries.artifact_sizes(run_id, LISTED)
            artifacts += [artifact for artifact in rest if artifact.position // per_case not in included]
        self.listed = artifacts[:LISTED]
        self.trials = {trial.position: trial for trial in self._trials(self.listed)}
        self.cases: dict[int, list[TrialArtifacts]] = {}  # in the order of `listed`
        for trial in self.trials.values():
            self.cases.setdefault(trial.case, []).append(trial)

    def __bool__(self) -> bool:
        return bool(self.trials)

    def _trials(self, artifacts: Iterable[ArtifactSize]) -> Iterator[TrialArtifacts]:
        rows = self.rows
        by_position: dict[int, list[ArtifactSize]] = {}
        for artifact in artifacts:
            by_position.setdefault(artifact.position, []).append(artifact)
        for position, of_trial in by_position.items():
            if (at := rows.index_of(position)) is None:
                continue  # a running run adds rows meanwhile
            yield TrialArtifacts(
                position=position,
                case=int(rows.case[at]),
                variant=int(rows.variant[at]),
                repeat=int(rows.repeat[at]),
                outcome=str(rows.kind[at] if rows.status[at] == "error" else rows.status[at]),
                scores=tuple(None if np.isnan(score[at]) else float(score[at]) for score in rows.scores.values()),
                artifacts=tuple(of_trial),
            )

    def trial_name(self, variant: int, repeat: int) -> str:
        """`mine`, or `mine, repeat 2` in runs with repeats."""
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
    """A budget of bytes or lines. An item that does not fit takes nothing and marks it as used up."""

    def __init__(self, remaining: int) -> None:
        self.remaining = remaining
        self.is_used_up = False

    def take(self, needed: int) -> bool:
        if needed > self.remaining:
            self.is_used_up = True
            return False
        self.remaining -= needed
        return True


def size(text: str) -> int:
    """The number of bytes of a text on the page."""
    return len(str(escape(printable(text))).encode())


def cut(text: str, most: int) -> str:
    """Shorten a text; the result has the original length.

    >>> cut("short", 10), cut("x" * 2000, 3)
    ('short', 'xxx … (2,000 characters in all)')
    """
    return text if len(text) <= most else f"{text[:most]} … ({len(text):,} characters in all)"


LIST = 600_000  # bytes of a page for this list
SCORES = 5  # columns
_TRIAL = 230  # bytes of a line without its words
_LINK = 60


@dataclass(slots=True)
class Links:
    """Links from the page: to artifacts by position and name, to pages of changes by case."""

    artifacts: dict[tuple[int, str], str] = field(default_factory=dict)
    changes: dict[int, str] = field(default_factory=dict)

    def of(self, trial: TrialArtifacts | None, prefix: str = "") -> tuple[Link, ...]:
        """The links of a trial, with a prefix such as `../`."""
        links = []
        for artifact in trial.artifacts if trial else ():
            href = self.artifacts.get((artifact.position, artifact.name), "")
            links.append(Link(cut(artifact.name, 60), f"{prefix}{href}" if href else "", in_bytes(artifact.size)))
        return tuple(links)


class Link(NamedTuple):
    """An artifact; without `href` if there is no file."""

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
        texts = [self.variant, *(part for link in self.links for part in link)]
        return _TRIAL + _LINK * len(self.links) + sum(map(size, texts))


class ArtifactCase(NamedTuple):
    id: str
    changes: str  # link to its page of changes
    lines: list[TrialLine]


@dataclass(slots=True)
class ArtifactList:
    cases: list[ArtifactCase] = field(default_factory=list)
    scores: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    size: int = 0


def line(artifacts: RunArtifacts, trial: TrialArtifacts, links: Links, prefix: str = "") -> TrialLine:
    return TrialLine(
        artifacts.rows.variants[trial.variant],
        f"{trial.repeat + 1}" if artifacts.rows.repeats > 1 else "",
        trial.outcome,
        trial.scores[:SCORES],
        links.of(trial, prefix),
    )


def score_titles(artifacts: RunArtifacts) -> list[str]:
    return list(artifacts.rows.scores)[:SCORES]


def listed(artifacts: RunArtifacts, links: Links) -> ArtifactList:
    """The trials by case, in the order of the plan, as many as fit."""
    items, budget, trials = ArtifactList(scores=score_titles(artifacts)), SizeBudget(LIST), 0
    for case, of_case in sorted(artifacts.cases.items()):
        lines = [line(artifacts, trial, links) for trial in sorted(of_case, key=lambda trial: trial.position)]
        name = cut(artifacts.rows.cases[case].id, 120)
        if not budget.take(300 + size(name) + sum(item.size() for item in lines)):
            break
        trials += len(lines)
        items.cases.append(ArtifactCase(name, links.changes.get(case, ""), lines))
    items.size = LIST - budget.remaining
    if (missing := artifacts.count - len(links.artifacts)) and links.artifacts:
        items.notes.append(f"{many(missing, 'artifact')} of {artifacts.count:,} not written, to save space")
    elif missing:
        items.notes.append(f"{many(missing, 'artifact')} in the store, none written")
    changed = sum(any(trial.has_change for trial in of_case) for of_case in artifacts.cases.values())
    if links.changes and len(links.changes) < changed:
        items.notes.append(f"{many(changed - len(links.changes), 'case')} without a page of changes")
    if len(artifacts.trials) > trials:
        items.notes.append(f"{many(len(artifacts.trials) - trials, 'further trial')} not listed")
    return items
