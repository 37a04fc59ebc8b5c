"""`abreast export`: rows as CSV, parquet or JSON lines."""

from __future__ import annotations

import argparse

from abreast.cli import store_argument
from abreast.errors import BadInput
from abreast.output import is_read, say
from abreast.text import many


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "run", metavar="NAME", nargs="?", help="only this run (name or label) or track_id; default: all rows"
    )
    parser.add_argument("--format", choices=("csv", "parquet", "jsonl"), help="by the ending of --output, else csv")
    parser.add_argument("--table", metavar="T", default="predictions", help="any table (predictions if left out)")
    parser.add_argument("--output", metavar="FILE", help="a file; standard output if left out (not for parquet)")
    escape = "for spreadsheets: put ' before texts in a CSV file that would run as a formula (=, +, -, @)"
    parser.add_argument("--escape-formulas", action="store_true", help=escape)
    store_argument.add_shared(parser, "--store")


def main(args: argparse.Namespace) -> int:
    from abreast.report.formats.row_files import export
    from abreast.store.user_tables.tables import written_as
    from abreast.store.user_tables.tracked_rows import plain_name

    with store_argument.find_store(args.store) as store:
        name = args.run
        if name and not written_as(store, name):
            name = store.run(name)["run"]
        form = args.format or _format_of(args.output)
        if args.escape_formulas and form != "csv":
            raise BadInput(f"--escape-formulas is for CSV, not for {form}", "leave it out, or write --format csv")
        count = export(store, plain_name(args.table), name, form, args.output, args.escape_formulas)
    if is_read():
        say(many(count, "row"))
    return 0


def _format_of(output: str | None) -> str:
    if output is None:
        return "csv"
    ending = output.rpartition(".")[2].lower()
    if ending not in ("csv", "parquet", "jsonl"):
        raise BadInput(f"--output {output}: its ending says no format", "name it .csv, .parquet or .jsonl, or --format")
    return ending
