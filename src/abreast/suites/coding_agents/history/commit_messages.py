"""What a commit message says of a pull request: its number, its words, and what it takes back."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from abreast.suites.coding_agents.history.commits import Commit

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
class Words:
    number: int | None
    title: str
    body: str


@dataclass(frozen=True, slots=True)
class TakenBack:
    hash: str | None
    number: int | None
    title: str

    def is_meant(self, hashes: Sequence[str], words: Words) -> bool:
        if self.hash is not None:
            return any(each.startswith(self.hash) for each in hashes)
        if self.number is not None:
            return self.number == words.number
        return without_number(self.title) == words.title


def without_number(subject: str) -> str:
    """A title without the number behind it.

    >>> without_number("Greet people (#12)")
    'Greet people'
    """
    return _SQUASHED.sub("", subject).strip()


def squashed_number(subject: str) -> int | None:
    found = _SQUASHED.search(subject)
    return int(found[1]) if found else None


def words_of_series(commits: Sequence[Commit]) -> Words:
    told = [commit for commit in commits if not commit.subject.startswith(("fixup!", "squash!", "amend!"))] or commits
    if not told:
        return Words(None, "", "")
    rest = [part for commit in told[1:] for part in (without_number(commit.subject), commit.body)]
    return Words(
        squashed_number(told[0].subject),
        without_number(told[0].subject),
        "\n\n".join(part for part in (told[0].body, *rest) if part),
    )


def words_of_merge(merge: Commit) -> Words:
    """Of a merge by its own message; without a title if that only names branches."""
    body = _CONFLICTS.sub("", merge.body)
    found = _GITHUB.match(merge.subject) or _BITBUCKET.match(merge.subject) or _GITLAB.search(body)
    number = int(found[1]) if found else None
    body = _GITLAB.sub("", body).strip()
    if number is None and not _PLAIN.fullmatch(merge.subject):
        return Words(squashed_number(merge.subject), without_number(merge.subject), body)
    if number is not None and not any(mark.match(merge.subject) for mark in (_GITHUB, _BITBUCKET, _PLAIN)):
        return Words(number, without_number(merge.subject), body)
    title, _, rest = body.partition("\n")
    return Words(number, without_number(title), rest.strip())


def merged_branch(merge: Commit) -> tuple[str, bool]:
    """The branch that a merge names, or nothing, and whether git wrote the message, not a host of pull requests."""
    plain, hosted = _PLAIN.match(merge.subject), _GITHUB.match(merge.subject)
    if hosted is not None:
        return hosted[2], False
    if plain is None:
        return "", False
    return without_remote(plain[1]), _GITLAB.search(merge.body) is None


def without_remote(branch: str) -> str:
    """The plain name of a branch.

    >>> without_remote("refs/remotes/origin/stable")
    'stable'
    """
    return re.sub(r"^(?:refs/)?(?:remotes/|heads/)?(?:origin/|upstream/)?", "", branch)


def merge_number(merge: Commit) -> int | None:
    found = _GITHUB.match(merge.subject) or _BITBUCKET.match(merge.subject) or _GITLAB.search(merge.body)
    return int(found[1]) if found else squashed_number(merge.subject)


def taken_back(words: Words) -> TakenBack | None:
    """What is reverted by a pull request of these words; None if it is no revert.

    >>> taken_back(Words(13, 'Revert "Greet people (#12)"', "Reverts us/shop#12"))
    TakenBack(hash=None, number=12, title='Greet people (#12)')
    """
    found = _REVERT.match(words.title)
    commit, number = _REVERTED_COMMIT.search(words.body), _REVERTED_NUMBER.search(words.body)
    if found is None and not (words.title.lower().startswith(("revert", "reapply")) and (commit or number)):
        return None
    again = found is not None and found[1].lower() == "reapply"
    title = "" if found is None else f'Revert "{found[2]}"' if again else found[2]
    return TakenBack(commit[1] if commit else None, int(number[1]) if number else squashed_number(title), title)
