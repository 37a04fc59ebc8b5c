"""What was removed before this run, because killed runs had left it behind."""

from __future__ import annotations

from abreast.preflight.context import Context
from abreast.preflight.finding import Finding, many


def check(context: Context) -> Finding | None:
    cleanup = context.cleanup
    if cleanup.problems:
        return Finding("leftovers", "warn", f"cannot remove {cleanup.problems[0]}", "abreast clean shows all of them")
    if not cleanup:
        return None
    processes, folders = len(cleanup.processes), many(len(cleanup.folders), "folder")
    parts = [f"ended {processes:,} process{'' if processes == 1 else 'es'}"] if processes else []
    parts += [f"removed {folders} ({cleanup.size / 1e6:,.1f} MB)"] if cleanup.folders else []
    return Finding("leftovers", "note", f"{' and '.join(parts)} left behind by killed runs")
