"""`abreast rescore`: new or changed scorers on stored answers; nothing is run again."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from abreast.cli import store_argument
from abreast.cli.command import argument, command
from abreast.errors import Incomplete
from abreast.filenames import relative_path
from abreast.output import console, echo, listings, say
from abreast.text import many

if TYPE_CHECKING:
    from abreast.experiment.rescore import Rescored
    from abreast.spec.schema import Spec
    from abreast.store import Store


@command(
    "rescore",
    "run",
    argument("--spec", metavar="SPEC", help="take the scorers of this file; the run's own file if left out"),
    argument("--scorer", metavar="NAME", action="append", help="a scorer without settings; repeatable"),
    "--store --json",
)
def rescore_run(args: argparse.Namespace) -> int:
    from abreast.analyse.run import analyse
    from abreast.cli.reports import results_line, write_reports, write_results
    from abreast.experiment.rescore import rescore
    from abreast.report.formats import json_report
    from abreast.report.formats.terminal import render
    from abreast.view.progress import JudgingProgress

    with store_argument.find_store(args.store) as store:
        listeners = () if args.json else (JudgingProgress(),)
        ended = rescore(store, args.run, _scorers_of(store, args), args.scorer, listeners)
        run, count = ended.run, ended.answers
        analysis = analyse(store, run)
        page, results = write_reports(analysis), write_results(analysis)
        if args.json:
            found = {**json_report.report(analysis), "scored": count, "waiting": ended.waiting}
            listings.show_json([found])
            return _code(ended)
        nothing = "no answer was scored" if ended.waiting else "every answer has these scores already"
        told = f"scored {many(count, 'answer')}" if count else nothing
        echo(f"{run}: {told}; nothing was run again")
        echo(f"the verdict uses score_{store.run(run)['primary_score']}")
        console().print(render(analysis, store_argument.option(store)), crop=False)
        if page:
            echo(f"  report   {relative_path(page)}")
        for line in results_line(results):
            echo(line)
        if ended.waiting:
            where = store_argument.option(store)
            say(f"stopped: {ended.why or 'a judge failed: abreast show RUN CASE says why'}")
            say(f"       {many(ended.waiting, 'answer')} not judged; what is judged is stored")
            first = f"{ended.fix}, then: " if ended.fix else ""
            say(f"       {first}abreast rescore {run}{where}")
    return _code(ended)


def _scorers_of(store: Store, args: argparse.Namespace) -> tuple[Spec, Path] | None:
    """The spec with the scorers, and its folder; None if there is no file of it any more, or only kinds are meant."""
    from abreast.cli.spec_argument import experiment_in

    origin = args.spec or json.loads(store.run(args.run)["spec"])["origin"]
    if args.scorer or origin is None or not (args.spec or Path(origin).is_file()):
        return None
    found = experiment_in(Path(origin))
    return found.spec, found.base


def _code(ended: Rescored) -> int:
    if ended.stopped == "interrupted":
        return 130
    return Incomplete.exit_code if ended.waiting else 0
