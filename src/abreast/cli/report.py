"""`abreast report`: the report of a run."""

from __future__ import annotations

import argparse
from pathlib import Path

from abreast.cli import stores, tables


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", nargs="?", default="latest", help="its name; the latest if left out")
    parser.add_argument("--format", choices=("terminal", "html"), default="terminal")
    parser.add_argument("--output", metavar="DIR", help="where the file goes, instead of runs/RUN beside the store")
    stores.argument(parser)


def main(args: argparse.Namespace) -> int:
    from abreast.analyse import analyse
    from abreast.cli.running import unused
    from abreast.report import html
    from abreast.report.terminal import render

    with stores.find_store(args.store) as store:
        analysis = analyse(store, args.run)
        if args.format == "terminal":
            tables.console().print(render(analysis, stores.option(store)))
            return 0
        folder = Path(args.output) if args.output else store.path.parent / "runs" / analysis.run["run"]
        path = unused(folder / "report.html")
        html.write(analysis, store, path)
        print(path)
    return 0
