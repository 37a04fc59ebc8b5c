"""`abreast cache`: what can be reused; clear it."""

from __future__ import annotations

import argparse
import sys

from abreast.cli import stores, tables
from abreast.errors import BadInput


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("stats", "clear"))
    parser.add_argument("--experiment", metavar="NAME", help="only of this experiment")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    stores.argument(parser)
    tables.argument(parser)


def main(args: argparse.Namespace) -> int:
    with stores.find_store(args.store) as store:
        if args.action == "stats":
            tables.show(store.reusable(args.experiment), args.json, "nothing can be reused yet")
            return 0
        if not args.yes and not sys.stdin.isatty():
            raise BadInput("cache clear needs --yes where nobody can be asked")
        if not args.yes:
            print("forget what can be reused? Rows and reports stay. [y/N] ", end="", file=sys.stderr, flush=True)
            if sys.stdin.readline().strip().lower() not in ("y", "yes"):
                return 1
        print(f"cleared: {store.forget(args.experiment):,} answers will not be reused; their rows stay")
    return 0
