"""The store, table and columns that a command line names, and confirmation."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Collection, Sequence
from pathlib import Path

from abreast import output
from abreast.cli.command import TABLE
from abreast.errors import BadInput, suggestion
from abreast.store import SQLITE_SUFFIXES, Store, open_store
from abreast.store.address import DEFAULT, absolute, display_address, is_url, named_store

SUFFIXES = (*SQLITE_SUFFIXES, ".duckdb")


def names_store(word: str) -> bool:
    """Whether a word is a URL or an existing file, or has the extension of a store."""
    return is_url(word) or word.endswith(SUFFIXES) or Path(word).is_file()


def find_store(name: str | None, engine: str | None = None) -> Store:
    """Open the named store, else the one in $ABREAST_STORE, else the only one in this folder."""
    address = named_store(name)
    store = open_store(_only_store() if address is None else address, engine)
    if store.is_missing():
        store.close()
        raise BadInput(
            f"{display_address(store.address)}: no such store",
            "run `abreast run SPEC` to create it, or name another with --store",
        )
    return store


def find_or_create_store(name: str | None) -> Store:
    """Open the store that `find_store` finds, else the default one, which is created when it is written to."""
    address = named_store(name)
    if address is None:
        address = _only_store() if _stores_in_folder() else DEFAULT
    return open_store(address)


def _only_store() -> str:
    stores = _stores_in_folder()
    if len(stores) == 1:
        return stores[0]
    if not stores:
        raise BadInput("no store in this folder", "name one with --store, or run `abreast run SPEC` to create one")
    raise BadInput(f"several stores in this folder: {', '.join(stores)}", "choose one with --store")


def option(store: Store) -> str:
    """Return the flag that a suggested command needs to find this store; empty if it is the default in this folder."""
    address, name = named_store(), display_address(store.address)
    is_default = _stores_in_folder() == [name] if address is None else absolute(address) == absolute(store.address)
    return "" if is_default else f" --store {shlex.quote(name)}"


def _stores_in_folder() -> list[str]:
    return sorted(str(path) for path in Path().iterdir() if path.suffix in SUFFIXES and path.is_file())


def store_and_words(args: argparse.Namespace, actions: Collection[str] = ()) -> tuple[Store, list[str]]:
    """Split off the store, which may be the first word or follow one of `actions`."""
    words = list(args.words)
    at = 1 if words and words[0] in actions and not Path(words[0]).is_file() else 0
    name = words.pop(at) if len(words) > at and not args.store and names_store(words[at]) else args.store
    return find_store(name, args.engine), words


def table_name(args: argparse.Namespace, word: str | None = None) -> str:
    """The table named by a word or by --table."""
    from abreast.store.user_tables.tracked_rows import plain_name

    if word is not None and args.table is not None and plain_name(word) != plain_name(args.table):
        raise BadInput(f'two tables: "{word}" and --table {args.table}', "name only one")
    return plain_name(word if word is not None else args.table if args.table is not None else TABLE)


def refuse_more_words(command: str, words: Sequence[str], usage: str) -> None:
    if len(words) > 1:
        raise BadInput(f'{command}: unexpected argument "{words[1]}"', f"use `abreast {command} {usage}`")


def column_names(args: argparse.Namespace) -> list[str] | None:
    """The columns named by --columns; None means all of them."""
    if args.columns is None:
        return None
    return list(dict.fromkeys(name.strip() for name in args.columns.split(",") if name.strip()))


def check_experiment(name: str, store: Store) -> None:
    experiments = dict.fromkeys(run["experiment"] for run in store.runs())
    if name not in experiments:
        raise BadInput(f'no run of the experiment "{name}"{suggestion(name, experiments)}', "run `abreast runs`")


def no_rows(store: Store, name: str) -> str:
    """Say that a table has no rows, and which tables have some."""
    from abreast.store.user_tables.tables import table_summaries

    others = [
        f"{row['table']} ({row['rows']:,})" for row in table_summaries(store) if row["rows"] and row["table"] != name
    ]
    return f"{name}: no rows" + (f"; tables with rows: {', '.join(others)}" if others else "")


def split_words(args: argparse.Namespace, command: str, usage: str) -> tuple[str | None, list[str]]:
    """Split off the store, which may precede the words of `usage` unless --store names it."""
    words, expected = list(args.words), usage.split()
    address = words.pop(0) if not args.store and len(words) == len(expected) + 1 else args.store
    if len(words) != len(expected):
        raise BadInput(f"{command}: wrong number of arguments", f"use `abreast {command} [STORE] {usage}`")
    return address, words


def require_confirmation(args: argparse.Namespace, store: Store, question: str, command: Sequence[str]) -> None:
    """Return if the user agrees, by --yes or on the terminal; else end the command.

    Without a terminal, raise BadInput with the same command and --yes.
    """
    if args.yes:
        return
    if not output.is_interactive():
        repeated = f"abreast {shlex.join(command)} --yes{option(store)}"
        raise BadInput(f"{command[0]} needs --yes without a terminal; nothing was changed", f"run `{repeated}`")
    if not output.confirm(question):
        output.say("nothing changed")
        raise SystemExit(1)
