"""The store that a command line means, the table and columns in it, and confirmation."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Collection, Sequence
from pathlib import Path

from abreast import output
from abreast.cli.command import TABLE
from abreast.errors import BadInput, suggestion
from abreast.filenames import relative_path
from abreast.store import SQLITE_SUFFIXES, Store, open_store
from abreast.store.address import named_store

shown = relative_path
SUFFIXES = (*SQLITE_SUFFIXES, ".duckdb")


def names_store(word: str) -> bool:
    """Whether a word names a store: by its ending, or because it is a file."""
    return word.endswith(SUFFIXES) or Path(word).is_file()


def find_store(given: str | None, engine: str | None = None) -> Store:
    """Open the store that is named, else the one in $ABREAST_STORE, else the only one in this folder."""
    address = named_store(given)
    store = open_store(_only_store() if address is None else str(address), engine)
    if not store.path.is_file() and not store.journal.is_file():
        raise BadInput(f"{shown(store.path)}: no such store", "abreast run SPEC makes one; --store names another")
    return store


def _only_store() -> str:
    here = _here()
    if len(here) == 1:
        return here[0]
    if not here:
        raise BadInput("there is no store in this folder", "name one with --store, or make one: abreast run SPEC")
    raise BadInput(f"there are several stores in this folder: {', '.join(here)}", "name one with --store")


def option(store: Store) -> str:
    """The flag that a command printed for pasting needs to find this store; empty if it is the default here."""
    address = named_store()
    if address is None:
        is_default = _here() == [shown(store.path)]
    else:
        is_default = Path(address).resolve() == store.path.resolve()
    return "" if is_default else f" --store {shlex.quote(shown(store.path))}"


def _here() -> list[str]:
    return sorted(str(path) for path in Path().iterdir() if path.suffix in SUFFIXES and path.is_file())


def store_and_words(args: argparse.Namespace, actions: Collection[str] = ()) -> tuple[Store, list[str]]:
    """The store that a word names, if one does, and the other words. It comes first, or after one of `actions`."""
    words = list(args.words)
    at = 1 if words and words[0] in actions and not Path(words[0]).is_file() else 0
    given = words.pop(at) if len(words) > at and not args.store and names_store(words[at]) else args.store
    return find_store(given, args.engine), words


def table_name(args: argparse.Namespace, word: str | None = None) -> str:
    """The table that was named, by a word or by the option."""
    from abreast.store.user_tables.tracked_rows import plain_name

    if word is not None and args.table is not None and plain_name(word) != plain_name(args.table):
        raise BadInput(f'two tables are named: "{word}" and --table {args.table}', "name one")
    return plain_name(word if word is not None else args.table if args.table is not None else TABLE)


def refuse_more_words(command: str, words: Sequence[str], usage: str) -> None:
    if len(words) > 1:
        raise BadInput(f'{command}: too many words: "{words[1]}"', f"abreast {command} {usage}")


def column_names(args: argparse.Namespace) -> list[str] | None:
    """The columns that were asked for; None is all of them."""
    if args.columns is None:
        return None
    return list(dict.fromkeys(name.strip() for name in args.columns.split(",") if name.strip()))


def check_experiment(name: str, store: Store) -> None:
    known = [run["experiment"] for run in store.runs()]
    if name not in known:
        raise BadInput(f"no run of an experiment {name}{suggestion(name, known)}", "abreast runs lists them")


def no_rows(store: Store, name: str) -> str:
    """Say that a table has no rows, and which tables have."""
    from abreast.store.user_tables.tables import table_summaries

    others = [
        f"{row['table']} ({row['rows']:,})" for row in table_summaries(store) if row["rows"] and row["table"] != name
    ]
    return f"{name}: no rows" + (f"; there are rows in {', '.join(others)}" if others else "")


def is_confirmed(args: argparse.Namespace, question: str, command: str) -> bool:
    """Whether the user agrees, by `--yes` or on the terminal. Without a terminal, refuse and show `command`, which does
    it without asking.
    """
    if args.yes:
        return True
    if not output.is_interactive():
        name = command.split()[1]
        raise BadInput(f"{name} needs --yes: there is no terminal to confirm on; nothing was changed", command)
    return output.confirm(question)
