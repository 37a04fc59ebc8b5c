"""Which files a program writes, so that their lines say nothing about a change."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from abreast.scorers.change_similarity.versions import File

_NAMES = ("*.lock", "*-lock.json", "*-lock.yaml", "npm-shrinkwrap.json", "go.sum", "*.min.js", "*.min.css", "*.map")
_HEADER = re.compile(r"Code generated .*DO NOT EDIT|@generated\b")
_HEADER_LINES = 5


def is_generated(file: File) -> bool:
    """Whether all names of a file are those of a lock file or a bundle, or its first lines say that it is generated."""
    entries = (*file.human.entries, *file.agent.entries)
    names = [name.rpartition("/")[2] for entry in entries for name in entry.names]
    if all(any(fnmatchcase(name, pattern) for pattern in _NAMES) for name in names):
        return True
    first = [entry.hunks[0] for entry in entries if entry.hunks and entry.hunks[0].start == 0]
    return any(_HEADER.search(text) for hunk in first for _, text in hunk.lines[:_HEADER_LINES])
