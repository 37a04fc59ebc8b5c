"""`abreast aa`: the baseline against itself must find nothing."""

from __future__ import annotations

import argparse

from abreast.cli import spec_or_suite
from abreast.cli.run import add_options


def arguments(parser: argparse.ArgumentParser) -> None:
    spec_or_suite.argument(parser)
    add_options(parser)
    parser.set_defaults(lock=False)  # twins of the baseline follow no plan


def main(args: argparse.Namespace) -> int:
    from abreast.cli.running import run_against_itself

    return run_against_itself(spec_or_suite.experiment_of(args), args)
