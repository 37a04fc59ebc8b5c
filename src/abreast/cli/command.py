"""Declaration of commands: arguments and the function that runs. Shared arguments are defined once, here."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from abreast.store import ENGINES

Main = Callable[[argparse.Namespace], int | None]
Definition = tuple[tuple[str, ...], dict[str, Any]]
Argument = str | Definition | Callable[[argparse.ArgumentParser], None]
"""Names of shared arguments, a definition made by `argument`, or a function that adds several arguments."""

TABLE = "predictions"


def argument(*names: str, **settings: Any) -> Definition:
    return names, settings


def flag(name: str, text: str) -> Definition:
    return argument(name, action="store_true", help=text)


def words(metavar: str, nargs: str = "*", text: str | None = None) -> Definition:
    """Positional words, one of which may name the store."""
    return argument("words", metavar=metavar, nargs=nargs, help=text)


SHARED = {
    "run": argument(
        "run",
        metavar="RUN",
        nargs="?",
        default="latest",
        help="name, label or unique prefix of a run, or previous (default: latest)",
    ),
    "--variant": argument("--variant", metavar="NAME", help="only this variant"),
    "--columns": argument("--columns", metavar="A,B", help="only these columns"),
    "--table": argument("--table", metavar="T", help=f"the table (default: {TABLE}); `abreast ls` lists tables"),
    "--engine": argument("--engine", choices=tuple(ENGINES), help="default: detected from the file"),
    "--yes": flag("--yes", "do not ask for confirmation"),
    "--no-pictures": flag("--no-pictures", "write the page without pictures, and no picture files"),
    "--no-artifacts": flag("--no-artifacts", "write only the page, no trial artifacts"),
    "--fail-if": argument(
        "--fail-if", metavar="EXPR", action="append", default=[], help='exit 1 if this holds: worse, "score < 0.8", ...'
    ),
    "--on-inconclusive": argument(
        "--on-inconclusive",
        choices=("pass", "fail"),
        metavar="pass|fail",
        help="what an inconclusive verdict does to the exit code (default: it fails only requirements that name it)",
    ),
    "--store": argument(
        "--store", metavar="S", help="the store (default: $ABREAST_STORE, else the only store in this folder)"
    ),
    "--json": flag("--json", "print only a JSON list of objects on standard output"),
}


@dataclass(frozen=True, slots=True)
class CommandDefinition:
    main: Main
    arguments: tuple[Argument, ...]
    epilog: str | None

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        for item in self.arguments:
            if callable(item):
                item(parser)
                continue
            for names, settings in [item] if isinstance(item, tuple) else map(SHARED.__getitem__, item.split()):
                parser.add_argument(*names, **settings)


DECLARED: dict[str, CommandDefinition] = {}


def command(name: str, *arguments: Argument, epilog: str | None = None) -> Callable[[Main], Main]:
    """Declare a command. The decorated function returns the exit code; None means 0."""

    def declare(main: Main) -> Main:
        DECLARED[name] = CommandDefinition(main, arguments, epilog)
        return main

    return declare
