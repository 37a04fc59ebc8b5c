"""`abreast aa`: the baseline against itself must find nothing."""

from __future__ import annotations

import argparse

from abreast.cli import spec_argument
from abreast.cli.commands.experiments.run import add_options


def arguments(parser: argparse.ArgumentParser) -> None:
    spec_argument.argument(parser)
    add_options(parser)
    parser.set_defaults(lock=False)  # twins of the baseline follow no plan


def main(args: argparse.Namespace) -> int:
    from abreast.cli.execution import run_against_itself

    return run_against_itself(spec_argument.experiment_of(args), args)
