"""`abreast columns`: the columns of a table, with the type and the latest value of each."""

from __future__ import annotations

import argparse

from abreast.cli import store_argument
from abreast.output import listings

LOOKED_AT = 100  # rows, the newest, in which a value is looked for


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", metavar="[STORE] [TABLE]", nargs="*")
    store_argument.add_shared(parser, "--table", "--engine", "--store", "--json")


def main(args: argparse.Namespace) -> int:
    from abreast.store.user_tables.cells import cell
    from abreast.store.user_tables.tables import read

    store, words = store_argument.store_and_words(args)
    with store:
        store_argument.refuse_more_words("columns", words, "[STORE] [TABLE]")
        frame = read(store, store_argument.table_name(args, *words), last=LOOKED_AT)
    found = []
    for key, values in frame.columns.items():
        latest = next((value for value in reversed(values) if value is not None), None)
        kind = frame.types[key] or cell(latest).type
        found.append({"column": key, "type": None if kind == "null" else kind, "latest": latest})
    listings.show(found, args.json, "no columns")
    return 0
