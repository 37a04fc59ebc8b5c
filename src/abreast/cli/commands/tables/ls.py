"""`abreast ls`: the tables of a store, or the values of a column."""

from __future__ import annotations

import argparse

from abreast.cli import store_argument
from abreast.output import echo, listings

EPILOG = """  abreast ls results.db                      the tables, with rows and columns
  abreast ls results.db track_id --unique    a value a line, each once: for loops in a shell"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", metavar="[STORE] [COLUMN]", nargs="*")
    parser.add_argument("--unique", action="store_true", help="each value once, in the order of its first row")
    store_argument.add_shared(parser, "--table", "--engine", "--store", "--json")


def main(args: argparse.Namespace) -> int:
    from abreast.store.user_tables.tables import listed, read

    store, words = store_argument.store_and_words(args)
    with store:
        store_argument.refuse_more_words("ls", words, "[STORE] [COLUMN]")
        if not words:
            listings.show(listed(store), args.json, "no tables")
            return 0
        (column,) = words
        values = read(store, store_argument.table_name(args), keys=[column]).columns[column]
    lines = [listings.line(value) for value in values]
    if args.unique:
        counts: dict[str, int] = {}
        for text in lines:
            counts[text] = counts.get(text, 0) + 1
        firsts = dict(zip(reversed(lines), reversed(values), strict=True))
        rows = [{"value": firsts[text], "rows": count} for text, count in counts.items()]
        lines = list(counts)
    else:
        rows = [{"value": value} for value in values]
    if args.json:
        listings.show_json(rows)
    elif lines:
        echo("\n".join(lines))
    return 0
