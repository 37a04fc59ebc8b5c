"""`abreast head`: the first rows of a table."""

from __future__ import annotations

import argparse

from abreast.cli import store_argument
from abreast.output import listings

EPILOG = """  abreast head                               of predictions, in the store of this folder
  abreast head results.db metrics -n 20
  abreast head results.db --columns model,accuracy"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", metavar="[STORE] [TABLE]", nargs="*")
    parser.add_argument("-n", "--n", dest="rows", type=int, default=5, metavar="N", help="how many rows (5)")
    store_argument.add_shared(parser, "--columns", "--table", "--engine", "--store", "--json")


def main(args: argparse.Namespace) -> int:
    return show(args, "head")


def show(args: argparse.Namespace, command: str) -> int:
    from abreast.errors import BadInput
    from abreast.store.user_tables.tables import read

    if args.rows < 0:
        raise BadInput(f"{command}: -n {args.rows} is not a number of rows", f"abreast {command} -n 5")
    store, words = store_argument.store_and_words(args)
    with store:
        store_argument.refuse_more_words(command, words, "[STORE] [TABLE]")
        name = store_argument.table_name(args, *words)
        amount = {"first" if command == "head" else "last": args.rows}
        rows = read(store, name, keys=store_argument.column_names(args), **amount).rows()
        if args.json:
            listings.show_json(rows)
        elif rows:
            listings.show_fitted(rows)
        else:
            listings.show([], False, store_argument.no_rows(store, name))
    return 0
