"""Which files do not count."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase


def ignored(path: str, patterns: Iterable[str]) -> bool:
    """Whether one of the patterns means a file: `*.lock` by its name, `gen/*.py` by its path, `docs/` by a folder that
    it is in.

    >>> [ignored(path, ["*.lock", "docs/"]) for path in ("a/b.lock", "docs/x/a.md", "a/docs/b.md", "docs.py")]
    [True, True, True, False]
    """
    parts = path.split("/")
    folders = ["/".join(parts[:count]) for count in range(1, len(parts))]
    for pattern in patterns:
        plain = pattern.removeprefix("./").removeprefix("/")
        is_folder, plain = plain.endswith("/"), plain.rstrip("/")
        for name in folders if is_folder else [path]:
            by_name = "/" not in pattern.rstrip("/") and fnmatchcase(name.rpartition("/")[2], plain)
            if by_name or fnmatchcase(name, plain):
                return True
    return False
