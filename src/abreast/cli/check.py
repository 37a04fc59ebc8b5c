"""`abreast check`: the checks before a run."""

from __future__ import annotations

import argparse
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

from abreast.cli import tables
from abreast.cli.run import add_options, options_of


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("spec", metavar="SPEC", help="a spec file: YAML, TOML or JSON")
    add_options(parser)


def main(args: argparse.Namespace) -> int:
    from abreast.cli.running import review
    from abreast.experiment import Experiment

    with closing(Experiment.load(Path(args.spec)).prepare(options_of(args))) as prepared:
        if args.json:
            numbers = asdict(prepared.estimate)
            rows = [asdict(finding) for finding in prepared.findings]
            for row in rows:
                del row["aside"]  # is about what `run` says
            tables.show([{**row, **(numbers if row["check"] == "estimate" else {})} for row in rows], True, "")
        else:
            review(prepared, args.verbose)
        prepared.refuse_if_failed()
    return 0
