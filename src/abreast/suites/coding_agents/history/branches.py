"""Recognize merges of long-lived branches: a main branch, a release branch, a branch that collects pull requests.

They bring in the work of others, which other pull requests describe. Names tell some of them; the shape of the history
tells the rest: a branch that is merged, goes on and is merged again has its last merged commit in common with this
branch, and not a commit from which it was started.
"""

from __future__ import annotations

import re
from functools import cached_property

from abreast.suites.coding_agents.history import commit_messages
from abreast.suites.coding_agents.history.commits import Commit, History

MAIN = "merges a main branch into this one"
LONG_LIVED = "merges a release branch, or another one that lives on"
SEVERAL = "brings in other pull requests"

_MAIN = frozenset(("main", "master", "trunk", "default", "develop", "development", "dev"))
_RELEASE = re.compile(
    r"(?:stable|maint|maintenance|lts|staging|production|releases?)(?:[-_/.].+)?"
    r"|(?:branch|version|series|rel|v)?[-_/.]?v?\d+(?:\.(?:\d+|x|\*))+(?:[-_.](?:\w+))?"
    r"|v\d+(?:[-_.]x)?"
    r"|\d+[-_.](?:x|stable|maint|maintenance)",
    re.I,
)
_SAYS = re.compile(
    r"(?:\w+: )?(?:forward[- ]?)?merge (?:the )?(?:latest )?(?:branch )?[`'\"]?([\w./-]+?)[`'\"]?"
    r"(?: branch)? (?:in)?to [`'\"]?[\w./-]+",
    re.I,
)


def is_release_branch(name: str) -> bool:
    """Whether a branch of this name is one that releases are made from.

    >>> [is_release_branch(name) for name in ("stable", "2.2.x", "release/1.4", "v3", "python-3.12", "fix-412", "412")]
    [True, True, True, True, False, False, False]
    """
    return _RELEASE.fullmatch(name) is not None


class Merges:
    """The merges of one branch, looked at newest first."""

    def __init__(self, history: History, tip: str, own: str) -> None:
        self._history, self._tip, self._own = history, tip, own
        self._long_lived: set[str] = set()

    @cached_property
    def _line(self) -> frozenset[str]:
        return frozenset(self._history.first_parent_hashes(self._tip))

    def why_not(self, head: Commit, title: str) -> str:
        """Why a commit only brings in what others did; empty if it does not."""
        source, is_plain = commit_messages.merged_branch(head)
        says = _SAYS.match(title)
        source = source or ("" if says is None else commit_messages.without_remote(says[1]))
        if source and (is_plain or says) and (source in _MAIN or source == self._own):
            return MAIN
        if source and is_release_branch(source):
            return LONG_LIVED
        if len(head.parents) != 2:
            return ""
        if is_plain and (source in self._long_lived or self._lives_on(head)):
            self._long_lived.add(source)
            return LONG_LIVED
        return SEVERAL if self._collects(head) else ""

    def _lives_on(self, merge: Commit) -> bool:
        base = self._history.common_start(*merge.parents)
        return base is not None and base not in self._line

    def _collects(self, merge: Commit) -> bool:
        """Whether pull requests were merged into the branch itself. Two squashed ones, for a lone number behind a
        title may be that of an issue."""
        merged = self._history.all_between(*merge.parents)
        numbers = commit_messages.merge_number(merge), commit_messages.squashed_number(merge.subject)
        squashed = {commit_messages.squashed_number(commit.subject) for commit in merged if len(commit.parents) == 1}
        merges = {commit_messages.merge_number(commit) for commit in merged if len(commit.parents) > 1}
        return bool(merges - {None, *numbers}) or len(squashed - {None, *numbers}) > 1
