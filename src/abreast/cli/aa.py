"""`abreast aa`: the baseline against itself must find nothing."""

from __future__ import annotations

import argparse
from pathlib import Path

from abreast.cli.run import add_options


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("spec", metavar="SPEC", help="a spec file: YAML, TOML or JSON")
    add_options(parser)


def main(args: argparse.Namespace) -> int:
    from abreast.cli.running import run_against_itself
    from abreast.experiment import Experiment

    return run_against_itself(Experiment.load(Path(args.spec)), args)
