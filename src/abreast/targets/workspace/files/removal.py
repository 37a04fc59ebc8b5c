"""Removing a folder whatever is in it: read-only files, folders without permissions, trees deeper than any path."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
from pathlib import Path

ROUNDS = 3  # something may still be writing there


def remove_tree(path: Path) -> bool:
    """Remove it. Never follows a link, never raises; whether nothing is left."""
    for _ in range(ROUNDS):
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
    _open_up(path)
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


def _open_up(path: Path) -> None:
    if not path.is_symlink():
        path.chmod(0o700)
