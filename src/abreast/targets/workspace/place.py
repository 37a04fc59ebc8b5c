"""Where workspaces lie: a root of this user, below it a folder for each driver, below that subtrees nobody can list."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path
from typing import Literal

from abreast.errors import TrialError
from abreast.model import Blame
from abreast.store.drivers import ROOT_VARIABLE, driver_folder, root

ROUNDS = 1_000
Subtree = Literal["trials", "templates", "sources", "measures", "scratch"]


class NoWorkspace(TrialError):
    """A workspace could not be made. No variant's fault."""

    kind = "workspace"
    blame: Blame = "infrastructure"


def new_folder(subtree: Subtree) -> Path:
    """A new, empty folder of this process with a name that cannot be guessed."""
    for _ in range(ROUNDS):
        try:
            place = driver_folder() / subtree
        except OSError as error:
            raise NoWorkspace(
                f"{error.filename or root()}: {error.strerror or error}; "
                f"set ${ROOT_VARIABLE} to a folder that you can write"
            ) from error
        made = place / secrets.token_hex(6)
        with contextlib.suppress(FileNotFoundError):  # another thread removed the folder above, which was still empty
            with contextlib.suppress(FileExistsError):
                place.mkdir(0o300)
            made.mkdir(0o700)
            return made
    raise NoWorkspace(f"{root()} is removed again and again; set ${ROOT_VARIABLE} to a folder that stays")


def drop_empty(folder: Path) -> None:
    """Remove the subtree and the run's folder above what was removed, if nothing else is in them."""
    for above in (folder.parent, folder.parent.parent):
        with contextlib.suppress(OSError):
            above.rmdir()


def repository_above(folder: Path) -> Path | None:
    """The repository that git would find from there by walking up."""
    return next((above for above in (folder, *folder.parents) if (above / ".git").exists()), None)


def seen_from(folder: Path, text: str) -> str:
    """The same with paths of the workspace as they are seen from it: the folder is the trial's, and gone tomorrow."""
    for path in sorted({str(folder), str(folder.resolve())}, key=len, reverse=True):  # one may end like the other
        text = text.replace(f"{path}{os.sep}", "")
    return text
