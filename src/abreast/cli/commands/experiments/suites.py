"""`abreast suites`: the experiments that packages bring along."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from abreast.cli.store_argument import add_shared
from abreast.output import listings, say

EPILOG = """abreast run NAME runs one, abreast run NAME --help tells its flags.
A package brings suites by entry points of the group abreast.suites."""


def arguments(parser: argparse.ArgumentParser) -> None:
    add_shared(parser, "--json")


def main(args: argparse.Namespace) -> int:
    from abreast import suites

    found = suites.listed()
    if args.json:
        listings.show_json([asdict(one) for one in found])
        return 0
    rows = [{"name": one.name, "summary": one.summary, "package": one.package} for one in found]
    listings.show(rows, False, "no suite is installed")
    for one in found:
        if one.problem:
            say(f"warning: {one.problem}")
    return 0
