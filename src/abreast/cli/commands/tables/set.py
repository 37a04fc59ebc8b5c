"""`abreast set`: write a value into a column of tracked rows."""

from __future__ import annotations

import argparse
import json
import shlex
from typing import Any

from abreast.cli import store_argument
from abreast.errors import BadInput
from abreast.output import echo, say
from abreast.text import many

EPILOG = """VALUE is a number, true, false or null if it reads as one, else text. The column is added if missing.
You are asked to confirm; without a terminal, --yes is required.
  abreast set results.db reviewed true --track-id brave-otter-4821
  abreast set results.db model gpt-4 --where model=gpt4 --where split=test"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", metavar="[STORE] COLUMN VALUE", nargs="+")
    parser.add_argument("--track-id", metavar="T", help="only in rows of this tracker")
    parser.add_argument(
        "--where", metavar="COLUMN=VALUE", action="append", default=[], help="only in rows with this value; repeatable"
    )
    store_argument.add_shared(parser, "--yes", "--table", "--engine", "--store")


def main(args: argparse.Namespace) -> int:
    from abreast.store.user_tables import tables

    if len(args.words) not in (2, 3) or (len(args.words) == 3 and args.store):
        raise BadInput("set: name a column and a value", "abreast set results.db reviewed true")
    *given, column, text = args.words
    equal = dict(map(_pair, args.where))
    if args.track_id is not None:
        equal["track_id"] = args.track_id
    with store_argument.find_store(given[0] if given else args.store, args.engine) as store:
        table = store_argument.table_name(args)
        rows = tables.rows_with(store, table, equal)
        question = f"set {column} to {text} in {many(rows, 'row')} of {table}?"
        if not store_argument.is_confirmed(args, question, f"abreast set {shlex.join(args.words)} --yes"):
            say("nothing changed")
            return 1
        changed = tables.set_values(store, table, column, _value(text), equal)
        store.materialise()
    echo(f"set {column} in {many(changed, 'row')} of {table}")
    return 0


def _pair(word: str) -> tuple[str, Any]:
    column, equals, text = word.partition("=")
    if not equals:
        raise BadInput(f"set: --where {word} has no value", f"--where {word}=VALUE")
    return column, _value(text)


def _value(text: str) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if value is None or isinstance(value, bool | int | float) else text
