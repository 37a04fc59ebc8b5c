"""`abreast check`: the checks before a run."""

from __future__ import annotations

import argparse
import sys
from contextlib import closing
from dataclasses import asdict, replace

from abreast.cli import spec_argument
from abreast.cli.commands.experiments.run import add_lock, add_options, options_of
from abreast.output import listings


def arguments(parser: argparse.ArgumentParser) -> None:
    spec_argument.argument(parser)
    add_options(parser)
    add_lock(parser)
    tests = "run the tests of the cases on what agents begin with, and in what people did: do they say anything?"
    parser.add_argument("--try-tests", action="store_true", help=tests)
    endpoints = "ask the providers whether they answer; nothing is billed"
    parser.add_argument("--online", action="store_true", help=endpoints)


def main(args: argparse.Namespace) -> int:
    from abreast.cli.execution import refuse_if_failed, review

    experiment = spec_argument.experiment_of(args)
    try_tests = sys.maxsize if args.try_tests else 0
    options = replace(options_of(args), try_tests=try_tests, online=args.online)
    with closing(experiment.prepare(options)) as prepared:
        if args.json:
            numbers = asdict(prepared.estimate)
            rows = [asdict(finding) for finding in prepared.findings]
            for row in rows:
                del row["aside"]  # is about what `run` says
            listings.show_json([{**row, **(numbers if row["check"] == "estimate" else {})} for row in rows])
        else:
            review(prepared, args.verbose)
        refuse_if_failed(prepared, args)
    return 0
