"""Folders for what belongs to a trial and not into its workspace: its prompt, its output, its temporary files.

They are used again where that is safe: to make and remove files and folders takes longer than many a program.
"""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

from abreast.targets.workspace.place import drop_empty, new_folder, rename_folder
from abreast.targets.workspace.removal import remove_tree

TEMPORARY = "tmp"
PROMPT = "prompt.txt"
OUTPUT = ("stdout", "stderr")


class ScratchFolders:
    """The scratch folders of a target. Its methods may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spares: list[Path] = []

    def take(self) -> Path:
        """A folder with an empty folder `tmp` in it, at a path that no trial has seen."""
        while spare := self._next():
            if _empty(spare):
                return rename_folder(spare)
            _remove(spare)
        folder = new_folder("scratch")
        (folder / TEMPORARY).mkdir(0o700)
        return folder

    def _next(self) -> Path | None:
        with self._lock:
            return self._spares.pop() if self._spares else None

    def give_back(self, folder: Path, reuse: bool) -> None:
        """Remove a folder; with `reuse` another trial has it first, which empties it and takes no time here. No process
        must be left that could write there. Never raises."""
        if reuse:
            with self._lock:
                self._spares.append(folder)
        else:
            _remove(folder)

    def close(self) -> None:
        while spare := self._next():
            _remove(spare)


def write_prompt(folder: Path, prompt: bytes) -> Path:
    """Write the prompt of a trial into its scratch folder, over that of an earlier one if there is one."""
    path = folder / PROMPT
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    with os.fdopen(descriptor, "wb") as file:
        file.write(prompt)
        file.truncate()
    return path


def _remove(folder: Path) -> None:
    remove_tree(folder)
    drop_empty(folder)


def _empty(folder: Path) -> bool:
    """Remove everything but the empty folder `tmp`, the prompt and empty files of our own. False if that fails.

    Files with output are not made empty instead: Linux writes what comes next to the disk at once, and waits for it.
    """
    has_temporary = False
    try:
        with os.scandir(folder) as entries:
            listed = list(entries)
        for entry in listed:
            found = entry.stat(follow_symlinks=False)
            if entry.name == TEMPORARY and found.st_mode == stat.S_IFDIR | 0o700:
                has_temporary = True
                with os.scandir(entry.path) as leftovers:
                    if not all(remove_tree(Path(leftover.path)) for leftover in leftovers):
                        return False
            elif stat.S_ISDIR(found.st_mode):
                if not remove_tree(Path(entry.path)):
                    return False
            elif not _is_reusable(entry.name, found):
                os.unlink(entry.path)  # noqa: PTH108 - at every trial
    except OSError:
        return False
    return has_temporary


def _is_reusable(name: str, found: os.stat_result) -> bool:
    """Whether the next trial can write to this file. An agent may have put a link in its place, or made one to it."""
    is_ours = stat.S_ISREG(found.st_mode) and found.st_nlink == 1 and found.st_uid == os.getuid()
    return is_ours and (name == PROMPT or (name in OUTPUT and not found.st_size))
