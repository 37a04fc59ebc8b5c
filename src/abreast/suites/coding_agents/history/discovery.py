"""Finding pull requests in a history: those that a branch shows, or those that are named."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from abreast.errors import BadInput
from abreast.suites.coding_agents.history import commit_messages
from abreast.suites.coding_agents.history.change import changed_lines, files_between, readable
from abreast.suites.coding_agents.history.commit_messages import TakenBack, Words
from abreast.suites.coding_agents.history.commits import Commit, History
from abreast.suites.coding_agents.history.exclusions import Merges, why_maintenance

Style = Literal["merge", "squash", "rebase", "commit"]

SERIES_S = 5  # so many seconds at most between two commits of a rebased series


@dataclass(frozen=True, slots=True)
class PullRequest:
    """A merged one, from `base` to `head`; `commit` is the style of one that was named and has no mark."""

    number: int | None
    title: str
    body: str
    base: str
    head: str
    style: Style
    files: tuple[str, ...]
    merged_at: datetime


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A commit that is no task. Before a colon or semicolon, `reason` is the same for all of its kind."""

    commit: str
    title: str
    reason: str


def pull_requests(repo: Path, last: int, branch: str = "HEAD", commits: Sequence[str] = ()) -> list[PullRequest]:
    """The last merged ones of a branch, oldest first, or those that are named, as they are named."""
    return looked_at(History.open(repo), last, branch, commits)[0]


def looked_at(
    history: History, last: int, branch: str, commits: Sequence[str]
) -> tuple[list[PullRequest], list[LeftOut]]:
    if last < 1:
        raise BadInput(f"last must be 1 or more, got {last}", "write how many pull requests to take, such as last: 10")
    if commits:
        return _named(history, commits), []
    found, left = list[PullRequest](), list[LeftOut]()
    for each in examined(history, branch):
        if isinstance(each, LeftOut):
            left.append(each)
        else:
            found.append(each)
            if len(found) == last:
                break
    return found[::-1], left[::-1]


def examined(history: History, branch: str) -> Iterator[PullRequest | LeftOut]:
    """All that a branch shows, newest first."""
    return _WayBack(history, branch).all()


class _WayBack:
    """The way back through a branch; it knows what was taken back by what came later."""

    def __init__(self, history: History, branch: str) -> None:
        self._history = history
        self._tip = history.tip(branch)
        self._merges = Merges(history, self._tip, history.name_of(branch))
        self._taken_back: list[TakenBack] = []

    def all(self) -> Iterator[PullRequest | LeftOut]:
        for unit in _units(self._history.first_parents(self._tip)):
            words = _words(self._history, unit)
            why = self._against(unit, words)
            found = None if why else _pull_request(self._history, unit, words)
            if found is not None and not (why := self._against_change(found, unit)):
                yield found
            else:
                yield LeftOut(unit[-1].hash, words.title or unit[-1].subject, why)

    def _against(self, unit: Sequence[Commit], words: Words) -> str:
        head = unit[-1]
        hashes = [*(commit.hash for commit in unit), *head.parents[1:]]
        for later in self._taken_back:
            if later.is_meant(hashes, words):
                self._taken_back.remove(later)
                return "was reverted later"
        if (back := commit_messages.taken_back(words)) is not None:
            self._taken_back.append(back)
            return "reverts an earlier change"
        if not head.parents:
            return "is the first commit: there is nothing before it"
        if len(head.parents) > 2:
            return "merges several branches at once"
        if (why := self._merges.why_not(head, words.title)) or len(head.parents) == 2:
            return why
        if len(unit) == 1 and commit_messages.squashed_number(head.subject) is None:
            return "is a lone commit without a mark; to take it, name it in commits"
        return ""

    def _against_change(self, found: PullRequest, unit: Sequence[Commit]) -> str:
        if not found.files:
            return "changes nothing"
        history, ends = self._history, (found.base, found.head)
        commits = unit if len(unit[-1].parents) < 2 else history.between(*ends)
        return why_maintenance(
            found.title,
            [commit.author for commit in commits],
            files_between(history, *ends),
            lambda paths: changed_lines(history, *ends, paths) if paths else [],
        )


def _units(commits: Iterable[Commit]) -> Iterator[list[Commit]]:
    """Commits that belong together, oldest first; newest unit first."""
    unit: list[Commit] = []
    for commit in commits:
        if unit and not _continues(unit[0], commit):
            yield unit
            unit = []
        unit.insert(0, commit)
    if unit:
        yield unit


