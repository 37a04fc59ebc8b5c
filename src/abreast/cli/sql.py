"""`abreast sql`: ask the store in its own SQL."""

from __future__ import annotations

import argparse

from abreast.cli import stores, tables
from abreast.errors import BadInput

EPILOG = """the views predictions (a row per trial) and metrics (a row per run, variant and segment) have plain columns:
  abreast sql results.db "select variant, avg(score) from predictions group by variant\""""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", metavar="[STORE] QUERY", nargs="+")
    parser.add_argument("--write", action="store_true", help="let the query change the store")
    tables.argument(parser)


def main(args: argparse.Namespace) -> int:
    if len(args.words) > 2:
        raise BadInput(
            "sql takes a store and one query", 'put the query in quotes: abreast sql results.db "select ..."'
        )
    if len(args.words) == 1 and stores.looks_like_store(args.words[0]):
        raise BadInput(
            f"sql {args.words[0]}: the query is missing", f'abreast sql {args.words[0]} "select * from metrics"'
        )
    given, query = (args.words[0], args.words[1]) if len(args.words) == 2 else (None, args.words[0])
    with stores.find_store(given) as store:
        names, rows = store.sql(query, args.write)
    tables.show([dict(zip(names, row, strict=True)) for row in rows], args.json, "no rows")
    return 0
