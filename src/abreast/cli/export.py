"""`abreast export`: rows as CSV, parquet or JSON lines."""

from __future__ import annotations

import argparse
import sys

from abreast.cli import stores
from abreast.errors import BadInput


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "run", metavar="NAME", nargs="?", help="only this run (name or label) or track_id; default: all rows"
    )
    parser.add_argument("--format", choices=("csv", "parquet", "jsonl"), help="by the ending of --output, else csv")
    parser.add_argument("--table", metavar="T", default="predictions", help="any table (predictions if left out)")
    parser.add_argument("--output", metavar="FILE", help="a file; standard output if left out (not for parquet)")
    stores.argument(parser)


def main(args: argparse.Namespace) -> int:
    from abreast.report.sentence import many
    from abreast.report.table import export
    from abreast.store.tables import written_as
    from abreast.store.tracked import plain_name

    with stores.find_store(args.store) as store:
        name = args.run
        if name and not written_as(store, name):
            name = store.run(name)["run"]
        count = export(store, plain_name(args.table), name, args.format or _format_of(args.output), args.output)
    print(many(count, "row"), file=sys.stderr)
    return 0


def _format_of(output: str | None) -> str:
    if output is None:
        return "csv"
    ending = output.rpartition(".")[2].lower()
    if ending not in ("csv", "parquet", "jsonl"):
        raise BadInput(f"--output {output}: its ending says no format", "name it .csv, .parquet or .jsonl, or --format")
    return ending
