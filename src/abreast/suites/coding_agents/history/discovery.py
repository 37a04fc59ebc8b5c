"""Find the pull requests of a branch, or those of named commits."""

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
from abreast.suites.coding_agents.history.commit_messages import Message, Revert
from abreast.suites.coding_agents.history.commits import GitHistory, HistoryCommit
from abreast.suites.coding_agents.history.exclusions import MergeFilter, maintenance_reason
from abreast.suites.coding_agents.history.task_text import cleaned

Style = Literal["merge", "squash", "rebase", "commit"]

SERIES_S = 5  # maximum seconds between two commits of a rebased series


@dataclass(frozen=True, slots=True)
class PullRequest:
    """A merged pull request from `base` to `head`, with its case `id` and its `task`, which may be empty.

    The style `commit` is a commit without a mark that was named explicitly.
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
class Exclusion:
    """A commit that is not a task. `reason` begins with its kind, before any colon or semicolon."""

    commit: str
    title: str
    reason: str


def pull_requests(repo: Path, last: int, branch: str = "HEAD", commits: Sequence[str] = ()) -> list[PullRequest]:
    """Return the last merged pull requests of a branch, oldest first, or those of `commits`, in that order."""
    return find_pull_requests(GitHistory.open(repo), last, branch, commits)[0]


def find_pull_requests(
    history: GitHistory, last: int, branch: str, commits: Sequence[str]
) -> tuple[list[PullRequest], list[Exclusion]]:
    if last < 1:
        raise BadInput(f"last must be 1 or more, got {last}", "set the number of pull requests, such as last: 10")
    if commits:
        return _from_commits(history, commits), []
    pull_requests, exclusions = list[PullRequest](), list[Exclusion]()
    for item in examine(history, branch):
        if isinstance(item, Exclusion):
            exclusions.append(item)
        else:
            pull_requests.append(item)
            if len(pull_requests) == last:
                break
    return pull_requests[::-1], exclusions[::-1]


def examine(history: GitHistory, branch: str) -> Iterator[PullRequest | Exclusion]:
    """Classify all commits of a branch, newest first."""
    tip = history.tip(branch)
    merge_filter, reverts = MergeFilter(history, tip, history.name_of(branch)), list[Revert]()
    for unit in _units(history.first_parents(tip)):
        message = _message(history, unit)
        reason = _revert_reason(reverts, unit, message) or _merge_reason(merge_filter, unit, message)
        if not reason:
            pull_request = _pull_request(history, unit, message)
            reason = _content_reason(history, pull_request, unit)
        yield Exclusion(unit[-1].hash, message.title or unit[-1].subject, reason) if reason else pull_request


def _revert_reason(reverts: list[Revert], unit: Sequence[HistoryCommit], message: Message) -> str:
    """Exclude reverts and what they reverted; `reverts` collects those of later commits."""
    hashes = [*(commit.hash for commit in unit), *unit[-1].parents[1:]]
    for later in reverts:
        if later.matches(hashes, message):
            reverts.remove(later)
            return "was reverted later"
    if (revert := commit_messages.revert_of(message)) is None:
        return ""
    reverts.append(revert)
    return "reverts an earlier change"


def _merge_reason(merge_filter: MergeFilter, unit: Sequence[HistoryCommit], message: Message) -> str:
    head = unit[-1]
    if not head.parents:
        return "is the first commit"
    if len(head.parents) > 2:
        return "merges several branches at once"
    if (reason := merge_filter.reason(head, message.title)) or len(head.parents) == 2:
        return reason
    if len(unit) == 1 and commit_messages.squashed_number(head.subject) is None:
        return "is a single commit without a mark; add it to commits to include it"
    return ""


def _content_reason(history: GitHistory, pull_request: PullRequest, unit: Sequence[HistoryCommit]) -> str:
    if not pull_request.files:
        return "changes nothing"
    ends = pull_request.base, pull_request.head
    commits = unit if len(unit[-1].parents) < 2 else history.between(*ends)
    return maintenance_reason(
        pull_request.title,
        [commit.author for commit in commits],
        files_between(history, *ends),
        lambda paths: changed_lines(history, *ends, paths) if paths else [],
    )


def _units(commits: Iterable[HistoryCommit]) -> Iterator[list[HistoryCommit]]:
    """Group commits that belong together, oldest first; newest group first."""
    unit: list[HistoryCommit] = []
    for commit in commits:
        if unit and not _continues(unit[0], commit):
            yield unit
            unit = []
        unit.insert(0, commit)
    if unit:
        yield unit


def _continues(later: HistoryCommit, earlier: HistoryCommit) -> bool:
    is_unmarked = _has_no_mark(later) and _has_no_mark(earlier)
    return is_unmarked and later.author == earlier.author and 0 <= later.committed - earlier.committed <= SERIES_S


def _has_no_mark(commit: HistoryCommit) -> bool:
    is_revert = commit_messages.revert_of(Message(None, commit.subject, commit.body)) is not None
    return len(commit.parents) == 1 and not is_revert and commit_messages.squashed_number(commit.subject) is None


def _message(history: GitHistory, unit: Sequence[HistoryCommit]) -> Message:
    head = unit[-1]
    if len(head.parents) < 2:
        return commit_messages.message_of_series(unit)
    own = commit_messages.message_of_merge(head)
    if own.title:
        return own
    merged = commit_messages.message_of_series(history.between(head.parents[0], head.hash))
    return Message(own.number, merged.title, merged.body)


def _pull_request(history: GitHistory, unit: Sequence[HistoryCommit], message: Message) -> PullRequest:
    head = unit[-1]
    single: Style = "commit" if message.number is None else "squash"
    style: Style = "merge" if len(head.parents) > 1 else "rebase" if len(unit) > 1 else single
    return _build(history, unit[0].parents[0], head, style, message)


def _build(history: GitHistory, base: str, head: HistoryCommit, style: Style, message: Message) -> PullRequest:
    return PullRequest(
        number=message.number,
        title=message.title,
        body=message.body,
        base=base,
        head=head.hash,
        style=style,
        files=tuple(readable(os.fsencode(file.path)) for file in files_between(history, base, head.hash)),
        merged_at=datetime.fromtimestamp(head.committed, UTC),
        id=head.hash[:12] if message.number is None else f"pr-{message.number}",
        task=cleaned(message.title, message.body, message.number),
    )


def _from_commits(history: GitHistory, commits: Sequence[str]) -> list[PullRequest]:
    by_head = dict[str, PullRequest]()
    for text in commits:
        pull_request = _range(history, text) if ".." in text else _single(history, text)
        if not pull_request.files:
            raise _error(history, text, " changes nothing", "remove it")
        if pull_request.head in by_head:
            raise _error(history, text, " is listed twice", "list each commit once")
        by_head[pull_request.head] = pull_request
    return list(by_head.values())


def _error(history: GitHistory, text: str, problem: str, fix: str) -> BadInput:
    return BadInput(f'{history.repo}: commits: "{text}"{problem}', fix)


def _single(history: GitHistory, text: str) -> PullRequest:
    commit = history.read(_resolve(history, text, text))
    if not commit.parents:
        raise _error(history, text, " is the first commit", "use a later one")
    return _pull_request(history, [commit], _message(history, [commit]))


def _range(history: GitHistory, text: str) -> PullRequest:
    start, _, end = text.partition("..")
    if not start or not end or end.startswith("."):
        raise _error(history, text, " is not a range", "write FROM..TO, two commits")
    first, head = _resolve(history, start, text), _resolve(history, end, text)
    base = history.merge_base(first, head)
    if base is None or base == head:
        problem = "unrelated histories" if base is None else "empty range"
        raise _error(history, text, f": {problem}", "write FROM..TO, the earlier commit first")
    return _series(history, base, history.read(head))


def _series(history: GitHistory, base: str, head: HistoryCommit) -> PullRequest:
    message = commit_messages.message_of_series(history.between(base, head.hash))
    return _build(history, base, head, "rebase", message)


def _resolve(history: GitHistory, revision: str, text: str) -> str:
    if (commit := history.resolve(revision)) is None:
        fix = "use a hash from `git log`; commits that were rebased away or never fetched are missing"
        raise _error(history, text, f': no commit "{revision}"', fix)
    return commit


def pull_request_between(history: GitHistory, where: str, commit: str, base: str | None) -> PullRequest:
    """Return the pull request between two commits, given by hash; `base` defaults to the first parent."""
    head = _by_hash(history, f"{where}: commit", commit)
    last = history.read(head)
    start = next(iter(last.parents), None) if base is None else _by_hash(history, f"{where}: base", base)
    if start is None:
        raise BadInput(f"{where}: commit {commit} is the first commit", "remove the line")
    if start in last.parents[:1]:
        pull_request = _pull_request(history, [last], _message(history, [last]))
    elif start != head and history.merge_base(start, head) == start:
        pull_request = _series(history, start, last)
    else:
        message = f"{where}: base {base} is not an ancestor of commit {commit}"
        raise BadInput(message, "remove base to use the first parent")
    if not pull_request.files:
        raise BadInput(f"{where}: commit {commit} changes nothing", "remove the line")
    return pull_request


def _by_hash(history: GitHistory, where: str, text: str) -> str:
    commit = history.resolve(text)
    if commit is None or not commit.startswith(text):
        fix = f"check that the file belongs to {history.repo}, and run `git fetch`"
        raise BadInput(f"{where} {text} is not in {history.repo}", fix)
    return commit
