"""Which pull requests are asked for, and in which words: as a history has them, or as a file of tasks says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from abreast.errors import BadInput
from abreast.spec.values import shown_path
from abreast.suites.coding_agents.history import taskfile
from abreast.suites.coding_agents.history.commits import History
from abreast.suites.coding_agents.history.describing import SHORTEST, task_of
from abreast.suites.coding_agents.history.finding import LeftOut, PullRequest, looked_at, pinned

LAST = 10
"""So many, if nothing says how many."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """A pull request, what its case is called, and its task."""

    pull_request: PullRequest
    id: str
    task: str


def in_history(
    history: History, last: int | None, branch: str, commits: Sequence[str], mute: bool = False
) -> tuple[list[Chosen], list[LeftOut]]:
    """Pull requests with the tasks that their messages say, and what is left out. With `mute` those whose messages say
    none are not left out: their tasks are empty."""
    found, left = looked_at(history, last or LAST, branch, commits)
    told = [(one, task_of(one)) for one in found]
    without = [LeftOut(one.head, one.title, says_no_task(task)) for one, task in told if len(task) < SHORTEST]
    if mute:
        told = [(one, task if len(task) >= SHORTEST else "") for one, task in told]
        return _named(told), left
    return _named([(one, task) for one, task in told if len(task) >= SHORTEST]), [*left, *without]


def chosen(found: PullRequest) -> Chosen | LeftOut:
    """One pull request by itself, with the task that its message says."""
    task = task_of(found)
    if len(task) < SHORTEST:
        return LeftOut(found.head, found.title, says_no_task(task))
    return Chosen(found, _name(found, True), task)


def says_no_task(task: str) -> str:
    return f"its message says no task: {len(task)} characters are left of it, {SHORTEST} are needed"


def in_file(history: History, path: Path, last: int | None) -> list[Chosen]:
    """What a file says, in its order; with `last` only the last ones of it."""
    told = taskfile.read(path)
    places = [f"{shown_path(path)}:{entry.line}" for entry in told]
    found = [pinned(history, where, one.commit, one.base) for where, one in zip(places, told, strict=True)]
    found = [replace(one, style=entry.style or one.style) for one, entry in zip(found, told, strict=True)]
    named = _named([(one, entry.task) for one, entry in zip(found, told, strict=True)])
    chosen = [replace(one, id=entry.id or one.id) for one, entry in zip(named, told, strict=True)]
    seen = dict[str, str]()
    for where, one in zip(places, chosen, strict=True):
        for what in (f"commit {one.pull_request.head[:12]}", f'id "{one.id}"'):
            if what in seen:
                raise BadInput(f"{where}: the {what} is there twice: see {seen[what]}", "keep one of the lines")
            seen[what] = where
    return chosen[-last:] if last else chosen


def _named(found: list[tuple[PullRequest, str]]) -> list[Chosen]:
    """Each with a name: by its number if it is the only one of that number."""
    numbers = Counter(one.number for one, _ in found)
    return [Chosen(one, _name(one, numbers[one.number] == 1), task) for one, task in found]


def _name(found: PullRequest, is_only: bool) -> str:
    short = found.head[:12]
    return short if found.number is None else f"pr-{found.number}" if is_only else f"pr-{found.number}-{short}"


def check(history: History, found: Sequence[Chosen], left: Sequence[LeftOut]) -> None:
    """Refuse that there is none."""
    if not found:
        why = f"{len(left)} left out, such as {_told(left[-1])}" if left else "there are none"
        raise BadInput(
            f"{history.repo}: no pull requests to be found: {why}",
            "name them: --commits HASH,FROM..TO (commits in a file)",
        )


def _told(left: LeftOut) -> str:
    return f'{left.commit[:12]} "{left.title}", which {left.reason}'.replace("which its", "where its")
