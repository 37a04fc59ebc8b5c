"""`abreast rename`: another name for a parameter or a returned field of stored rows."""

from __future__ import annotations

import argparse
import shlex

from abreast.cli import store_argument
from abreast.errors import BadInput
from abreast.output import echo, say
from abreast.store import Store
from abreast.store.user_tables.tracked_rows import plain_name
from abreast.text import many

EPILOG = """Rows of before and after then share a column. What is reused does not change: answers that were given under
the old name of a parameter are not reused under the new one. You are asked to confirm; without a terminal, --yes is
required."""

TABLE = "predictions"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", metavar="[STORE] OLD NEW", nargs="+", help="columns of predictions, such as params_lr")
    parser.add_argument("--experiment", metavar="NAME", help="only in runs of this experiment")
    parser.add_argument("--table", metavar="T", default=TABLE, help="a table that trackers write (predictions)")
    store_argument.add_shared(parser, "--yes", "--store")


def main(args: argparse.Namespace) -> int:
    from abreast.store.user_tables import column_renames

    words = list(args.words)
    given = words.pop(0) if len(words) == 3 and not args.store else args.store
    if len(words) != 2:
        raise BadInput("rename: name the old column and the new one", "abreast rename params_lr params_learning_rate")
    old, new = words
    table = plain_name(args.table)
    with store_argument.find_store(given) as store:
        if args.experiment is not None:
            store_argument.check_experiment(args.experiment, store)
        values = column_renames.tracked_values(store, table, old) if args.experiment is None else None
        found, parts = None, [] if values is None else [f"{many(values, 'value')} of {table} that trackers wrote"]
        if table == TABLE and (values is None or column_renames.is_of_runs(store, old)):
            kind, before, after = column_renames.meant(store, old, new)
            found = column_renames.affected(store, kind, before, args.experiment)
            parts += [f"{many(len(found.runs), 'run')}, {many(found.rows, 'row')}"] if found.runs else []
        if not parts:
            where = f"no run of {args.experiment}" if args.experiment else f"nothing in {table}"
            raise BadInput(f"{where} has {old}", f"abreast columns --table {table} tells what there is")
        what = " and ".join(parts)
        if not store_argument.is_confirmed(args, f"rename {old} to {new} in {what}?", _command(args, store)):
            say("nothing renamed")
            return 1
        if found is not None and found.runs:
            column_renames.rename(store, kind, before, after, args.experiment)
        if values is not None:
            column_renames.rename_tracked(store, table, old, new)
        echo(f"{old} is {new} now: {what}")
        store.materialise()
    return 0


def _command(args: argparse.Namespace, store: Store) -> str:
    words = ["abreast", "rename", *args.words[-2:], "--yes"]
    words += ["--experiment", args.experiment] if args.experiment is not None else []
    words += ["--table", args.table] if args.table != TABLE else []
    return f"{shlex.join(words)}{store_argument.option(store)}"
