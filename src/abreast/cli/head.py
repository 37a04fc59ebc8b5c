"""`abreast head`: the first rows of a table."""

from __future__ import annotations

import argparse

from abreast.cli import picking, tables

EPILOG = """  abreast head                               of predictions, in the store of this folder
  abreast head results.db metrics -n 20
  abreast head results.db --columns model,accuracy"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", metavar="[STORE] [TABLE]", nargs="*")
    parser.add_argument("-n", "--n", dest="rows", type=int, default=5, metavar="N", help="how many rows (5)")
    picking.columns_argument(parser)
    picking.arguments(parser)
    tables.argument(parser)


def main(args: argparse.Namespace) -> int:
    return show(args, "head")


def show(args: argparse.Namespace, command: str) -> int:
    from abreast.errors import BadInput
    from abreast.store.tables import read

    if args.rows < 0:
        raise BadInput(f"{command}: -n {args.rows} is not a number of rows", f"abreast {command} -n 5")
    store, words = picking.split(args)
    with store:
        picking.at_most(command, words, 1, "[STORE] [TABLE]")
        name = picking.table(args, *words)
        amount = {"first" if command == "head" else "last": args.rows}
        rows = read(store, name, keys=picking.columns(args), **amount).rows()
        if args.json:
            tables.show(rows, True, "")
        elif rows:
            tables.show_fitted(rows)
        else:
            tables.show([], False, picking.nothing(store, name))
    return 0
