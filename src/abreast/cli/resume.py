"""`abreast resume`: go on where a run stopped."""

from __future__ import annotations

import argparse

from abreast.cli import stores
from abreast.cli.run import add_options


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", nargs="?", help="its name; the last incomplete run if left out")
    add_options(parser)


def main(args: argparse.Namespace) -> int:
    from abreast.cli.running import run_experiment
    from abreast.experiment import Experiment

    with stores.find_store(args.store) as store:
        experiment, started = Experiment.reopen(store, args.run)
    return run_experiment(experiment, args, started)
