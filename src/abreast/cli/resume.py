"""`abreast resume`: go on where a run stopped."""

from __future__ import annotations

import argparse

from abreast.cli import stores
from abreast.cli.run import add_options
from abreast.errors import BadInput


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", nargs="?", help="its name; the last incomplete run if left out")
    add_options(parser)


def main(args: argparse.Namespace) -> int:
    from abreast.cli.running import run_experiment
    from abreast.experiment import Experiment

    for name in ("case", "tag", "variant", "limit", "debug", "fresh", "seed", "repeats"):
        if getattr(args, name):
            raise BadInput(f"--{name}: a run goes on as it was started", "abreast run SPEC starts one that differs")
    with stores.find_store(args.store) as store:
        experiment, started = Experiment.reopen(store, args.run)
    return run_experiment(experiment, args, started)
