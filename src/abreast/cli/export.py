"""`abreast export`: rows as CSV, parquet or JSON lines."""

from __future__ import annotations

import argparse
import sys

from abreast.cli import stores


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", nargs="?", help="only this run; all if left out")
    parser.add_argument("--format", choices=("csv", "parquet", "jsonl"), default="csv")
    parser.add_argument("--table", choices=("predictions", "metrics"), default="predictions")
    parser.add_argument("--output", metavar="FILE", help="a file; standard output if left out (not for parquet)")
    stores.argument(parser)


def main(args: argparse.Namespace) -> int:
    from abreast.report.table import export

    with stores.find_store(args.store) as store:
        run = store.run(args.run)["run"] if args.run else None
        count = export(store, args.table, run, args.format, args.output)
    print(f"{count:,} rows", file=sys.stderr)
    return 0
