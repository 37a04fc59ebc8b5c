"""`abreast merge`: several stores into one; nothing is lost, nothing doubled."""

from __future__ import annotations

import argparse
import shlex
from contextlib import ExitStack

from abreast.cli import stores, tables
from abreast.errors import BadInput

EPILOG = """the stores that are named stay as they are, the one after --into gets what it does not have:
  abreast merge monday.db tuesday.db --into week.db
  abreast merge laptop.db --into results.db"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sources", metavar="STORE", nargs="+")
    parser.add_argument("--into", metavar="TARGET", help="the store that gets everything; made if it is not there")
    tables.argument(parser)


def main(args: argparse.Namespace) -> int:
    from abreast.cli.copying import bring, is_same
    from abreast.store import open_store

    if args.into is None:
        given = list(map(shlex.quote, args.sources))
        raise BadInput(
            "merge: which store gets everything?",
            f"abreast merge {' '.join(given[1:] or given)} --into {given[0] if len(given) > 1 else 'TARGET'}",
        )
    with ExitStack() as stack:
        target = open_store(args.into)
        sources = [stack.enter_context(stores.find_store(name)) for name in args.sources]
        others = [source for source in sources if not is_same(source, target)]
        return bring(args.into, others or sources, None, args.json)
