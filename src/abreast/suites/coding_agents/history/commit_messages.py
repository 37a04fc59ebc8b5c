"""Parse commit messages: pull request number, title, body, merged branch, reverted change."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from abreast.suites.coding_agents.history.commits import HistoryCommit

_SQUASHED = re.compile(r"\s*\((?:pull request )?[#!](\d+)\)$")
_GITHUB = re.compile(r"Merge pull request #(\d+) from (?:[^\s/]+/)?(\S+)")
_BITBUCKET = re.compile(r"Merged in \S+ \(pull request #(\d+)\)")
_GITLAB = re.compile(r"^See merge request \S*!(\d+)\s*$", re.M)
_PLAIN = re.compile(r"Merge (?:remote-tracking )?(?:branch|tag|commit)(?:es)? '([^']+)'(?: of \S+)?(?: into \S+)?")
_CONFLICTS = re.compile(r"^#? ?Conflicts:\n(?:#?[ \t]+\S.*\n?)*", re.M)
_REVERT = re.compile(r"""(revert|reapply):?\s+["'“](.+?)["'”]*(?:\s*\([#!]\d+\))*$""", re.I)
_REVERTED_COMMIT = re.compile(r"\bThis reverts commit ([0-9a-f]{7,64})")
_REVERTED_NUMBER = re.compile(r"^Reverts \S*[#!](\d+)", re.M)


@dataclass(frozen=True, slots=True)
class Message:
    number: int | None
    title: str
    body: str


@dataclass(frozen=True, slots=True)
class Revert:
    hash: str | None
    number: int | None
    title: str

    def matches(self, hashes: Sequence[str], message: Message) -> bool:
        if self.hash is not None:
            return any(name.startswith(self.hash) for name in hashes)
        if self.number is not None:
            return self.number == message.number
        return without_number(self.title) == message.title


def without_number(subject: str) -> str:
    """Return a title without the number behind it.

    >>> without_number("Greet people (#12)")
    'Greet people'
    """
    return _SQUASHED.sub("", subject).strip()


def squashed_number(subject: str) -> int | None:
    match = _SQUASHED.search(subject)
    return int(match[1]) if match else None


def message_of_series(commits: Sequence[HistoryCommit]) -> Message:
    if not commits:
        return Message(None, "", "")
    originals = [commit for commit in commits if not commit.subject.startswith(("fixup!", "squash!", "amend!"))]
    first, *others = originals or commits
    rest = [part for commit in others for part in (without_number(commit.subject), commit.body)]
    body = "\n\n".join(part for part in (first.body, *rest) if part)
    return Message(squashed_number(first.subject), without_number(first.subject), body)


def message_of_merge(merge: HistoryCommit) -> Message:
    """Return the message of a merge, without a title if that only names branches."""
    body = _CONFLICTS.sub("", merge.body)
    match = _GITHUB.match(merge.subject) or _BITBUCKET.match(merge.subject) or _GITLAB.search(body)
    number = int(match[1]) if match else None
    body = _GITLAB.sub("", body).strip()
    if number is None and not _PLAIN.fullmatch(merge.subject):
        return Message(squashed_number(merge.subject), without_number(merge.subject), body)
    if number is not None and not any(mark.match(merge.subject) for mark in (_GITHUB, _BITBUCKET, _PLAIN)):
        return Message(number, without_number(merge.subject), body)
    title, _, rest = body.partition("\n")
    return Message(number, without_number(title), rest.strip())


def merged_branch(merge: HistoryCommit) -> tuple[str, bool]:
    """Return the branch that a merge names, if any, and whether git wrote the message rather than a hosting service."""
    plain, hosted = _PLAIN.match(merge.subject), _GITHUB.match(merge.subject)
    if hosted is not None:
        return hosted[2], False
    if plain is None:
        return "", False
    return without_remote(plain[1]), _GITLAB.search(merge.body) is None


def without_remote(branch: str) -> str:
    """Return the plain name of a branch.

    >>> without_remote("refs/remotes/origin/stable")
    'stable'
    """
    return re.sub(r"^(?:refs/)?(?:remotes/|heads/)?(?:origin/|upstream/)?", "", branch)


def merge_number(merge: HistoryCommit) -> int | None:
    match = _GITHUB.match(merge.subject) or _BITBUCKET.match(merge.subject) or _GITLAB.search(merge.body)
    return int(match[1]) if match else squashed_number(merge.subject)


def revert_of(message: Message) -> Revert | None:
    """Return the change that a pull request with this message reverts; None if it is not a revert.

    >>> revert_of(Message(13, 'Revert "Greet people (#12)"', "Reverts us/shop#12"))
    Revert(hash=None, number=12, title='Greet people (#12)')
    """
    match = _REVERT.match(message.title)
    commit, number = _REVERTED_COMMIT.search(message.body), _REVERTED_NUMBER.search(message.body)
    if match is None and not (message.title.lower().startswith(("revert", "reapply")) and (commit or number)):
        return None
    is_reapply = match is not None and match[1].lower() == "reapply"
    title = "" if match is None else f'Revert "{match[2]}"' if is_reapply else match[2]
    return Revert(commit[1] if commit else None, int(number[1]) if number else squashed_number(title), title)
