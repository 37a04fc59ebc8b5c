"""`abreast init`: write a small experiment to start from."""

from __future__ import annotations

import argparse
from pathlib import Path

from abreast.output import echo
from abreast.suites.starters import KINDS, next_step, write_starter


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", choices=KINDS, nargs="?", default="function", help="what it compares (function)")
    parser.add_argument("--folder", metavar="DIR", default=".", help="where (this folder)")


def main(args: argparse.Namespace) -> int:
    written = write_starter(args.kind, Path(args.folder))
    echo(f"wrote {', '.join(written)}")
    echo(f"next: {next_step(args.kind, Path(args.folder))}")
    return 0
