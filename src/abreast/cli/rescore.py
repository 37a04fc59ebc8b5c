"""`abreast rescore`: new or changed scorers on stored answers; nothing is run again."""

from __future__ import annotations

import argparse
from pathlib import Path

from abreast.cli import stores, tables


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", nargs="?", default="latest", help="its name; the latest if left out")
    parser.add_argument("--spec", metavar="SPEC", help="take the scorers of this file; the run's own file if left out")
    parser.add_argument("--scorer", metavar="NAME", action="append", help="a scorer without settings; repeatable")
    stores.argument(parser)
    tables.argument(parser)


def main(args: argparse.Namespace) -> int:
    from abreast.analyse import analyse
    from abreast.cli.running import write_reports
    from abreast.experiment.rescore import rescore
    from abreast.report import objects
    from abreast.report.sentence import many
    from abreast.report.terminal import render

    with stores.find_store(args.store) as store:
        run, count = rescore(store, args.run, Path(args.spec) if args.spec else None, args.scorer)
        analysis = analyse(store, run)
        page = write_reports(analysis)
        if args.json:
            tables.show([{**objects.report(analysis, trials=False), "scored": count}], True, "")
            return 0
        told = f"scored {many(count, 'answer')}" if count else "every answer has these scores already"
        print(f"{run}: {told}; nothing was run again")
        print(f"the verdict uses score_{store.run(run)['primary_score']}")
        tables.console().print(render(analysis, stores.option(store)), crop=False)
        if page:
            print(f"  report   {stores.shown(page)}")
    return 0
