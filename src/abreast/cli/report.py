"""`abreast report`: the report of a run."""

from __future__ import annotations

import argparse
from pathlib import Path

from abreast.cli import stores, tables
from abreast.errors import BadInput


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", nargs="?", default="latest", help="its name; the latest if left out")
    parser.add_argument("--format", choices=("terminal", "html"), default="terminal")
    parser.add_argument("--output", metavar="DIR", help="where the file goes, instead of runs/RUN beside the store")
    parser.add_argument(
        "--fail-if", metavar="EXPR", action="append", default=[], help='exit 1 if it holds: worse, "score < 0.8", ...'
    )
    stores.argument(parser)
    tables.argument(parser)


def main(args: argparse.Namespace) -> int:
    from abreast.analyse import analyse
    from abreast.cli.running import unmet
    from abreast.report import html, objects
    from abreast.report.terminal import render

    with stores.find_store(args.store) as store:
        analysis = analyse(store, args.run)
        if args.format == "html":
            folder = Path(args.output) if args.output else html.home(store, analysis.run["run"])
            try:
                print(html.write(analysis, store, folder))
            except OSError as error:
                raise BadInput(f"{folder}: the report cannot be written there ({error.strerror})") from None
        elif args.json:
            tables.show([objects.summary(analysis)], True, "")
        else:
            tables.console().print(render(analysis, stores.option(store)), crop=False)
            print(f"  run      {analysis.run['run']} ({analysis.run['experiment']}, {analysis.run['status']})")
    return unmet(analysis, args.fail_if)