def _continues(later: Commit, earlier: Commit) -> bool:
    plain = all(_has_no_mark(commit) for commit in (later, earlier))
    apart = later.committed - earlier.committed
    return plain and later.author == earlier.author and 0 <= apart <= SERIES_S


def _has_no_mark(commit: Commit) -> bool:
    is_revert = commit_messages.taken_back(Words(None, commit.subject, commit.body)) is not None
    return len(commit.parents) == 1 and not is_revert and commit_messages.squashed_number(commit.subject) is None


def _words(history: History, unit: Sequence[Commit]) -> Words:
    head = unit[-1]
    if len(head.parents) < 2:
        return commit_messages.words_of_series(unit)
    own = commit_messages.words_of_merge(head)
    if own.title:
        return own
    merged = commit_messages.words_of_series(history.between(head.parents[0], head.hash))
    return Words(own.number, merged.title, merged.body)


def _pull_request(history: History, unit: Sequence[Commit], words: Words) -> PullRequest:
    head = unit[-1]
    alone: Style = "commit" if words.number is None else "squash"
    style: Style = "merge" if len(head.parents) > 1 else "rebase" if len(unit) > 1 else alone
    return _made(history, unit[0].parents[0], head, style, words)


def _made(history: History, base: str, head: Commit, style: Style, words: Words) -> PullRequest:
    return PullRequest(
        number=words.number,
        title=words.title,
        body=words.body,
        base=base,
        head=head.hash,
        style=style,
        files=tuple(readable(os.fsencode(file.path)) for file in files_between(history, base, head.hash)),
        merged_at=datetime.fromtimestamp(head.committed, UTC),
    )


def _named(history: History, commits: Sequence[str]) -> list[PullRequest]:
    found = dict[str, PullRequest]()
    for text in commits:
        one = _range(history, text) if ".." in text else _lone(history, text)
        if not one.files:
            raise BadInput(f'{history.repo}: commits: "{text}" changes nothing', "remove it, or name another")
        if one.head in found:
            raise BadInput(f'{history.repo}: commits: "{text}" is there twice', "name each of them once")
        found[one.head] = one
    return list(found.values())


def _lone(history: History, text: str) -> PullRequest:
    commit = history.read(_known(history, text, text))
    if not commit.parents:
        raise BadInput(
            f'{history.repo}: commits: "{text}" is the first commit, nothing is before it', "name a later one"
        )
    return _pull_request(history, [commit], _words(history, [commit]))


def _range(history: History, text: str) -> PullRequest:
    start, _, end = text.partition("..")
    if not start or not end or end.startswith("."):
        raise BadInput(f'{history.repo}: commits: "{text}" is no range', "write FROM..TO, both of them commits")
    first, head = _known(history, start, text), _known(history, end, text)
    base = history.common_start(first, head)
    if base is None or base == head:
        why = "their histories have nothing in common" if base is None else "no commit is in it"
        raise BadInput(f'{history.repo}: commits: "{text}": {why}', "write FROM..TO, the earlier one first")
    series = history.between(base, head)
    return _made(history, base, history.read(head), "rebase", commit_messages.words_of_series(series))


def pinned(history: History, where: str, commit: str, base: str | None) -> PullRequest:
    """The pull request between two commits, both by their hashes; `base` may be left out."""
    head = _by_hash(history, f"{where}: commit", commit)
    last = history.read(head)
    start = next(iter(last.parents), None) if base is None else _by_hash(history, f"{where}: base", base)
    if start is None:
        raise BadInput(f"{where}: commit {commit} is the first one, nothing is before it", "remove the line")
    if start in last.parents[:1]:
        found = _pull_request(history, [last], _words(history, [last]))
    elif start != head and history.common_start(start, head) == start:
        words = commit_messages.words_of_series(history.between(start, head))
        found = _made(history, start, last, "rebase", words)
    else:
        raise BadInput(f"{where}: base {base} is not before commit {commit}", "leave base out for the first parent")
    if not found.files:
        raise BadInput(f"{where}: commit {commit} changes nothing", "remove the line")
    return found


def _by_hash(history: History, where: str, text: str) -> str:
    found = history.resolve(text)
    if found is None or not found.startswith(text):
        fix = f"see that {history.repo} is the repository of the file, and that git fetched all of it"
        raise BadInput(f"{where} {text} is not in {history.repo}", fix)
    return found


def _known(history: History, revision: str, text: str) -> str:
    found = history.resolve(revision)
    if found is None:
        raise BadInput(
            f'{history.repo}: commits: "{text}": there is no commit "{revision}"',
            "write hashes that git log shows; what a rebase left behind or was never fetched is not there",
        )
    return found
