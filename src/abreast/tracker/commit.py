"""The commit of the code that runs, and whether tracked files differ from it."""

from __future__ import annotations

import functools
import os
import time
from pathlib import Path
from typing import NamedTuple

from abreast.plan import git


class CodeCommit(NamedTuple):
    """The output of `git rev-parse --short HEAD`; None outside a repository."""

    code_commit: str | None
    code_dirty: bool | None


def current_commit() -> CodeCommit:
    """Return the commit of the working directory. Runs git again only if files of git changed."""
    try:
        folder, now = os.getcwd(), time.monotonic()  # noqa: PTH109 - a str is needed
    except OSError:  # the folder was removed
        return CodeCommit(None, None)
    entry = _last.get(folder)
    if entry is None or now - entry[0] > REFRESH_S:
        entry = _last[folder] = (now, _commit(folder, _state(folder)))
    return entry[1]


REFRESH_S = 1.0
_last: dict[str, tuple[float, CodeCommit]] = {}


@functools.lru_cache(maxsize=16)
def _commit(folder: str, _state: tuple[int, ...]) -> CodeCommit:
    commit = (git.output(Path(folder), "rev-parse", "--short", "HEAD") or "").strip()
    if not commit:
        return CodeCommit(None, None)
    return CodeCommit(commit, bool(git.output(Path(folder), "status", "--porcelain", "--untracked-files=no")))


def _state(folder: str) -> tuple[int, ...]:
    git_folder = _git_folder(folder)
    return tuple(_modified_at(f"{git_folder}/{name}") for name in ("HEAD", "index", "logs/HEAD")) if git_folder else ()


@functools.lru_cache(maxsize=16)
def _git_folder(folder: str) -> str | None:
    return (git.output(Path(folder), "rev-parse", "--absolute-git-dir") or "").strip() or None


def _modified_at(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns  # noqa: PTH116 - called for every new tracker
    except OSError:
        return 0
