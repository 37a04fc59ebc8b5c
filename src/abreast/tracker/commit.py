"""The commit of the code that runs, and whether files differ from it."""

from __future__ import annotations

import functools
import os
import time
from pathlib import Path
from typing import NamedTuple

from abreast.plan import git


class CodeCommit(NamedTuple):
    """As `git rev-parse --short HEAD` says it; None where there is no repository."""

    code_commit: str | None
    code_dirty: bool | None


def current_commit() -> CodeCommit:
    """Of the folder this process works in. Git is asked again only when its own files changed."""
    try:
        folder, now = os.getcwd(), time.monotonic()  # noqa: PTH109 - a plain text is what is wanted
    except OSError:  # the folder was removed
        return CodeCommit(None, None)
    known = _last.get(folder)
    if known is None or now - known[0] > LOOK_AGAIN_S:
        known = _last[folder] = (now, _commit(folder, _state(folder)))
    return known[1]


LOOK_AGAIN_S = 1.0
_last: dict[str, tuple[float, CodeCommit]] = {}


@functools.lru_cache(maxsize=16)
def _commit(folder: str, _state: tuple[int, ...]) -> CodeCommit:
    found = (git.ask(Path(folder), "rev-parse", "--short", "HEAD") or "").strip()
    if not found:
        return CodeCommit(None, None)
    return CodeCommit(found, bool(git.ask(Path(folder), "status", "--porcelain", "--untracked-files=no")))


def _state(folder: str) -> tuple[int, ...]:
    place = _git_folder(folder)
    return tuple(_modified_at(f"{place}/{name}") for name in ("HEAD", "index", "logs/HEAD")) if place else ()


@functools.lru_cache(maxsize=16)
def _git_folder(folder: str) -> str | None:
    return (git.ask(Path(folder), "rev-parse", "--absolute-git-dir") or "").strip() or None


def _modified_at(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns  # noqa: PTH116 - of every new tracker
    except OSError:
        return 0
