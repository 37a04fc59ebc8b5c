"""A copy of an agent's settings for one trial: what it writes there stays in the trial."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Collection
from pathlib import Path

LARGEST = 1_000_000  # bytes of a file in a folder
MOST = 20_000_000  # bytes of all of them
# What agents remember of earlier sessions; a trial begins without it.
LEFT_OUT = {
    *("projects", "sessions", "archived_sessions", "history", "logs", "log", "cache", "tmp", "todos", "debug"),
    *("shell-snapshots", "file-history", "statsig", "snapshot", "node_modules", ".git"),
}


def copy_settings(source: Path, to: Path, without: Collection[Path]) -> None:
    """Copy a file, or a folder without these files and without what is large or of earlier sessions."""
    to.parent.mkdir(parents=True, exist_ok=True)
    if source.is_file():
        shutil.copy(source, to)
        return
    to.mkdir(0o700)
    room = MOST
    for folder, names, files in os.walk(source):
        names[:] = [name for name in names if name not in LEFT_OUT]
        place = to / Path(folder).relative_to(source)
        place.mkdir(exist_ok=True)
        for name in files:
            file = Path(folder, name)
            with contextlib.suppress(OSError):
                size = file.stat().st_size
                if file.is_file() and file not in without and size <= min(LARGEST, room):
                    shutil.copy(file, place / name)
                    room -= size
