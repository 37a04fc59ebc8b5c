"""Files that say what a project depends on, by their names."""

from __future__ import annotations

import re

LOCK_FILE = re.compile(
    r"(?:^|/)(?:[^/]+\.lock|[^/]*-lock\.(?:json|ya?ml)|npm-shrinkwrap\.json|bun\.lockb|go\.sum|gradle\.lockfile"
    r"|\.terraform\.lock\.hcl)$",
    re.I,
)
MANIFEST = re.compile(
    r"(?:^|/)(?:pyproject\.toml|setup\.(?:py|cfg)|[^/]*requirements[^/]*\.(?:txt|in)|requirements/[^/]+\.(?:txt|in)"
    r"|Pipfile|tox\.ini|environment\.ya?ml|package\.json|Cargo\.toml|rust-toolchain(?:\.toml)?|go\.mod|Gemfile"
    r"|[^/]+\.gemspec|pom\.xml|(?:build|settings)\.gradle(?:\.kts)?|gradle-wrapper\.properties|libs\.versions\.toml"
    r"|composer\.json|mix\.exs|pubspec\.yaml|[^/]+\.csproj|Directory\.Packages\.props|(?:[^/]+\.)?Dockerfile"
    r"|docker-compose\.ya?ml|\.(?:python-version|nvmrc|node-version|ruby-version|tool-versions))$",
    re.I,
)


def is_dependency_file(path: str) -> bool:
    """Whether a file says what a project depends on.

    >>> [is_dependency_file(path) for path in ("requirements/dev.txt", "web/package-lock.json", "src/app.py")]
    [True, True, False]
    """
    return MANIFEST.search(path) is not None or LOCK_FILE.search(path) is not None
