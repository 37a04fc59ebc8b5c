"""`abreast stats`: the columns of a table in figures; its best and its worst rows."""

from __future__ import annotations

import argparse
from typing import Any

from abreast.cli import store_argument
from abreast.errors import BadInput
from abreast.output import echo, listings
from abreast.store import Store

EPILOG = """  describe            of every column: count, nulls, distinct, min, mean, p50, p95, max, std
  top COLUMN          the rows with the largest values of a column
  bottom COLUMN       the rows with the smallest
The store may come before or after the action: abreast stats top results.db accuracy"""

ACTIONS = ("describe", "top", "bottom")
NAME, TEXT = 24, 10  # characters of a name, of the least and of the greatest text


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", metavar="[STORE] [describe|top|bottom] [COLUMN]", nargs="*")
    parser.add_argument("-n", "--n", dest="rows", type=int, default=1, metavar="N", help="how many rows of top (1)")
    store_argument.add_shared(parser, "--columns", "--table", "--engine", "--store", "--json")


def main(args: argparse.Namespace) -> int:
    store, words = store_argument.store_and_words(args, ACTIONS)
    with store:
        action = words.pop(0) if words and words[0] in ACTIONS else "describe"
        store_argument.refuse_more_words("stats", words, "[STORE] [describe|top|bottom] [COLUMN]")
        name = store_argument.table_name(args)
        if action == "describe":
            _describe(store, name, words or store_argument.column_names(args), args.json)
        else:
            _rank(store, name, action, words, args)
    return 0


def _describe(store: Store, name: str, keys: list[str] | None, as_json: bool) -> None:
    import dataclasses

    from abreast.stats.summary import summarise
    from abreast.store.user_tables.tables import read

    frame = read(store, name, keys=keys)
    if not len(frame):
        listings.show([], as_json, store_argument.no_rows(store, name))
        return
    rows = [{"column": key, **dataclasses.asdict(summarise(values))} for key, values in frame.columns.items()]
    if as_json:
        listings.show_json(rows)
        return
    echo(f"{name}: {len(frame):,} row{'' if len(frame) == 1 else 's'}")
    listings.show([_for_people(row) for row in rows if row["count"]], False, "")
    listings.name_columns("empty", [row["column"] for row in rows if not row["count"]])


def _for_people(row: dict[str, Any]) -> dict[str, Any]:
    """Fewer digits, shorter texts, and no count: that is the rows without the nulls."""
    short = {key: value for key, value in row.items() if key != "count"}
    for key, value in short.items():
        if isinstance(value, str):
            short[key] = listings.cut(listings.line(value), NAME if key == "column" else TEXT)
        elif isinstance(value, float):
            short[key] = float(f"{value:.4g}")
    return short


def _rank(store: Store, name: str, action: str, words: list[str], args: argparse.Namespace) -> None:
    from abreast.store.user_tables.tables import Condition, read

    if not words or args.rows < 1:
        raise BadInput(f"stats {action} needs a column and a number of rows", f"abreast stats {action} COLUMN -n 1")
    (column,) = words
    found: list[dict[str, Any]] = []
    for only_numbers in (True, False):  # text only where there is no number
        found = (
            found
            or read(
                store,
                name,
                Condition.known(column, only_numbers),
                first=args.rows,
                keys=store_argument.column_names(args),
                by=(column, "DESC" if action == "top" else "ASC"),
            ).rows()
        )
    if args.json or not found:
        listings.show(found, args.json, f"{name}: no row has a value in {column}")
    else:
        listings.show_fitted(found)
