"""`abreast rescore`: apply new or changed scorers to stored answers; nothing is run again."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from abreast.cli import store_argument
from abreast.cli.command import argument, command
from abreast.errors import Incomplete
from abreast.filenames import relative_path
from abreast.output import console, echo, listings, reserved_for_json, say
from abreast.text import many, printable

if TYPE_CHECKING:
    from abreast.experiment.rescore import Rescored
    from abreast.spec.schema import Spec
    from abreast.store import Store


@command(
    "rescore",
    "run",
    argument("--spec", metavar="SPEC", help="use the scorers of this file (default: the run's own spec)"),
    argument("--scorer", metavar="NAME", action="append", help="add this scorer, without settings; repeatable"),
    "--store --json",
)
def rescore_run(args: argparse.Namespace) -> int:
    from abreast.analyse.run import analyse
    from abreast.cli.reports import results_line, write_reports, write_results
    from abreast.experiment.rescore import rescore
    from abreast.progress.displays import JudgingProgress
    from abreast.report.formats import json_report
    from abreast.report.formats.terminal import render

    with store_argument.find_store(args.store) as store:
        listeners = () if args.json else (JudgingProgress(),)
        with reserved_for_json(args.json):
            result = rescore(store, args.run, _spec_with_scorers(store, args), args.scorer, listeners)
        run, count = result.run, result.answers
        analysis = analyse(store, run)
        page, results = write_reports(analysis), write_results(analysis)
        if args.json:
            missing = {name: dict(reasons) for name, reasons in result.missing.items()}
            listings.show_json(
                [{**json_report.report(analysis), "scored": count, "waiting": result.waiting, "missing": missing}]
            )
            return _exit_code(result)
        nothing = "no answer was scored" if result.waiting else "every answer already has these scores"
        summary = f"scored {many(count, 'answer')}" if count else nothing
        echo(f"{run}: {summary}; nothing was run again")
        for name, reasons in result.missing.items():
            (why, _), *others = reasons.most_common()
            more = f", and {many(len(others), 'other reason')}" if others else ""
            echo(f"  {many(reasons.total(), 'answer')} got no score_{name}: {printable(' '.join(why.split()))}{more}")
        echo(f"the verdict uses score_{store.run(run)['primary_score']}")
        console().print(render(analysis, store_argument.option(store)), crop=False)
        if page:
            echo(f"  report   {relative_path(page)}")
        for line in results_line(results):
            echo(line)
        if result.waiting:
            say(f"stopped: {result.why or 'a judge failed; run `abreast show RUN CASE` to see why'}")
            say(f"  {many(result.waiting, 'answer')} not judged; finished judgements are stored")
            first = f"{result.fix}, then " if result.fix else ""
            say(f"help: {first}run `abreast rescore {run}{store_argument.option(store)}`")
    return _exit_code(result)


def _spec_with_scorers(store: Store, args: argparse.Namespace) -> tuple[Spec, Path] | None:
    """The spec that defines the scorers and its folder; None if its file is gone or --scorer is used."""
    from abreast.cli.spec_argument import experiment_in

    origin = args.spec or json.loads(store.run(args.run)["spec"])["origin"]
    if args.scorer or origin is None or not (args.spec or Path(origin).is_file()):
        return None
    experiment = experiment_in(Path(origin))
    return experiment.spec, experiment.base


def _exit_code(result: Rescored) -> int:
    if result.stopped == "interrupted":
        return 130
    return Incomplete.exit_code if result.waiting else 0
