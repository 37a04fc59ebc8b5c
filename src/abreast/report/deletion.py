"""Deletion of runs with their reports."""

from __future__ import annotations

from collections.abc import Sequence

from abreast.filenames import relative_path
from abreast.report import folder
from abreast.store import Store
from abreast.text import many


def delete_runs(store: Store, runs: Sequence[str]) -> list[str]:
    """Delete runs and what abreast wrote for them; return what was done, line by line. Refuses active runs."""
    removed = store.delete(runs)
    store.close()
    lines = [f"deleted {', '.join(runs)}: {many(removed, 'trial')}"]
    for run in runs:
        path, foreign = folder.remove(store, run) or (None, [])
        if foreign and path:
            lines.append(
                f"kept {relative_path(path)}: {', '.join(foreign)} was not written by abreast, or changed since"
            )
        elif path:
            lines.append(f"removed {relative_path(path)} with its report")
    return lines
