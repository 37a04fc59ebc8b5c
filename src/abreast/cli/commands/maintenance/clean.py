"""`abreast clean`: remove what killed runs left behind."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from abreast.cli.store_argument import add_shared
from abreast.output import echo, listings, say

if TYPE_CHECKING:
    from abreast.targets.processes.cleanup import Cleanup

EPILOG = """A run that is killed (kill -9, out of memory, power failure) can leave processes, workspaces and temporary
files behind. run, resume, check and delete remove them too. Live runs are not touched, nor are workspaces kept by
--keep-workspaces. Exit code 1: something could not be removed."""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="show what would be removed, and remove nothing")
    add_shared(parser, "--json")


def main(args: argparse.Namespace) -> int:
    from abreast.targets.processes.cleanup import clean

    cleanup = clean(args.dry_run)
    if args.json:
        listings.show_json(_rows(cleanup, args.dry_run))
    else:
        _print(cleanup, args.dry_run)
    for problem in cleanup.problems:
        say(f"error: cannot remove {problem}")
    for host in sorted(set(cleanup.elsewhere)):
        say(f"note: runs on {host} are not visible from here; run abreast clean there")
    return 1 if cleanup.problems else 0


def _rows(cleanup: Cleanup, dry_run: bool) -> list[dict[str, Any]]:
    return [
        *(
            {"kind": "process", "pid": process.pid, "command": process.command, "removed": not dry_run}
            for process in cleanup.processes
        ),
        *(
            {
                "kind": "folder",
                "path": str(folder.path),
                "bytes": folder.size,
                "removed": not dry_run and not folder.problem,
                "problem": folder.problem or None,
            }
            for folder in cleanup.folders
        ),
    ]


def _print(cleanup: Cleanup, dry_run: bool) -> None:
    from abreast.report.page.trial_artifacts import in_bytes

    ended, removed = ("would end", "would remove") if dry_run else ("ended", "removed")
    for process in cleanup.processes:
        echo(f"{ended} process {process.pid}: {listings.cut(listings.line(process.command), listings.CELL)}")
    for folder in cleanup.folders:
        if not folder.problem:
            echo(f"{removed} {folder.path} ({in_bytes(folder.size)})")
    if not cleanup:
        say("nothing to clean")
