"""Create and remove the folders of trials, whatever they contain.

Their paths are ROOT/DRIVER/SUBTREE/NAME: each user has a root, each process (driver) a folder in it, and subtrees have
no read permission, so that names cannot be listed.
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

MAX_ATTEMPTS = 1_000
REMOVAL_ATTEMPTS = 3  # something may still be writing there
Subtree = Literal["trials", "templates", "sources", "measures", "scratch"]


class NoWorkspace(TrialError):
    kind = "workspace"
    blame: Blame = "infrastructure"


def new_folder(subtree: Subtree) -> Path:
    """Create an empty folder for this process, with a name that cannot be guessed."""
    for _ in range(MAX_ATTEMPTS):
        folder = root() / register() / subtree / secrets.token_hex(6)
        with contextlib.suppress(FileNotFoundError):  # the subtree does not exist, or another thread just removed it
            folder.mkdir(0o700)
            return folder
        try:
            driver_folder().joinpath(subtree).mkdir(0o300)
        except (FileNotFoundError, FileExistsError):
            continue
        except OSError as error:
            raise NoWorkspace(
                f"{error.filename or root()}: {error.strerror or error}; set ${ROOT_VARIABLE} to a writable folder"
            ) from error
    raise NoWorkspace(f"{root()} keeps being removed; set ${ROOT_VARIABLE} to another folder")


def rename_folder(folder: Path) -> Path:
    """Give a folder from `new_folder` another name that cannot be guessed. Raises OSError."""
    renamed = folder.with_name(secrets.token_hex(6))
    os.rename(folder, renamed)  # noqa: PTH104 - faster, and called for every trial
    return renamed


def remove_empty_parents(folder: Path) -> None:
    """Remove the subtree and the driver's folder above a removed folder if they are empty."""
    with contextlib.suppress(OSError):
        folder.parent.rmdir()
        folder.parent.parent.rmdir()


def repository_above(folder: Path) -> Path | None:
    return next((path for path in (folder, *folder.parents) if (path / ".git").exists()), None)


def relative_paths(folder: Path, text: str) -> str:
    """Make the paths of a workspace in a text relative to it, since the folder is removed after the trial."""
    if os.sep not in text:
        return text
    for path in sorted({str(folder), str(folder.resolve())}, key=len, reverse=True):  # one may contain the other
        text = text.replace(f"{path}{os.sep}", "")
    return text


def walk(folder: Path, enters: Callable[[str], bool]) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield all entries below a folder with their relative paths; `enters` selects subfolders. Raises OSError."""
    pending = [""]
    while pending:
        parent = pending.pop()
        with os.scandir(folder / parent) as entries:
            for entry in entries:
                name = f"{parent}/{entry.name}" if parent else entry.name
                yield name, entry
                if entry.is_dir(follow_symlinks=False) and enters(name):
                    pending.append(name)


def remove_tree(path: Path) -> bool:
    """Remove a file or folder; return whether it is gone. Never follows a link, never raises."""
    for _ in range(REMOVAL_ATTEMPTS):
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
    """Empty a folder. Every subfolder is moved to the top before it is emptied, so that no depth is too large."""
    path.chmod(0o700)
    top = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        pending = ["."]
        while pending:
            name = pending.pop()
            try:
                current = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=top)
            except OSError:
                continue
            try:
                for entry in os.listdir(current):  # noqa: PTH208 - pathlib cannot list a file descriptor
                    with contextlib.suppress(OSError):
                        if not stat.S_ISDIR(os.lstat(entry, dir_fd=current).st_mode):
                            os.unlink(entry, dir_fd=current)
                        else:
                            os.chmod(entry, 0o700, dir_fd=current)
                            moved = secrets.token_hex(12)
                            os.rename(entry, moved, src_dir_fd=current, dst_dir_fd=top)
                            pending.append(moved)
            finally:
                os.close(current)
            if name != ".":
                with contextlib.suppress(OSError):
                    os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)
