"""Recognize commits that are not tasks: merges of long-lived branches, and maintenance.

Merges of a main branch, a release branch or a branch that collects pull requests bring in changes that other pull
requests describe. Some are recognized by name, the others by the shape of the history: a branch that is merged more
than once has its last merged commit in common with this branch, not the commit from which it was started.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

from abreast.suites.coding_agents.history import commit_messages
from abreast.suites.coding_agents.history.change import ChangedFile
from abreast.suites.coding_agents.history.commits import GitHistory, HistoryCommit
from abreast.targets.workspace.environment import LOCK_FILE, MANIFEST

MAIN = "merges a main branch into this one"
LONG_LIVED = "merges a release branch, or another long-lived one"
SEVERAL = "brings in other pull requests"

_MAIN = frozenset(("main", "master", "trunk", "default", "develop", "development", "dev"))
_RELEASE = re.compile(
    r"(?:stable|maint|maintenance|lts|staging|production|releases?)(?:[-_/.].+)?"
    r"|(?:branch|version|series|rel|v)?[-_/.]?v?\d+(?:\.(?:\d+|x|\*))+(?:[-_.](?:\w+))?"
    r"|v\d+(?:[-_.]x)?"
    r"|\d+[-_.](?:x|stable|maint|maintenance)",
    re.I,
)
_MERGE_TITLE = re.compile(
    r"(?:\w+: )?(?:forward[- ]?)?merge (?:the )?(?:latest )?(?:branch )?[`'\"]?([\w./-]+?)[`'\"]?"
    r"(?: branch)? (?:in)?to [`'\"]?[\w./-]+",
    re.I,
)


def is_release_branch(name: str) -> bool:
    """Whether this is the name of a release branch.

    >>> [is_release_branch(name) for name in ("stable", "2.2.x", "release/1.4", "v3", "python-3.12", "fix-412", "412")]
    [True, True, True, True, False, False, False]
    """
    return _RELEASE.fullmatch(name) is not None


class MergeFilter:
    def __init__(self, history: GitHistory, tip: str, own: str) -> None:
        self._history, self._tip, self._own = history, tip, own
        self._long_lived: set[str] = set()

    @cached_property
    def _line(self) -> frozenset[str]:
        return frozenset(self._history.first_parent_hashes(self._tip))

    def reason(self, head: HistoryCommit, title: str) -> str:
        """Explain why a commit only merges other changes; empty if it does not."""
        source, is_plain = commit_messages.merged_branch(head)
        match = _MERGE_TITLE.match(title)
        source = source or ("" if match is None else commit_messages.without_remote(match[1]))
        if source and (is_plain or match) and (source in _MAIN or source == self._own):
            return MAIN
        if source and is_release_branch(source):
            return LONG_LIVED
        if len(head.parents) != 2:
            return ""
        if is_plain and (source in self._long_lived or self._lives_on(head)):
            self._long_lived.add(source)
            return LONG_LIVED
        return SEVERAL if self._collects(head) else ""

    def _lives_on(self, merge: HistoryCommit) -> bool:
        base = self._history.merge_base(*merge.parents)
        return base is not None and base not in self._line

    def _collects(self, merge: HistoryCommit) -> bool:
        """Whether pull requests were merged into the branch; a single number may be that of an issue."""
        merged = self._history.all_between(*merge.parents)
        numbers = commit_messages.merge_number(merge), commit_messages.squashed_number(merge.subject)
        squashed = {commit_messages.squashed_number(commit.subject) for commit in merged if len(commit.parents) == 1}
        merges = {commit_messages.merge_number(commit) for commit in merged if len(commit.parents) > 1}
        return bool(merges - {None, *numbers}) or len(squashed - {None, *numbers}) > 1


# Bots that update dependencies, unlike coding agents.
UPDATER = re.compile(
    r"dependabot|renovate|pre-commit-ci|pyup|greenkeeper|snyk|depfu|scala-steward|github-actions|imgbot|allcontributors"
    r"|requires\.io|whitesource|mend-for-github|release-please|semantic-release",
    re.I,
)

_CHANGE_LOG = re.compile(r"(?:^|/)(?:change(?:s|log)|history|news|releases?)(?:\.(?:md|rst|txt|adoc))?$", re.I)
_CI = re.compile(
    r"^\.(?:github|gitlab|circleci|buildkite|azure-pipelines|dependabot|woodpecker|tekton|semaphore)/"
    r"|^\.?(?:gitlab-ci|travis|appveyor|drone|cirrus|readthedocs|codecov|mergify|pre-commit-config|pre-commit)\.ya?ml$"
    r"|^azure-pipelines[^/]*\.ya?ml$|^Jenkinsfile$|^bors\.toml$|^\.?renovate(?:rc)?(?:\.json5?)?$",
    re.I,
)
_VERSION = re.compile(r"\d+\.\d+|\d{4}-\d\d-\d\d|[@=^~<>v]\d+\b|\b(?:sha\d+[:-])?[0-9a-f]{32,}\b")
_NO_STATEMENT = re.compile(r"\s*(?:(?:#|//|<!--).*)?[\\\]\[(){},]*\s*")
_UPDATE = re.compile(
    r"(?:\[[\w .-]+\]\s*)?(?:\w+\s*\([\w, -]*deps?[\w, -]*\)!?:|deps(?:-dev)?:|(?:build|chore|ci)(?:\([^)]*\))?!?:)?\s*"
    r"(?:bumps?\b|(?:update|upgrade|pin|unpin|raise|lock)s?\b.*\b(?:dependenc(?:y|ies)|deps|requirements?|versions?"
    r"|actions?|hooks?|lock ?files?|pre-commit|to v?\d[\w.]*$)|.*\bpre-commit autoupdate\b|lock file maintenance\b)"
    r"|\w+\s*\([\w, -]*deps?[\w, -]*\)!?:|deps(?:-dev)?:",
    re.I,
)
_RELEASE_TITLE = re.compile(
    r"(?:\w+(?:\([\w-]*\))?!?:\s*)?(?:(?:prepare|cut|tag|start|bump|update)\b.*)?\b(?:releas\w*|versions?|bump\w*)\b"
    r"|v?\d+\.\d+(?:\.\d+)*\S*$",
    re.I,
)


def mentions_release(title: str) -> bool:
    """Whether a title mentions a release or a version.

    >>> [mentions_release(title) for title in ("Release 1.2.0", "chore: bump version", "v2.0", "Fix the parser")]
    [True, True, True, False]
    """
    return _RELEASE_TITLE.match(title) is not None


def mentions_update(title: str) -> bool:
    """Whether a title mentions an update of dependencies or CI.

    >>> titles = ["Bump actions/setup-python from 5 to 6", "chore(deps): update ruff", "Update parser", "Bumpy road"]
    >>> [mentions_update(title) for title in titles]
    [True, True, False, False]
    """
    return _UPDATE.match(title) is not None


def is_updater(author: str) -> bool:
    """Whether an author's address belongs to a bot that updates dependencies or formats code.

    >>> is_updater("49699333+dependabot[bot]@users.noreply.github.com"), is_updater("ann@example.org")
    (True, False)
    """
    return UPDATER.search(author) is not None


def maintenance_reason(
    title: str, authors: Iterable[str], files: Sequence[ChangedFile], lines_of: Callable[[list[str]], list[str]]
) -> str:
    """Explain why a change is maintenance; empty if it is not. `lines_of` returns the changed lines of paths."""
    written_by = set(authors)
    if written_by and all(map(is_updater, written_by)):
        return "was written by a bot that updates dependencies"
    others = [file for file in files if not _CHANGE_LOG.search(file.path)]
    if not others:
        return "only changes versions" if mentions_release(title) and _are_versions(lines_of(_paths(files))) else ""
    relevant = [file for file in others if not (LOCK_FILE.search(file.path) or _CI.search(file.path))]
    if not relevant:
        return "only changes lock files or CI configuration"
    are_manifests = all(MANIFEST.search(file.path) for file in relevant)
    if are_manifests and mentions_update(title):
        return "only updates dependencies"
    if (are_manifests or mentions_release(title)) and _are_versions(lines_of(_paths(relevant))):
        return "only changes versions"
    return ""


def _paths(files: Iterable[ChangedFile]) -> list[str]:
    return [path for file in files for path in (file.before, file.after) if path]


def _are_versions(lines: Iterable[str]) -> bool:
    """Whether every changed line has a version, a date or a checksum, comments and brackets aside."""
    return all(_VERSION.search(line) or _NO_STATEMENT.fullmatch(line) for line in lines)
