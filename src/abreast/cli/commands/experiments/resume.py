"""`abreast resume`: go on where a run stopped."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from abreast.cli import store_argument
from abreast.cli.commands.experiments.run import add_options
from abreast.errors import BadInput
from abreast.filenames import relative_path
from abreast.output import say


def arguments(parser: argparse.ArgumentParser) -> None:
    which = "its name or label (required for runs that stopped early), or its spec file or suite"
    parser.add_argument("run", metavar="RUN", nargs="?", help=f"{which}; default: the last incomplete run")
    add_options(parser)


def main(args: argparse.Namespace) -> int:
    from abreast.cli.execution import run_experiment
    from abreast.cli.spec_argument import experiment_in
    from abreast.experiment.facade import Experiment
    from abreast.experiment.stored import edited_since

    for name in ("case", "tag", "variant", "limit", "debug", "fresh", "seed", "repeats", "margin"):
        if getattr(args, name):
            raise BadInput(f"--{name}: a run goes on as it was started", "abreast run SPEC starts one that differs")
    of_spec = args.run is not None and Path(args.run).is_file()
    place = str(experiment_in(Path(args.run)).store_path) if of_spec and args.store is None else args.store
    with store_argument.find_store(place) as store:
        experiment, started = Experiment.reopen(store, args.run)
        edited = edited_since(store.run(started.resume or "latest"))
        if edited is not None and not args.quiet:
            spec = shlex.quote(relative_path(edited))
            say(f"  {spec} was edited since: {started.resume} goes on with the spec it was started with")
            say(f"       abreast run {spec} executes the edited one")
    return run_experiment(experiment, args, started)
