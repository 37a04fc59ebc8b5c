"""`abreast check`: the checks before a run."""

from __future__ import annotations

import argparse
import sys
from contextlib import closing
from dataclasses import asdict, replace

from abreast.cli import spec_or_suite, tables
from abreast.cli.run import add_lock, add_options, options_of


def arguments(parser: argparse.ArgumentParser) -> None:
    spec_or_suite.argument(parser)
    add_options(parser)
    add_lock(parser)
    parser.add_argument(
        "--try-tests",
        action="store_true",
        help="run the tests of the cases on what agents begin with, and in what people did: do they say anything?",
    )
    parser.add_argument(
        "--online",
        action="store_true",
        help="ask the providers whether they answer; nothing is billed",
    )


def main(args: argparse.Namespace) -> int:
    from abreast.cli.running import refuse_if_failed, review

    experiment = spec_or_suite.experiment_of(args)
    try_tests = sys.maxsize if args.try_tests else 0
    options = replace(options_of(args), try_tests=try_tests, online=args.online)
    with closing(experiment.prepare(options)) as prepared:
        if args.json:
            numbers = asdict(prepared.estimate)
            rows = [asdict(finding) for finding in prepared.findings]
            for row in rows:
                del row["aside"]  # is about what `run` says
            tables.show([{**row, **(numbers if row["check"] == "estimate" else {})} for row in rows], True, "")
        else:
            review(prepared, args.verbose)
        refuse_if_failed(prepared, args)
    return 0
