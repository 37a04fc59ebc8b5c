"""Where workspaces lie: a root of this user, below it a folder for each driver, below that subtrees nobody can list."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path
from typing import Literal

from abreast.errors import TrialError
from abreast.model import Blame
from abreast.store.user_state.drivers import ROOT_VARIABLE, driver_folder, register, root

ROUNDS = 1_000
Subtree = Literal["trials", "templates", "sources", "measures", "scratch"]


class NoWorkspace(TrialError):
    """A workspace could not be made. No variant's fault."""

    kind = "workspace"
    blame: Blame = "infrastructure"


def new_folder(subtree: Subtree) -> Path:
    """A new, empty folder of this process with a name that cannot be guessed."""
    for _ in range(ROUNDS):
        folder = root() / register() / subtree / secrets.token_hex(6)
        with contextlib.suppress(FileNotFoundError):  # it is the first in there, or another thread removed the last
            folder.mkdir(0o700)
            return folder
        try:
            driver_folder().joinpath(subtree).mkdir(0o300)
        except (FileNotFoundError, FileExistsError):
            continue
        except OSError as error:
            raise NoWorkspace(
                f"{error.filename or root()}: {error.strerror or error}; "
                f"set ${ROOT_VARIABLE} to a folder that you can write"
            ) from error
    raise NoWorkspace(f"{root()} is removed again and again; set ${ROOT_VARIABLE} to a folder that stays")


def rename_folder(folder: Path) -> Path:
    """Give a folder that `new_folder` made another name that cannot be guessed. Raises OSError."""
    renamed = folder.with_name(secrets.token_hex(6))
    os.rename(folder, renamed)  # noqa: PTH104 - at every trial
    return renamed


def drop_empty(folder: Path) -> None:
    """Remove the subtree and the run's folder above what was removed, if nothing else is in them."""
    with contextlib.suppress(OSError):
        folder.parent.rmdir()
        folder.parent.parent.rmdir()


def repository_above(folder: Path) -> Path | None:
    """The repository that git would find from there by walking up."""
    return next((above for above in (folder, *folder.parents) if (above / ".git").exists()), None)


def seen_from(folder: Path, text: str) -> str:
    """The same with paths of the workspace as they are seen from it: the folder is the trial's, and gone tomorrow."""
    if os.sep not in text:
        return text
    for path in sorted({str(folder), str(folder.resolve())}, key=len, reverse=True):  # one may end like the other
        text = text.replace(f"{path}{os.sep}", "")
    return text
