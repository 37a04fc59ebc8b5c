"""Which store a command means."""

from __future__ import annotations

import argparse
import contextlib
import shlex
from pathlib import Path

from abreast.errors import BadInput
from abreast.store import SQLITE_SUFFIXES, Store, open_store
from abreast.store.address import named_store

SUFFIXES = (*SQLITE_SUFFIXES, ".duckdb")


def argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--store", metavar="S", help="the store; else $ABREAST_STORE, else the only one in this folder")


def run_argument(parser: argparse.ArgumentParser) -> None:
    how = "name, label or unique prefix of a run, or previous (default: latest)"
    parser.add_argument("run", metavar="RUN", nargs="?", default="latest", help=how)


def looks_like_store(word: str) -> bool:
    return word.endswith(SUFFIXES)


def names_store(word: str) -> bool:
    """Whether a word names a store: by its ending, or because it is a file."""
    return looks_like_store(word) or Path(word).is_file()


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
    return "" if _is_default(store.path) else f" --store {shlex.quote(shown(store.path))}"


def _is_default(path: Path) -> bool:
    address = named_store()
    return _here() == [shown(path)] if address is None else Path(address).resolve() == path.resolve()


def shown(path: Path) -> str:
    """A path as one would type it here."""
    with contextlib.suppress(ValueError):
        return str(path.resolve().relative_to(Path.cwd()))
    return str(path)


def _here() -> list[str]:
    return sorted(str(path) for path in Path().iterdir() if path.suffix in SUFFIXES and path.is_file())
