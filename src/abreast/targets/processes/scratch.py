"""Scratch folders: the files of a trial outside its workspace, such as its prompt, output and temporary files.

They are reused where that is safe: creating and removing files takes longer than many programs run.
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
    """The scratch folders of a target. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spares: list[Path] = []

    def take(self) -> Path:
        """Return a folder that contains an empty folder `tmp`, at a path that no trial has used."""
        while spare := self._pop_spare():
            if _empty_folder(spare):
                return rename_folder(spare)
            _remove(spare)
        folder = new_folder("scratch")
        (folder / TEMPORARY).mkdir(0o700)
        return folder

    def _pop_spare(self) -> Path | None:
        with self._lock:
            return self._spares.pop() if self._spares else None

    def release(self, folder: Path, reuse: bool) -> None:
        """Remove a folder, or with `reuse` keep it for another trial. Then all processes that could write there must
        have ended. Never raises."""
        if reuse:
            with self._lock:
                self._spares.append(folder)
        else:
            _remove(folder)

    def close(self) -> None:
        while spare := self._pop_spare():
            _remove(spare)


def write_prompt(folder: Path, prompt: bytes) -> Path:
    path = folder / PROMPT
    with path.open("xb") as file:
        file.write(prompt)
    return path


def _remove(folder: Path) -> None:
    remove_tree(folder)
    remove_empty_parents(folder)


def _empty_folder(folder: Path) -> bool:
    """Remove everything except the empty folder `tmp`; return whether that worked. Files are removed, not truncated:
    Linux writes what follows a truncation to the disk at once, and waits for it."""
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
