"""Recognize changes that only maintain a project: updates of dependencies, CI configuration, version numbers.

Nothing in a repository says that such a change is due, so no agent can be measured by it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from abreast.suites.coding_agents.history.change import File
from abreast.targets.workspace.environment import LOCK_FILE, MANIFEST

UPDATER = re.compile(
    r"dependabot|renovate|pre-commit-ci|pyup|greenkeeper|snyk|depfu|scala-steward|github-actions|imgbot|allcontributors"
    r"|requires\.io|whitesource|mend-for-github|release-please|semantic-release",
    re.I,
)
"""Authors that are programs for updates. Coding agents, which are bots as well, are none."""

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
_RELEASE = re.compile(
    r"(?:\w+(?:\([\w-]*\))?!?:\s*)?(?:(?:prepare|cut|tag|start|bump|update)\b.*)?\b(?:releas\w*|versions?|bump\w*)\b"
    r"|v?\d+\.\d+(?:\.\d+)*\S*$",
    re.I,
)


def mentions_release(title: str) -> bool:
    """Whether a title speaks of a release or a version.

    >>> [mentions_release(title) for title in ("Release 1.2.0", "chore: bump version", "v2.0", "Fix the parser")]
    [True, True, True, False]
    """
    return _RELEASE.match(title) is not None


def mentions_update(title: str) -> bool:
    """Whether a title speaks of an update of dependencies or CI.

    >>> titles = ["Bump actions/setup-python from 5 to 6", "chore(deps): update ruff", "Update parser", "Bumpy road"]
    >>> [mentions_update(title) for title in titles]
    [True, True, False, False]
    """
    return _UPDATE.match(title) is not None


def is_updater(author: str) -> bool:
    """Whether an author, by address, is a program that updates dependencies or formats code.

    >>> is_updater("49699333+dependabot[bot]@users.noreply.github.com"), is_updater("ann@example.org")
    (True, False)
    """
    return UPDATER.search(author) is not None


def why_maintenance(
    title: str, authors: Iterable[str], files: Sequence[File], lines_of: Callable[[list[str]], list[str]]
) -> str:
    """Why a change is mere maintenance; empty if it is not. `lines_of` returns the changed lines of some paths."""
    written_by = set(authors)
    if written_by and all(map(is_updater, written_by)):
        return "was written by a program that updates dependencies"
    others = [file for file in files if not _CHANGE_LOG.search(file.path)]
    if not others:
        return "only changes versions" if mentions_release(title) and _are_versions(lines_of(_paths(files))) else ""
    told = [file for file in others if not (LOCK_FILE.search(file.path) or _CI.search(file.path))]
    if not told:
        return "only changes lock files or CI configuration"
    if all(MANIFEST.search(file.path) for file in told) and mentions_update(title):
        return "only updates dependencies"
    is_expected = mentions_release(title) or all(MANIFEST.search(file.path) for file in told)
    if is_expected and _are_versions(lines_of(_paths(told))):
        return "only changes versions"
    return ""


def _paths(files: Iterable[File]) -> list[str]:
    return [path for file in files for path in (file.before, file.after) if path]


def _are_versions(lines: Iterable[str]) -> bool:
    """Whether every changed line carries a version, a date or a checksum; comments and brackets say nothing."""
    return all(_VERSION.search(line) or _NO_STATEMENT.fullmatch(line) for line in lines)
