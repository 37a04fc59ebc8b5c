"""What trials left, as a list on a page with links to the files beside it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from abreast.report.page.size_budget import Room, cut, size
from abreast.report.page.trial_artifacts import Left, Trial, in_bytes
from abreast.report.words.verdict_sentence import many

LIST = 600_000  # bytes of a page for this list
SCORES = 5  # columns
_TRIAL = 230  # bytes of a line besides its words
_LINK = 60


@dataclass(slots=True)
class Links:
    """Where files are, seen from the page: artifacts by position and name, pages of changes by case."""

    artifacts: dict[tuple[int, str], str] = field(default_factory=dict)
    changes: dict[int, str] = field(default_factory=dict)

    def of(self, trial: Trial | None, above: str = "") -> tuple[Link, ...]:
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


class Line(NamedTuple):
    """A trial."""

    variant: str
    repeat: str
    outcome: str
    scores: tuple[float | None, ...]
    links: tuple[Link, ...]

    def size(self) -> int:
        told = [self.variant, *(part for link in self.links for part in link)]
        return _TRIAL + _LINK * len(self.links) + sum(map(size, told))


class Case(NamedTuple):
    """A case with its trials that left something."""

    id: str
    changes: str  # where its page is
    lines: list[Line]


@dataclass(slots=True)
class Listed:
    """The list, and what is not in it."""

    cases: list[Case] = field(default_factory=list)
    scores: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    size: int = 0


def line(left: Left, trial: Trial, links: Links, above: str = "") -> Line:
    return Line(
        left.rows.variants[trial.variant],
        f"{trial.repeat + 1}" if left.rows.repeats > 1 else "",
        trial.outcome,
        trial.scores[:SCORES],
        links.of(trial, above),
    )


def scores(left: Left) -> list[str]:
    """The titles of their columns."""
    return list(left.rows.scores)[:SCORES]


def listed(left: Left, links: Links) -> Listed:
    """The trials by case, in the order of the plan, as many as have room."""
    found, room, trials = Listed(scores=scores(left)), Room(LIST), 0
    for case in sorted(left.cases):
        lines = [line(left, trial, links) for trial in sorted(left.cases[case], key=lambda trial: trial.position)]
        name = cut(left.rows.cases[case].id, 120)
        if not room.takes(300 + size(name) + sum(one.size() for one in lines)):
            break
        trials += len(lines)
        found.cases.append(Case(name, links.changes.get(case, ""), lines))
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
