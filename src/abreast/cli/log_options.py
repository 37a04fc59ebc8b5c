"""The options of commands that read logs of other tools."""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING

from abreast.cli.command import Argument, argument
from abreast.errors import BadInput

if TYPE_CHECKING:
    from abreast.importers.base import ImportOptions, Range

LOG_OPTIONS: tuple[Argument, ...] = (
    argument(
        "--map",
        metavar="FIELD=COLUMN",
        action="append",
        default=[],
        help="columns of a CSV or JSON lines file: case=id,variant=model,score=correct; repeatable",
    ),
    argument("--score", metavar="NAME", help="the score that the verdict uses, if a log has several"),
    argument(
        "--range",
        metavar="SCORE=LOW..HIGH",
        action="append",
        default=[],
        help="lowest and highest possible value of a score that is not from 0 to 1; repeatable",
    ),
)


def import_options(args: argparse.Namespace, log_format: str | None = None) -> ImportOptions:
    from abreast.importers.base import ImportOptions

    return ImportOptions(
        format=log_format, columns=parse_columns(args.map), ranges=parse_ranges(args.range), score=args.score
    )


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
        if not all(map(math.isfinite, ranges[name])):
            raise BadInput(f"--range {word}: both values must be finite", "use --range bleu=0..100")
    return ranges
