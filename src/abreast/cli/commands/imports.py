"""`abreast import`: logs of other tools as runs."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from abreast.cli import store_argument
from abreast.cli.command import argument, command
from abreast.cli.log_options import LOG_OPTIONS, import_options
from abreast.output import echo, listings, say
from abreast.store.address import DEFAULT
from abreast.text import many

if TYPE_CHECKING:
    from abreast.importers.importing import Imported


@command(
    "import",
    argument("files", metavar="FILE", nargs="+", help="a log: a file, or the folder that a tool wrote"),
    argument("--format", metavar="F", help="the format of the files (default: recognised by their content)"),
    *LOG_OPTIONS,
    argument(
        "--store", metavar="S", help=f"the store (default: $ABREAST_STORE, else the only one here, else {DEFAULT})"
    ),
    "--json",
    epilog="""Each file becomes a run; importing it again changes nothing.
  abreast import logs/2026-11-19_gsm8k.eval
  abreast import results.csv --map case=question_id,variant=model,score=correct
  abreast import junit.xml --store results.db""",
)
def import_files(args: argparse.Namespace) -> None:
    from abreast.importers.importing import import_log

    options = import_options(args, args.format)
    with store_argument.find_or_create_store(args.store) as store:
        imported = []
        for file in args.files:
            imported.append(import_log(store, Path(file), options))
            if not args.json:
                _print(imported[-1])  # at once: a later file may be damaged
        if args.json:
            listings.show_json([asdict(item) for item in imported])
            return
        for note in dict.fromkeys(note for item in imported for note in item.notes):
            say(f"  {note}")


def _print(imported: Imported) -> None:
    if not imported.is_new:
        echo(f"{imported.file}: already imported as {imported.run}")
        return
    echo(f"{imported.file}: {many(imported.trials, 'trial')} of {imported.tool} → {imported.run}")
