"""`abreast demo`: a simulated experiment, from cases to verdict."""

from __future__ import annotations

import argparse
from pathlib import Path

from abreast.cli.commands.experiments.run import add_options


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--folder", metavar="DIR", default="demo", help="where it is written (demo)")
    add_options(parser)


def main(args: argparse.Namespace) -> int:
    from abreast.cli.execution import run_experiment
    from abreast.experiment.facade import Experiment
    from abreast.suites.starters import write_starter

    folder = Path(args.folder)
    write_starter("demo", folder, again=True)
    if args.parallel is None and args.trial_parallelism is None:
        args.parallel = "16"
    args.fresh = True  # a demo that reuses yesterday's answers shows nothing
    return run_experiment(Experiment.load(folder / "experiment.yaml"), args)
