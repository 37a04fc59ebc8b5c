"""The store of `Tracker(":memory:")`: a file that goes with its tracker.

It is a file, and not SQLite's own memory, so that threads, forked and pickled trackers share it like any other.
"""

from __future__ import annotations

import contextlib
import os
import weakref
from pathlib import Path

from abreast.store.user_state.drivers import driver_folder
from abreast.tracker import journal as journals

IN_MEMORY = ":memory:"


def temporary_store(owner: object) -> str:
    """A path for a new store, whose folder is removed with its owner, or when this process ends."""
    import tempfile  # late: it imports much

    journals.close_removed()
    folder = tempfile.mkdtemp(prefix="memory-", dir=driver_folder())
    weakref.finalize(owner, _remove, folder, os.getpid())
    return os.path.join(folder, "memory.db")  # noqa: PTH118 - a plain text is what is wanted


def _remove(folder: str, process: int) -> None:
    import shutil  # late: it imports much

    if os.getpid() == process:  # a forked process has a tracker of the same store
        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):  # another store is in it
            Path(folder).parent.rmdir()
