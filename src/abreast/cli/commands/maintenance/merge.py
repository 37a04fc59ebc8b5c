"""`abreast merge`: several stores into one; nothing is lost, nothing doubled."""

from __future__ import annotations

import argparse
import shlex
from contextlib import ExitStack

from abreast.cli import store_argument
from abreast.errors import BadInput

EPILOG = """the last store gets what it does not have, as with copy; or say which with --into:
  abreast merge monday.db week.db
  abreast merge monday.db tuesday.db --into week.db
  abreast merge laptop.db --into results.db"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sources", metavar="STORE", nargs="+")
    parser.add_argument(
        "--into", metavar="TARGET", help="the store that gets everything (the last one); made if it is not there"
    )
    store_argument.add_shared(parser, "--json")


def main(args: argparse.Namespace) -> int:
    from abreast.cli.commands.maintenance.copy import bring, is_same
    from abreast.store import open_store

    given, into = list(args.sources), args.into
    if into is None and len(given) < 2:
        raise BadInput("merge: which store gets everything?", f"abreast merge {shlex.quote(given[0])} --into TARGET")
    if into is None:
        into = given.pop()
    with ExitStack() as stack:
        target = open_store(into)
        sources = [stack.enter_context(store_argument.find_store(name)) for name in given]
        others = [source for source in sources if not is_same(source, target)]
        return bring(into, others or sources, None, args.json)
