"""`abreast import`: logs of other tools as runs."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from abreast.cli import store_argument
from abreast.cli.command import Argument, argument, command
from abreast.errors import BadInput
from abreast.output import echo, listings, say
from abreast.store.address import DEFAULT
from abreast.text import many

if TYPE_CHECKING:
    from abreast.importers.importing import Imported, Range
    from abreast.store import Store

LOG_OPTIONS: tuple[Argument, ...] = (
    argument(
        "--map",
        metavar="FIELD=COLUMN",
        action="append",
        default=[],
        help="columns of a CSV or JSON lines file: case=id,variant=model,score=correct; repeatable",
    ),
    argument(
        "--range",
        metavar="SCORE=LOW..HIGH",
        action="append",
        default=[],
        help="lowest and highest possible value of a score that is not from 0 to 1; repeatable",
    ),
)


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
    with store_argument.find_or_create_store(args.store) as store:
        imported = import_all(store, args.files, args)
        if args.json:
            listings.show_json([asdict(item) for item in imported])
            return
        for item in imported:
            _print(item)


def import_all(store: Store, files: list[str], args: argparse.Namespace) -> list[Imported]:
    from abreast.importers.importing import import_log

    columns, ranges = parse_columns(args.map), parse_ranges(args.range)
    return [import_log(store, Path(file), args.format, columns, ranges) for file in files]


def _print(imported: Imported) -> None:
    if not imported.is_new:
        echo(f"{imported.file}: already imported as {imported.run}")
        return
    echo(f"{imported.file}: {many(imported.trials, 'trial')} of {imported.tool} → {imported.run}")
    for note in imported.notes:
        say(f"  {note}")


def parse_columns(words: list[str]) -> dict[str, str]:
    """Columns by field. A word without `=` is a further column of the field before it.

    >>> parse_columns(["case=id,score=exact,f1", "variant=model"])
    {'case': 'id', 'score': 'exact,f1', 'variant': 'model'}
    """
    columns: dict[str, str] = {}
    last = ""
    for part in ",".join(words).split(",") if words else ():
        name, equals, column = part.partition("=")
        if equals and column:
            last, columns[name] = name, column
        elif last and not equals and part:
            columns[last] += f",{part}"
        else:
            raise BadInput(
                f"--map {','.join(words)}: not FIELD=COLUMN", "use --map case=id,variant=model,score=correct"
            )
    return columns


def parse_ranges(words: list[str]) -> dict[str, Range]:
    """Lowest and highest value by score.

    >>> parse_ranges(["bleu=0..100"])
    {'bleu': (0.0, 100.0)}
    """
    ranges: dict[str, Range] = {}
    for word in words:
        name, _, limits = word.rpartition("=")
        low, _, high = limits.partition("..")
        try:
            ranges[name] = float(low), float(high)
        except ValueError:
            raise BadInput(f"--range {word}: not SCORE=LOW..HIGH", "use --range bleu=0..100") from None
        if not name or not ranges[name][0] < ranges[name][1]:
            raise BadInput(f"--range {word}: the lowest value must be below the highest", "use --range bleu=0..100")
    return ranges
