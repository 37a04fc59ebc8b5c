"""Where workspaces lie: a root of this user, below it a folder for each run, below that subtrees nobody can list."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Literal

import psutil

from abreast.errors import TrialError
from abreast.model import Blame
from abreast.targets.orphans import MARK
from abreast.targets.workspace.removal import remove_tree

ROOT = "ABREAST_WORKSPACES"
UNMARKED = "none-"
ROUNDS = 1_000
Subtree = Literal["trials", "templates", "sources", "measures", "scratch"]


class NoWorkspace(TrialError):
    """A workspace could not be made. No variant's fault."""

    kind = "workspace"
    blame: Blame = "infrastructure"


def root() -> Path:
    """The folder of all workspaces of this user; it need not be there yet."""
    told = os.environ.get(ROOT)
    return Path(told).absolute() if told else Path(tempfile.gettempdir()).absolute() / f"abreast-{os.getuid()}"


def new_folder(subtree: Subtree) -> Path:
    """A new, empty folder of this run with a name that nobody guesses."""
    for _ in range(ROUNDS):
        place = _run_folder() / subtree
        made = place / secrets.token_hex(6)
        with contextlib.suppress(FileNotFoundError):  # somebody removed the folder above, which was empty until now
            with contextlib.suppress(FileExistsError):
                place.mkdir(0o300)
            made.mkdir(0o700)
            return made
    raise NoWorkspace(f"{root()} is removed again and again; set ${ROOT} to a folder that stays")


def _run_folder() -> Path:
    place = root()
    try:
        place.mkdir(0o700, parents=True, exist_ok=True)
        found = place.lstat()
        if not os.environ.get(ROOT) and (not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid()):
            raise NoWorkspace(f"{place} belongs to somebody else; set ${ROOT} to a folder of your own")
        run = place / (_safe(os.environ.get(MARK)) or f"{UNMARKED}{os.getpid()}")
        run.mkdir(0o700, exist_ok=True)
    except OSError as error:
        raise NoWorkspace(f"{place}: {error.strerror or error}; set ${ROOT} to a folder that can be written") from error
    return run


def _safe(mark: str | None) -> str:
    """A mark as a name: it is digits and letters, or it is none of ours."""
    return mark if mark and mark.replace("-", "").isalnum() and mark.isascii() and not mark.startswith("-") else ""


def drop_empty(folder: Path) -> None:
    """Remove the subtree and the run's folder above what was removed, if nothing else is in them."""
    for above in (folder.parent, folder.parent.parent):
        with contextlib.suppress(OSError):
            above.rmdir()


def remove_abandoned(marks: Collection[str]) -> int:
    """Remove the folders of runs whose driver is dead, and of drivers without a mark that are. How many there were."""
    places = [root() / name for name in map(_safe, marks) if name]
    with contextlib.suppress(OSError):
        places += [entry for entry in root().iterdir() if _has_no_driver(entry.name)]
    found = [place for place in places if place.is_dir() and not place.is_symlink()]
    for place in found:
        remove_tree(place)
    return len(found)


def _has_no_driver(name: str) -> bool:
    pid = name.removeprefix(UNMARKED)
    return name.startswith(UNMARKED) and pid.isdigit() and not psutil.pid_exists(int(pid))


def repository_above(folder: Path) -> Path | None:
    """The repository that git would find from there by walking up."""
    return next((above for above in (folder, *folder.parents) if (above / ".git").exists()), None)


def seen_from(folder: Path, text: str) -> str:
    """The same with paths of the workspace as they are seen from it: the folder is the trial's, and gone tomorrow."""
    for path in sorted({str(folder), str(folder.resolve())}, key=len, reverse=True):  # one may end like the other
        text = text.replace(f"{path}{os.sep}", "")
    return text
