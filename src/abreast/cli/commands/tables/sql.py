"""`abreast sql`: ask the store in its own SQL."""

from __future__ import annotations

import argparse

from abreast.cli import store_argument
from abreast.errors import BadInput
from abreast.output import echo, listings
from abreast.store import Store
from abreast.store.user_tables.tables import extent, forget_missing
from abreast.text import many

EPILOG = """the views predictions (a row per trial) and metrics (a row per run, variant and segment) have plain columns:
  abreast sql results.db "select variant, avg(score) from predictions group by variant"
a DELETE of rows that were tracked needs no --write; what is cached of them goes too:
  abreast sql results.db "delete from db.predictions where track_id = 'brave-otter-4821'\""""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", metavar="[STORE] QUERY", nargs="+")
    parser.add_argument("--write", action="store_true", help="let the query change the store")
    store_argument.add_shared(parser, "--store", "--json")


def main(args: argparse.Namespace) -> int:
    if len(args.words) > (1 if args.store else 2):
        raise BadInput(
            "sql takes a store and one query", 'put the query in quotes: abreast sql results.db "select ..."'
        )
    if len(args.words) == 1 and args.words[0].endswith(store_argument.SUFFIXES):
        raise BadInput(
            f"sql {args.words[0]}: the query is missing", f'abreast sql {args.words[0]} "select * from metrics"'
        )
    given, query = (args.words[0], args.words[1]) if len(args.words) == 2 else (args.store, args.words[0])
    with store_argument.find_store(given) as store:
        table = store.tracked_that_loses(query) if store.journal.is_file() else None
        if table is not None:
            return _delete(store, table, query, args.json)
        names, rows = store.sql(query, args.write)
        if args.write and store.journal.is_file():
            forget_missing(store)
    listings.show([dict(zip(names, row, strict=True)) for row in rows], args.json, "no rows")
    return 0


def _delete(store: Store, table: str, query: str, as_json: bool) -> int:
    """Remove rows of a user's own table, with what is cached of them, and say how many that were."""
    before, last = extent(store, table)
    store.sql(query)
    forget_missing(store)
    removed = before - extent(store, table, last)[0]
    if as_json:
        listings.show_json([{"table": table, "deleted": removed}])
    else:
        echo(f"deleted {many(removed, 'row')} of {table}")
    return 0
