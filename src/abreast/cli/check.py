"""`abreast check`: the checks before a run."""

from __future__ import annotations

import argparse
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

from abreast.cli import tables
from abreast.cli.run import add_options, options_of, say


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("spec", metavar="SPEC", help="a spec file: YAML, TOML or JSON")
    add_options(parser)


def main(args: argparse.Namespace) -> int:
    from abreast.cli.running import introduce
    from abreast.experiment import Experiment

    with closing(Experiment.load(Path(args.spec)).prepare(options_of(args))) as prepared:
        if args.json:
            tables.show([asdict(finding) for finding in prepared.findings], True, "")
        else:
            introduce(prepared)
            say(f"  {prepared.to_execute:,} trials to execute")
        prepared.refuse_if_failed()
    return 0
