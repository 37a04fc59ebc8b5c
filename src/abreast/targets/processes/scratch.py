"""Folders for what belongs to a trial and not into its workspace: its prompt, its output, its temporary files.

They are used again where that is safe: to make and remove files and folders takes longer than many a program.
"""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

from abreast.targets.workspace.files.directories import new_folder, remove_empty_parents, remove_tree, rename_folder

TEMPORARY = "tmp"
PROMPT = "prompt.txt"


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
        """Remove a folder, or with `reuse` keep it for another trial, which empties it: no process must be left that
        could write there. Never raises."""
        if reuse:
            with self._lock:
                self._spares.append(folder)
        else:
            _remove(folder)

    def close(self) -> None:
        while spare := self._next():
            _remove(spare)


def write_prompt(folder: Path, prompt: bytes) -> Path:
    path = folder / PROMPT
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        written = os.write(descriptor, prompt)
        while written < len(prompt):
            written += os.write(descriptor, memoryview(prompt)[written:])
    finally:
        os.close(descriptor)
    return path


def _remove(folder: Path) -> None:
    remove_tree(folder)
    remove_empty_parents(folder)


def _empty(folder: Path) -> bool:
    """Remove everything but the empty folder `tmp`. False if that fails. Files are not made empty instead: Linux would
    write what comes next to the disk at once, and wait for it."""
    try:
        names = os.listdir(folder)  # noqa: PTH208 - at every trial
        if TEMPORARY not in names:
            return False
        temporary = f"{folder}/{TEMPORARY}"
        if os.lstat(temporary).st_mode != stat.S_IFDIR | 0o700:
            return False
        leftovers = [f"{temporary}/{name}" for name in os.listdir(temporary)]  # noqa: PTH208
    except OSError:
        return False
    return all(map(_delete, [f"{folder}/{name}" for name in names if name != TEMPORARY] + leftovers))


def _delete(path: str) -> bool:
    try:
        os.unlink(path)  # noqa: PTH108 - at every trial
    except OSError:  # a folder
        return remove_tree(Path(path))
    return True
