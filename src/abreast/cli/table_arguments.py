"""Which store and which table of it a command means, and which of its columns."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Sequence
from pathlib import Path

from abreast.cli import store_argument
from abreast.errors import BadInput
from abreast.store import ENGINES, Store
from abreast.store.user_tables import tables as stored
from abreast.store.user_tables.tracked_rows import plain_name

TABLE = "predictions"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--table", metavar="T", help=f"the table ({TABLE} if left out); abreast ls lists them")
    parser.add_argument("--engine", choices=tuple(ENGINES), help="found out from the file if left out")
    store_argument.argument(parser)


def columns_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--columns", metavar="A,B", help="only these columns")


def split(args: argparse.Namespace, actions: Collection[str] = ()) -> tuple[Store, list[str]]:
    """The store that a word names, if one does, and the other words. It comes first, or after one of `actions`."""
    words = list(args.words)
    at = 1 if words and words[0] in actions and not Path(words[0]).is_file() else 0
    given = (
        words.pop(at) if len(words) > at and not args.store and store_argument.names_store(words[at]) else args.store
    )
    return store_argument.find_store(given, args.engine), words


def table(args: argparse.Namespace, word: str | None = None) -> str:
    """The table that was named, by a word or by the option."""
    if word is not None and args.table is not None and plain_name(word) != plain_name(args.table):
        raise BadInput(f'two tables are named: "{word}" and --table {args.table}', "name one")
    return plain_name(word if word is not None else args.table if args.table is not None else TABLE)


def at_most(command: str, words: Sequence[str], most: int, usage: str) -> None:
    if len(words) > most:
        raise BadInput(f'{command}: too many words: "{words[most]}"', f"abreast {command} {usage}")


def columns(args: argparse.Namespace) -> list[str] | None:
    """The columns that were asked for; None is all of them."""
    if args.columns is None:
        return None
    return list(dict.fromkeys(name.strip() for name in args.columns.split(",") if name.strip()))


def nothing(store: Store, name: str) -> str:
    """What is said of a table without rows: where there are some."""
    others = [
        f"{row['table']} ({row['rows']:,})" for row in stored.listed(store) if row["rows"] and row["table"] != name
    ]
    return f"{name}: no rows" + (f"; there are rows in {', '.join(others)}" if others else "")
