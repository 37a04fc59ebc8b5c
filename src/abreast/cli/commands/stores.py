"""`abreast copy`, `merge` and `delete`: whole stores and their runs."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

from abreast.cli import store_argument
from abreast.cli.command import argument, command, flag, words
from abreast.errors import BadInput, StoreError, suggestion
from abreast.output import echo, listings, say, say_problem
from abreast.store import Store, open_store
from abreast.store.address import display_address
from abreast.store.runs.merging import Merged, copy_assets, merge
from abreast.store.user_tables import tables
from abreast.text import many

MOST_NAMES = 5_000  # names searched for a similar one

Runs = dict[str, dict[str, Any]]  # rows of `runs` by name
Tracked = dict[str, dict[str, int]]  # rows by table, by track_id


@command(
    "copy",
    argument("source", metavar="SOURCE"),
    argument("target", metavar="TARGET"),
    argument("--table", metavar="T", action="append", help="only the tracked rows of this table; repeatable"),
    flag("--no-assets", "do not copy the objects that rows refer to"),
    "--json",
    epilog="""TARGET may exist and use another engine; rows that it already has are not duplicated:
  abreast copy results.db results.duckdb
  abreast copy results.db shared.db --table predictions --table metrics""",
)
def copy(args: argparse.Namespace) -> None:
    with store_argument.find_store(args.source) as source:
        _merge(args.target, [source], args.table, args.json, not args.no_assets)


@command(
    "merge",
    argument("sources", metavar="STORE", nargs="+"),
    argument("--into", metavar="TARGET", help="the store to merge into (default: the last one); created if missing"),
    "--json",
    epilog="""The last store receives the rows that it lacks, as with copy; --into names another:
  abreast merge monday.db week.db
  abreast merge monday.db tuesday.db --into week.db
  abreast merge laptop.db --into results.db""",
)
def merge_stores(args: argparse.Namespace) -> None:
    names, into = list(args.sources), args.into
    if into is None and len(names) < 2:
        raise BadInput("merge: no target store", f"use `abreast merge {shlex.quote(names[0])} --into TARGET`")
    if into is None:
        into = names.pop()
    with ExitStack() as stack:
        target = open_store(into)
        sources = [stack.enter_context(store_argument.find_store(name)) for name in names]
        others = [source for source in sources if not source.is_same(target)]
        _merge(into, others or sources, None, args.json)


def _merge(
    target: str, sources: Sequence[Store], only: Sequence[str] | None, as_json: bool, assets: bool = True
) -> None:
    """Copy the sources into a store and print what was copied."""
    from abreast.store.user_tables.tracked_rows import plain_name

    with open_store(target) as store:
        if any(source.is_same(store) for source in sources):
            raise BadInput(f"{store.address}: cannot copy a store into itself", "name another target")
        names = None if only is None else [plain_name(name) for name in only]
        merged = merge(store, sources, names)
        if assets:
            copy_assets(store, sources, names)
        try:
            store.materialise()
        except StoreError as error:  # another process has the DuckDB file open
            say_problem("note", error.message)
    if as_json:
        listings.show_json([asdict(item) for item in merged])
    else:
        for item in merged:
            _print_merged(item, display_address(store.address))


def _print_merged(merged: Merged, target: str) -> None:
    source = display_address(merged.source)
    if not merged:
        echo(f"{source} → {target}: nothing new")
        return
    parts = [many(len(merged.runs), "run")] if merged.runs else []
    parts += [f"more of {', '.join(merged.continued)}"] if merged.continued else []
    parts += [many(merged.trials, "trial")] if merged.trials else []
    parts += [f"{many(count, 'row')} of {table}" for table, count in merged.rows.items()]
    new = {table: count for table, count in merged.columns.items() if table not in merged.rows}
    parts += [f"{many(count, 'column')} of {table}" for table, count in new.items()]
    echo(f"{source} → {target}: {', '.join(parts)}")
    for name, new_name in merged.renamed.items():
        echo(f"  {target} already has a run {name}; the copy is called {new_name}")


@command(
    "delete",
    words("[STORE] NAME"),
    flag("--debug", "all runs marked as debug"),
    "--yes --store",
    epilog="""\
NAME is the full name of a run, or the full track_id of a Tracker, whose rows in all tables and cached
results are deleted. You are asked to confirm; without a terminal, --yes is required.
  abreast delete brave-otter-4821
  abreast delete results.db --debug --yes""",
)
def delete(args: argparse.Namespace) -> None:
    from abreast.report.folder import delete_runs
    from abreast.targets.processes.cleanup import clean

    names = list(args.words)
    address = names.pop(0) if names and not args.store and store_argument.names_store(names[0]) else args.store
    clean()
    with store_argument.find_store(address) as store:
        if not names and not args.debug:
            raise BadInput(
                "delete needs names of runs or track_ids, or --debug for all debug runs",
                "run `abreast runs` to list runs, or `abreast ls track_id --unique` to list trackers",
            )
        stored = {run["run"]: run for run in store.runs()}
        runs = {name: stored[name] for name in names if name in stored}
        tracked = {name: rows for name in names if (rows := tables.row_counts(store, name))}
        for name in names:  # a partial name never deletes anything
            if name not in runs and name not in tracked:
                raise _not_a_full_name(store, name)
        if args.debug:
            runs |= {name: run for name, run in stored.items() if run["debug"]}
        if not runs and not tracked:
            say("no debug runs to delete")
            return
        command = ["delete", *names, *(["--debug"] if args.debug else ())]
        store_argument.require_confirmation(args, store, _question(runs, tracked), command)
        for name in tracked:
            echo(f"deleted {name}: {_row_counts(tables.delete(store, name)) or 'already gone'}")
        for line in delete_runs(store, list(runs)) if runs else ():
            echo(line)
        store.materialise()


def _not_a_full_name(store: Store, word: str) -> BadInput:
    from abreast.store.run_names import matching_runs, shorten

    where, tracked = store_argument.option(store), tables.track_ids(store)
    matches = [*matching_runs(store, word), *(name for name in tracked if word and name.startswith(word))]
    if len(matches) == 1:
        return BadInput(
            f'delete takes full names only; "{word}" matches {matches[0]}', f"run `abreast delete {matches[0]}{where}`"
        )
    if matches:
        return BadInput(f'delete takes full names only; "{word}" matches {len(matches):,}: {shorten(matches)}')
    names = [*(run["run"] for run in store.runs()), *tracked][-MOST_NAMES:]
    return BadInput(
        f'{store.address}: no run or track_id "{word}"{suggestion(word, names)}',
        f"run `abreast runs{where}` or `abreast ls track_id --unique{where}`",
    )


def _question(runs: Runs, tracked: Tracked) -> str:
    parts = []
    if runs:
        trials = sum(run["stored_trials"] for run in runs.values())
        parts.append(f"{', '.join(runs)} with {many(trials, 'trial')} and the report")
    parts += [f"{name} with {_row_counts(rows)}" for name, rows in tracked.items()]
    return f"delete {'; '.join(parts)}?"


def _row_counts(rows: dict[str, int]) -> str:
    return ", ".join(f"{many(count, 'row')} of {table}" for table, count in rows.items())
