"""`abreast copy`: a store, or tables of it, into another store."""

from __future__ import annotations

import argparse

from abreast.cli import store_argument
from abreast.cli.store_argument import add_shared

EPILOG = """TARGET may exist, and be of the other engine; what it has already is not doubled:
  abreast copy results.db results.duckdb
  abreast copy results.db shared.db --table predictions --table metrics"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="SOURCE")
    parser.add_argument("target", metavar="TARGET")
    parser.add_argument(
        "--table", metavar="T", action="append", help="only what was tracked in this table; may be given several times"
    )
    parser.add_argument("--no-assets", action="store_true", help="leave objects that rows refer to behind")
    add_shared(parser, "--json")


def main(args: argparse.Namespace) -> int:
    from abreast.cli.commands.maintenance.transfer import bring

    with store_argument.find_store(args.source) as source:
        return bring(args.target, [source], args.table, args.json, not args.no_assets)
