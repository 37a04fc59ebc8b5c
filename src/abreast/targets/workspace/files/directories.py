"""The folders of trials: where they lie, and how they are removed whatever is in them.

They lie below a root of this user, in a folder for each driver, in subtrees that nobody can list.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

from abreast.errors import TrialError
from abreast.model import Blame
from abreast.store.user_state.drivers import ROOT_VARIABLE, driver_folder, register, root

ROUNDS = 1_000
REMOVALS = 3  # attempts: something may still be writing there
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


def walk(folder: Path, enters: Callable[[str], bool]) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Everything below a folder by its path from there, inside of folders where `enters` agrees. Raises OSError."""
    waiting = [""]
    while waiting:
        here = waiting.pop()
        with os.scandir(folder / here) as entries:
            for entry in entries:
                name = f"{here}/{entry.name}" if here else entry.name
                yield name, entry
                if entry.is_dir(follow_symlinks=False) and enters(name):
                    waiting.append(name)


def remove_tree(path: Path) -> bool:
    """Remove it. Never follows a link, never raises; whether nothing is left."""
    for _ in range(REMOVALS):
        with contextlib.suppress(OSError, RecursionError):
            shutil.rmtree(path)
        if not os.path.lexists(path):
            return True
        with contextlib.suppress(OSError):
            if path.is_symlink() or not path.is_dir():
                path.unlink()
            else:
                _flatten(path)
        if not os.path.lexists(path):
            return True
    return False


def _flatten(path: Path) -> None:
    """Empty a folder: every folder inside is moved to the top before it is emptied, so that no depth matters."""
    path.chmod(0o700)
    top = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        waiting = ["."]
        while waiting:
            name = waiting.pop()
            try:
                here = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=top)
            except OSError:
                continue
            try:
                for entry in os.listdir(here):  # noqa: PTH208 - of an open folder
                    with contextlib.suppress(OSError):
                        if not stat.S_ISDIR(os.lstat(entry, dir_fd=here).st_mode):
                            os.unlink(entry, dir_fd=here)
                        else:
                            os.chmod(entry, 0o700, dir_fd=here)
                            moved = secrets.token_hex(12)
                            os.rename(entry, moved, src_dir_fd=here, dst_dir_fd=top)
                            waiting.append(moved)
            finally:
                os.close(here)
            if name != ".":
                with contextlib.suppress(OSError):
                    os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)
