"""`abreast rename`: another name for a parameter or a returned field of stored runs."""

from __future__ import annotations

import argparse
import sys

from abreast.cli import stores
from abreast.errors import BadInput, suggestion

EPILOG = """Rows of before and after then share a column. What is reused does not change: answers that were given under
the old name of a parameter are not reused under the new one."""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", metavar="[STORE] OLD NEW", nargs="+", help="columns of predictions, such as params_lr")
    parser.add_argument("--experiment", metavar="NAME", help="only in runs of this experiment")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    stores.argument(parser)


def main(args: argparse.Namespace) -> int:
    from abreast.report.sentence import many
    from abreast.store import renaming

    words = list(args.words)
    given = words.pop(0) if len(words) == 3 and not args.store else args.store
    if len(words) != 2:
        raise BadInput("rename: name the old column and the new one", "abreast rename params_lr params_learning_rate")
    old, new = words
    with stores.find_store(given) as store:
        _check_experiment(args.experiment, [run["experiment"] for run in store.runs()])
        kind, before, after = renaming.meant(store, old, new)
        found = renaming.affected(store, kind, before, args.experiment)
        if not found.runs:
            raise BadInput(f"no run of {args.experiment} has {old}" if args.experiment else f"no run has {old}")
        what = f"{many(len(found.runs), 'run')}, {many(found.rows, 'row')}"
        if not args.yes and sys.stdin.isatty():
            print(f"rename {old} to {new} in {what}? [y/N] ", end="", file=sys.stderr, flush=True)
            if sys.stdin.readline().strip().lower() not in ("y", "yes"):
                print("nothing renamed", file=sys.stderr)
                return 1
        renaming.rename(store, kind, before, after, args.experiment)
        print(f"{old} is {new} now: {what}")
        store.materialise()
    return 0


def _check_experiment(wanted: str | None, known: list[str]) -> None:
    if wanted is not None and wanted not in known:
        raise BadInput(f"no run of an experiment {wanted}{suggestion(wanted, known)}", "abreast runs lists them")
