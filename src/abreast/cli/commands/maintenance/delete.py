"""`abreast delete`: remove runs, or what a tracker wrote, with everything that is theirs."""

from __future__ import annotations

import argparse
import shlex
from typing import Any

from abreast.cli import store_argument
from abreast.errors import BadInput, suggestion
from abreast.filenames import relative_path
from abreast.output import echo, say
from abreast.store import Store
from abreast.store.user_tables import tables
from abreast.text import many

EPILOG = """NAME is the full name of a run, or the full track_id of a Tracker: its rows in all tables are deleted, with
what is cached of them. You are asked to confirm; without a terminal, --yes is required.
  abreast delete brave-otter-4821
  abreast delete results.db --debug --yes"""

MOST_NAMES = 5_000  # searched for a similar one


Runs = dict[str, dict[str, Any]]  # by their name
Tracked = dict[str, dict[str, int]]  # by the name of the tracker: how many rows of which table it wrote


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", metavar="[STORE] NAME", nargs="*")
    parser.add_argument("--debug", action="store_true", help="every run that was marked as debug")
    store_argument.add_shared(parser, "--yes", "--store")


def main(args: argparse.Namespace) -> int:
    from abreast.targets.processes.cleanup import clean

    words = list(args.words)
    address = words.pop(0) if words and not args.store and store_argument.names_store(words[0]) else args.store
    clean()
    with store_argument.find_store(address) as store:
        if not words and not args.debug:
            raise BadInput(
                "delete: name runs or track_ids, or --debug for all debug runs",
                "abreast runs lists runs; abreast ls track_id --unique what was tracked",
            )
        runs, tracked = _chosen(store, words)
        if args.debug:
            runs |= {run["run"]: run for run in store.runs() if run["debug"]}
        if not runs and not tracked:
            say("no debug run to delete")
            return 0
        command = shlex.join(["abreast", "delete", *words, *(["--debug"] if args.debug else ()), "--yes"])
        if not store_argument.is_confirmed(args, _question(runs, tracked), command + store_argument.option(store)):
            say("nothing deleted")
            return 1
        for name in tracked:
            echo(f"deleted {name}: {_rows_in_words(tables.delete(store, name)) or 'it was gone already'}")
        _delete_runs(store, runs)
        store.materialise()
    return 0


def _chosen(store: Store, words: list[str]) -> tuple[Runs, Tracked]:
    """The runs and tracked rows with exactly these names. What a name merely suggests is never deleted."""
    stored = {run["run"]: run for run in store.runs()}
    runs = {word: stored[word] for word in words if word in stored}
    tracked = {word: rows for word in words if (rows := tables.written_as(store, word))}
    for word in words:
        if word not in runs and word not in tracked:
            raise _not_a_full_name(store, word)
    return runs, tracked


def _not_a_full_name(store: Store, word: str) -> BadInput:
    from abreast.store.run_names import matching_runs, shorten

    where, tracked = store_argument.option(store), tables.track_ids(store)
    matches = [*matching_runs(store, word), *(name for name in tracked if word and name.startswith(word))]
    if len(matches) == 1:
        return BadInput(
            f'delete takes full names only; "{word}" matches {matches[0]}', f"abreast delete {matches[0]}{where}"
        )
    if matches:
        return BadInput(f'delete takes full names only; "{word}" matches {len(matches):,}: {shorten(matches)}')
    known = [*(run["run"] for run in store.runs()), *tracked][-MOST_NAMES:]
    return BadInput(
        f'{store.path}: no run or track_id "{word}"{suggestion(word, known)}',
        f"abreast runs{where}, or: abreast ls track_id --unique{where}",
    )


def _question(runs: Runs, tracked: Tracked) -> str:
    parts = []
    if runs:
        trials = sum(run["stored_trials"] for run in runs.values())
        parts.append(f"{', '.join(runs)} with {many(trials, 'trial')} and the report")
    parts += [f"{name} with {_rows_in_words(rows)}" for name, rows in tracked.items()]
    return f"delete {'; '.join(parts)}?"


def _rows_in_words(rows: dict[str, int]) -> str:
    return ", ".join(f"{many(count, 'row')} of {table}" for table, count in rows.items())


def _delete_runs(store: Store, runs: Runs) -> None:
    from abreast.report import folder

    if not runs:
        return
    removed = store.delete(list(runs))
    store.close()
    echo(f"deleted {', '.join(runs)}: {many(removed, 'trial')}")
    for run in runs:
        place, foreign = folder.remove(store, run) or (None, [])
        if foreign and place:
            echo(f"left {relative_path(place)}: {', '.join(foreign)} was not written by abreast, or changed since")
        elif place:
            echo(f"removed {relative_path(place)} with its report")
