"""`abreast compare`: runs against each other, paired by case."""

from __future__ import annotations

import argparse
import contextlib

from abreast.cli import store_argument
from abreast.errors import BadInput
from abreast.output import echo, emit, emit_json, listings

FORMATS = ("terminal", "markdown", "json", "junit")
EPILOG = """The first run is the one the others are compared with, variant by variant of the same name.
RUN:VARIANT names one, so that two of different names can be compared:
  abreast compare brave-otter-4821:short quiet-heron-0217:brief
Answers that one run reused from the other are set aside. If nothing remains to be compared, the exit code is 1."""


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    which = "two or more, by name or label; the first is the baseline (default: previous latest)"
    add("runs", metavar="RUN", nargs="*", help=which)
    add("--variant", metavar="NAME", help="only this variant")
    add("--margin", metavar="X", type=float, default=0.0, help="the smallest difference that matters, such as 0.05")
    add("--format", choices=FORMATS, default="terminal")
    add("--fail-if", metavar="EXPR", action="append", default=[], help='exit 1 if it holds: worse, "cost > +10%%", ...')
    where = "where the runs are; repeatable, each is looked for in all"
    add("--store", metavar="S", action="append", default=[], help=where)
    store_argument.add_shared(parser, "--json")


def main(args: argparse.Namespace) -> int:
    from abreast.analyse.compare import compare
    from abreast.analyse.decision import gates
    from abreast.cli.reports import tell_unmet
    from abreast.report.words import run_comparison

    if not 0 <= args.margin <= 1:
        raise BadInput(f"--margin {args.margin:g}: must lie between 0 and 1", "5 points are 0.05")
    required = [gates.read(text) for text in args.fail_if]
    with contextlib.ExitStack() as stack:
        found = [stack.enter_context(store_argument.find_store(each)) for each in args.store or [None]]
        items = compare(found, args.runs or ["previous", "latest"], args.variant, args.margin)
    unmet = gates.unmet_across(required, items)
    if args.json:
        listings.show_json([run_comparison.as_objects(items)])
    elif args.format == "json":
        emit_json(run_comparison.as_objects(items), allow_nan=False, indent=1)
    elif args.format == "markdown":
        echo(run_comparison.as_markdown(items).removesuffix("\n"))
    elif args.format == "junit":
        emit(run_comparison.as_junit(items, unmet))
    else:
        for line in run_comparison.text(items):
            echo(line)
    return tell_unmet(unmet) or int(not any(item.is_compared for item in items))
