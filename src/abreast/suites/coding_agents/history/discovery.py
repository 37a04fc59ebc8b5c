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
from abreast.suites.coding_agents.history.task_text import cleaned

Style = Literal["merge", "squash", "rebase", "commit"]

SERIES_S = 5  # so many seconds at most between two commits of a rebased series


@dataclass(frozen=True, slots=True)
class PullRequest:
    """A merged pull request from `base` to `head`, with the `id` of its case and its `task`, empty if there is none.

    The style `commit` is of a commit that was named and has no mark.
    """

    number: int | None
    title: str
    body: str
    base: str
    head: str
    style: Style
    files: tuple[str, ...]
    merged_at: datetime
    id: str
    task: str


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A commit that is no task. `reason` is the same for all of its kind up to a colon or semicolon."""

    commit: str
    title: str
    reason: str


def pull_requests(repo: Path, last: int, branch: str = "HEAD", commits: Sequence[str] = ()) -> list[PullRequest]:
    """The last merged ones of a branch, oldest first, or those that are named, in their order."""
    return looked_at(History.open(repo), last, branch, commits)[0]


def looked_at(
    history: History, last: int, branch: str, commits: Sequence[str]
) -> tuple[list[PullRequest], list[LeftOut]]:
    if last < 1:
        raise BadInput(f"last must be 1 or more, got {last}", "write how many pull requests to take, such as last: 10")
    if commits:
        return _named(history, commits), []
    found, left_out = list[PullRequest](), list[LeftOut]()
    for item in examined(history, branch):
        if isinstance(item, LeftOut):
            left_out.append(item)
        else:
            found.append(item)
            if len(found) == last:
                break
    return found[::-1], left_out[::-1]


def examined(history: History, branch: str) -> Iterator[PullRequest | LeftOut]:
    """All commits of a branch, newest first."""
    tip = history.tip(branch)
    merges, reverts = Merges(history, tip, history.name_of(branch)), list[TakenBack]()
    for unit in _units(history.first_parents(tip)):
        words = _words(history, unit)
        reason = _why_reverted(reverts, unit, words) or _why_no_task(merges, unit, words)
        if not reason:
            found = _pull_request(history, unit, words)
            reason = _why_no_change(history, found, unit)
        yield LeftOut(unit[-1].hash, words.title or unit[-1].subject, reason) if reason else found


def _why_reverted(reverts: list[TakenBack], unit: Sequence[Commit], words: Words) -> str:
    """Whether a later commit reverted this one; if it is a revert itself, it is added to the list."""
    hashes = [*(commit.hash for commit in unit), *unit[-1].parents[1:]]
    for later in reverts:
        if later.is_meant(hashes, words):
            reverts.remove(later)
            return "was reverted later"
    if (revert := commit_messages.taken_back(words)) is None:
        return ""
    reverts.append(revert)
    return "reverts an earlier change"


def _why_no_task(merges: Merges, unit: Sequence[Commit], words: Words) -> str:
    head = unit[-1]
    if not head.parents:
        return "is the first commit: there is nothing before it"
    if len(head.parents) > 2:
        return "merges several branches at once"
    if (reason := merges.why_not(head, words.title)) or len(head.parents) == 2:
        return reason
    if len(unit) == 1 and commit_messages.squashed_number(head.subject) is None:
        return "is a lone commit without a mark; to take it, name it in commits"
    return ""


def _why_no_change(history: History, found: PullRequest, unit: Sequence[Commit]) -> str:
    if not found.files:
        return "changes nothing"
    ends = found.base, found.head
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
        id=head.hash[:12] if words.number is None else f"pr-{words.number}",
        task=cleaned(words.title, words.body, words.number),
    )


def _named(history: History, commits: Sequence[str]) -> list[PullRequest]:
    by_head = dict[str, PullRequest]()
    for text in commits:
        found = _range(history, text) if ".." in text else _lone(history, text)
        if not found.files:
            raise _refuse(history, text, " changes nothing", "remove it, or name another")
        if found.head in by_head:
            raise _refuse(history, text, " is there twice", "name each of them once")
        by_head[found.head] = found
    return list(by_head.values())


def _refuse(history: History, text: str, problem: str, fix: str) -> BadInput:
    return BadInput(f'{history.repo}: commits: "{text}"{problem}', fix)


def _lone(history: History, text: str) -> PullRequest:
    commit = history.read(_resolve(history, text, text))
    if not commit.parents:
        raise _refuse(history, text, " is the first commit, nothing is before it", "name a later one")
    return _pull_request(history, [commit], _words(history, [commit]))


def _range(history: History, text: str) -> PullRequest:
    start, _, end = text.partition("..")
    if not start or not end or end.startswith("."):
        raise _refuse(history, text, " is no range", "write FROM..TO, both of them commits")
    first, head = _resolve(history, start, text), _resolve(history, end, text)
    base = history.common_start(first, head)
    if base is None or base == head:
        why = "their histories have nothing in common" if base is None else "no commit is in it"
        raise _refuse(history, text, f": {why}", "write FROM..TO, the earlier one first")
    return _series(history, base, history.read(head))


def _series(history: History, base: str, head: Commit) -> PullRequest:
    words = commit_messages.words_of_series(history.between(base, head.hash))
    return _made(history, base, head, "rebase", words)


def _resolve(history: History, revision: str, text: str) -> str:
    if (commit := history.resolve(revision)) is None:
        fix = "write hashes that git log shows; what a rebase left behind or was never fetched is not there"
        raise _refuse(history, text, f': there is no commit "{revision}"', fix)
    return commit


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
        found = _series(history, start, last)
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
